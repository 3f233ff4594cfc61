import { setImmediate as nextTurn } from 'node:timers/promises';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { recordedInteraction } from '../../inference/interaction.fixture.ts';
import { InteractionStore } from '../../inference/interaction-store.ts';
import { completionRequest, conversationStore } from './fixtures/conversation-store.ts';
import { ConversationCache } from './history.ts';

const MIB = 1024 * 1024;

/** Collects garbage. */
async function collect(): Promise<void> {
  setFlagsFromString('--expose-gc');
  const gc: unknown = runInNewContext('gc');
  // A dereferenced object is reachable until the end of its turn.
  await nextTurn();
  if (typeof gc === 'function') gc();
}

async function usedBytes(): Promise<number> {
  await collect();
  return getHeapStatistics().used_heap_size;
}

/** Returns a weak reference to the cached messages of the oldest interaction of a conversation. */
async function oldestOf(conversations: ConversationCache, id: string): Promise<WeakRef<object>> {
  const [messages] = await conversations.latest(id);
  return new WeakRef(messages ?? []);
}

describe('the conversation of a prompt', () => {
  test('is the latest ten interactions, each by itself', async () => {
    const requests = Array.from({ length: 12 }, (_, at) =>
      completionRequest({ role: 'system', content: 's' }, { role: 'user', content: String(at) }),
    );
    const conversation = await new ConversationCache(conversationStore(...requests, undefined)).latest('talk');
    expect(conversation).toHaveLength(10);
    expect(conversation.map((messages) => messages.at(-1)?.content)).toEqual([
      ...Array.from({ length: 9 }, (_, at) => String(at + 3)),
      undefined,
    ]);
    expect(conversation[0]).toHaveLength(2);
  });

  test('is empty when nothing is known', async () => {
    expect(await new ConversationCache(conversationStore()).latest('talk')).toEqual([]);
  });

  test('has the newest 200 messages of an interaction, each truncated', async () => {
    const messages = Array.from({ length: 250 }, (_, at) => ({ role: 'user', content: `${at}${'x'.repeat(5000)}` }));
    const [latest] = await new ConversationCache(conversationStore(completionRequest(...messages))).latest('talk');
    expect(latest).toHaveLength(201);
    expect(latest?.[0]).toEqual({ role: '', content: '', omitted: '50 earlier messages' });
    expect(latest?.[1]?.content).toBe(`50${'x'.repeat(1998)}`);
  });

  test('of large bodies yields to the event loop', async () => {
    const large = completionRequest({ role: 'user', content: 'x'.repeat(700_000) });
    const order: string[] = [];
    setImmediate(() => order.push('other'));
    await new ConversationCache(conversationStore(large, large, large)).latest('talk').then(() => order.push('read'));
    expect(order).toEqual(['other', 'read']);
  });
});

describe('the cache of a conversation', () => {
  const large = 'x'.repeat(2 * MIB);

  test.each([
    ['content', completionRequest({ role: 'user', content: large })],
    ['parts', completionRequest({ role: 'user', content: [{ type: 'text', text: large }] })],
    ['role', completionRequest({ role: large, content: 'Hello' })],
  ])('does not retain the text of a large %s', async (_what, body) => {
    const store = conversationStore(...Array.from({ length: 10 }, () => body));
    const conversations = new ConversationCache(store);
    const before = await usedBytes();
    const [first] = await conversations.latest('talk');
    expect((await usedBytes()) - before).toBeLessThan(5 * MIB);
    expect((await conversations.latest('talk'))[0]).toBe(first);
  });

  test.each<[string, (store: InteractionStore) => void]>([
    ['is cleared', (store) => store.clear()],
    [
      'exceeds the capacity',
      (store) => {
        store.capacity = 2;
      },
    ],
    ['loses its body', (store) => store.add(recordedInteraction({ requestText: 'x'.repeat(900) }))],
  ])('drops an interaction that %s', async (_why, drop) => {
    const store = new InteractionStore(100, 1000);
    for (const content of ['one', 'two', 'three']) {
      store.add(
        recordedInteraction({ conversationId: 'talk', requestText: completionRequest({ role: 'user', content }) }),
      );
    }
    const conversations = new ConversationCache(store);
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

  test('has the 32 interactions that were used last', async () => {
    const store = new InteractionStore(100);
    const ids = Array.from({ length: 33 }, (_, at) => `talk-${at}`);
    for (const id of ids) {
      const requestText = completionRequest({ role: 'user', content: id });
      store.add(recordedInteraction({ conversationId: id, requestText }));
    }
    const conversations = new ConversationCache(store);
    const references: WeakRef<object>[] = [];
    for (const id of ids.slice(0, 32)) references.push(await oldestOf(conversations, id));
    await oldestOf(conversations, 'talk-0');
    references.push(await oldestOf(conversations, 'talk-32'));
    await collect();
    const dropped = ids.filter((_, at) => references[at]?.deref() === undefined);
    expect(dropped).toEqual(['talk-1']);
  });
});
