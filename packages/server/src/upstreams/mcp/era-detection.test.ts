import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type DualEra, startDualEra } from '../../../../../test/fixtures/dual-era.ts';
import { type Everything, startEverything } from '../../../../../test/fixtures/everything.ts';
import { type RawUpstreamOptions, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { createTransport } from '../../http/client/pool.ts';
import { EraCache } from './era-detection.ts';
import type { RpcClientOptions } from './rpc-client.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

function optionsFor(url: string): RpcClientOptions {
  const transport = createTransport(url);
  closers.push(() => transport.destroy());
  return { transport, clientInfo: { name: 'sluice', version: '1.2.3' }, capabilities: {}, timeoutMs: 5_000 };
}

const probe = (options: RpcClientOptions, legacy = true, more: { readonly graceMs?: number } = {}) =>
  new EraCache(options, { hasLegacyClients: () => legacy, ...more }).probe();

async function raw(options: RawUpstreamOptions) {
  const upstream = await startRawUpstream(options);
  closers.push(() => upstream.close());
  return upstream;
}

const error = (status: number, code: number, data = '{}') =>
  ({ kind: 'error', status, text: `{"code":${code},"message":"as scripted","data":${data}}` }) as const;

describe('the probe of a real server', () => {
  let everything: Everything;
  let dual: DualEra;
  beforeAll(async () => {
    [everything, dual] = await Promise.all([startEverything(), startDualEra()]);
  });
  afterAll(() => Promise.all([everything.close(), dual.close()]));

  it('finds the legacy era alone', async () => {
    const { legacy, modern, inconclusive } = await probe(optionsFor(everything.url));
    expect(legacy?.protocolVersion).toBe('2025-11-25');
    expect(JSON.parse(legacy?.identity ?? '')).toHaveProperty('serverInfo');
    expect(inconclusive).toEqual([]);
    expect(modern).toBeUndefined();
    await legacy?.close();
  });

  it('finds both eras, with a session that can be used and closed', async () => {
    const { legacy, modern } = await probe(optionsFor(dual.url));
    expect(legacy?.protocolVersion).toBe('2025-11-25');
    expect(JSON.parse(modern?.identity ?? '')).toHaveProperty('capabilities');
    expect(modern?.protocolVersion).toBe('2026-07-28');
    expect(dual.sessions()).toBe(1);
    expect(await legacy?.request('ping')).toMatchObject({ kind: 'result' });
    await legacy?.close();
    expect(dual.sessions()).toBe(0);
  });
});

describe('the probe of an upstream', () => {
  it('finds the modern era alone', async () => {
    const upstream = await raw({ eras: ['modern'] });
    const { legacy, modern, inconclusive } = await probe(optionsFor(upstream.url));
    expect(modern?.protocolVersion).toBe('2026-07-28');
    expect(inconclusive).toEqual([]);
    expect(legacy).toBeUndefined();
    for (const { headers } of upstream.seen) expect(headers['x-service-hops']).toBe('1');
  });

  it.each([-32020, -32021])('takes %i as proof of a modern server that rejects requests', async (code) => {
    const upstream = await raw({ eras: ['modern'], scripts: { 'server/discover': error(400, code) } });
    await expect(probe(optionsFor(upstream.url))).rejects.toMatchObject({
      kind: 'invalid',
      message: expect.stringContaining(
        `supports the modern era of MCP but rejects requests: it answered server/discover`,
      ),
    });
  });

  it('takes -32022 as proof, and names the versions if none of them is known', async () => {
    const unsupported = error(400, -32022, '{"supported":["2099-01-01","2098-01-01"]}');
    const upstream = await raw({ eras: ['modern'], scripts: { 'server/discover': unsupported } });
    await expect(probe(optionsFor(upstream.url))).rejects.toMatchObject({
      kind: 'invalid',
      message: expect.stringContaining('supports only unknown versions of MCP: 2099-01-01, 2098-01-01'),
    });
  });

  it.each([
    [200, -32601],
    [404, -32601],
    [400, -32602],
    [400, -32000],
  ])('never takes HTTP %i with %i as proof of the modern era', async (status, code) => {
    const upstream = await raw({ scripts: { 'server/discover': error(status, code) } });
    const { legacy, modern, inconclusive } = await probe(optionsFor(upstream.url));
    expect(legacy).toBeDefined();
    expect(modern).toBeUndefined();
    expect(inconclusive).toEqual([]);
  });

  it.each([401, 403, 429, 500, 503])('treats HTTP %i as inconclusive', async (status) => {
    const upstream = await raw({ scripts: { 'server/discover': error(status, -32022) } });
    const { legacy, modern, inconclusive } = await probe(optionsFor(upstream.url));
    expect(legacy).toBeDefined();
    expect(modern).toBeUndefined();
    expect(inconclusive).toMatchObject([{ era: 'modern', error: { kind: 'http', status } }]);
  });

  it.each([
    [{ kind: 'http', status: 401, type: 'text/plain', body: '' } as const, { kind: 'http', status: 401 }],
    [{ kind: 'http', status: 502, type: 'text/html', body: '<html>' } as const, { kind: 'http', status: 502 }],
    [{ kind: 'cut' } as const, { kind: 'dropped' }],
    [
      { kind: 'http', status: 200, type: 'text/html', body: '<html>' } as const,
      { kind: 'invalid', message: expect.stringContaining('is not an MCP server') },
    ],
    [
      { kind: 'http', status: 404, type: 'text/plain', body: '' } as const,
      {
        kind: 'invalid',
        message: expect.stringMatching(
          /is not an MCP server: it answered initialize with HTTP 404, text\/plain; check the URL path/,
        ),
      },
    ],
  ])('is inconclusive when every response is %j', async (fault, expected) => {
    const upstream = await raw({});
    upstream.fault = fault;
    await expect(probe(optionsFor(upstream.url))).rejects.toMatchObject(expected);
  });

  it('fails if the connection is refused', async () => {
    await expect(probe(optionsFor('http://127.0.0.1:9/mcp'))).rejects.toMatchObject({ kind: 'refused' });
  });

  it('waits only briefly for one era once the other has answered', async () => {
    const upstream = await raw({ scripts: { 'server/discover': { kind: 'silence' } } });
    const { legacy, inconclusive } = await probe(optionsFor(upstream.url), true, { graceMs: 50 });
    expect(inconclusive).toMatchObject([{ era: 'modern', error: { kind: 'timeout' } }]);
    expect(await legacy?.request('ping')).toMatchObject({ kind: 'result' });
  });

  it('rejects an unknown protocol version', async () => {
    const initialize = '{"protocolVersion":"2042-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}';
    const upstream = await raw({ eras: ['legacy'], scripts: { initialize } });
    await expect(probe(optionsFor(upstream.url))).rejects.toMatchObject({
      kind: 'invalid',
      message: expect.stringContaining('protocol version 2042-01-01'),
    });
  });
});

describe('without legacy clients', () => {
  it('a modern upstream is not probed for the legacy era', async () => {
    const upstream = await raw({});
    const { legacy, modern, legacyProbed: askedLegacy } = await probe(optionsFor(upstream.url), false);
    expect([legacy, modern?.era, askedLegacy]).toEqual([undefined, 'modern', false]);
    expect(upstream.count('initialize')).toBe(0);
  });

  it('an upstream that is not known to be modern is probed for the modern era', async () => {
    const upstream = await raw({ eras: ['legacy'] });
    const { legacy, legacyProbed: askedLegacy } = await probe(optionsFor(upstream.url), false);
    expect([legacy?.era, askedLegacy]).toEqual(['legacy', true]);
  });
});

describe('a server that answers server/discover with versions of which none is modern', () => {
  it.each([[['2025-06-18', '2025-03-26', '2024-11-05']], [['2099-01-01']], [[]]])(
    'is a legacy one: %j',
    async (versions) => {
      const discovered = JSON.stringify({ supportedVersions: versions, capabilities: {}, resultType: 'complete' });
      const upstream = await raw({ scripts: { 'server/discover': discovered } });
      for (const hasLegacyClients of [true, false]) {
        const { legacy, modern, inconclusive } = await probe(optionsFor(upstream.url), hasLegacyClients);
        expect([legacy?.era, modern, inconclusive]).toEqual(['legacy', undefined, []]);
      }
      upstream.scripts.initialize = error(400, -32601);
      await expect(probe(optionsFor(upstream.url))).rejects.toMatchObject({
        kind: 'invalid',
        message: expect.stringContaining('unsupported protocol versions only'),
      });
    },
  );

  it('is a modern one if a known modern version is among them', async () => {
    const discovered = '{"supportedVersions":["2025-11-25","2026-07-28"],"capabilities":{},"resultType":"complete"}';
    const upstream = await raw({ scripts: { 'server/discover': discovered } });
    expect((await probe(optionsFor(upstream.url))).modern?.protocolVersion).toBe('2026-07-28');
  });
});
