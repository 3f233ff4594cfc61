import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { recordedInteraction } from './interaction.fixture.ts';
import { InteractionStore } from './interaction-store.ts';

const MIB = 1024 * 1024;

test('10,000 interactions take little more memory than the limit of bodies', async () => {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  const used = () => {
    if (typeof collect === 'function') collect();
    const { arrayBuffers, heapUsed } = process.memoryUsage();
    return arrayBuffers + heapUsed;
  };
  const body = JSON.stringify('x'.repeat(9_998));
  const before = used();
  const taken = () => used() - before;
  const store = new InteractionStore(10_000, 8 * MIB);
  for (let at = 0; at < 10_000; at++) {
    const ids = { conversationId: `conversation-${at % 100}`, completionId: `completion-${at}` };
    store.add(recordedInteraction({ ...ids, requestText: body, responseText: body }));
  }
  expect(store.list()).toHaveLength(10_000);
  expect(store.list().filter(({ request }) => request.body !== undefined)).toHaveLength(Math.floor((8 * MIB) / 20_000));
  // An interaction without its bodies is less than 1 KiB. Collected memory is not returned at once.
  await expect.poll(taken, { timeout: 10_000 }).toBeLessThan(18 * MIB);
  expect(taken()).toBeGreaterThan(7 * MIB);
  store.clear();
  await expect.poll(taken, { timeout: 10_000 }).toBeLessThan(2 * MIB);
});
