import { PROXIED_PREFIXES } from '@sluice/contract';
import { openApiDocument } from '@sluice/contract/openapi';
import { beforeAll, describe, expect, test } from 'vitest';
import { VERSION } from '../telemetry/version.ts';
import { type SharedApi, startApi, startSharedApi } from './api.fixture.ts';
import { ServedDocument } from './document.fixture.ts';
import { isLegacyPath } from './legacy-backend.ts';

let api: SharedApi;
beforeAll(async () => {
  api = await startSharedApi();
  return () => api.close();
});

/** Method and path of each route of a printed tree, without the names of parameters. */
function routesOf(tree: string): string[] {
  const routes: string[] = [];
  const path: string[] = [];
  for (const line of tree.split('\n').filter(Boolean)) {
    const [, indent, segment, methods = ''] = /^((?:│ {3}| {4})*)[├└]── (.*?)(?: \(([A-Z, ]+)\))?$/.exec(line) ?? [];
    if (indent === undefined || segment === undefined) throw new Error(`not a line of the tree: ${line}`);
    path.splice(indent.length / 4, path.length, segment);
    const whole = path.join('').replaceAll(/:\w+/g, '{}');
    for (const method of methods.split(', ').filter(Boolean)) routes.push(`${method} ${whole}`);
  }
  return routes;
}

describe('/openapi.json', () => {
  test('is the document of the contract, without envelope', async () => {
    for (const path of ['/openapi.json', '/openapi.json/']) {
      const { status, headers, text } = await api.call('GET', path);
      expect([status, headers['content-type']]).toEqual([200, 'application/json']);
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(openApiDocument(VERSION))));
      expect(JSON.parse(text)).toMatchObject({ openapi: expect.stringMatching(/^3\.1\./), info: { version: VERSION } });
      for (const member of ['data', 'error']) expect(JSON.parse(text)).not.toHaveProperty(member);
    }
  });

  test('contains the prefixes that are proxied', async () => {
    const { paths } = (await ServedDocument.of(api)).content;
    for (const prefix of PROXIED_PREFIXES) expect(paths).toHaveProperty([prefix]);
  });

  test('is created once, in a worker thread', async (context) => {
    const own = await startApi(context);
    let workers = 0;
    const onWorker = () => workers++;
    process.on('worker', onWorker);
    context.onTestFinished(() => void process.off('worker', onWorker));
    const paths = ['/openapi.json', '/api/docs/json'];
    const [first, second] = await Promise.all(paths.map((path) => own.call('GET', path)));
    expect([first?.status, second?.text]).toEqual([200, first?.text]);
    expect((await own.call('GET', '/openapi.json')).text).toBe(first?.text);
    expect(workers).toBe(1);
  });

  test('contains exactly the routes, besides the paths that are proxied', async () => {
    const { paths } = (await ServedDocument.of(api)).content;
    const methods = ['get', 'post', 'put', 'patch', 'delete'];
    const documented = Object.entries(paths).flatMap(([path, item]) =>
      Object.keys(item)
        .filter((member) => methods.includes(member) && !isLegacyPath(member.toUpperCase(), path))
        .map((method) => `${method.toUpperCase()} ${path.replaceAll(/\{\w+\}/g, '{}')}`),
    );
    // Each GET has a HEAD. Some files of the page have routes of their own.
    const routes = routesOf(api.routes)
      .filter((route) => !route.startsWith('HEAD ') && !/\/static\/(?!\*)/.test(route))
      .map((route) => route.replace('/static/*', '/static/{}'));
    // This API is headless, and MCP has no route: it is served before the others.
    const mcp = ['DELETE', 'GET', 'POST'].map((method) => `${method} /api/v1/namespaces/{}/mcp`);
    expect([...routes, 'GET /admin/{}', ...mcp].sort()).toEqual(documented.sort());
  });
});

describe('/api/docs', () => {
  const fetched = async (url: string) => {
    const answer = await fetch(url, { headers: { connection: 'close' }, redirect: 'manual' });
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  };

  test('contains no other product name, and loads its own files only', async () => {
    for (const path of ['/api/docs', '/api/docs/']) {
      const page = await fetched(api.url + path);
      expect(page.status).toBe(200);
      expect(page.headers.get('content-type')).toMatch(/^text\/html/);
      expect(page.text).toContain('<title>Sluice management API</title>');
      const visible = page.text.replaceAll(/<!--.*?-->|<[^>]*>/gs, '').trim();
      expect(visible).toBe('Sluice management API');

      const loaded = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(
        ([, url = '']) => new URL(url, api.url + path),
      );
      expect(loaded.length).toBeGreaterThanOrEqual(5);
      for (const url of loaded) {
        expect(url.origin).toBe(api.url);
        const asset = await fetched(url.href);
        expect([asset.status, asset.text.length > 0], url.href).toEqual([200, true]);
        // Further resources of style sheets are embedded.
        if (url.pathname.endsWith('.css')) expect(asset.text).not.toMatch(/@import|url\((?!["']?data:)/);
      }
    }
  });

  test('loads and runs content of the service only, and cannot be framed', async () => {
    for (const path of ['', '/', '/json', '/static/swagger-initializer.js', '/static/swagger-ui.css']) {
      const { status, headers } = await fetched(`${api.url}/api/docs${path}`);
      expect(status, path).toBe(200);
      const policy = new Map(
        (headers.get('content-security-policy') ?? '').split('; ').map((directive) => {
          const [name = '', ...sources] = directive.split(' ');
          return [name, sources.join(' ')];
        }),
      );
      expect(Object.fromEntries(policy), path).toEqual({
        'default-src': "'self'",
        'style-src': "'self' 'unsafe-inline'",
        'img-src': "'self' data:",
        'object-src': "'none'",
        'base-uri': "'none'",
        'form-action': "'none'",
        'frame-ancestors': "'none'",
      });
    }
  });

  test('shows the document that the service serves, also as YAML', async () => {
    const [own, shown] = await Promise.all([fetched(`${api.url}/openapi.json`), fetched(`${api.url}/api/docs/json`)]);
    expect(JSON.parse(shown.text)).toEqual(JSON.parse(own.text));
    expect((await fetched(`${api.url}/api/docs/yaml`)).text).toMatch(/^openapi: 3\.1\./);
  });

  test('serves its own files only', async () => {
    for (const path of [
      'nothing',
      'static/none.js',
      'static/..%2f..%2fpackage.json',
      'static/%2e%2e/package.json',
      'static',
    ]) {
      const answer = await api.call('GET', `/api/docs/${path}`);
      expect(answer, path).toMatchObject({ status: 404, data: null, error: { code: 'NOT_FOUND' } });
    }
  });

  test('is read only', async () => {
    for (const path of ['', '/json', '/static/swagger-ui.css', '/static/none.js']) {
      const answer = await api.call('POST', `/api/docs${path}`, {});
      expect(answer, path).toMatchObject({ status: 405, error: { code: 'METHOD_NOT_ALLOWED' } });
      expect(String(answer.headers.allow).split(', ').sort()).toEqual(['GET', 'HEAD', 'OPTIONS']);
    }
  });
});
