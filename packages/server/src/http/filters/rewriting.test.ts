import { describe, expect, it } from 'vitest';
import { send } from '../../../../../test/fixtures/raw-client.ts';
import { at, pipelineTests } from '../../app/pipeline.fixture.ts';

const { runFilters, upstream } = pipelineTests();

/** Target of upstream requests that passed these filters. */
async function arrivals(filters: string, paths: readonly string[]): Promise<unknown[]> {
  const service = await runFilters(`${filters}
- { filter: router, routes: [{ path_prefix: /, cluster: up }] }
- { filter: load_balancer, clusters: [{ name: up, endpoints: ['${await upstream('up')}'] }] }`);
  const arrived: unknown[] = [];
  for (const path of paths) {
    const { status, text } = await send(at(service, 'l', path), 'GET');
    arrived.push(status === 200 ? JSON.parse(text).url : status);
  }
  return arrived;
}

describe('path_rewrite', () => {
  it('strips an exact prefix', async () => {
    const filter = '- { filter: path_rewrite, strip_prefix: /llm }';
    expect(await arrivals(filter, ['/llm/v1?a=/llm', '/llm', '/llmv1', '/v1/llm', '/llm//evil.example/x'])).toEqual([
      '/v1?a=/llm',
      '/',
      '/v1',
      '/v1/llm',
      '/evil.example/x',
    ]);
  });

  it('adds a prefix, joined by one slash', async () => {
    expect(await arrivals('- { filter: path_rewrite, add_prefix: /base }', ['/v1?q', '/'])).toEqual([
      '/base/v1?q',
      '/base/',
    ]);
    expect(await arrivals('- { filter: path_rewrite, add_prefix: /base/ }', ['/v1'])).toEqual(['/base/v1']);
  });

  it('rejects a long path instead of matching a pattern', async () => {
    const filter = "- { filter: path_rewrite, replace: { pattern: '^/(.*)/(.*)/(.*)x$', replacement: '/' } }";
    const [long, longer] = [`/${'a'.repeat(1_023)}`, `/${'/'.repeat(1_024)}`];
    expect(await arrivals(filter, [long, longer])).toEqual([long, 414]);
  });

  it('replaces the first match of a pattern, with groups', async () => {
    const filter = "- { filter: path_rewrite, replace: { pattern: '/v(\\d+)(?=/)', replacement: '/api/$1' } }";
    expect(await arrivals(filter, ['/v2/x/v3/y?v=/v4/', '/w2/x', '/v2'])).toEqual([
      '/api/2/x/v3/y?v=/v4/',
      '/w2/x',
      '/v2',
    ]);
  });
});

describe('headers', () => {
  const ADDS = `
- filter: headers
  request_add: [{ name: X-In, value: one }, { name: X-In, value: two }]
  response_add: [{ name: X-Upstream, value: second }]
  response_set: [{ name: x-old, value: new }, { name: X-Set, value: set }]
  response_remove: [content-type, X-Absent]`;

  it('adds request headers; adds, sets and removes response headers', async () => {
    const service = await runFilters(`${ADDS}
- { filter: router, routes: [{ path_prefix: /, cluster: up }] }
- { filter: load_balancer, clusters: [{ name: up, endpoints: ['${await upstream('first')}'] }] }`);
    const { headers, text } = await send(at(service, 'l', '/'), 'GET', { 'x-in': 'zero' });
    expect(JSON.parse(text).headers['x-in']).toBe('zero, one, two');
    expect(headers).toMatchObject({ 'x-upstream': 'first, second', 'x-old': 'new', 'x-set': 'set' });
    expect(headers).not.toHaveProperty('content-type');
    expect(text.length).toBe(Number(headers['content-length'] ?? text.length));
  });

  it('edits responses of MCP and of requests that no filter answers', async () => {
    const service = await runFilters(`${ADDS}\n- filter: mcp\n- filter: service_namespace\n- filter: service_methods`);
    const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
    for (const [body, path] of [
      [ping, '/default/mcp'],
      ['{', '/default/mcp'],
      [ping.replace('ping', 'x'), '/default/mcp'],
    ] as const) {
      const { headers } = await send(at(service, 'l', path), 'POST', {}, body);
      expect(headers).toMatchObject({ 'x-set': 'set', 'x-old': 'new', 'x-upstream': 'second' });
      expect(headers).not.toHaveProperty('content-type');
    }
  });

  it('applies edits in the order of the file', async () => {
    const service = await runFilters(`
- { filter: headers, response_set: [{ name: X-A, value: one }] }
- { filter: headers, response_add: [{ name: X-A, value: two }] }
- { filter: headers, response_remove: [X-B], conditions: [{ when: { path: /gone } }] }
- { filter: static_response, status: 200, headers: [{ name: X-A, value: own }, { name: X-B, value: b }] }`);
    const { headers } = await send(at(service, 'l', '/'), 'GET');
    expect([headers['x-a'], headers['x-b']]).toEqual(['one, two', 'b']);
    expect((await send(at(service, 'l', '/gone'), 'GET')).headers).not.toHaveProperty('x-b');
  });
});

describe('static_response', () => {
  it('responds to every method, with a body if the method allows it', async () => {
    const service = await runFilters(`
- { filter: static_response, status: 503, headers: [{ name: Retry-After, value: '9' }, { name: Set-Cookie, value: a=1 }, { name: Set-Cookie, value: b=2 }], body: "été\\n" }`);
    for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS']) {
      const { status, headers, text } = await send(
        at(service, 'l', '/'),
        method,
        {},
        method === 'POST' ? '{}' : undefined,
      );
      expect([status, text, headers['content-length'], headers['retry-after'], headers['set-cookie']]).toEqual([
        503,
        'été\n',
        '6',
        '9',
        ['a=1', 'b=2'],
      ]);
      expect(headers).not.toHaveProperty('content-type');
    }
    const head = await send(at(service, 'l', '/'), 'HEAD');
    expect([head.status, head.text]).toEqual([503, '']);
  });
});
