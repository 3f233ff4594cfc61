import { afterEach, describe, expect, it } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { UpstreamError } from '../http/client/errors.ts';
import { PausableStore } from '../registry/fixtures/pausable-store.ts';
import { openMcpController } from './fixtures/mcp-controller.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function startController(healthCheckIntervalMs: number) {
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('plain')) } });
  closers.push(() => upstream.close());
  const store = new PausableStore();
  const opened = await openMcpController(upstream.url, { healthCheckIntervalMs }, store);
  closers.push(opened.close);
  return { upstream, store, ...opened };
}

describe('a controller', () => {
  it('retries a forward that a call marked down during a health check', async () => {
    const { upstream, controller, health, connection } = await startController(50);
    await controller.discover();
    expect(health().kind).toBe('up');
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
    connection.mcpUpstream.changed.emit({
      kind: 'unreachable',
      error: new UpstreamError('dropped', upstream.url, 'closed the connection'),
    });
    expect(health().kind).toBe('down');
    release.resolve();
    await expect.poll(() => health().kind).toBe('up');
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
