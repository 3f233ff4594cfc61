import { afterEach, describe, expect, it, vi } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { DEFAULT_LOG_FILTER } from '../config/log-directives.ts';
import { FULL_CAPABILITIES, NO_CAPABILITIES } from '../mcp/capabilities.ts';
import { DEFAULT_NAMESPACE } from '../registry/names.ts';
import { addForward } from '../registry/operations/forwards.ts';
import { Registry } from '../registry/registry.ts';
import { memoryStore } from '../registry/store/memory.ts';
import { createLogger } from '../telemetry/log.ts';
import { Supervisor, type SupervisorOptions } from './supervisor.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** A supervisor of an upstream that offers `plain` in both eras, `old` in the legacy and `new` in the modern one. */
async function supervise(more: Partial<SupervisorOptions> = {}) {
  const upstream = await startRawUpstream({
    scripts: {
      'tools/list': ({ era }) => toolList(toolText(era === 'legacy' ? 'old' : 'new'), toolText('plain')),
    },
  });
  const registry = new Registry(memoryStore());
  await registry.load();
  const input = { name: 'up', address: upstream.url, namespace: DEFAULT_NAMESPACE, labels: {}, prefix: '' };
  const forward = await registry.commit((draft) => addForward(draft, input));
  const supervisor = new Supervisor(forward, {
    registry,
    log: createLogger(DEFAULT_LOG_FILTER, () => undefined).target('service::forward'),
    clientInfo: { name: 'sluice', version: '1' },
    variants: () => [NO_CAPABILITIES, FULL_CAPABILITIES],
    healthCheckIntervalMs: 0,
    ...more,
  });
  closers.push(
    () => upstream.close(),
    () => registry.close(),
    () => supervisor.end(),
  );
  return { upstream, supervisor, offered: () => offeredBy(registry) };
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
