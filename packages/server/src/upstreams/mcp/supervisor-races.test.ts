import { NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import { afterEach, describe, expect, it } from 'vitest';
import { toolList, toolText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { DEFAULT_LOG_FILTER } from '../../app/config/environment.ts';
import { UpstreamError } from '../../http/client/errors.ts';
import { DEFAULT_NAMESPACE } from '../../registry/entries.ts';
import { HeldStore } from '../../registry/fixtures/held-store.ts';
import { addForward } from '../../registry/operations-topology.ts';
import { Registry } from '../../registry/registry.ts';
import { createLogger } from '../../telemetry/log.ts';
import { ForwardController } from './forward-controller.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function supervise(healthCheckIntervalMs: number) {
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('plain')) } });
  closers.push(() => upstream.close());
  const store = new HeldStore();
  const registry = new Registry(store);
  await registry.load();
  const input = { name: 'up', address: upstream.url, namespace: DEFAULT_NAMESPACE, labels: {}, prefix: '' };
  const forward = await registry.commit((draft) => addForward(draft, input));
  const supervisor = new ForwardController(forward, {
    registry,
    log: createLogger(DEFAULT_LOG_FILTER, () => undefined).target('service::forward'),
    clientInfo: { name: 'sluice', version: '1' },
    variants: () => [NO_CAPABILITIES],
    legacyWanted: () => false,
    healthCheckIntervalMs,
  });
  closers.push(() => supervisor.end());
  return { upstream, store, supervisor };
}

describe('a supervisor', () => {
  it('tries a forward again that a call found down while its health was being checked', async () => {
    const { upstream, supervisor } = await supervise(50);
    await supervisor.discover();
    expect(supervisor.health.kind).toBe('up');
    const checked = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const text =
      '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"u","version":"1"},"ttlMs":0,"cacheScope":"private","resultType":"complete"}';
    upstream.scripts['server/discover'] = async () => {
      checked.resolve();
      await release.promise;
      return text;
    };
    await checked.promise;
    supervisor.failed(new UpstreamError('dropped', upstream.url, 'closed the connection'));
    expect(supervisor.health.kind).toBe('down');
    release.resolve();
    await expect.poll(() => supervisor.health.kind).toBe('up');
  });

  it('begins another run for whoever comes in the very moment in which one ends', async () => {
    const { upstream, store, supervisor } = await supervise(0);
    await supervisor.discover();
    const lost: number[] = [];
    for (let ticks = 0; ticks < 12; ticks++) {
      store.hold = true;
      const run = supervisor.discover();
      upstream.scripts['tools/list'] = toolList(toolText(`t${ticks}`));
      await expect.poll(() => store.waiting).toBe(1);
      store.hold = false;
      const before = upstream.count('tools/list');
      store.letThrough();
      for (let tick = 0; tick < ticks; tick++) await undefined;
      await supervisor.discover(true);
      if (upstream.count('tools/list') === before) lost.push(ticks);
      await run;
    }
    expect(lost).toEqual([]);
  });
});
