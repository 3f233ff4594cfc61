import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { ServerRequest } from '../http/server/request.ts';
import { type ApiResponse, errorResponse, withHeaders } from './responses.ts';

/** Written by `npm start` into the folder of a console that it builds while the service runs. */
const PROGRESS_FILE = 'progress.json';
const progressSchema = z.object({
  /** Process that has it built. */
  pid: z.int().positive(),
  /** When it is expected to be ready, in epoch milliseconds. */
  finishes: z.number(),
});

/** Seconds after which the page loads itself again. */
const REFRESH_SECONDS = 2;

const STYLE = `body { font: 1rem/1.5 system-ui, sans-serif; max-width: 36rem; margin: 20vh auto 0; padding: 0 1rem }
:root { color-scheme: light dark }`;
/** No script and no other host; the style of this page alone. */
const CONTENT_SECURITY_POLICY = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** Returns in how many seconds a console that is being built is expected, at least 1; undefined if none is being built. */
export async function remainingSeconds(folder: string): Promise<number | undefined> {
  try {
    const { pid, finishes } = progressSchema.parse(JSON.parse(await readFile(join(folder, PROGRESS_FILE), 'utf8')));
    // Throws if the build was interrupted.
    process.kill(pid, 0);
    return Math.max(1, Math.ceil((finishes - Date.now()) / 1000));
  } catch {
    return undefined;
  }
}

/** The response while the console is being built: a page that loads itself again, or JSON for other clients than browsers. */
export function buildingResponse({ headers }: ServerRequest, seconds: number): ApiResponse {
  const message = `the web console is being built: ready in about ${seconds} s`;
  const retry = { 'retry-after': String(seconds), 'cache-control': 'no-store' };
  if (!String(headers.accept ?? '').includes('text/html')) {
    return withHeaders(errorResponse('UNAVAILABLE', message), retry);
  }
  return {
    status: 503,
    headers: {
      ...retry,
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': CONTENT_SECURITY_POLICY,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    },
    body: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="${REFRESH_SECONDS}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sluice: building the web console</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>Building the web console</h1>
<p role="status">Ready in about ${seconds} s. This page opens it by itself.</p>
<p>Sluice is already running: agents can connect, and the API and <code>npx sluice</code> work.</p>
</main>
</body>
</html>
`,
  };
}
