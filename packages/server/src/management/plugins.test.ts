import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pluginManifest } from '@sluice/contract';
import { Client } from 'undici';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { greeter } from '../../../../examples/console-plugin/greeter.mjs';
import { startProxy } from '../../testing/egress-proxy.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

const EXAMPLE = join(import.meta.dirname, '../../../../examples/console-plugin/plugins/greetings');

let folder: string;
let service: TestService;
/** Reaction of the service `backend` of the plugin `tools` to the next requests. */
let respond: (request: IncomingMessage, response: ServerResponse) => void;
const received: { method: string | undefined; url: string | undefined; headers: object; body: string }[] = [];
const backend = createServer(async (request, response) => {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += chunk;
  received.push({ method: request.method, url: request.url, headers: request.headers, body });
  respond(request, response);
});

async function listen(server: ReturnType<typeof createServer>): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP address');
  const { port }: AddressInfo = address;
  return port;
}

const MANIFEST = { id: 'tools', name: 'Tools', version: '2', entrypoint: 'main.js', 'x-own': [1] };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-plugins-'));
  const plugins = join(folder, 'plugins');
  await mkdir(join(folder, 'admin'));
  await writeFile(join(folder, 'admin', 'index.html'), '');
  await writeFile(join(folder, 'secret.txt'), 'secret');
  await mkdir(join(plugins, 'tools', 'sub'), { recursive: true });
  await cp(EXAMPLE, join(plugins, 'greetings'), { recursive: true });
  await writeFile(join(plugins, 'tools', 'plugin.json'), JSON.stringify(MANIFEST));
  await writeFile(join(plugins, 'tools', 'main.js'), 'export function activate() {}');
  await writeFile(join(plugins, 'tools', 'sub', 'naïve file.css'), 'a {}');
  await symlink(join(folder, 'secret.txt'), join(plugins, 'tools', 'secret.txt'));
  await symlink(folder, join(plugins, 'tools', 'outside'));
  for (const [name, text] of [
    ['zz-duplicate', JSON.stringify(MANIFEST)],
    ['incomplete', '{"id":"incomplete","name":"x","version":"1"}'],
    ['climbing', JSON.stringify({ ...MANIFEST, id: 'climbing', entrypoint: '../x.js' })],
    ['malformed', '{'],
  ] as const) {
    await mkdir(join(plugins, name));
    await writeFile(join(plugins, name, 'plugin.json'), text);
  }
  await mkdir(join(plugins, 'no-plugin'));
  const [port, greeterPort] = [await listen(backend), await listen(greeter)];
  const targets = [
    {
      id: 'tools',
      services: {
        backend: { target: `http://127.0.0.1:${port}/base` },
        down: { target: 'http://127.0.0.1:9' },
        remote: { target: 'http://plugin.test/base' },
      },
    },
    { id: 'greetings', services: { greeter: { target: `http://127.0.0.1:${greeterPort}` } } },
    { id: 'absent', services: { backend: { target: `http://127.0.0.1:${port}` } } },
  ];
  await writeFile(join(folder, 'service.json'), JSON.stringify({ plugins: targets }));
  service = await start({ SERVICE_UI_PATH: join(folder, 'admin') });
});
afterAll(async () => {
  await service?.stop(0);
  for (const server of [backend, greeter]) server.close().closeAllConnections();
  await rm(folder, { recursive: true, force: true });
});

function start(env: Record<string, string>) {
  const argv = ['--plugins-path', join(folder, 'plugins'), '--service-config', join(folder, 'service.json')];
  return startTestService(env, argv);
}

beforeEach(() => {
  received.length = 0;
  respond = (_request, response) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":1}');
});

/** Sends the path as it is: `fetch` would resolve dot segments. */
async function call(
  method: 'GET' | 'POST' | 'DELETE' | 'OPTIONS',
  path: string,
  headers = {},
  body?: string,
  from = service,
) {
  const client = new Client(from.management);
  try {
    const response = await client.request({ path, method, headers, body: body ?? null });
    return { status: response.statusCode, headers: response.headers, text: await response.body.text() };
  } finally {
    await client.close();
  }
}

test('installed plugins are listed with all members of their manifests; others are skipped with a warning', async () => {
  const { data } = await service.manage('GET', '/plugins');
  expect(pluginManifest.array().parse(data)).toMatchObject([{ id: 'greetings', styles: ['style.css'] }, MANIFEST]);
  const skipped = service.log.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'plugin skipped');
  expect(skipped.map(({ level, folder: name, reason }) => [level, name, reason])).toEqual([
    ['warn', 'climbing', expect.stringMatching(/^plugin\.json: entrypoint must be a path of a file/)],
    ['warn', 'incomplete', expect.stringMatching(/^plugin\.json: entrypoint is required/)],
    ['warn', 'malformed', expect.stringMatching(/^plugin\.json: /)],
    ['warn', 'zz-duplicate', 'another plugin has the id tools'],
  ]);
});

describe('the files of a plugin', () => {
  test('are served with their types and a strict policy', async () => {
    const script = await call('GET', '/plugins/tools/main.js?v=1');
    expect(script).toMatchObject({
      status: 200,
      text: 'export function activate() {}',
      headers: {
        'content-type': expect.stringMatching(/javascript/),
        'x-content-type-options': 'nosniff',
        'cache-control': 'no-cache',
        'content-security-policy': expect.stringMatching(/^default-src 'none'; .*; sandbox$/),
      },
    });
    expect(await call('GET', '/plugins/tools/sub/na%C3%AFve%20file.css')).toMatchObject({
      status: 200,
      headers: { 'content-type': expect.stringMatching(/^text\/css/) },
    });
    for (const name of ['page.html', 'style.xsl', 'image.svg', 'data.json', 'unknown']) {
      await writeFile(join(folder, 'plugins', 'tools', name), '<a/>');
      const { status, headers } = await call('GET', `/plugins/tools/${name}`);
      expect([name, status, headers['content-security-policy']]).toEqual([
        name,
        200,
        script.headers['content-security-policy'],
      ]);
    }
  });

  test.for([
    ['/plugins/tools/../tools/main.js', 400],
    ['/plugins/tools/..%2f..%2fsecret.txt', 400],
    ['/plugins/tools/%2e%2e/%2e%2e/secret.txt', 400],
    ['/plugins/tools/..\\..\\secret.txt', 400],
    ['/plugins/tools/%5c..%5csecret.txt', 400],
    ['/plugins/../secret.txt', 400],
    ['/plugins/tools/secret.txt', 403],
    ['/plugins/tools/outside/secret.txt', 403],
    ['/plugins/tools/%252e%252e/secret.txt', 404],
    ['/plugins/tools/none.js', 404],
    ['/plugins/tools/sub', 404],
    ['/plugins/tools/', 404],
    ['/plugins/climbing/plugin.json', 404],
    ['/plugins/no-plugin/x', 404],
    ['/plugins/tools/main.js%00', 404],
  ] as const)('%s is answered with %i', async ([path, status]) => {
    const answer = await call('GET', path);
    expect([answer.status, answer.text.includes('"secret"')]).toEqual([status, false]);
    expect(answer.text).not.toBe('secret');
  });
});

describe('a service of a plugin', () => {
  test('is reached through the proxy of the environment', async () => {
    const address = backend.address();
    if (address === null || typeof address === 'string') throw new Error('no TCP address');
    const proxy = await startProxy({ hosts: { 'plugin.test': address.port } });
    onTestFinished(proxy.close);
    const proxied = await start({ SERVICE_UI_PATH: join(folder, 'admin'), HTTP_PROXY: proxy.url });
    onTestFinished(() => proxied.stop(0));
    const { status, text } = await call('GET', '/api/plugins/tools/remote/items', {}, undefined, proxied);
    expect([status, text]).toEqual([200, '{"ok":1}']);
    expect(proxy.requests).toEqual(['GET http://plugin.test/base/items']);
  });

  test('gets method, path, query and body, but no other header of the browser', async () => {
    const headers = {
      accept: 'application/json',
      'content-type': 'application/json',
      authorization: 'Bearer secret',
      cookie: 'a=secret',
      'x-forwarded-user': 'ann',
      'x-custom': 'secret',
    };
    const answer = await call('POST', '/api/plugins/tools/backend/items/a%2Fb?c=d', headers, '{"e":1}');
    expect(answer).toMatchObject({ status: 200, text: '{"ok":1}' });
    expect(received).toMatchObject([{ method: 'POST', url: '/base/items/a%2Fb?c=d', body: '{"e":1}' }]);
    expect(received[0]?.headers).toMatchObject({ accept: 'application/json', 'content-type': 'application/json' });
    expect(JSON.stringify(received[0]?.headers)).not.toMatch(/secret|ann/);
    await call('DELETE', '/api/plugins/tools/backend');
    expect(received[1]).toMatchObject({ method: 'DELETE', url: '/base/' });
  });

  test('cannot set cookies, show documents with rights, or redirect the browser', async () => {
    respond = (_request, response) => {
      const headers = {
        'content-type': 'text/html',
        'set-cookie': ['a=b', 'c=d'],
        'clear-site-data': '"*"',
        'x-own': '1',
      };
      response.writeHead(200, headers).end('<script>alert(1)</script>');
    };
    const page = await call('GET', '/api/plugins/tools/backend/page');
    expect(page.headers).toMatchObject({
      'content-security-policy': 'sandbox',
      'x-content-type-options': 'nosniff',
      'access-control-allow-origin': '*',
      'x-own': '1',
    });
    for (const name of ['set-cookie', 'clear-site-data']) expect(page.headers).not.toHaveProperty(name);
    respond = (_request, response) => void response.writeHead(302, { location: '/api/v1/tools' }).end();
    const redirect = await call('GET', '/api/plugins/tools/backend/away');
    expect(redirect.status).toBe(302);
    expect(redirect.headers).not.toHaveProperty('location');
    expect(received).toHaveLength(2);
  });

  test.for([
    ...['text/html', 'text/xsl', 'text/xml', 'image/svg+xml', 'application/xhtml+xml', 'application/pdf', 'text/plain'],
    ...['application/json', 'text/javascript', 'text/css', 'multipart/x-mixed-replace', 'x/y', ''],
  ])('is a document without rights under the type "%s"', async (type) => {
    const own = "sandbox allow-scripts allow-same-origin, default-src 'none'";
    respond = (_request, response) => {
      if (type !== '') response.setHeader('content-type', type);
      response.writeHead(200, { 'content-security-policy': own, 'x-content-type-options': 'x' }).end('<a/>');
    };
    const { headers } = await call('GET', '/api/plugins/tools/backend/x');
    // With several sandboxes, the last one counts.
    expect([headers['content-security-policy']].flat()).toEqual([own, 'sandbox']);
    expect(headers['x-content-type-options']).toBe('nosniff');
  });

  test('streams its response', async () => {
    const begun = Promise.withResolvers<ServerResponse>();
    respond = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n');
      begun.resolve(response);
    };
    const response = await fetch(`${service.management}/api/plugins/tools/backend/events`);
    const reader = response.body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('data: 1\n\n');
    (await begun.promise).end('data: 2\n\n');
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('data: 2\n\n');
  });

  test.for([
    ['/api/plugins/tools/none/x', 404],
    ['/api/plugins/none/backend/x', 404],
    ['/api/plugins/absent/backend/x', 404],
    ['/api/plugins/tools', 404],
    ['/api/plugins', 404],
    ['/api/plugins/tools/down/x', 502],
    ['/api/plugins/tools/backend/../admin', 400],
    ['/api/plugins/tools/backend/%2e%2e/admin', 400],
    ['/api/plugins/tools/backend/a%2f..%2fadmin', 400],
    ['/api/plugins/tools/backend/a%5c..%5cadmin', 400],
    ['/api/plugins/tools/backend/..;a/b', 400],
  ] as const)('%s is answered with %i', async ([path, status]) => {
    const answer = await call('GET', path);
    expect([answer.status, Object(JSON.parse(answer.text)).data]).toEqual([status, null]);
    expect(received).toEqual([]);
  });

  test('of a foreign origin is rejected, and OPTIONS is answered by the service itself', async () => {
    expect((await call('POST', '/api/plugins/tools/backend/x', { origin: 'https://evil.example' }, '')).status).toBe(
      403,
    );
    expect((await call('OPTIONS', '/api/plugins/tools/backend/x')).status).toBe(204);
    expect(received).toEqual([]);
  });

  test('of the sample plugin works', async () => {
    expect((await call('GET', '/api/plugins/greetings/greeter/greetings')).text).toContain('Hello, world!');
    const json = { 'content-type': 'application/json' };
    const added = await call('POST', '/api/plugins/greetings/greeter/greetings', json, '{"name":"Ann"}');
    expect([added.status, added.text]).toEqual([201, '"Hello, Ann!"']);
  });
});

test('the headless distribution has none of it', async () => {
  const headless = await start({ SERVICE_UI_PATH: 'none' });
  onTestFinished(() => headless.stop(0));
  expect(await headless.manage('GET', '/plugins')).toEqual({ status: 200, data: [] });
  for (const path of ['/plugins/tools/main.js', '/api/plugins/tools/backend/x']) {
    expect((await call('GET', path, {}, undefined, headless)).status).toBe(404);
  }
  expect(received).toEqual([]);
});

test('a missing folder of plugins stops the start', async () => {
  const missing = startTestService({}, ['--plugins-path', join(folder, 'none')]);
  await expect(missing).rejects.toThrow(/^--plugins-path: .*none is not a folder that can be read$/);
});
