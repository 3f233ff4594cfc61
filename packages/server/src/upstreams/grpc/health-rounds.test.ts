import { afterEach, expect, test, vi } from 'vitest';
import { commit } from '../../registry/fixtures/commit.ts';
import { removeServices } from '../../registry/operations-topology.ts';
import { UNUSED_PORT } from './fixtures/operation-tests.ts';
import { pendingProbes, soon, watching } from './fixtures/watched-health.ts';

afterEach(() => {
  vi.useRealTimers();
});

test.for([
  [30_000, [1, 1, 2, 3]],
  [0, [1, 1, 1, 1]],
] as const)(
  'with an interval of %d ms it is probed at registration and then %j times',
  async ([intervalMs, times], context) => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    let probes = 0;
    const { health, register } = await watching(context, {
      intervalMs,
      probe: async () => {
        probes++;
        return { health: 'healthy' };
      },
    });
    await register(UNUSED_PORT, 'weather');
    const seen = [probes];
    for (const step of [29_999, 1, 30_000]) {
      await vi.advanceTimersByTimeAsync(step);
      seen.push(probes);
    }
    expect(seen).toEqual(times);
    health.close();
    await vi.advanceTimersByTimeAsync(300_000);
    expect(probes).toBe(times[3]);
  },
);

test('the number of concurrent probes is limited, and the others follow in order', async (context) => {
  const { pending, probe } = pendingProbes();
  const { registry, register, of } = await watching(context, { probe, maxConcurrentProbes: 2 });
  await register(UNUSED_PORT, 'a', 'b', 'c', 'd', 'e');
  const probed = () => pending.map(({ name }) => name);
  expect(probed()).toEqual(['a', 'b']);
  // A waiting service that is removed is never probed.
  await commit(registry, (draft) => removeServices(draft, 'c'));
  pending[1]?.end('healthy');
  await expect.poll(probed, soon).toEqual(['a', 'b', 'd']);
  pending[2]?.end('healthy');
  pending[0]?.end('down');
  await expect.poll(probed, soon).toEqual(['a', 'b', 'd', 'e']);
  pending[3]?.end('healthy');
  await expect.poll(() => ['a', 'b', 'd', 'e'].map(of), soon).toEqual(['down', 'healthy', 'healthy', 'healthy']);
});

test('a round does not probe a service that the last one is still probing', async (context) => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const { pending, probe } = pendingProbes();
  const { register } = await watching(context, { probe, maxConcurrentProbes: 1, intervalMs: 1_000 });
  await register(UNUSED_PORT, 'a', 'b');
  await vi.advanceTimersByTimeAsync(5_000);
  expect(pending.map(({ name }) => name)).toEqual(['a']);
  pending[0]?.end('healthy');
  await expect.poll(() => pending.map(({ name }) => name), soon).toEqual(['a', 'b']);
});
