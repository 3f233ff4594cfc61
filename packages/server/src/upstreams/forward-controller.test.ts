import { FULL_CAPABILITIES, NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { startDualEra } from '../../../../test/fixtures/dual-era.ts';
import type { Era } from '../../../../test/fixtures/raw-upstream/message.ts';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, type RawUpstreamOptions, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { UpstreamError } from '../http/client/errors.ts';
import { DEFAULT_NAMESPACE } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import { openMcpController } from './fixtures/mcp-controller.ts';

type Options = Parameters<typeof openMcpController>[1];

const WAIT = { timeout: 10_000, interval: 5 };
const closers: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const close of closers.splice(0).reverse()) await close();
});

/** A controller of an upstream that offers `plain` in both eras, `old` in the legacy and `new` in the modern one. */
async function startController(more: Options = {}, options: RawUpstreamOptions = {}) {
  const upstream = await startRawUpstream({
    scripts: {
      'tools/list': ({ era }) => toolList(toolText(era === 'legacy' ? 'old' : 'new'), toolText('plain')),
    },
    ...options,
  });
  closers.push(() => upstream.close());
  return { upstream, ...(await startControllerAt(upstream.url, more)) };
}

async function startControllerAt(address: string, more: Options = {}) {
  const opened = await openMcpController(address, {
    capabilityProfiles: () => [NO_CAPABILITIES, FULL_CAPABILITIES],
    hasLegacyClients: () => true,
    watch: { readyMs: 10_000 },
    ...more,
  });
  closers.push(opened.close);
  const { registry } = opened;
  return { ...opened, offered: () => offeredBy(registry), shows: (tool: string) => shows(registry, tool) };
}

/** Tools of the forward with the eras that offer them, and the keys of its catalogs. */
function offeredBy(registry: Registry) {
  const { catalogs } = registry.current.forwards.get('up') ?? { catalogs: [] };
  const index = registry.current.namespace(DEFAULT_NAMESPACE)?.indexes.tool;
  const tools: Record<string, string> = {};
  for (const { key, discovered } of index?.all() ?? []) {
    const keys = discovered?.variants.flatMap((variant) => variant.catalogs ?? ['both']) ?? [];
    tools[key] = [...new Set(keys.map((name) => name.split(':')[0]))].join();
  }
  return { tools, eras: catalogs.map(({ key }) => key).sort() };
}

/** Waits until the registry has a tool and returns the milliseconds. */
async function shows(registry: Registry, tool: string): Promise<number> {
  const since = performance.now();
  await expect.poll(() => registry.current.namespace(DEFAULT_NAMESPACE)?.indexes.tool.served(tool), WAIT).toBeDefined();
  return performance.now() - since;
}

const ALL = {
  tools: { old: 'legacy', new: 'modern', plain: 'both' },
  eras: [...['legacy', 'modern'].flatMap((era) => [`${era}:{}`, `${era}:${JSON.stringify(FULL_CAPABILITIES)}`])].sort(),
};

function refuseModern(upstream: RawUpstream, status: number, error: string): void {
  upstream.scripts['server/discover'] = { kind: 'error', status, text: error };
}

describe('a controller', () => {
  it('is pending before the first run', async () => {
    const { controller, health } = await startController();
    expect(health()).toEqual({ kind: 'pending' });
    await controller.discover();
    expect(health()).toEqual({ kind: 'up', message: undefined });
  });

  it('keeps the last good catalog of an upstream that now supports only unknown versions', async () => {
    const { upstream, controller, offered, health } = await startController();
    await controller.discover();
    expect(offered()).toEqual(ALL);
    refuseModern(upstream, 400, '{"code":-32022,"message":"no","data":{"supported":["2099-01-01"]}}');
    upstream.scripts.initialize = { kind: 'error', status: 400, text: '{"code":-32022,"message":"no"}' };
    await expect(controller.discover()).rejects.toMatchObject({ kind: 'invalid' });
    expect(offered()).toEqual(ALL);
    expect(health()).toEqual({
      kind: 'down',
      message: expect.stringMatching(
        /supports only unknown versions of MCP: 2099-01-01; update the upstream.*; retrying in/,
      ),
    });
  });

  it('retains the entries of an inconclusive era, reports it and probes again soon', async () => {
    const { upstream, controller, offered, health, connection } = await startController({ inconclusiveRetryMs: 50 });
    await controller.discover();
    const before = upstream.count('server/discover');
    refuseModern(upstream, 503, '{"code":-32000,"message":"restarting"}');
    upstream.scripts['tools/list'] = toolList(toolText('old'), toolText('plain'), toolText('added'));
    await controller.discover();
    expect(offered()).toEqual({ ...ALL, tools: { ...ALL.tools, added: 'legacy' } });
    expect([...(connection.mcpUpstream.eras.known ?? [])].sort()).toEqual(['legacy', 'modern']);
    expect(health()).toEqual({
      kind: 'up',
      message: expect.stringMatching(
        /^entries of the modern era are retained .* HTTP 503, application\/json: "restarting"; a proxy/,
      ),
    });
    await vi.waitFor(() => expect(upstream.count('server/discover')).toBeGreaterThan(before + 1), { timeout: 5_000 });
    delete upstream.scripts['server/discover'];
    await vi.waitFor(() => expect(health()).toEqual({ kind: 'up', message: undefined }), {
      timeout: 5_000,
    });
    expect(offered().tools).toEqual({ old: 'both', plain: 'both', added: 'both' });
  });

  it('checks the health in an era that the upstream has responded in', async () => {
    const { upstream, controller, health } = await startController({ healthCheckIntervalMs: 20 });
    await controller.discover();
    refuseModern(upstream, 503, '{"code":-32000,"message":"restarting"}');
    await controller.discover();
    await vi.waitFor(() => expect(upstream.count('ping')).toBeGreaterThan(1), { timeout: 5_000 });
    expect(health().kind).toBe('up');
  });

  it('drops the entries of an era that is ruled out', async () => {
    const { upstream, controller, offered, health } = await startController();
    await controller.discover();
    refuseModern(upstream, 404, '{"code":-32601,"message":"Method not found"}');
    await controller.discover();
    expect(offered().tools).toEqual({ old: 'both', plain: 'both' });
    expect(health()).toEqual({ kind: 'up', message: undefined });
  });

  it('drops the catalogs of unused profiles when one is added', async () => {
    const profiles = [NO_CAPABILITIES, { roots: {} }];
    const { controller, offered } = await startController({ capabilityProfiles: () => profiles });
    await controller.discover();
    const before = offered().tools;
    profiles[1] = { sampling: {} };
    await controller.onProfileAdded();
    expect(offered().eras).toEqual(['legacy:{"sampling":{}}', 'legacy:{}', 'modern:{"sampling":{}}', 'modern:{}']);
    expect(offered().tools).toEqual(before);
  });

  it('changes no lists when a profile is added for which they are the same', async () => {
    const profiles = [NO_CAPABILITIES];
    const scripts = { 'tools/list': toolList(toolText('plain')) };
    const { controller, registry } = await startController({ capabilityProfiles: () => profiles }, { scripts });
    await controller.discover();
    const changes: unknown[] = [];
    registry.committed.subscribe(({ lists }) => changes.push(...lists));
    profiles.push({ sampling: {} });
    await controller.onProfileAdded();
    expect(registry.current.forwards.get('up')?.catalogs).toHaveLength(4);
    expect(changes).toEqual([]);
  });

  it('does not wait for an upstream that is down when a profile is added', async () => {
    const { upstream, controller, health } = await startController();
    upstream.fault = { kind: 'http', status: 503, type: 'text/plain', body: '' };
    await expect(controller.discover()).rejects.toMatchObject({ status: 503 });
    upstream.fault = { kind: 'silence' };
    void controller.discover().catch(() => undefined);
    await expect(controller.onProfileAdded()).resolves.toBeUndefined();
    expect(health().kind).toBe('down');
  });
});

const NOTICE = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
const eras: readonly Era[] = ['legacy', 'modern'];

/** Generous timeouts for slow machines. */
function timePassesWhileLooking(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
}

describe('a controller of an upstream that announces changes', () => {
  it.each(eras)('discovers a change in less than a second (%s)', async (era) => {
    const { upstream, controller, shows, health } = await startController({}, { eras: [era] });
    await controller.discover();
    const before = upstream.count('server/discover') + upstream.count('initialize');
    upstream.scripts['tools/list'] = toolList(toolText('added'));
    timePassesWhileLooking();
    upstream.push(NOTICE);
    expect(await shows('added')).toBeLessThan(1_000);
    expect(health()).toEqual({ kind: 'up', message: undefined });
    // The other era is ruled out: one request per set of client capabilities suffices.
    expect(upstream.count('server/discover') + upstream.count('initialize')).toBe(before + 2);
  });

  it('retries a rejected watch only on refresh', async () => {
    const rejection = { kind: 'http', status: 405, type: 'text/plain', body: '' } as const;
    const { upstream, controller, shows } = await startController(
      { debounce: { delayMs: 0 } },
      { eras: ['legacy'], scripts: { GET: rejection } },
    );
    const gets = () => upstream.seen.filter(({ http }) => http === 'GET').length;
    await controller.discover();
    expect(gets()).toBe(1);
    await controller.discover();
    expect(gets()).toBe(2);
    delete upstream.scripts.GET;
    await controller.discover();
    await controller.discover();
    expect(gets()).toBe(3);
    upstream.scripts['tools/list'] = toolList(toolText('added'));
    upstream.push(NOTICE);
    await shows('added');
  });

  it('discovers a change of a dual-era server in less than a second', async () => {
    const dual = await startDualEra();
    closers.push(() => dual.close());
    const { controller, shows } = await startControllerAt(dual.url);
    await controller.discover();
    timePassesWhileLooking();
    for (const name of ['one', 'two', 'three']) {
      dual.addTool(name);
      expect(await shows(name)).toBeLessThan(1_000);
    }
  });

  it('discovers about twice per second under continuous notifications', async () => {
    const { upstream, controller } = await startController({}, { eras: ['modern'] });
    await controller.discover();
    const perRun = upstream.count('tools/list');
    const since = performance.now();
    const runs = () => upstream.count('tools/list') / perRun - 1;
    await expect
      .poll(() => {
        upstream.push(NOTICE);
        return performance.now() - since > 1_000 && runs() >= 3;
      }, WAIT)
      .toBe(true);
    // The first three may start at once.
    expect(runs()).toBeLessThanOrEqual((performance.now() - since) / 500 + 3);
  });

  it('discovers once more after a run with notifications', async () => {
    const { upstream, controller, shows } = await startController(
      { capabilityProfiles: () => [NO_CAPABILITIES], debounce: { intervalMs: 0 } },
      { eras: ['legacy'] },
    );
    await controller.discover();
    const pending = Promise.withResolvers<void>();
    upstream.scripts['tools/list'] = async () => {
      await pending.promise;
      return toolList(toolText('before'));
    };
    const run = controller.discover();
    await expect.poll(() => upstream.count('tools/list'), WAIT).toBe(2);
    for (let count = 0; count < 5; count++) upstream.push(NOTICE);
    // Its response shows that they have arrived.
    upstream.push('{"jsonrpc":"2.0","id":"heard","method":"ping"}');
    await expect.poll(() => upstream.seen.some(({ id, method }) => id === '"heard"' && !method), WAIT).toBe(true);
    upstream.scripts['tools/list'] = toolList(toolText('after'));
    pending.resolve();
    await run;
    await shows('after');
    await controller.discover(true);
    expect(upstream.count('tools/list')).toBe(4);
  });

  it('marks the forward down if a triggered run fails, and watches again once it is up', async () => {
    const { upstream, controller, shows, health } = await startController();
    await controller.discover();
    upstream.fault = { kind: 'http', status: 503, type: 'text/plain', body: '' };
    upstream.push(NOTICE);
    await expect.poll(health, WAIT).toMatchObject({ kind: 'down', message: expect.stringMatching(/retrying in/) });
    await expect.poll(() => upstream.streams(), WAIT).toBe(0);
    upstream.fault = undefined;
    await expect.poll(() => health().kind, WAIT).toBe('up');
    upstream.scripts['tools/list'] = toolList(toolText('added'));
    upstream.push(NOTICE);
    await shows('added');
  });

  it.each(eras)('watches again after the upstream was down (%s)', async (era) => {
    const { upstream, controller, shows, health } = await startController({}, { eras: [era] });
    await controller.discover();
    await upstream.down();
    await expect(controller.discover()).rejects.toBeInstanceOf(UpstreamError);
    await upstream.up();
    await expect.poll(() => health().kind, WAIT).toBe('up');
    expect(upstream.streams()).toBe(1);
    upstream.scripts['tools/list'] = toolList(toolText('added'));
    upstream.push(NOTICE);
    await shows('added');
  });

  it('watches again if a call failed during discovery', async () => {
    const { upstream, controller, health, connection } = await startController({}, { eras: ['modern'] });
    await controller.discover();
    const pending = Promise.withResolvers<string>();
    upstream.scripts['tools/list'] = () => pending.promise;
    const before = upstream.count('tools/list');
    const run = controller.discover();
    await expect.poll(() => upstream.count('tools/list'), WAIT).toBeGreaterThan(before);
    connection.mcpUpstream.changed.emit({
      kind: 'unreachable',
      error: new UpstreamError('dropped', upstream.url, 'dropped it'),
    });
    pending.resolve(toolList(toolText('plain')));
    await run;
    await expect.poll(() => upstream.streams(), WAIT).toBe(1);
    expect(health().kind).toBe('up');
  });

  it.each(eras)('leaves no resources open after close (%s)', async (era) => {
    vi.useFakeTimers({
      toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'],
      shouldAdvanceTime: true,
    });
    try {
      const { upstream, controller, connection } = await startController(
        { healthCheckIntervalMs: 60_000 },
        { eras: [era] },
      );
      await controller.discover();
      await expect.poll(upstream.sessions, WAIT).toBe(era === 'legacy' ? 1 : 0);
      expect(upstream.streams()).toBe(1);
      upstream.push(NOTICE);
      connection.mcpUpstream.changed.emit({ kind: 'lists' });
      await controller.close();
      await expect.poll(() => [upstream.streams(), upstream.sessions()], WAIT).toEqual([0, 0]);
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });
});
