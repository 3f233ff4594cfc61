import { describe, expect, it, test } from 'vitest';
import { recordedInteraction } from '../../inference/interaction.fixture.ts';
import { type Interaction, InteractionStore } from '../../inference/interaction-store.ts';
import type { HistoryMessage } from '../sandbox/action.ts';
import { completionRequest, conversationStore } from './fixtures/conversation-store.ts';
import { ConversationCache, historyReader, parseMessages, ReadThrottle } from './history.ts';

const MIB = 1024 * 1024;
const notAborted = new AbortController().signal;

async function historyOf(store: InteractionStore, id = 'talk'): Promise<unknown> {
  return JSON.parse(await historyReader(store)(id, notAborted));
}

/** Returns a history of `count` interactions with 2 MiB of body each, and reports the first access to each body. */
function lookedAt(count: number, onLook: (at: number) => void): Pick<InteractionStore, 'history'> {
  const requestText = completionRequest({ role: 'user', content: 'x'.repeat(2 * MIB) });
  const interaction = recordedInteraction({ requestText });
  const looked = new Set<number>();
  const one = (at: number): Interaction => ({
    ...interaction,
    get request() {
      if (!looked.has(at)) onLook(at);
      looked.add(at);
      return interaction.request;
    },
  });
  return { history: () => Array.from({ length: count }, (_, at) => one(at)) };
}

describe('the history for actions', () => {
  test('is the whole conversation, oldest first', async () => {
    const store = conversationStore(
      ...Array.from({ length: 15 }, (_, at) => completionRequest({ role: 'user', content: String(at) })),
    );
    expect(await historyOf(store)).toEqual(
      Array.from({ length: 15 }, (_, at) => ({ role: 'user', content: String(at) })),
    );
  });

  test('skips interactions without messages', async () => {
    const store = conversationStore(undefined, 'no JSON', completionRequest({ role: 'user', content: 'text' }), '{}');
    expect(await historyOf(store)).toEqual([{ role: 'user', content: 'text' }]);
  });

  test('is found by completion id, too, and empty for an unknown id', async () => {
    const store = conversationStore(
      completionRequest({ role: 'user', content: 'x' }),
      completionRequest({ role: 'user', content: 'y' }),
    );
    expect(await historyOf(store, 'c-0')).toEqual(await historyOf(store));
    expect(await historyOf(store, 'other')).toEqual([]);
    expect(await historyOf(store, '')).toEqual([]);
  });

  test('is rejected if it exceeds the memory of an action', async () => {
    const around = JSON.stringify({ role: 'user', content: '' }).length;
    const large = completionRequest({ role: 'user', content: 'x'.repeat(4 * MIB - around) });
    const store = conversationStore(...Array.from({ length: 8 }, () => large));
    expect((await historyReader(store)('talk', notAborted)).length).toBe(32 * MIB + '[,,,,,,,]'.length);
    const more = conversationStore(
      ...Array.from({ length: 8 }, () => large),
      completionRequest({ role: 'user', content: 'x' }),
    );
    await expect(historyOf(more)).rejects.toMatchObject({ fault: 'memory' });
  });

  test('is rejected after 256 MiB of bodies in one run', async () => {
    // Not JSON, despite `isJson`: it has no messages.
    const body = { isJson: true, bytes: Buffer.alloc(64 * MIB) };
    const interaction: Interaction = { ...recordedInteraction({}), request: { body, truncated: false } };
    const byte = { ...body, bytes: Buffer.alloc(1) };
    const short: Interaction = { ...interaction, request: { body: byte, truncated: false } };
    const interactions = { history: (id: string) => (id === 'talk' ? [interaction, interaction] : [short]) };
    const history = historyReader(interactions);
    expect(await history('talk', notAborted)).toBe('[]');
    expect(await history('talk', notAborted)).toBe('[]');
    await expect(history('short', notAborted)).rejects.toMatchObject({ fault: 'limit' });
    expect(await historyReader(interactions)('talk', notAborted)).toBe('[]');
  });

  test('stops when it is aborted', async () => {
    const stop = new AbortController();
    const killed = new Error('the run was killed');
    const looks: number[] = [];
    const interactions = lookedAt(10, (at) => {
      looks.push(at);
      if (at === 3) setImmediate(() => stop.abort(killed));
    });
    await expect(historyReader(interactions)('talk', stop.signal)).rejects.toBe(killed);
    expect(looks).toEqual([0, 1, 2, 3]);
  });

  test('of large bodies yields to the event loop', async () => {
    const order: string[] = [];
    const interactions = lookedAt(3, (at) => {
      order.push(`body ${at}`);
      setImmediate(() => order.push('other'));
    });
    await historyReader(interactions)('talk', notAborted);
    expect(order).toEqual(['body 0', 'other', 'body 1', 'other', 'body 2', 'other']);
  });
});

const deep: unknown = JSON.parse(`${'['.repeat(255)}${']'.repeat(255)}`);

function parsed(requestText: string | undefined): readonly HistoryMessage[] {
  return parseMessages(recordedInteraction({ ...(requestText !== undefined && { requestText }) }).request);
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
          { type: 'input_text', text: ' and there' },
        ],
      },
      [{ role: 'user', content: 'Look here and there', omitted: 'image_url' }],
    ],
    ['no role', { content: 'x' }, [{ role: 'unknown', content: 'x' }]],
    ['a role that is not a string', { role: 7, content: 'x' }, [{ role: 'unknown', content: 'x' }]],
    ['an empty role', { role: '', content: 'x' }, [{ role: 'unknown', content: 'x' }]],
    ['an empty text', { role: 'user', content: '' }, []],
    [
      'parts without text',
      {
        role: 'user',
        content: [{ type: 'image_url' }, { type: 'text', text: '' }, 7, null, { type: 'image_url' }, {}],
      },
      [{ role: 'user', content: '', omitted: '2 image_url, other part' }],
    ],
    ['null', { role: 'assistant', content: null, tool_calls: [] }, []],
    ['no content', { role: 'assistant' }, []],
    ['a number', { role: 'user', content: 5 }, []],
    ['a text instead of a message', 'hello', [{ role: 'user', content: 'hello' }]],
    [
      'a lone surrogate in a part',
      { role: 'user', content: [{ type: 'text', text: 'x\ud800' }] },
      [{ role: 'user', content: 'x\ufffd' }],
    ],
    ['lone surrogates', { role: '\ud800', content: 'x\udc00' }, [{ role: '\ufffd', content: 'x\ufffd' }]],
  ])('%s', (_what, message, expected) => {
    expect(parsed(completionRequest(message))).toEqual(expected);
  });

  test.each<[string, string | undefined]>([
    ['there is no body', undefined],
    ['it is not JSON', 'messages'],
    ['it is not an object', '[{"role":"user","content":"x"}]'],
    ['it is too deep to be stored as JSON', completionRequest({ role: 'user', content: 'x' }, deep)],
    ['its messages are not an array', '{"messages":{"role":"user","content":"x"}}'],
  ])('are none if %s', (_why, body) => {
    expect(parsed(body)).toEqual([]);
  });

  test('are none if the body was dropped', () => {
    const store = new InteractionStore(100, 150);
    for (const content of ['old', 'x'.repeat(80)]) {
      store.add(recordedInteraction({ requestText: completionRequest({ role: 'user', content }), responseText: '{}' }));
    }
    expect(store.list().map(({ request }) => request.truncated)).toEqual([true, false]);
    expect(store.list().map(({ request }) => parseMessages(request))).toEqual([
      [],
      [{ role: 'user', content: 'x'.repeat(80) }],
    ]);
  });

  test('are found by member name, however it is escaped', () => {
    const body = '{"\\u006dessages":[{"r\\u006fle":"user","c\\u006fntent":"x"}]}';
    expect(parsed(body)).toEqual([{ role: 'user', content: 'x' }]);
  });
});

test.each<[string, number[], boolean[]]>([
  ['small bodies share a turn', [MIB / 2, MIB / 2, 0], [false, false, false]],
  ['what is too much for a turn waits for the next one', [MIB / 2, MIB / 2, 1, 1], [false, false, true, false]],
  ['every large body has a turn of its own', [5 * MIB, 5 * MIB, 1, 1], [true, true, true, false]],
])('%s', async (_what, bodies, expected) => {
  const turns = new ReadThrottle();
  const others: boolean[] = [];
  for (const bytes of bodies) {
    let had = false;
    const other = setImmediate(() => {
      had = true;
    });
    await turns.beforeRead(bytes);
    others.push(had);
    clearImmediate(other);
  }
  expect(others).toEqual(expected);
});

it('interactions that are removed while large bodies are parsed are empty', async () => {
  const large = (content: string) =>
    completionRequest({ role: 'user', content }, { role: 'x', content: 'x'.repeat(2 ** 20) });
  const store = conversationStore(large('one'), large('two'));
  const reading = new ConversationCache(store).latest('talk');
  store.clear();
  expect(await reading).toEqual([[], []]);
});
