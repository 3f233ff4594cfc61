import { describe, expect, test } from 'vitest';
import { recordedInteraction } from './interaction.fixture.ts';
import { type Interaction, InteractionStore } from './interaction-store.ts';

/** The arrival of each, by which they are told apart. */
function arrivals(found: readonly Interaction[]): number[] {
  return found.map(({ epochMs }) => epochMs);
}

/** A store with interactions that arrived at 1, 2, 3 and so on. */
function filled(capacity: number, ...told: Parameters<typeof recordedInteraction>[0][]): InteractionStore {
  const store = new InteractionStore(capacity);
  for (const [at, each] of told.entries()) store.add(recordedInteraction({ epochMs: at + 1, ...each }));
  return store;
}

describe('the latest are kept', () => {
  test('as many as the capacity says, and none with 0', () => {
    const told = Array.from({ length: 5 }, () => ({}));
    expect(arrivals(filled(3, ...told).list())).toEqual([3, 4, 5]);
    expect(arrivals(filled(5, ...told).list())).toEqual([1, 2, 3, 4, 5]);
    expect(filled(0, ...told).list()).toEqual([]);
  });

  test('and fewer or more as soon as the capacity changes', () => {
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

  test('and what goes is not found by its ids either', () => {
    const store = filled(1, { conversationId: 'a', completionId: 'c' }, { conversationId: 'b' });
    expect(store.list({ conversationId: 'a' })).toEqual([]);
    expect([store.completion('c'), store.history('c', 10), store.history('a', 10)]).toEqual([undefined, [], []]);
    expect(arrivals(store.list({ conversationId: 'b' }))).toEqual([2]);
  });

  test('until they are cleared', () => {
    const store = filled(10, { conversationId: 'a', completionId: 'c', requestText: '{}' }, {});
    store.clear();
    expect([store.list(), store.history('a', 1), store.completion('c')]).toEqual([[], [], undefined]);
    store.add(recordedInteraction({ epochMs: 9 }));
    expect(arrivals(store.list())).toEqual([9]);
  });
});

test('they are listed in the order in which they arrived, whenever they ended', () => {
  const store = filled(10, { epochMs: 5 }, { epochMs: 3, conversationId: 'a' }, { epochMs: 4, conversationId: 'a' });
  expect(arrivals(store.list())).toEqual([3, 4, 5]);
  expect(arrivals(store.list({ limit: 1 }))).toEqual([5]);
  expect(arrivals(store.list({ conversationId: 'a', limit: 1 }))).toEqual([4]);
  // What was recorded first goes first all the same.
  store.capacity = 2;
  expect(arrivals(store.list())).toEqual([3, 4]);
});

test('they are found by conversation, by completion, by both, and only the newest of them', () => {
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

describe('the history of an id', () => {
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
  ] as const)('%s is its conversation, else that of its completion; the newest %i are %j', ([id, count, wanted]) => {
    expect(arrivals(store.history(id, count))).toEqual(wanted);
  });
});

describe('when the bodies are too many bytes', () => {
  const text = (bytes: number) => JSON.stringify('x'.repeat(bytes - 2));

  test('those recorded first lose theirs, and stay listed', () => {
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
    const told = store.list().map(({ request, response }) => [request.truncated, response.truncated]);
    // Where there was no body, none was lost.
    expect(told).toEqual([
      [true, true],
      [true, false],
      [false, false],
      [false, false],
    ]);
    // One that goes gives up its bytes.
    store.capacity = 1;
    store.capacity = 10;
    store.add(recordedInteraction({ epochMs: 5, ...bodies(text(40)) }));
    expect(store.list().map(({ request }) => request.truncated)).toEqual([false, false]);
    store.add(recordedInteraction({ epochMs: 6, ...bodies(text(1_000)) }));
    expect(store.list().map(({ request }) => request.truncated)).toEqual([true, true, true]);
  });
});
