import { afterEach, expect, test, vi } from 'vitest';
import { removeServices } from '../../registry/operations-topology.ts';
import { heldProbes, soon, watching } from './fixtures/watched-health.ts';
import { DEAD_PORT } from './fixtures/work-tests.ts';

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
    await register(DEAD_PORT, 'weather');
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

test('only so many probes are under way at a time, and the others follow in their order', async (context) => {
  const { held, probe } = heldProbes();
  const { registry, register, of } = await watching(context, { probe, probesAtOnce: 2 });
  await register(DEAD_PORT, 'a', 'b', 'c', 'd', 'e');
  const asked = () => held.map(({ name }) => name);
  expect(asked()).toEqual(['a', 'b']);
  // One that waits and is removed is never asked.
  await registry.commit((draft) => removeServices(draft, 'c'));
  held[1]?.end('healthy');
  await expect.poll(asked, soon).toEqual(['a', 'b', 'd']);
  held[2]?.end('healthy');
  held[0]?.end('down');
  await expect.poll(asked, soon).toEqual(['a', 'b', 'd', 'e']);
  held[3]?.end('healthy');
  await expect.poll(() => ['a', 'b', 'd', 'e'].map(of), soon).toEqual(['down', 'healthy', 'healthy', 'healthy']);
});

test('a round finds those that the last one has not come to, and asks nobody twice at a time', async (context) => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const { held, probe } = heldProbes();
  const { register } = await watching(context, { probe, probesAtOnce: 1, intervalMs: 1_000 });
  await register(DEAD_PORT, 'a', 'b');
  await vi.advanceTimersByTimeAsync(5_000);
  expect(held.map(({ name }) => name)).toEqual(['a']);
  held[0]?.end('healthy');
  await expect.poll(() => held.map(({ name }) => name), soon).toEqual(['a', 'b']);
});
