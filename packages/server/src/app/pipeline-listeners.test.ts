import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { modernClient, post, send } from '../../../../test/fixtures/raw-client.ts';
import { readAll } from '../../../../test/fixtures/raw-exchange.ts';
import { at, pipelineTests } from './pipeline.fixture.ts';

const { run, runFilters, upstream, finally: atEnd } = pipelineTests();

describe('static_response', () => {
  it('is sent exactly as configured if its conditions match', async () => {
    const service = await runFilters(`
- filter: static_response
  status: 418
  headers: [{ name: X-Tea, value: pot }]
  body: short and stout
  conditions: [{ when: { path_prefix: /tea, methods: [GET], headers: { x-cup: '1' } } }, { unless: { path: /tea/no } }]
- filter: static_response
  status: 204`);
    const sendRequest = async (path: string, method = 'GET', cup = '1') =>
      (await send(at(service, 'l', path), method, { 'x-cup': cup })).status;
    const response = await send(at(service, 'l', '/tea?x'), 'GET', { 'x-cup': '1' });
    expect([response.status, response.headers['x-tea'], response.text]).toEqual([418, 'pot', 'short and stout']);
    expect(
      await Promise.all([
        sendRequest('/tea/no'),
        sendRequest('/tea', 'POST'),
        sendRequest('/tea', 'GET', '2'),
        sendRequest('/'),
      ]),
    ).toEqual([204, 204, 204, 204]);
  });
});

describe('router and load_balancer', () => {
  it('proxy to the cluster of the longest matching prefix, with weighted round robin', async () => {
    const [a, b, c] = [await upstream('a'), await upstream('b'), await upstream('c')];
    const service = await runFilters(`
- filter: router
  routes:
    - { path_prefix: /x, cluster: one }
    - { path_prefix: /x/y, cluster: two }
    - { path_prefix: /x/y/z, host: other.example, cluster: one }
- filter: load_balancer
  clusters:
    - { name: one, endpoints: ['${a}'] }
    - { name: two, endpoints: [{ address: '${b}', weight: 2 }, '${c}'] }`);
    const to = async (path: string, host = 'localhost') => {
      const { status, headers } = await send(at(service, 'l', path), 'GET', { host });
      return [status, headers['x-upstream']];
    };
    expect(await to('/x?q=1')).toEqual([200, 'a']);
    const turns = [];
    for (let turn = 0; turn < 6; turn++) turns.push((await to('/x/y'))[1]);
    expect(turns.toSorted()).toEqual(['b', 'b', 'b', 'b', 'c', 'c']);
    expect((await to('/other'))[0]).toBe(404);
  });

  it('answer 502 if the upstream is unreachable', async () => {
    const service = await runFilters(`
- { filter: router, routes: [{ path_prefix: /, cluster: gone }] }
- { filter: load_balancer, clusters: [{ name: gone, endpoints: ['127.0.0.1:9'] }] }`);
    const response = await send(at(service, 'l', '/'), 'GET');
    expect([response.status, JSON.parse(response.text)]).toEqual([
      502,
      { error: { message: 'gone upstream unreachable', type: 'bad_gateway' } },
    ]);
  });
});

describe('headers and path_rewrite', () => {
  it('edit proxied requests and all responses', async () => {
    const service = await runFilters(`
- filter: headers
  request_add: [{ name: X-Added, value: in }]
  response_add: [{ name: X-More, value: out }]
  response_set: [{ name: Content-Type, value: text/plain }]
  response_remove: [x-old]
- { filter: static_response, status: 200, conditions: [{ when: { path: /own } }] }
- { filter: path_rewrite, strip_prefix: /strip, conditions: [{ when: { path_prefix: /strip } }] }
- { filter: path_rewrite, replace: { pattern: '^/a(.)', replacement: '/$1' } }
- { filter: path_rewrite, add_prefix: /base }
- { filter: router, routes: [{ path_prefix: /base, cluster: up }] }
- { filter: load_balancer, clusters: [{ name: up, endpoints: ['${await upstream('up')}'] }] }`);
    const passed = await send(at(service, 'l', '/strip/ab?q'), 'GET');
    expect(JSON.parse(passed.text)).toMatchObject({ url: '/base/b?q', headers: { 'x-added': 'in' } });
    expect(passed.headers).toMatchObject({ 'x-more': 'out', 'content-type': 'text/plain', 'x-upstream': 'up' });
    expect(passed.headers).not.toHaveProperty('x-old');
    const own = await send(at(service, 'l', '/own'), 'GET');
    expect(own.headers).toMatchObject({ 'x-more': 'out', 'content-type': 'text/plain' });
  });
});

describe('several listeners', () => {
  it('each have their own chains', async () => {
    const service = await run(`
listeners:
  - { name: whole, address: '127.0.0.1:0', filter_chains: [head, tail] }
  - { name: lists, address: '127.0.0.1:0', filter_chains: [head] }
filter_chains:
  - name: head
    filters: [{ filter: mcp }, { filter: service_namespace }, { filter: service_methods, mcp_methods: [tools/list] }]
  - name: tail
    filters: [{ filter: service_methods }]
`);
    const sendRequest = async (name: string, method: string, params?: string) =>
      JSON.parse((await modernClient(at(service, name, '/default/mcp')).call(method, params)).text);
    expect(await sendRequest('lists', 'tools/list')).toHaveProperty('result.tools');
    expect(await sendRequest('lists', 'tools/call', '{"name":"x"}')).toMatchObject({ error: { code: -32601 } });
    expect(await sendRequest('whole', 'tools/call', '{"name":"x"}')).toMatchObject({ error: { code: -32602 } });
  });

  it('apply the mcp filter settings for body size and malformed messages', async () => {
    const mcp = '- { filter: mcp, on_invalid: reject, max_body_bytes: 100 }\n- filter: service_namespace';
    const service = await runFilters(mcp);
    const url = at(service, 'l', '/default/mcp');
    expect((await post(url, `{"x":"${'x'.repeat(100)}"}`)).status).toBe(413);
    expect((await post(url, '{')).status).toBe(400);
  });
});

describe('connections', () => {
  it('beyond max_connections are answered 503', async () => {
    const service = await runFilters('- { filter: static_response, status: 204 }', ', max_connections: 1');
    const [host = '', port = ''] = (service.addresses.l ?? '').split(':');
    const pending: Socket = connect(Number(port), host);
    atEnd(() => pending.destroy());
    pending.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await once(pending, 'data');
    const rejected = await send(at(service, 'l', '/'), 'GET');
    expect([rejected.status, rejected.headers.connection]).toEqual([503, 'close']);
    pending.destroy();
    await expect.poll(async () => (await send(at(service, 'l', '/'), 'GET')).status).toBe(204);
  });

  it('that send their request too slowly are closed', async () => {
    const more = ', downstream_read_timeout_ms: 200';
    const service = await runFilters('- { filter: static_response, status: 204 }', more);
    const [host = '', port = ''] = (service.addresses.l ?? '').split(':');
    const slow = connect(Number(port), host);
    atEnd(() => slow.destroy());
    slow.write('POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n');
    const [response] = await once(slow, 'data');
    expect(String(response)).toMatch(/^HTTP\/1.1 408 /);
  });

  it('with two Host headers are rejected', async () => {
    const service = await runFilters('- { filter: static_response, status: 204 }');
    const [host = '', port = ''] = (service.addresses.l ?? '').split(':');
    const socket = connect(Number(port), host);
    atEnd(() => socket.destroy());
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\n\r\n');
    expect(await readAll(socket)).toMatch(/^HTTP\/1.1 400 [\s\S]*duplicate Host header/);
  });
});
