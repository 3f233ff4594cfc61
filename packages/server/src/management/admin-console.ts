import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import send from '@fastify/send';
import { canOpenFiles, TOO_MANY_OPEN_FILES } from '../http/open-files.ts';
import type { ServerRequest } from '../http/server/request.ts';
import { buildingResponse, remainingSeconds } from './console-build.ts';
import type { ManagementContext } from './context.ts';
import { openFile } from './files.ts';
import { type ApiResponse, errorResponse, pathNotFound, withHeaders } from './responses.ts';
import type { ApiRequest, Router } from './router.ts';

/** Policy of the console: no inline script or style, no generated code, no other host. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  'media-src blob:',
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Headers of all files of the console and of its plugins. */
export const SECURITY_HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
};

/** Names of the files in this folder contain a hash of their content. */
const HASHED_FILES = 'assets/';
const ONE_YEAR_MS = 365 * 24 * 60 * 60 * 1000;

/** Compressed copies that the build writes beside the files, best first. */
const ENCODINGS = [
  { name: 'br', extension: '.br' },
  { name: 'gzip', extension: '.gz' },
] as const;

/** Segments of `/admin/`, from where the URLs of the page are relative as they are. */
const FIRST_DEPTH = 3;

/** Command that builds the console in a checkout of the source. */
const BUILD_COMMAND = 'npm run build:admin';

/**
 * `/admin/`: the web console, and `/`, which redirects to it. The headless distribution has neither. All URLs in its files are
 * relative, since a proxy may serve them under a path of its own; so is the redirect without SERVICE_CONSOLE_URL.
 */
export function adminConsoleRoutes(router: Router, { config: { uiPath, consoleUrl } }: ManagementContext): void {
  if (uiPath === undefined) return;
  const redirect = (): ApiResponse => {
    const location = consoleUrl ? `${consoleUrl.href}/admin/` : 'admin/';
    return { status: consoleUrl ? 302 : 301, headers: { location }, body: '' };
  };
  router.addPath('/', 'open', (request) => (existsSync(uiPath) ? redirect() : pathNotFound(request.path)));
  router.addPath('/admin', 'open', (request) => {
    if (!existsSync(uiPath)) return pathNotFound(request.path);
    return request.path.endsWith('/') ? index(request, uiPath) : redirect();
  });
  router.addPath('/admin/*', 'open', async (request) => {
    const { name: path, http } = request;
    if (!existsSync(uiPath)) return pathNotFound(request.path);
    if (path.split(/[\\/]/).includes('..')) return errorResponse('FORBIDDEN', `path not allowed: ${request.path}`);
    const lastSegment = path.split('/').at(-1) ?? '';
    if (path === 'index.html' || !lastSegment.includes('.')) return index(request, uiPath);
    const file = await findFile(http, uiPath, path);
    return file ? withHeaders(file, SECURITY_HEADERS) : pathNotFound(request.path);
  });
}

/** Returns a file, or its compressed copy if the client accepts it; undefined if there is none. */
async function findFile(http: ServerRequest, root: string, path: string): Promise<ApiResponse | undefined> {
  const isHashed = path.startsWith(HASHED_FILES);
  const options = { root, immutable: isHashed, maxAge: isHashed ? ONE_YEAR_MS : 0 };
  const accepted = String(http.headers['accept-encoding'] ?? '');
  const encoding = ENCODINGS.find(
    ({ name, extension }) => new RegExp(`\\b${name}\\b`).test(accepted) && existsSync(join(root, path + extension)),
  );
  const url = `/${encodeURIComponent(path).replaceAll('%2F', '/')}${encoding?.extension ?? ''}`;
  const { isFile, response } = await openFile(http, url, options);
  if (!isFile) return undefined;
  const encoded = encoding && {
    'content-encoding': encoding.name,
    'content-type': send.mime.getType(path) ?? 'application/octet-stream',
  };
  return withHeaders(response, { ...encoded, vary: 'Accept-Encoding' });
}

/** Returns the page for a path below `/admin/`; 503 if the console has not been built. */
async function index({ http, path }: ApiRequest<never>, root: string): Promise<ApiResponse> {
  const html = await readFile(join(root, 'index.html'), 'utf8').catch(() => undefined);
  if (html === undefined && !canOpenFiles()) return errorResponse('UNAVAILABLE', TOO_MANY_OPEN_FILES);
  if (html === undefined) {
    const seconds = await remainingSeconds(root);
    if (seconds !== undefined) return buildingResponse(http, seconds);
    return errorResponse('UNAVAILABLE', `the console is not built: run ${BUILD_COMMAND}, then reload ${path}`);
  }
  // The router ignores a trailing slash.
  const depth = path.split('/').length - FIRST_DEPTH;
  const body = html.replaceAll('"./', `"${'../'.repeat(depth) || './'}`);
  const headers = { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache', ...SECURITY_HEADERS };
  return { status: 200, headers, body };
}
