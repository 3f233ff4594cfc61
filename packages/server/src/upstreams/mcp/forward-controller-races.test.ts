import { NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import { afterEach, describe, expect, it } from 'vitest';
import { toolList, toolText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { accessTo } from '../../access/fixtures/access.ts';
import { DEFAULT_LOG_FILTER } from '../../app/config/environment.ts';
import { UpstreamError } from '../../http/client/errors.ts';
import { Secrets } from '../../http/secrets/secrets.ts';
import { DEFAULT_NAMESPACE } from '../../registry/entries.ts';
import { commit } from '../../registry/fixtures/commit.ts';
import { PausableStore } from '../../registry/fixtures/pausable-store.ts';
import { addForward } from '../../registry/operations-topology.ts';
import { Registry } from '../../registry/registry.ts';
import { createLogger } from '../../telemetry/log.ts';
import { ForwardController } from './forward-controller.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function startController(healthCheckIntervalMs: number) {
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('plain')) } });
  closers.push(() => upstream.close());
  const store = new PausableStore();
  const registry = new Registry(store);
  await registry.load();
  const input = { name: 'up', address: upstream.url, namespace: DEFAULT_NAMESPACE, labels: {}, prefix: '' };
  const forward = await commit(registry, (draft) => addForward(draft, input));
  const controller = new ForwardController(forward, {
    secrets: new Secrets(),
    registry,
    access: accessTo(registry),
    log: createLogger(DEFAULT_LOG_FILTER, () => undefined).target('service::forward'),
    clientInfo: { name: 'sluice', version: '1' },
    capabilityProfiles: () => [NO_CAPABILITIES],
    hasLegacyClients: () => false,
    healthCheckIntervalMs,
  });
  closers.push(() => controller.close());
  return { upstream, store, controller };
}

describe('a controller', () => {
  it('retries a forward that a call marked down during a health check', async () => {
    const { upstream, controller } = await startController(50);
    await controller.discover();
    expect(controller.upstream.health.kind).toBe('up');
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
    controller.onCallFailed(new UpstreamError('dropped', upstream.url, 'closed the connection'));
    expect(controller.upstream.health.kind).toBe('down');
    release.resolve();
    await expect.poll(() => controller.upstream.health.kind).toBe('up');
  });

  it('starts another run for a caller at the very end of one', async () => {
    const { upstream, store, controller } = await startController(0);
    await controller.discover();
    const lost: number[] = [];
    for (let ticks = 0; ticks < 12; ticks++) {
      store.hold = true;
      const run = controller.discover();
      upstream.scripts['tools/list'] = toolList(toolText(`t${ticks}`));
      await expect.poll(() => store.waiting).toBe(1);
      store.hold = false;
      const before = upstream.count('tools/list');
      store.commitAll();
      for (let tick = 0; tick < ticks; tick++) await undefined;
      await controller.discover(true);
      if (upstream.count('tools/list') === before) lost.push(ticks);
      await run;
    }
    expect(lost).toEqual([]);
  });
});
