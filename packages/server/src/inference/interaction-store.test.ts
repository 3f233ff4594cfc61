import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { recordedInteraction } from './interaction.fixture.ts';
import { type Interaction, InteractionStore, RecordQueue } from './interaction-store.ts';

/** Returns the arrival times, which identify the interactions of a test. */
function arrivals(found: readonly Interaction[]): number[] {
  return found.map(({ epochMs }) => epochMs);
}

/** Returns a store with interactions that arrived at 1, 2, 3 and so on. */
function filled(capacity: number, ...inputs: Parameters<typeof recordedInteraction>[0][]): InteractionStore {
  const store = new InteractionStore(capacity);
  for (const [at, each] of inputs.entries()) store.add(recordedInteraction({ epochMs: at + 1, ...each }));
  return store;
}

describe('the store has the latest interactions', () => {
  test('up to its capacity, and none with 0', () => {
    const inputs = Array.from({ length: 5 }, () => ({}));
    expect(arrivals(filled(3, ...inputs).list())).toEqual([3, 4, 5]);
    expect(arrivals(filled(5, ...inputs).list())).toEqual([1, 2, 3, 4, 5]);
    expect(filled(0, ...inputs).list()).toEqual([]);
  });

  test('up to a changed capacity', () => {
    const store = filled(5, {}, {}, {}, {}, {});
    store.capacity = 2;
    expect([store.capacity, arrivals(store.list())]).toEqual([2, [4, 5]]);
    store.capacity = 3;
    store.add(recordedInteraction({ epochMs: 6 }));
    expect(arrivals(store.list())).toEqual([4, 5, 6]);
    store.capacity = 0;
    store.add(recordedInteraction({ epochMs: 7 }));
    expect(store.list()).toEqual([]);
  });

  test('and removed ones are not found by id', () => {
    const store = filled(1, { conversationId: 'a', completionId: 'c' }, { conversationId: 'b' });
    expect(store.list({ conversationId: 'a' })).toEqual([]);
    expect([store.completion('c'), store.history('c', 10), store.history('a', 10)]).toEqual([undefined, [], []]);
    expect(arrivals(store.list({ conversationId: 'b' }))).toEqual([2]);
  });

  test('until it is cleared', () => {
    const store = filled(10, { conversationId: 'a', completionId: 'c', requestText: '{}' }, {});
    store.clear();
    expect([store.list(), store.history('a', 1), store.completion('c')]).toEqual([[], [], undefined]);
    store.add(recordedInteraction({ epochMs: 9 }));
    expect(arrivals(store.list())).toEqual([9]);
  });
});

test('interactions are listed in order of arrival, whenever they ended', () => {
  const store = filled(10, { epochMs: 5 }, { epochMs: 3, conversationId: 'a' }, { epochMs: 4, conversationId: 'a' });
  expect(arrivals(store.list())).toEqual([3, 4, 5]);
  expect(arrivals(store.list({ limit: 1 }))).toEqual([5]);
  expect(arrivals(store.list({ conversationId: 'a', limit: 1 }))).toEqual([4]);
  // The first recorded one is removed first nevertheless.
  store.capacity = 2;
  expect(arrivals(store.list())).toEqual([3, 4]);
});

test('interactions are found by conversation, completion, both, and limited to the newest', () => {
  const store = filled(
    10,
    { conversationId: 'a', completionId: 'x' },
    { conversationId: 'b', completionId: 'y' },
    { conversationId: 'a', completionId: 'z' },
    { completionId: 'x' },
    {},
  );
  expect(arrivals(store.list({ conversationId: 'a' }))).toEqual([1, 3]);
  expect(arrivals(store.list({ completionId: 'x' }))).toEqual([1, 4]);
  expect(arrivals(store.list({ conversationId: 'a', completionId: 'z' }))).toEqual([3]);
  expect(arrivals(store.list({ conversationId: 'a', completionId: 'y' }))).toEqual([]);
  expect(arrivals(store.list({ completionId: 'x', limit: 1 }))).toEqual([4]);
  expect(arrivals(store.list({ limit: 2 }))).toEqual([4, 5]);
  expect(arrivals(store.list({ conversationId: 'none' }))).toEqual([]);
  expect(store.completion('x')?.epochMs).toBe(4);
});

describe('the history of', () => {
  const store = filled(
    100,
    { conversationId: 'a', completionId: 'x' },
    { conversationId: 'a', completionId: 'b' },
    { conversationId: 'b', completionId: 'y' },
    { completionId: 'lone' },
  );

  test.for([
    ['a', 10, [1, 2]],
    ['a', 1, [2]],
    // A conversation of this id comes before a completion of it.
    ['b', 10, [3]],
    ['x', 10, [1, 2]],
    ['x', 1, [2]],
    ['y', 10, [3]],
    ['lone', 10, [4]],
    ['none', 10, []],
  ] as const)(
    '%s is the conversation of that id, else that of its completion; the newest %i are %j',
    ([id, count, wanted]) => {
      expect(arrivals(store.history(id, count))).toEqual(wanted);
    },
  );
});

describe('beyond the limit of bodies', () => {
  const text = (bytes: number) => JSON.stringify('x'.repeat(bytes - 2));

  test('the first recorded interactions lose theirs and stay listed', () => {
    const store = new InteractionStore(10, 100);
    const bodies = (requestText: string, responseText?: string) => ({
      requestText,
      ...(responseText !== undefined && { responseText }),
    });
    store.add(recordedInteraction({ epochMs: 1, ...bodies(text(30), text(30)) }));
    store.add(recordedInteraction({ epochMs: 2, ...bodies(text(40)) }));
    expect(store.list().map(({ request }) => request.body?.bytes.length)).toEqual([30, 40]);
    store.add(recordedInteraction({ epochMs: 3, ...bodies(text(10)) }));
    const [first, ...others] = store.list();
    expect(first).toMatchObject({
      epochMs: 1,
      request: { body: undefined, truncated: true },
      response: { body: undefined, truncated: true },
    });
    expect(others.map(({ request }) => request.body?.bytes.length)).toEqual([40, 10]);
    store.add(recordedInteraction({ epochMs: 4, ...bodies(text(60)) }));
    const truncated = store.list().map(({ request, response }) => [request.truncated, response.truncated]);
    // An absent body is not truncated.
    expect(truncated).toEqual([
      [true, true],
      [true, false],
      [false, false],
      [false, false],
    ]);
    // A removed interaction releases its bytes.
    store.capacity = 1;
    store.capacity = 10;
    store.add(recordedInteraction({ epochMs: 5, ...bodies(text(40)) }));
    expect(store.list().map(({ request }) => request.truncated)).toEqual([false, false]);
    store.add(recordedInteraction({ epochMs: 6, ...bodies(text(1_000)) }));
    expect(store.list().map(({ request }) => request.truncated)).toEqual([true, true, true]);
  });
});

test('a queue removes the oldest item first and returns the newest', () => {
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

test('push and shift take constant time, however long the queue is', () => {
  const queue = new RecordQueue<number>();
  for (let at = 0; at < 500_000; at++) queue.push(at);
  // Moving all items each time would take minutes.
  let inOrder = 0;
  for (let at = 0; at < 500_000; at++) {
    queue.push(at);
    if (queue.shift() === at) inOrder++;
  }
  expect([queue.length, inOrder]).toEqual([500_000, 500_000]);
}, 10_000);
