import { describe, expect, test } from 'vitest';
import { recordedInteraction } from '../../inference/interaction.fixture.ts';
import { InteractionStore } from '../../inference/interaction-store.ts';
import type { HistoryMessage } from '../sandbox/action.ts';
import { asking } from './fixtures/talking.ts';
import { messagesOf } from './history.ts';

const deep: unknown = JSON.parse(`${'['.repeat(255)}${']'.repeat(255)}`);

function asked(requestText: string | undefined): HistoryMessage[] {
  return messagesOf(recordedInteraction({ ...(requestText !== undefined && { requestText }) }).request.body);
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
    [
      'half of a surrogate in a part',
      { role: 'user', content: [{ type: 'text', text: 'x\ud800' }] },
      [{ role: 'user', content: 'x\ufffd' }],
    ],
    ['half of a surrogate', { role: '\ud800', content: 'x\udc00' }, [{ role: '\ufffd', content: 'x\ufffd' }]],
  ])('%s', (_what, message, expected) => {
    expect(asked(asking(message))).toEqual(expected);
  });

  test.each<[string, string | undefined]>([
    ['there is none', undefined],
    ['it is no JSON', 'messages'],
    ['it is no object', '[{"role":"user","content":"x"}]'],
    ['it is nested so deeply that it is kept as a text', asking({ role: 'user', content: 'x' }, deep)],
    ['its messages are no list', '{"messages":{"role":"user","content":"x"}}'],
  ])('are none of a body when %s', (_why, body) => {
    expect(asked(body)).toEqual([]);
  });

  test('are none of a body that is no longer kept', () => {
    const store = new InteractionStore(100, 150);
    for (const content of ['old', 'x'.repeat(80)]) {
      store.add(recordedInteraction({ requestText: asking({ role: 'user', content }), responseText: '{}' }));
    }
    expect(store.list().map(({ request }) => request.truncated)).toEqual([true, false]);
    expect(store.list().map(({ request }) => messagesOf(request.body))).toEqual([
      [],
      [{ role: 'user', content: 'x'.repeat(80) }],
    ]);
  });

  test('are read by what a member is called, not by how that is spelled', () => {
    const body = '{"\\u006dessages":[{"r\\u006fle":"user","c\\u006fntent":"x"}]}';
    expect(asked(body)).toEqual([{ role: 'user', content: 'x' }]);
  });
});
