import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { post, type RawClient, reply } from '../../../../test/fixtures/raw-client.ts';
import { textResultText, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { client, eras } from '../../testing/relay.ts';
import { startTestService, type TestService } from '../../testing/service.ts';
import { exchangeParts } from '../http/exchange.fixture.ts';
import { authenticated } from '../identity/authenticator.ts';
import { createUser } from '../identity/principal.ts';
import { commit } from '../registry/fixtures/commit.ts';
import { createNamespace } from '../registry/operations-topology.ts';
import { Registry } from '../registry/registry.ts';
import { memoryLog } from '../registry/store/record-log.ts';
import { FirstDiscoveries } from '../upstreams/first-discoveries.ts';
import { InFlightCalls } from '../upstreams/in-flight-calls.ts';
import { DiscoveryWaits } from './discovery-waits.ts';
import { McpExchange } from './exchange.ts';

const WAIT = { timeout: 20_000, interval: 5 };
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const CAPABILITIES = '{"tools":{},"resources":{},"prompts":{},"completions":{}}';
const END = '"resultType":"complete","ttlMs":60000,"cacheScope":"public"}';
const COMPLETION = '{"completion":{"values":["blue"]},"resultType":"complete"}';

/** An upstream with one entry of each kind, whose names begin with `name`, that opens when the gate does. */
async function startGated(name: string, isOpen = false) {
  const gate = Promise.withResolvers<void>();
  if (isOpen) gate.resolve();
  const upstream = await startRawUpstream({
    scripts: {
      initialize: async ({ params }) => {
        await gate.promise;
        return `{"protocolVersion":"${params.protocolVersion}","capabilities":${CAPABILITIES},"serverInfo":{"name":"g","version":"1"}}`;
      },
      'server/discover': async () => {
        await gate.promise;
        return `{"supportedVersions":["2026-07-28"],"capabilities":${CAPABILITIES},${END}`;
      },
      'tools/list': `{"tools":[${toolText(`${name}-tool`)}],${END}`,
      'resources/list': `{"resources":[{"uri":"file:///${name}","name":"${name}"}],${END}`,
      'prompts/list': `{"prompts":[{"name":"${name}-prompt"}],${END}`,
      'tools/call': textResultText(`called ${name}`),
      'resources/read': `{"contents":[{"uri":"file:///${name}","text":"read ${name}"}],${END}`,
      'prompts/get': `{"messages":[{"role":"user","content":{"type":"text","text":"got ${name}"}}],"resultType":"complete"}`,
      'completion/complete': COMPLETION,
    },
  });
  closers.push(
    () => upstream.close(),
    () => gate.resolve(),
  );
  return { upstream, open: () => gate.resolve() };
}

async function startService(env: Readonly<Record<string, string>> = {}) {
  const service = await startTestService({ SERVICE_DISCOVERY_WAIT_MS: '60000', ...env });
  closers.push(() => service.stop(0));
  return service;
}

/** Registers an upstream, and waits until its discovery has begun; not until that has ended. */
async function register(service: TestService, name: string, upstream: RawUpstream) {
  const registered = service.register('forwards', { name, address: upstream.url });
  // The test may end before.
  registered.catch(() => undefined);
  await expect.poll(() => upstream.seen.length, WAIT).toBeGreaterThan(0);
  return { registered };
}

/** Resolves after requests that were sent before have been handled, as far as that needs no waiting. */
async function handled(service: TestService): Promise<void> {
  for (let round = 0; round < 3; round++) await post(service.url('none'), '{"jsonrpc":"2.0","id":1,"method":"ping"}');
}

const requests: readonly [method: string, params: string, expected: string][] = [
  ['tools/list', '{}', 'slow-tool'],
  ['resources/list', '{}', 'file:///slow'],
  ['prompts/list', '{}', 'slow-prompt'],
  ['tools/call', '{"name":"slow-tool"}', 'called slow'],
  ['resources/read', '{"uri":"file:///slow"}', 'read slow'],
  ['prompts/get', '{"name":"slow-prompt"}', 'got slow'],
  [
    'completion/complete',
    '{"ref":{"type":"ref/prompt","name":"slow-prompt"},"argument":{"name":"color","value":"b"}}',
    'blue',
  ],
];

describe('during the first discovery of a forward', () => {
  it.each(eras)('requests wait for it (%s)', async (era) => {
    const service = await startService();
    const { upstream, open } = await startGated('slow');
    // It may have a session before.
    const own: RawClient = await client(era, service.url());
    const { registered } = await register(service, 'slow', upstream);
    const pending = requests.map(async ([method, params]) => reply(await own.call(method, params)));
    const opening = era === 'legacy' ? 'initialize' : 'server/discover';
    const begin = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`;
    const hello =
      era === 'legacy'
        ? post(service.url(), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":${begin}}`)
        : own.call('server/discover');
    await handled(service);
    open();
    await registered;
    const answers = await Promise.all(pending);
    for (const [at, [, , expected]] of requests.entries()) expect(answers[at]).toContain(expected);
    expect(reply(await hello), opening).toContain('"completions":{}');
    if (era === 'modern') expect(answers[0]).toContain('"ttlMs":60000');
  });

  it('a client that asks right after the start waits too, also if the forward was down before', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'waits-'));
    closers.push(() => rm(folder, { recursive: true }));
    const env = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: folder };
    const { upstream, open } = await startGated('slow');
    const first = await startService(env);
    await upstream.down();
    await first.register('forwards', { name: 'slow', address: upstream.url });
    await first.stop(0);
    await upstream.up();
    const second = await startService(env);
    const list = (await client('modern', second.url())).call('tools/list');
    await handled(second);
    open();
    expect(reply(await list)).toContain('slow-tool');
  });

  it('nothing of other forwards and namespaces is delayed', async () => {
    const service = await startService();
    const known = await startGated('known', true);
    const { upstream, open } = await startGated('slow');
    await service.register('forwards', { name: 'known', address: known.upstream.url });
    await service.register('namespaces', { name: 'other' });
    await register(service, 'slow', upstream);
    for (const era of eras) {
      const other = await client(era, service.url('other'));
      expect(reply(await other.call('tools/list'))).toContain('"tools":[]');
      expect(reply(await other.call('tools/call', '{"name":"none"}'))).toContain('not found');
    }
    const own = await client('modern', service.url());
    for (const [method, params, expected] of requests.slice(3)) {
      const answer = reply(await own.call(method, params.replace('slow', 'known')));
      expect(answer).toContain(expected.replace('slow', 'known'));
    }
    open();
  });

  it('a call continues as soon as its own forward is known', async () => {
    const service = await startService();
    const slow = await startGated('slow');
    const slower = await startGated('slower');
    await register(service, 'slower', slower.upstream);
    await register(service, 'slow', slow.upstream);
    const call = (await client('modern', service.url())).call('tools/call', '{"name":"slow-tool"}');
    await handled(service);
    slow.open();
    expect(reply(await call)).toContain('called slow');
    expect(slow.upstream.count('tools/call')).toBe(1);
  });

  it('a request that was canceled is not executed', async () => {
    const service = await startService();
    const { upstream, open } = await startGated('slow');
    const legacy = await client('legacy', service.url());
    const { registered } = await register(service, 'slow', upstream);
    const canceled = post(
      service.url(),
      '{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"slow-tool"}}',
      legacy.headers,
    );
    await handled(service);
    const params = '{"requestId":77}';
    await post(
      service.url(),
      `{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`,
      legacy.headers,
    );
    expect(reply(await canceled)).not.toContain('called');
    const meta =
      '"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},' +
      '"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}';
    const disconnected = request(service.url(), {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': 'slow-tool',
      },
    });
    const closed = new Promise((resolve) => disconnected.on('error', resolve));
    disconnected.end(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow-tool","_meta":{${meta}}}}`);
    await handled(service);
    disconnected.destroy();
    await closed;
    await handled(service);
    open();
    await registered;
    expect(reply(await legacy.call('tools/call', '{"name":"slow-tool"}'))).toContain('called slow');
    expect(upstream.count('tools/call')).toBe(1);
  });
});

describe('nobody waits', () => {
  const ttl = async (service: TestService) => {
    const answer = reply(await (await client('modern', service.url())).call('tools/list'));
    expect(answer).toContain('known-tool');
    return /"ttlMs":(\d+)/.exec(answer)?.[1];
  };

  it.each([
    ['has failed', { kind: 'http', status: 503, type: 'text/plain', body: '' } as const],
    ['has taken too long', { kind: 'silence' } as const],
  ])('after the first discovery %s, but the incomplete list is not cacheable', async (_how, fault) => {
    const service = await startService({ SERVICE_DISCOVERY_WAIT_MS: '100' });
    const known = await startGated('known', true);
    await service.register('forwards', { name: 'known', address: known.upstream.url });
    expect(await ttl(service)).toBe('60000');
    const { upstream, open } = await startGated('slow');
    upstream.fault = fault;
    const { registered } = await register(service, 'slow', upstream);
    expect(await ttl(service)).toBe('0');
    expect(await ttl(service)).toBe('0');
    upstream.fault = undefined;
    open();
    if (fault.kind === 'http') {
      await expect.poll(() => ttl(service), WAIT).toBe('60000');
      await registered;
    } else await service.manage('DELETE', '/forwards/slow');
    expect(await ttl(service)).toBe('60000');
  });

  it('for a forward whose catalog is stored', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'waits-'));
    closers.push(() => rm(folder, { recursive: true }));
    const env = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: folder };
    const known = await startGated('known', true);
    const first = await startService(env);
    await first.register('forwards', { name: 'known', address: known.upstream.url });
    await first.stop(0);
    known.upstream.fault = { kind: 'silence' };
    expect(await ttl(await startService(env))).toBe('60000');
  });
});

describe('requests that wait', () => {
  async function start(maxWaiting: number, waitMs = 60_000) {
    const registry = new Registry(memoryLog());
    await registry.load();
    for (const name of ['one', 'two']) await commit(registry, (draft) => createNamespace(draft, name, {}));
    const calls = new InFlightCalls({ idleMs: 60_000, totalMs: 60_000 });
    onTestFinished(() => calls.close());
    const firstDiscoveries = new FirstDiscoveries(60_000, (forward) => forward);
    onTestFinished(() => firstDiscoveries.close());
    for (const forward of ['one', 'two']) firstDiscoveries.add(forward, true);
    const forwards = { firstDiscoveries };
    const profileDiscovery = { ensureDiscoveredFor: () => undefined, reread: () => undefined };
    const waits = new DiscoveryWaits({ forwards, profileDiscovery, registry, calls, waitMs, maxWaiting });
    const begin = async (namespace: string, user: string) => {
      const state = registry.current.namespace(namespace);
      if (!state) throw new Error(`no namespace ${namespace}`);
      const target = `/${namespace}/mcp`;
      const exchange = new McpExchange(...exchangeParts({ target }));
      exchange.authenticated = authenticated(createUser(user, 'proxy'));
      const waited = await waits.beforeAnswer(exchange, state);
      return waited && 'namespace' in waited ? waited.namespace?.name : waited;
    };
    return { waits, firstDiscoveries, calls, begin };
  }

  it('are limited, and one user keeps no other from waiting', async () => {
    const { waits, firstDiscoveries, begin } = await start(5);
    const flood = Array.from({ length: 3 }, () => begin('one', 'ann'));
    expect(waits.size).toBe(3);
    // No more for the same user.
    expect(await begin('one', 'ann')).toBe('one');
    const other = begin('two', 'bob');
    expect(waits.size).toBe(4);
    firstDiscoveries.end('one', true);
    expect(await Promise.all(flood)).toEqual(Array(3).fill('one'));
    expect(waits.size).toBe(1);
    firstDiscoveries.end('two', false);
    expect(await other).toBe('two');
    expect([waits.size, firstDiscoveries.pending]).toEqual([0, 0]);
    expect([firstDiscoveries.isIncomplete('one'), firstDiscoveries.isIncomplete('two')]).toEqual([false, true]);
  });

  it('stop after their own time, and when the service stops', async () => {
    const { waits, begin } = await start(4, 20);
    expect(await begin('one', 'ann')).toBe('one');
    const { calls, begin: beginLong } = await start(4);
    const pending = beginLong('one', 'ann');
    calls.endAll();
    expect(await pending).toMatchObject({ ended: { kind: 'error', error: { message: 'service is shutting down' } } });
    expect(waits.size).toBe(0);
  });
});
