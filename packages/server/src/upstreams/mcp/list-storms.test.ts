import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Era, ReceivedMessage } from '../../../../../test/fixtures/raw-upstream/message.ts';
import { LIST_END, toolList, toolText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { DEFAULT_NAMESPACE } from '../../registry/entries.ts';
import { openMcpController } from '../fixtures/mcp-controller.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const close of closers.splice(0).reverse()) await close();
});

const CAPABILITIES = '{"tools":{"listChanged":true},"resources":{"listChanged":true},"prompts":{"listChanged":true}}';
const LISTS = { tools: 'tools/list', prompts: 'prompts/list', resources: 'resources/templates/list' } as const;
type List = keyof typeof LISTS;
const members = { tools: 'tools', prompts: 'prompts', resources: 'resourceTemplates' } as const;

/** Announces a change of a list, and resolves once the service has got that, as its response to a ping shows. */
async function announce(upstream: RawUpstream, list: List): Promise<void> {
  upstream.push(`{"jsonrpc":"2.0","method":"notifications/${list}/list_changed"}`);
  await new Promise<void>((resolve) => setImmediate(resolve));
}

async function start(era: Era) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  const upstream = await startRawUpstream({
    eras: [era],
    scripts: {
      initialize: ({ params }) =>
        `{"protocolVersion":"${params.protocolVersion}","capabilities":${CAPABILITIES},"serverInfo":{"name":"r","version":"1"}}`,
      'server/discover': `{"supportedVersions":["2026-07-28"],"capabilities":${CAPABILITIES},${LIST_END}`,
    },
  });
  closers.push(() => upstream.close());
  const opened = await openMcpController(upstream.url, {
    hasLegacyClients: () => era === 'legacy',
    watch: { readyMs: 10_000 },
  });
  closers.push(opened.close);
  const { registry } = opened;
  const changes: number[] = [];
  registry.committed.subscribe(({ lists }) => {
    if (lists.length > 0) changes.push(performance.now());
  });
  return { upstream, changes, ...opened };
}

/** Lets time pass in steps, in which messages arrive, until the condition is true; returns the milliseconds. */
async function passUntil(condition: () => boolean, limitMs: number, stepMs = 10): Promise<number> {
  const since = performance.now();
  while (!condition() && performance.now() - since < limitMs) {
    await vi.advanceTimersByTimeAsync(stepMs);
    for (let turn = 0; turn < 20; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
  }
  return performance.now() - since;
}

const pass = (ms: number, stepMs = 20) => passUntil(() => false, ms, stepMs);
const eras: readonly Era[] = ['legacy', 'modern'];
const lists: readonly List[] = ['tools', 'prompts', 'resources'];
const cases = eras.flatMap((era) => lists.map((list) => ({ era, list })));

function message(service: Awaited<ReturnType<typeof start>>): string | undefined {
  const health = service.health();
  return health.kind === 'up' ? health.message : `down: ${JSON.stringify(health)}`;
}

describe('an upstream that announces a change whenever its lists are read', () => {
  it.each(cases)('is read at growing intervals, and its status says so ($era, $list)', async ({ era, list }) => {
    const service = await start(era);
    const { upstream, controller } = service;
    const method = LISTS[list];
    const list0 = (_seen: ReceivedMessage) => `{"${members[list]}":[],${LIST_END}`;
    upstream.scripts[method] = async (seen) => {
      await announce(upstream, list);
      return list0(seen);
    };
    await controller.discover();
    await pass(20_000);
    const reads = upstream.count(method);
    expect(reads).toBeGreaterThanOrEqual(4);
    expect(reads).toBeLessThanOrEqual(5);
    expect(message(service)).toMatch(/announces changes of its lists whenever they are read, .* every (5|10|20) s/);
    await pass(300_000, 200);
    expect(upstream.count(method) - reads).toBeLessThanOrEqual(7);
    expect(message(service)).toMatch(/every 60 s at most/);

    // It stops that: after a minute, a change is discovered at once again.
    upstream.scripts[method] = list0;
    await pass(125_000, 200);
    expect(message(service)).toBeUndefined();
    await announce(upstream, list);
    const before = upstream.count(method);
    expect(await passUntil(() => upstream.count(method) > before, 10_000)).toBeLessThan(1_000);
  });

  it.each(eras)(
    'with a list that is always another one is limited too, and so are the notifications of clients (%s)',
    async (era) => {
      const service = await start(era);
      const { upstream, controller, changes } = service;
      let count = 0;
      upstream.scripts['tools/list'] = async () => {
        await announce(upstream, 'tools');
        return toolList(toolText('clock', `,"title":"${++count}"`));
      };
      await controller.discover();
      await pass(20_000);
      expect(upstream.count('tools/list')).toBeLessThanOrEqual(14);
      const early = changes.length;
      await pass(120_000, 200);
      expect(changes.length - early).toBeLessThanOrEqual(5);
      expect(message(service)).toMatch(/every \d+ s at most/);
    },
  );
});

describe('an upstream that announces a change once', () => {
  it.each([0, 100])('is read again, if that was %i ms after its list was read', async (ms) => {
    const { upstream, controller, registry } = await start('modern');
    let isFirst = true;
    const changed = () => registry.current.namespace(DEFAULT_NAMESPACE)?.indexes.tool.served('after') !== undefined;
    upstream.scripts['tools/list'] = async () => {
      if (isFirst && ms === 0) await announce(upstream, 'tools');
      const before = isFirst;
      isFirst = false;
      return toolList(toolText(before ? 'before' : 'after'));
    };
    await controller.discover();
    await pass(ms);
    if (ms > 0) await announce(upstream, 'tools');
    expect(await passUntil(changed, 10_000)).toBeLessThan(1_000);
    await pass(60_000, 100);
    expect(upstream.count('tools/list')).toBe(2);
  });

  it('while another list is read is read as a whole once, since that comes before or after', async () => {
    const { upstream, controller } = await start('modern');
    let isAnnounced = false;
    upstream.scripts['resources/list'] = async () => {
      // Prompts are read after resources.
      if (!isAnnounced) await announce(upstream, 'prompts');
      isAnnounced = true;
      return `{"resources":[],${LIST_END}`;
    };
    await controller.discover();
    await pass(10_000);
    expect(upstream.count('prompts/list')).toBe(1);
  });
});

describe('a page that the upstream repeats with a new cursor', () => {
  const page = (...names: string[]) => names.map((name) => toolText(name)).join(',');
  it.each([
    ['the same page', () => page('a', 'b'), 2, 2],
    ['the same entries in another order', (at: number) => (at % 2 === 0 ? page('a', 'b') : page('b', 'a')), 2, 2],
    ['its last page', (at: number) => page(`t${Math.min(at, 3)}`), 4, 5],
    ['entries without a name', () => '{"inputSchema":{}}', 0, 1],
    ['unusable entries', () => '{"name":"bad","inputSchema":7}', 0, 2],
  ])('is the last one: %s', async (_what, tools, count, pages) => {
    const { upstream, controller, registry, health } = await start('legacy');
    let at = 0;
    upstream.scripts['tools/list'] = () => `{"tools":[${tools(at)}],"nextCursor":"c${++at}",${LIST_END}`;
    await controller.discover();
    expect(registry.current.counts('up').tool).toBe(count);
    expect(at).toBe(pages);
    expect(health()).toMatchObject({
      kind: 'up',
      message: expect.stringContaining(
        `stopped after ${pages} page${pages === 1 ? '' : 's'} at a page without a new name`,
      ),
    });
  });

  it('is not an empty one, after which there may be more', async () => {
    const { upstream, controller, registry, health } = await start('legacy');
    upstream.scripts['tools/list'] = ({ params }) => {
      const at = Number(params.cursor ?? 0);
      const next = at < 30 ? `"nextCursor":"${at + 1}",` : '';
      return `{"tools":[${at % 10 === 0 ? page(`t${at}`) : ''}],${next}${LIST_END}`;
    };
    await controller.discover();
    expect(registry.current.counts('up').tool).toBe(4);
    expect(health()).toEqual({ kind: 'up', message: undefined });
  });
});
