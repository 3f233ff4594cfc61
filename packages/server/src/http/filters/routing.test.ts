import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { send } from '../../../../../test/fixtures/raw-client.ts';
import { at, pipelineTests } from '../../app/pipeline.fixture.ts';

const { run, runFilters, upstream, finally: atEnd } = pipelineTests();

describe('router', () => {
  it('chooses the longest prefix of the routes with matching host and headers, the first one of equals', async () => {
    const names = ['short', 'long', 'hosted', 'ported', 'gold', 'second'];
    const clusters = await Promise.all(
      names.map(async (name) => `    - { name: ${name}, endpoints: ['${await upstream(name)}'] }`),
    );
    const service = await runFilters(
      `
- filter: router
  routes:
    - { path_prefix: /v1, cluster: short }
    - { path_prefix: /v1/chat, cluster: long }
    - { path_prefix: /v1/chat, cluster: second }
    - { path_prefix: /v1/chat/x, host: models.example, cluster: hosted }
    - { path_prefix: /v1/chat/x/y, host: 'Models.example:8443', cluster: ported }
    - { path_prefix: /v1/chat/x/y/z, headers: { X-Tier: gold, X-Team: red }, cluster: gold }
- filter: load_balancer
  clusters:
${clusters.join('\n')}`,
      '',
      { SERVICE_ALLOWED_HOSTS: 'models.example,other.example' },
    );
    const to = async (path: string, headers: Record<string, string> = {}) => {
      const response = await send(at(service, 'l', path), 'GET', headers);
      return response.headers['x-upstream'] ?? response.status;
    };
    expect(await to('/v1')).toBe('short');
    expect(await to('/v1x')).toBe('short');
    expect(await to('/v1/chat?q')).toBe('long');
    expect(await to('/v1/chat/x')).toBe('long');
    expect(await to('/v1/chat/x', { host: 'MODELS.example:1' })).toBe('hosted');
    expect(await to('/v1/chat/x', { host: 'other.example' })).toBe('long');
    expect(await to('/v1/chat/x/y', { host: 'models.example' })).toBe('hosted');
    expect(await to('/v1/chat/x/y', { host: 'models.example:8443' })).toBe('ported');
    expect(await to('/v1/chat/x/y/z', { 'x-tier': 'gold', 'x-team': 'red' })).toBe('gold');
    expect(await to('/v1/chat/x/y/z', { 'x-tier': 'gold' })).toBe('long');
    expect(await to('/v2')).toBe(404);
    const { headers, text } = await send(at(service, 'l', '/v2'), 'GET');
    expect([headers['content-type'], JSON.parse(text)]).toEqual([
      'application/json',
      { error: { message: 'no route matches this request', type: 'not_found' } },
    ]);
  });
});

describe('load_balancer', () => {
  it('shares top-level clusters and those of other chains', async () => {
    const [a, b] = [await upstream('a'), await upstream('b')];
    const service = await run(`
listeners:
  - { name: one, address: '127.0.0.1:0', filter_chains: [one] }
  - { name: two, address: '127.0.0.1:0', filter_chains: [two] }
filter_chains:
  - name: one
    filters:
      - { filter: router, routes: [{ path_prefix: /top, cluster: top }, { path_prefix: /own, cluster: own }] }
      - { filter: load_balancer, clusters: [{ name: own, endpoints: ['${b}'] }] }
  - name: two
    filters:
      - { filter: router, routes: [{ path_prefix: /top, cluster: top }, { path_prefix: /own, cluster: own }] }
      - { filter: load_balancer }
clusters: [{ name: top, endpoints: ['${a}', '${b}'] }]
`);
    const to = async (listener: string, path: string) =>
      (await send(at(service, listener, path), 'GET')).headers['x-upstream'];
    expect([await to('one', '/own'), await to('two', '/own')]).toEqual(['b', 'b']);
    expect([
      await to('one', '/top'),
      await to('two', '/top'),
      await to('one', '/top'),
      await to('two', '/top'),
    ]).toEqual(['a', 'b', 'a', 'b']);
  });

  it('distributes requests smoothly by weight', async () => {
    const [a, b, c] = [await upstream('a'), await upstream('b'), await upstream('c')];
    const service = await runFilters(`
- { filter: router, routes: [{ path_prefix: /, cluster: k }] }
- filter: load_balancer
  clusters: [{ name: k, endpoints: [{ address: '${a}', weight: 3 }, '${b}', { address: '${c}', weight: 2 }] }]`);
    const turns: unknown[] = [];
    for (let turn = 0; turn < 12; turn++) turns.push((await send(at(service, 'l', '/'), 'GET')).headers['x-upstream']);
    const count = (name: string, among: readonly unknown[]) => among.filter((turn) => turn === name).length;
    for (const round of [turns.slice(0, 6), turns.slice(6)]) {
      expect(['a', 'b', 'c'].map((name) => count(name, round))).toEqual([3, 1, 2]);
    }
    expect(turns.join('')).not.toContain('aaa');
  });

  it('passes on requests without a cluster', async () => {
    const service = await runFilters(`
- { filter: router, routes: [{ path_prefix: /, cluster: k }], conditions: [{ when: { path: /in } }] }
- { filter: load_balancer, clusters: [{ name: k, endpoints: ['${await upstream('k')}'] }] }
- { filter: static_response, status: 418 }`);
    expect((await send(at(service, 'l', '/in'), 'GET')).status).toBe(200);
    expect((await send(at(service, 'l', '/out'), 'GET')).status).toBe(418);
  });

  it('applies connection_timeout_ms', async () => {
    // Accepts connections without a TLS handshake.
    const silent = createServer((socket) => atEnd(() => socket.destroy()));
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    atEnd(() => silent.close());
    const bound = silent.address();
    const port = typeof bound === 'object' ? bound?.port : 0;
    const service = await runFilters(`
- { filter: router, routes: [{ path_prefix: /, cluster: k }] }
- filter: load_balancer
  clusters: [{ name: k, endpoints: ['127.0.0.1:${port}'], tls: {}, connection_timeout_ms: 300 }]`);
    const began = performance.now();
    const { status } = await send(at(service, 'l', '/'), 'GET');
    const took = performance.now() - began;
    expect(status).toBe(502);
    expect(took).toBeGreaterThan(250);
    // Far from the 10 s of the default.
    expect(took).toBeLessThan(5_000);
  });
});

it.each(['', "- { filter: cors, allow_origins: ['*'] }"])(
  'OPTIONS * is passed on as it is, to the route of all paths: %s',
  async (cors) => {
    const service = await runFilters(`
${cors}
- { filter: router, routes: [{ path_prefix: /, cluster: up }] }
- { filter: load_balancer, clusters: [{ name: up, endpoints: ['${await upstream('up')}'] }] }`);
    const { hostname, port } = new URL(at(service, 'l', '/'));
    const socket = connect(Number(port), hostname);
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk;
    });
    socket.write('OPTIONS * HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n\r\n');
    await expect.poll(() => received).toContain('"method":"OPTIONS","url":"*"');
    socket.destroy();
  },
);
