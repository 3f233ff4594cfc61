import { describe, expect, test } from 'vitest';
import { recordedInteraction } from '../../inference/interaction.fixture.ts';
import { InteractionStore } from '../../inference/interaction-store.ts';
import { Conversations, historyJson } from './history.ts';

/** A store whose conversation `talk` has these request bodies, oldest first. */
function talking(...requests: readonly (string | undefined)[]): InteractionStore {
  const store = new InteractionStore(100);
  for (const [at, requestText] of requests.entries()) {
    store.add(
      recordedInteraction({
        epochMs: at + 1,
        conversationId: 'talk',
        completionId: `c-${at}`,
        ...(requestText !== undefined && { requestText }),
        responseText: '{"choices":[{"message":{"role":"assistant","content":"of the answer"}}]}',
      }),
    );
  }
  return store;
}

function asking(...messages: readonly unknown[]): string {
  return JSON.stringify({ model: 'm', messages });
}

async function said(store: InteractionStore, id = 'talk'): Promise<unknown> {
  return JSON.parse(await historyJson(store, id));
}

describe('messages', () => {
  test.each<[string, unknown, unknown]>([
    ['a text', { role: 'user', content: 'Hello\n"you"' }, [{ role: 'user', content: 'Hello\n"you"' }]],
    [
      'parts',
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look' },
          { type: 'image_url', image_url: {} },
          { type: 'text', text: ' here' },
        ],
      },
      [{ role: 'user', content: 'Look here' }],
    ],
    ['no role', { content: 'x' }, [{ role: 'unknown', content: 'x' }]],
    ['a role that is no text', { role: 7, content: 'x' }, [{ role: 'unknown', content: 'x' }]],
    ['an empty role', { role: '', content: 'x' }, [{ role: 'unknown', content: 'x' }]],
    ['an empty text', { role: 'user', content: '' }, []],
    ['parts without text', { role: 'user', content: [{ type: 'image_url' }, { type: 'text', text: '' }, 7, null] }, []],
    ['nothing', { role: 'assistant', content: null, tool_calls: [] }, []],
    ['no content', { role: 'assistant' }, []],
    ['a number', { role: 'user', content: 5 }, []],
    ['what is no message', 'hello', []],
    ['half of a surrogate', { role: '\ud800', content: 'x\udc00' }, [{ role: '\ufffd', content: 'x\ufffd' }]],
  ])('%s', async (_what, message, expected) => {
    expect(await said(talking(asking(message)))).toEqual(expected);
  });

  test.each<[string, string | undefined]>([
    ['there is none', undefined],
    ['it is no JSON', 'messages'],
    ['it is no object', '[{"role":"user","content":"x"}]'],
    ['its messages are no list', '{"messages":{"role":"user","content":"x"}}'],
  ])('are none of a body when %s', async (_why, body) => {
    expect(await said(talking(body, asking({ role: 'user', content: 'kept' })))).toEqual([
      { role: 'user', content: 'kept' },
    ]);
  });

  test('are none of a body that is no longer kept', async () => {
    const store = new InteractionStore(100, 150);
    for (const content of ['old', 'x'.repeat(80)]) {
      store.add(
        recordedInteraction({
          conversationId: 'talk',
          requestText: asking({ role: 'user', content }),
          responseText: '{}',
        }),
      );
    }
    expect(store.list().map(({ request }) => request.truncated)).toEqual([true, false]);
    expect(await said(store)).toEqual([{ role: 'user', content: 'x'.repeat(80) }]);
  });

  test('are read by what a member is called, not by how that is spelled', async () => {
    const body = '{"\\u006dessages":[{"r\\u006fle":"user","c\\u006fntent":"x"}]}';
    expect(await said(talking(body))).toEqual([{ role: 'user', content: 'x' }]);
  });
});

describe('the history of actions', () => {
  test('is all of a conversation, oldest first', async () => {
    const store = talking(...Array.from({ length: 15 }, (_, at) => asking({ role: 'user', content: String(at) })));
    expect(await said(store)).toEqual(Array.from({ length: 15 }, (_, at) => ({ role: 'user', content: String(at) })));
  });

  test('is found by a completion too, and empty when nothing is known', async () => {
    const store = talking(asking({ role: 'user', content: 'x' }), asking({ role: 'user', content: 'y' }));
    expect(await said(store, 'c-0')).toEqual(await said(store));
    expect(await said(store, 'other')).toEqual([]);
    expect(await said(store, '')).toEqual([]);
  });

  test('is refused when it could not fit into an action', async () => {
    const large = asking({ role: 'user', content: 'x'.repeat(3_500_000) });
    const store = talking(...Array.from({ length: 10 }, () => large));
    await expect(historyJson(store, 'talk')).rejects.toMatchObject({ fault: 'memory' });
  });
});

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
