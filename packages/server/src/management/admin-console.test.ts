import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { Client, request } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestService, type TestService } from '../../testing/service.ts';

const INDEX = '<script src="./assets/index-1a2b.js"></script><link href="./favicon.svg">';
const SCRIPT = 'export const one = 1;';

let folder: string;
let service: TestService;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-admin-'));
  await mkdir(join(folder, 'admin', 'assets'), { recursive: true });
  await writeFile(join(folder, 'secret.txt'), 'secret');
  await writeFile(join(folder, 'admin', 'index.html'), INDEX);
  await writeFile(join(folder, 'admin', 'favicon.svg'), '<svg/>');
  await writeFile(join(folder, 'admin', 'assets', 'index-1a2b.js'), SCRIPT);
  await writeFile(join(folder, 'admin', 'assets', 'index-1a2b.js.br'), brotliCompressSync(SCRIPT));
  service = await startTestService({ SERVICE_UI_PATH: join(folder, 'admin') });
});
afterAll(async () => {
  await service?.stop(0);
  await rm(folder, { recursive: true, force: true });
});

/** Sends the path as it is: `fetch` would resolve dot segments. */
async function get(path: string, headers: Record<string, string> = {}, from = service) {
  const client = new Client(from.management);
  try {
    const response = await client.request({ path, method: 'GET', headers });
    return {
      status: response.statusCode,
      headers: response.headers,
      body: Buffer.from(await response.body.arrayBuffer()),
    };
  } finally {
    await client.close();
  }
}

describe('the full distribution', () => {
  test('/ and /admin redirect to the console with relative locations', async () => {
    for (const path of ['/', '/admin']) {
      expect(await get(path)).toMatchObject({ status: 301, headers: { location: 'admin/' } });
    }
  });

  test('the page has a strict content security policy and is not cached', async () => {
    const { status, headers, body } = await get('/admin/');
    expect(status).toBe(200);
    expect(body.toString()).toBe(INDEX);
    expect(headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
      'content-security-policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src blob:; " +
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    });
    expect((await get('/admin/index.html')).body.toString()).toBe(INDEX);
  });

  test('a path without a file extension is the page, with URLs relative to that path', async () => {
    expect((await get('/admin/tools')).body.toString()).toBe(INDEX);
    expect((await get('/admin/a/b')).body.toString()).toBe(INDEX.replaceAll('./', '../'));
    expect((await get('/admin/a/b/')).body.toString()).toBe(INDEX.replaceAll('./', '../../'));
  });

  test('hashed files are cached for a year, others are revalidated', async () => {
    const script = await get('/admin/assets/index-1a2b.js');
    expect(script).toMatchObject({
      status: 200,
      headers: {
        'content-type': expect.stringMatching(/^(?:text|application)\/javascript/),
        'cache-control': 'public, max-age=31536000, immutable',
        'x-content-type-options': 'nosniff',
      },
    });
    expect(script.body.toString()).toBe(SCRIPT);
    const icon = await get('/admin/favicon.svg');
    expect(icon.headers['cache-control']).toBe('public, max-age=0');
    expect(await get('/admin/favicon.svg', { 'if-none-match': String(icon.headers.etag) })).toMatchObject({
      status: 304,
    });
  });

  test('a compressed copy is sent to a client that accepts it', async () => {
    const { headers, body } = await get('/admin/assets/index-1a2b.js', { 'accept-encoding': 'gzip, br' });
    expect(headers).toMatchObject({
      'content-encoding': 'br',
      'content-type': expect.stringMatching(/^(?:text|application)\/javascript/),
      vary: 'Accept-Encoding',
    });
    expect(body).toEqual(brotliCompressSync(SCRIPT));
  });

  test('a missing file is 404, as an error of the API', async () => {
    const { status, body } = await get('/admin/assets/gone.js');
    expect(status).toBe(404);
    expect(JSON.parse(body.toString())).toMatchObject({ error: { message: 'path not found: /admin/assets/gone.js' } });
  });

  test.for([
    '/admin/../secret.txt',
    '/admin/%2e%2e/secret.txt',
    '/admin/assets/..%2f..%2fsecret.txt',
    '/admin/..%5csecret.txt',
  ])('path traversal is 403: %s', async (path) => {
    const { status, body } = await get(path);
    expect(status).toBe(403);
    expect(body.toString()).not.toContain('"secret"');
  });

  test('other methods are 405', async () => {
    const response = await request(`${service.management}/admin/`, {
      method: 'POST',
      headers: { connection: 'close' },
    });
    await response.body.dump();
    expect(response).toMatchObject({ statusCode: 405, headers: { allow: 'GET, HEAD, OPTIONS' } });
  });
});

test('a console that is not built is 503 with the command to run or the remaining time, and served once it is built', async () => {
  const empty = join(folder, 'empty');
  await mkdir(empty);
  const started = await startTestService({ SERVICE_UI_PATH: empty });
  try {
    const { status, body } = await get('/admin/', {}, started);
    expect(status).toBe(503);
    expect(JSON.parse(body.toString())).toMatchObject({
      error: { message: 'the console is not built: run npm run build:admin, then reload /admin/' },
    });
    const progress = (pid: number) =>
      writeFile(join(empty, 'progress.json'), JSON.stringify({ pid, finishes: Date.now() + 3_600_000 }));
    // A build that was interrupted.
    await progress(2 ** 31 - 1);
    expect((await get('/admin/', {}, started)).body.toString()).toContain('run npm run build:admin');
    await progress(process.pid);
    const page = await get('/admin/tools', { accept: 'text/html,*/*' }, started);
    expect(page).toMatchObject({ status: 503, headers: { 'content-type': 'text/html; charset=utf-8' } });
    expect(page.body.toString()).toMatch(/<meta http-equiv="refresh" content="2">[\s\S]*Ready in about 3\d\d\d s\./);
    expect(String(page.headers['content-security-policy'])).toMatch(/^default-src 'none'; style-src 'sha256-/);
    const json = await get('/admin/', {}, started);
    expect(json).toMatchObject({ status: 503, headers: { 'retry-after': expect.stringMatching(/^3\d\d\d$/) } });
    expect(JSON.parse(json.body.toString())).toMatchObject({
      error: { message: expect.stringMatching(/^the web console is being built: ready in about 3\d\d\d s$/) },
    });
    await writeFile(join(empty, 'index.html'), INDEX);
    expect(await get('/admin/', {}, started)).toMatchObject({ status: 200 });
  } finally {
    await started.stop(0);
  }
});

test.for([
  ['headless', 'none'],
  ['without the folder', '/nonexistent/admin'],
])('%s, all paths of the console are 404', async ([, uiPath = '']) => {
  const started = await startTestService({ SERVICE_UI_PATH: uiPath });
  try {
    for (const path of ['/', '/admin', '/admin/', '/admin/index.html', '/admin/tools']) {
      expect(await get(path, {}, started), path).toMatchObject({ status: 404 });
    }
    const plugins = await get('/api/v1/plugins', {}, started);
    expect(JSON.parse(plugins.body.toString())).toEqual({ data: [], error: null });
  } finally {
    await started.stop(0);
  }
});
