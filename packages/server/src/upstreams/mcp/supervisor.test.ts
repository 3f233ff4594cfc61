import { FULL_CAPABILITIES, NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { startDualEra } from '../../../../../test/fixtures/dual-era.ts';
import type { Era } from '../../../../../test/fixtures/raw-upstream/message.ts';
import { toolList, toolText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import {
  type RawUpstream,
  type RawUpstreamOptions,
  startRawUpstream,
} from '../../../../../test/fixtures/raw-upstream.ts';
import { DEFAULT_LOG_FILTER } from '../../app/config/environment.ts';
import { UpstreamError } from '../../http/client/errors.ts';
import { DEFAULT_NAMESPACE } from '../../registry/entries.ts';
import { addForward } from '../../registry/operations-topology.ts';
import { Registry } from '../../registry/registry.ts';
import { memoryStore } from '../../registry/store/store.ts';
import { createLogger } from '../../telemetry/log.ts';
import { ForwardController, type SupervisorOptions } from './forward-controller.ts';

const WAIT = { timeout: 10_000, interval: 5 };
const closers: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const close of closers.splice(0).reverse()) await close();
});

/** A supervisor of an upstream that offers `plain` in both eras, `old` in the legacy and `new` in the modern one. */
async function supervise(more: Partial<SupervisorOptions> = {}, options: RawUpstreamOptions = {}) {
  const upstream = await startRawUpstream({
    scripts: {
      'tools/list': ({ era }) => toolList(toolText(era === 'legacy' ? 'old' : 'new'), toolText('plain')),
    },
    ...options,
  });
  closers.push(() => upstream.close());
  return { upstream, ...(await superviseAt(upstream.url, more)) };
}

async function superviseAt(address: string, more: Partial<SupervisorOptions> = {}) {
  const registry = new Registry(memoryStore());
  await registry.load();
  const input = { name: 'up', address, namespace: DEFAULT_NAMESPACE, labels: {}, prefix: '' };
  const forward = await registry.commit((draft) => addForward(draft, input));
  const supervisor = new ForwardController(forward, {
    registry,
    log: createLogger(DEFAULT_LOG_FILTER, () => undefined).target('service::forward'),
    clientInfo: { name: 'sluice', version: '1' },
    variants: () => [NO_CAPABILITIES, FULL_CAPABILITIES],
    legacyWanted: () => true,
    healthCheckIntervalMs: 0,
    watch: { readyMs: 10_000 },
    ...more,
  });
  closers.push(
    () => registry.close(),
    () => supervisor.end(),
  );
  return { supervisor, offered: () => offeredBy(registry), shows: (tool: string) => shows(registry, tool) };
}

/** Names of the tools known from the forward, with the eras that offer them, and the eras of its catalogues. */
function offeredBy(registry: Registry) {
  const { catalogues } = registry.current.forwards.get('up') ?? { catalogues: [] };
  const shelf = registry.current.namespace(DEFAULT_NAMESPACE)?.shelves.tool;
  const tools: Record<string, string> = {};
  for (const { key, discovered } of shelf?.all() ?? []) {
    const keys = discovered?.offers.flatMap((offer) => offer.catalogues ?? ['both']) ?? [];
    tools[key] = [...new Set(keys.map((name) => name.split(':')[0]))].join();
  }
  return { tools, eras: catalogues.map(({ key }) => key).sort() };
}

/** Resolves when readers of the registry see a tool; with the milliseconds that it took. */
async function shows(registry: Registry, tool: string): Promise<number> {
  const since = performance.now();
  await expect.poll(() => registry.current.namespace(DEFAULT_NAMESPACE)?.shelves.tool.get(tool), WAIT).toBeDefined();
  return performance.now() - since;
}

const ALL = {
  tools: { old: 'legacy', new: 'modern', plain: 'both' },
  eras: [...['legacy', 'modern'].flatMap((era) => [`${era}:{}`, `${era}:${JSON.stringify(FULL_CAPABILITIES)}`])].sort(),
};

function refuseModern(upstream: RawUpstream, status: number, error: string): void {
  upstream.scripts['server/discover'] = { kind: 'error', status, text: error };
}

describe('a supervisor', () => {
  it('knows nothing of its upstream before the first run', async () => {
    const { supervisor } = await supervise();
    expect(supervisor.health).toEqual({ kind: 'pending' });
    await supervisor.discover();
    expect(supervisor.health).toEqual({ kind: 'up', message: undefined });
  });

  it('keeps the last good catalogue of an upstream that speaks only unknown versions from now on', async () => {
    const { upstream, supervisor, offered } = await supervise();
    await supervisor.discover();
    expect(offered()).toEqual(ALL);
    refuseModern(upstream, 400, '{"code":-32022,"message":"no","data":{"supported":["2099-01-01"]}}');
    upstream.scripts.initialize = { kind: 'error', status: 400, text: '{"code":-32022,"message":"no"}' };
    await expect(supervisor.discover()).rejects.toMatchObject({ kind: 'invalid' });
    expect(offered()).toEqual(ALL);
    expect(supervisor.health).toEqual({
      kind: 'down',
      message: expect.stringContaining('speaks only versions of MCP that are not known here: 2099-01-01; retrying in'),
    });
  });

  it('keeps what an era offered that cannot be decided, says so, and asks for it again soon', async () => {
    const { upstream, supervisor, offered } = await supervise({ undecidedMs: 50 });
    await supervisor.discover();
    const asked = upstream.count('server/discover');
    refuseModern(upstream, 503, '{"code":-32000,"message":"restarting"}');
    upstream.scripts['tools/list'] = toolList(toolText('old'), toolText('plain'), toolText('added'));
    await supervisor.discover();
    expect(offered()).toEqual({ ...ALL, tools: { ...ALL.tools, added: 'legacy' } });
    expect([...(supervisor.upstream.eras ?? [])].sort()).toEqual(['legacy', 'modern']);
    expect(supervisor.health).toEqual({
      kind: 'up',
      message: expect.stringMatching(/^what it offered in the modern era is kept, .* HTTP 503: restarting$/),
    });
    await vi.waitFor(() => expect(upstream.count('server/discover')).toBeGreaterThan(asked + 1), { timeout: 5_000 });
    delete upstream.scripts['server/discover'];
    await vi.waitFor(() => expect(supervisor.health).toEqual({ kind: 'up', message: undefined }), { timeout: 5_000 });
    expect(offered().tools).toEqual({ old: 'both', plain: 'both', added: 'both' });
  });

  it('checks an upstream in an era that it answered in', async () => {
    const { upstream, supervisor } = await supervise({ healthCheckIntervalMs: 20 });
    await supervisor.discover();
    refuseModern(upstream, 503, '{"code":-32000,"message":"restarting"}');
    await supervisor.discover();
    await vi.waitFor(() => expect(upstream.count('ping')).toBeGreaterThan(1), { timeout: 5_000 });
    expect(supervisor.health.kind).toBe('up');
  });

  it('drops what an era offered that is ruled out', async () => {
    const { upstream, supervisor, offered } = await supervise();
    await supervisor.discover();
    refuseModern(upstream, 404, '{"code":-32601,"message":"Method not found"}');
    await supervisor.discover();
    expect(offered().tools).toEqual({ old: 'both', plain: 'both' });
    expect(supervisor.health).toEqual({ kind: 'up', message: undefined });
  });

  it('does not wait for an upstream that is down when there is a further set of capabilities', async () => {
    const { upstream, supervisor } = await supervise();
    upstream.fault = { kind: 'http', status: 503, type: 'text/plain', body: '' };
    await expect(supervisor.discover()).rejects.toMatchObject({ status: 503 });
    upstream.fault = { kind: 'silence' };
    void supervisor.discover().catch(() => undefined);
    await expect(supervisor.variantAdded()).resolves.toBeUndefined();
    expect(supervisor.health.kind).toBe('down');
  });
});

const NOTICE = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
const eras: readonly Era[] = ['legacy', 'modern'];

/** What a test waits for is all that takes time, however slow the machine is. */
function timePassesWhileLooking(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
}

describe('a supervisor of an upstream that announces changes', () => {
  it.each(eras)('sees a change in less than a second (%s)', async (era) => {
    const { upstream, supervisor, shows } = await supervise({}, { eras: [era] });
    await supervisor.discover();
    const asked = upstream.count('server/discover') + upstream.count('initialize');
    upstream.scripts['tools/list'] = toolList(toolText('added'));
    timePassesWhileLooking();
    upstream.push(NOTICE);
    expect(await shows('added')).toBeLessThan(1_000);
    expect(supervisor.health).toEqual({ kind: 'up', message: undefined });
    // The other era was ruled out: one request per set of client capabilities is all it takes.
    expect(upstream.count('server/discover') + upstream.count('initialize')).toBe(asked + 2);
  });

  it('asks an upstream that has refused to be watched again when it is refreshed, and not before', async () => {
    const refusal = { kind: 'http', status: 405, type: 'text/plain', body: '' } as const;
    const { upstream, supervisor, shows } = await supervise(
      { rediscovery: { delayMs: 0 } },
      { eras: ['legacy'], scripts: { GET: refusal } },
    );
    const gets = () => upstream.seen.filter(({ http }) => http === 'GET').length;
    await supervisor.discover();
    expect(gets()).toBe(1);
    await supervisor.discover();
    expect(gets()).toBe(2);
    delete upstream.scripts.GET;
    await supervisor.discover();
    await supervisor.discover();
    expect(gets()).toBe(3);
    upstream.scripts['tools/list'] = toolList(toolText('added'));
    upstream.push(NOTICE);
    await shows('added');
  });

  it('sees a change of a complete server of both eras in less than a second', async () => {
    const dual = await startDualEra();
    closers.push(() => dual.close());
    const { supervisor, shows } = await superviseAt(dual.url);
    await supervisor.discover();
    timePassesWhileLooking();
    for (const name of ['one', 'two', 'three']) {
      dual.addTool(name);
      expect(await shows(name)).toBeLessThan(1_000);
    }
  });

  it('reads it about twice a second while it floods us with notices', async () => {
    const { upstream, supervisor } = await supervise({}, { eras: ['modern'] });
    await supervisor.discover();
    const perRun = upstream.count('tools/list');
    const since = performance.now();
    const runs = () => upstream.count('tools/list') / perRun - 1;
    await expect
      .poll(() => {
        upstream.push(NOTICE);
        return performance.now() - since > 1_000 && runs() >= 3;
      }, WAIT)
      .toBe(true);
    // The first three may come at once.
    expect(runs()).toBeLessThanOrEqual((performance.now() - since) / 500 + 3);
  });

  it('reads it once more after a run during which it was told of changes', async () => {
    const { upstream, supervisor, shows } = await supervise(
      { variants: () => [NO_CAPABILITIES], rediscovery: { intervalMs: 0 } },
      { eras: ['legacy'] },
    );
    await supervisor.discover();
    const held = Promise.withResolvers<void>();
    upstream.scripts['tools/list'] = async () => {
      await held.promise;
      return toolList(toolText('before'));
    };
    const run = supervisor.discover();
    await expect.poll(() => upstream.count('tools/list'), WAIT).toBe(2);
    for (let count = 0; count < 5; count++) upstream.push(NOTICE);
    // Once this is answered, they have been heard.
    upstream.push('{"jsonrpc":"2.0","id":"heard","method":"ping"}');
    await expect.poll(() => upstream.seen.some(({ id, method }) => id === '"heard"' && !method), WAIT).toBe(true);
    upstream.scripts['tools/list'] = toolList(toolText('after'));
    held.resolve();
    await run;
    await shows('after');
    await supervisor.discover(true);
    expect(upstream.count('tools/list')).toBe(4);
  });

  it('counts a run after a notice like any other when it fails, and watches again once it is well', async () => {
    const { upstream, supervisor, shows } = await supervise();
    await supervisor.discover();
    upstream.fault = { kind: 'http', status: 503, type: 'text/plain', body: '' };
    upstream.push(NOTICE);
    await expect
      .poll(() => supervisor.health, WAIT)
      .toMatchObject({ kind: 'down', message: expect.stringMatching(/retrying in/) });
    await expect.poll(() => upstream.streams(), WAIT).toBe(0);
    upstream.fault = undefined;
    await expect.poll(() => supervisor.health.kind, WAIT).toBe('up');
    upstream.scripts['tools/list'] = toolList(toolText('added'));
    upstream.push(NOTICE);
    await shows('added');
  });

  it.each(eras)('watches it again after it was away (%s)', async (era) => {
    const { upstream, supervisor, shows } = await supervise({}, { eras: [era] });
    await supervisor.discover();
    await upstream.down();
    await expect(supervisor.discover()).rejects.toBeInstanceOf(UpstreamError);
    await upstream.up();
    await expect.poll(() => supervisor.health.kind, WAIT).toBe('up');
    expect(upstream.streams()).toBe(1);
    upstream.scripts['tools/list'] = toolList(toolText('added'));
    upstream.push(NOTICE);
    await shows('added');
  });

  it('watches it again when a call failed while it was being read', async () => {
    const { upstream, supervisor } = await supervise({}, { eras: ['modern'] });
    await supervisor.discover();
    const held = Promise.withResolvers<string>();
    upstream.scripts['tools/list'] = () => held.promise;
    const asked = upstream.count('tools/list');
    const run = supervisor.discover();
    await expect.poll(() => upstream.count('tools/list'), WAIT).toBeGreaterThan(asked);
    supervisor.failed(new UpstreamError('dropped', upstream.url, 'dropped it'));
    held.resolve(toolList(toolText('plain')));
    await run;
    await expect.poll(() => upstream.streams(), WAIT).toBe(1);
    expect(supervisor.health.kind).toBe('up');
  });

  it.each(eras)('leaves nothing behind when it ends (%s)', async (era) => {
    vi.useFakeTimers({
      toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'],
      shouldAdvanceTime: true,
    });
    try {
      const { upstream, supervisor } = await supervise({ healthCheckIntervalMs: 60_000 }, { eras: [era] });
      await supervisor.discover();
      await expect.poll(upstream.sessions, WAIT).toBe(era === 'legacy' ? 1 : 0);
      expect(upstream.streams()).toBe(1);
      upstream.push(NOTICE);
      supervisor.changed();
      await supervisor.end();
      await expect.poll(() => [upstream.streams(), upstream.sessions()], WAIT).toEqual([0, 0]);
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });
});
