import { setImmediate as nextTurn } from 'node:timers/promises';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { recordedInteraction } from '../../inference/interaction.fixture.ts';
import { InteractionStore } from '../../inference/interaction-store.ts';
import { asking, talking } from './fixtures/talking.ts';
import { Conversations } from './history.ts';

const MIB = 1024 * 1024;

/** Has everything collected that nobody holds. */
async function collect(): Promise<void> {
  setFlagsFromString('--expose-gc');
  const gc: unknown = runInNewContext('gc');
  // What a weak reference was asked for is held for the rest of its turn.
  await nextTurn();
  if (typeof gc === 'function') gc();
}

async function usedBytes(): Promise<number> {
  await collect();
  return getHeapStatistics().used_heap_size;
}

/** The messages of the oldest interaction that a prompt has of a conversation, held by nothing but what keeps them. */
async function oldestOf(conversations: Conversations, id: string): Promise<WeakRef<object>> {
  const [messages] = await conversations.latest(id);
  return new WeakRef(messages ?? []);
}

describe('the conversation of a prompt', () => {
  test('is the latest ten interactions, each by itself', async () => {
    const requests = Array.from({ length: 12 }, (_, at) =>
      asking({ role: 'system', content: 's' }, { role: 'user', content: String(at) }),
    );
    const conversation = await new Conversations(talking(...requests, undefined)).latest('talk');
    expect(conversation).toHaveLength(10);
    expect(conversation.map((messages) => messages.at(-1)?.content)).toEqual([
      ...Array.from({ length: 9 }, (_, at) => String(at + 3)),
      undefined,
    ]);
    expect(conversation[0]).toHaveLength(2);
  });

  test('is empty when nothing is known', async () => {
    expect(await new Conversations(talking()).latest('talk')).toEqual([]);
  });

  test('has the newest 200 messages of an interaction, and the beginning of each', async () => {
    const messages = Array.from({ length: 250 }, (_, at) => ({ role: 'user', content: `${at}${'x'.repeat(5000)}` }));
    const [latest] = await new Conversations(talking(asking(...messages))).latest('talk');
    expect(latest).toHaveLength(200);
    expect(latest?.[0]?.content).toBe(`50${'x'.repeat(1998)}`);
  });

  test('of large bodies lets others have their turn', async () => {
    const large = asking({ role: 'user', content: 'x'.repeat(700_000) });
    const order: string[] = [];
    setImmediate(() => order.push('other'));
    await new Conversations(talking(large, large, large)).latest('talk').then(() => order.push('read'));
    expect(order).toEqual(['other', 'read']);
  });
});

describe('what is kept of a conversation', () => {
  const large = 'x'.repeat(2 * MIB);

  test.each([
    ['content', asking({ role: 'user', content: large })],
    ['parts', asking({ role: 'user', content: [{ type: 'text', text: large }] })],
    ['role', asking({ role: large, content: 'Hello' })],
  ])('is not the text of a large %s', async (_what, body) => {
    const store = talking(...Array.from({ length: 10 }, () => body));
    const conversations = new Conversations(store);
    const before = await usedBytes();
    const [first] = await conversations.latest('talk');
    expect((await usedBytes()) - before).toBeLessThan(5 * MIB);
    expect((await conversations.latest('talk'))[0]).toBe(first);
  });

  test.each<[string, (store: InteractionStore) => void]>([
    ['is forgotten', (store) => store.clear()],
    [
      'is one too many',
      (store) => {
        store.capacity = 2;
      },
    ],
    ['has to give up its body', (store) => store.add(recordedInteraction({ requestText: 'x'.repeat(900) }))],
  ])('goes when its interaction %s', async (_why, drop) => {
    const store = new InteractionStore(100, 1000);
    for (const content of ['one', 'two', 'three']) {
      store.add(recordedInteraction({ conversationId: 'talk', requestText: asking({ role: 'user', content }) }));
    }
    const conversations = new Conversations(store);
    const oldest = await oldestOf(conversations, 'talk');
    await collect();
    expect(oldest.deref()).toEqual([{ role: 'user', content: 'one' }]);
    drop(store);
    await collect();
    expect(oldest.deref()).toBeUndefined();
    for (const messages of await conversations.latest('talk')) {
      expect(messages).not.toEqual([{ role: 'user', content: 'one' }]);
    }
  });

  test('is of the 32 interactions used last', async () => {
    const store = new InteractionStore(100);
    const ids = Array.from({ length: 33 }, (_, at) => `talk-${at}`);
    for (const id of ids) {
      const requestText = asking({ role: 'user', content: id });
      store.add(recordedInteraction({ conversationId: id, requestText }));
    }
    const conversations = new Conversations(store);
    const kept: WeakRef<object>[] = [];
    for (const id of ids.slice(0, 32)) kept.push(await oldestOf(conversations, id));
    await oldestOf(conversations, 'talk-0');
    kept.push(await oldestOf(conversations, 'talk-32'));
    await collect();
    const gone = ids.filter((_, at) => kept[at]?.deref() === undefined);
    expect(gone).toEqual(['talk-1']);
  });
});
