import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { bodyValue, EVENTS, LIMIT, RecordedExchanges } from './exchange.fixture.ts';
import { cuts } from './pieces.fixture.ts';

describe('an event stream', () => {
  const chunk = (content: string, more = '') =>
    `{"id":"c-1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"${content}"}${more}}]}`;
  const events = (...data: readonly string[]) => data.map((each) => `data: ${each}\n\n`).join('');

  test('is recorded as one completion, in whatever pieces it comes', () => {
    const stop = chunk('', ',"finish_reason":"stop"');
    const answer = Buffer.from(
      `: hello\r\n\r\nevent: x\nid: 7\ndata: ${chunk('Größe ')}\r\n\r\n${events(chunk('😀'), stop, '[DONE]', chunk('late'))}`,
    );
    const exchanges = new RecordedExchanges();
    fc.assert(
      fc.property(cuts, (places) => {
        const found = exchanges.recordPlain({ answerHeaders: EVENTS, answer, places });
        expect(found).toMatchObject({ completionId: 'c-1', model: 'm', response: { truncated: false } });
        expect(found && bodyValue(found.response)).toEqual({
          id: 'c-1',
          object: 'chat.completion',
          model: 'm',
          choices: [
            {
              index: 0,
              message: { role: 'assistant', content: 'Größe 😀', refusal: null },
              logprobs: null,
              finish_reason: 'stop',
            },
          ],
        });
      }),
      { numRuns: 300 },
    );
  });

  test('of something else than completions is recorded as its text', () => {
    const answer = 'event: message_start\ndata: {"type":"message_start"}\n\ndata: {"choices":[]}\n\n';
    const found = new RecordedExchanges().recordPlain({ answerHeaders: EVENTS, answer, places: [20, 30] });
    expect(found).toMatchObject({ completionId: undefined, model: undefined });
    expect(found && bodyValue(found.response)).toBe(answer);
    expect(
      new RecordedExchanges().recordPlain({ answerHeaders: EVENTS, answer: ': nothing\n\n' })?.response.body,
    ).toEqual({
      isJson: false,
      bytes: Buffer.from(': nothing\n\n'),
    });
  });

  test('counts up to 4 MiB', () => {
    const first = events(chunk('a'));
    const padded = (bytes: number) =>
      `${first}:${'x'.repeat(bytes - first.length - events(chunk('b')).length - 3)}\n\n`;
    for (const [bytes, content] of [
      [LIMIT, 'ab'],
      [LIMIT + 1, 'a'],
    ] as const) {
      const answer = `${padded(bytes)}${events(chunk('b'))}`;
      expect(answer.length).toBe(bytes);
      const found = new RecordedExchanges().recordPlain({ answerHeaders: EVENTS, answer, places: [7, 1e6] });
      expect(found?.response.truncated).toBe(bytes > LIMIT);
      expect(found && bodyValue(found.response)).toMatchObject({ choices: [{ message: { content } }] });
    }
  });

  test('that is nested too deeply is recorded as a text', () => {
    const deep = `{"choices":[],"a":${'['.repeat(300)}${']'.repeat(300)}}`;
    const found = new RecordedExchanges().recordPlain({ answerHeaders: EVENTS, answer: events(deep) });
    expect(found?.response.body?.isJson).toBe(false);
  });
});
