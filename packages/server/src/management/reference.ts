import { fileURLToPath } from 'node:url';
import { operations } from '@sluice/contract';
import { openFile } from './files.ts';
import { openApiTexts } from './openapi.ts';
import { type ApiResponse, errorResponse, pathNotFound, withHeaders } from './responses.ts';
import type { ApiRequest, Router } from './router.ts';

/** The page loads only its own files and cannot be framed. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** A sluice gate: two posts, the board and the water below it. */
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#0f62fe" d="M1 1h2v14H1zM13 1h2v14h-2zM4 3h8v5H4zM4 11h8v1H4zM4 13h8v1H4z"/></svg>`;

const PATH = '/api/docs';
const FILES = `${PATH}/static`;

/** Relative URLs: a proxy may serve the page under a path of its own. */
function pageHtml(files: string): string {
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<title>Sluice management API</title>
<link rel="stylesheet" type="text/css" href="${files}/swagger-ui.css">
<link rel="stylesheet" type="text/css" href="${files}/index.css">
<link rel="icon" type="image/svg+xml" href="${files}/theme/sluice.svg" sizes="any">
</head>
<body>
<div id="swagger-ui"></div>
<script src="${files}/swagger-ui-bundle.js" charset="UTF-8"></script>
<script src="${files}/swagger-initializer.js" charset="UTF-8"></script>
</body>
</html>
`;
}

// The layout without a top bar for other documents.
const INITIALIZER = `const url = new URL('../json', document.currentScript.src).href;
window.onload = () => SwaggerUIBundle({
  url,
  dom_id: '#swagger-ui',
  deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [SwaggerUIBundle.plugins.DownloadUrl],
  layout: 'BaseLayout',
  docExpansion: 'list',
  displayRequestDuration: true,
  validatorUrl: null,
});
`;

/**
 * `/openapi.json`, the OpenAPI document of this API, and `/api/docs`, a page that shows it and lets operators try each operation
 * (Swagger UI).
 */
export function referenceRoutes(router: Router): void {
  const texts = openApiTexts();
  const json = async (): Promise<string> => (await texts()).json;
  const files = fileURLToPath(new URL('.', import.meta.resolve('@fastify/swagger-ui/static/index.css')));

  router.add(operations.observability.document, async () => ({
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: await json(),
  }));
  const addText = (path: string, type: string, text: (target: string) => string | Promise<string>): void =>
    router.addPath(PATH + path, 'read', async ({ http: { url } }) =>
      page({ status: 200, headers: { 'content-type': type }, body: await text(url) }),
    );
  addText('', 'text/html; charset=utf-8', (target) => pageHtml(target.endsWith('/') ? './static' : './docs/static'));
  addText('/json', 'application/json; charset=utf-8', json);
  addText('/yaml', 'application/x-yaml', async () => (await texts()).yaml);
  addText('/static/swagger-initializer.js', 'application/javascript; charset=utf-8', () => INITIALIZER);
  addText('/static/theme/sluice.svg', 'image/svg+xml', () => ICON);
  // The index page of the library is replaced by our own page.
  router.addPath(`${FILES}/index.html`, 'read', () =>
    page({ status: 302, headers: { location: `${PATH}/` }, body: '' }),
  );
  router.addPath(`${FILES}/*`, 'read', (request) => serveFile(request, files));
}

async function serveFile({ http, path }: ApiRequest<never>, root: string): Promise<ApiResponse> {
  const { isFile, response } = await openFile(http, path.slice(FILES.length), { root });
  if (isFile) return page(response);
  if (response.status <= 404) return page(pathNotFound(path));
  return page(errorResponse('BAD_REQUEST', 'malformed request'));
}

function page(response: ApiResponse): ApiResponse {
  return withHeaders(response, { 'content-security-policy': CONTENT_SECURITY_POLICY });
}
