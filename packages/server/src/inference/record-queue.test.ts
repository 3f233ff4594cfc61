import fc from 'fast-check';
import { expect, test } from 'vitest';
import { RecordQueue } from './interaction-store.ts';

test('what was put in first leaves first, and the newest are at hand', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.nat(), fc.constant('shift' as const))), fc.nat({ max: 10 }), (steps, count) => {
      const queue = new RecordQueue<number>();
      const model: number[] = [];
      for (const step of steps) {
        if (step === 'shift') expect(queue.shift()).toBe(model.shift());
        else {
          queue.push(step);
          model.push(step);
        }
        expect(queue.length).toBe(model.length);
      }
      expect(queue.newest(count)).toEqual(count === 0 ? [] : model.slice(-count));
      expect(queue.newest(1_000)).toEqual(model);
    }),
  );
});

test('a queue that things come into and leave costs the same each time, however long it is', () => {
  const queue = new RecordQueue<number>();
  for (let at = 0; at < 500_000; at++) queue.push(at);
  // Moving all of them each time would take minutes.
  let inOrder = 0;
  for (let at = 0; at < 500_000; at++) {
    queue.push(at);
    if (queue.shift() === at) inOrder++;
  }
  expect([queue.length, inOrder]).toEqual([500_000, 500_000]);
}, 10_000);
