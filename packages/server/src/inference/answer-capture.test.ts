import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { propertyRuns } from '../../../../test/fixtures/seed.ts';
import { splitPositions } from './chunks.fixture.ts';
import { bodyValue, EVENTS, LIMIT, RecordedExchanges } from './exchange.fixture.ts';

describe('an event stream', () => {
  const chunk = (content: string, more = '') =>
    `{"id":"c-1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"${content}"}${more}}]}`;
  const events = (...data: readonly string[]) => data.map((each) => `data: ${each}\n\n`).join('');

  test('is recorded as one completion, in any chunks', () => {
    const stop = chunk('', ',"finish_reason":"stop"');
    const stream = Buffer.from(
      `: hello\r\n\r\nevent: x\nid: 7\ndata: ${chunk('Größe ')}\r\n\r\n${events(chunk('😀'), stop, '[DONE]', chunk('late'))}`,
    );
    const exchanges = new RecordedExchanges();
    fc.assert(
      fc.property(splitPositions, (positions) => {
        const found = exchanges.recordPlain({ responseHeaders: EVENTS, response: stream, splitAt: positions });
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
      { numRuns: propertyRuns(300) },
    );
  });

  test('that is not a completion is recorded as text', () => {
    const stream = 'event: progress\ndata: {"type":"progress"}\n\ndata: {"step":2}\n\n';
    const found = new RecordedExchanges().recordPlain({ responseHeaders: EVENTS, response: stream, splitAt: [20, 30] });
    expect(found).toMatchObject({ completionId: undefined, model: undefined });
    expect(found && bodyValue(found.response)).toBe(stream);
    expect(
      new RecordedExchanges().recordPlain({ responseHeaders: EVENTS, response: ': nothing\n\n' })?.response.body,
    ).toEqual({
      isJson: false,
      bytes: Buffer.from(': nothing\n\n'),
    });
  });

  test('is read to its end, and its text recorded up to 4 MiB', () => {
    const usage = `{"id":"c-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}`;
    const text = 'wordy \\"text\\" '.repeat(8);
    const recorded = (pieces: number) => {
      const stream = events(chunk(text)).repeat(pieces) + events(usage);
      return new RecordedExchanges().recordPlain({ responseHeaders: EVENTS, response: stream, splitAt: [7, 1e6] });
    };
    const short = recorded(12_503);
    expect(short?.response.truncated).toBe(false);
    const content = JSON.parse(`"${text}"`);
    expect(short && bodyValue(short.response)).toMatchObject({
      choices: [{ message: { content: content.repeat(12_503) }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3 },
    });
    const long = recorded(50_000);
    expect(long?.response.truncated).toBe(true);
    const body = Object(long && bodyValue(long.response));
    expect(body).toMatchObject({ choices: [{ finish_reason: 'stop' }], usage: { prompt_tokens: 3 } });
    const cut: string = body.choices[0].message.content;
    expect(content.repeat(50_000).startsWith(cut)).toBe(true);
    expect(JSON.stringify(cut).length).toBeGreaterThan(0.9 * LIMIT);
    expect(long?.response.body?.bytes.length).toBeLessThanOrEqual(LIMIT);
  });

  test('that is too deep is recorded as text', () => {
    const deep = `{"choices":[],"a":${'['.repeat(300)}${']'.repeat(300)}}`;
    const found = new RecordedExchanges().recordPlain({ responseHeaders: EVENTS, response: events(deep) });
    expect(found?.response.body?.isJson).toBe(false);
  });
});

describe('limits of an assembled completion', () => {
  const BEGIN = '{"id":"c-1","choices":[]}';
  const END = '{"choices":[{"index":0,"delta":{"content":"end"}}]}';
  const list = (length: number, each: (index: number) => string) => Array.from({ length }, (_, at) => each(at)).join();
  const recorded = (...data: readonly string[]) => {
    const exchanges = new RecordedExchanges();
    const stream = data.map((each) => `data: ${each}\n\n`).join('');
    const found = exchanges.recordPlain({ responseHeaders: EVENTS, response: stream, splitAt: [7, 1e6] });
    expect(exchanges.log).toEqual([]);
    return { stream, truncated: found?.response.truncated, body: found?.response.body, found };
  };
  const value = ({ found }: ReturnType<typeof recorded>) => found && bodyValue(found.response);

  const manyChoices = (choices: number) => `{"choices":[${list(choices, (index) => `{"index":${index}}`)}]}`;
  const manyCalls = (from: number, to: number) =>
    `{"choices":[{"delta":{"tool_calls":[${list(to - from, (at) => `{"index":${from + at},"id":"${from + at}"}`)}]}}]}`;
  const member = (text: string) => `{"choices":[{"index":0,"delta":{"x":${text}}}]}`;
  const logprobs = (content: string) => `{"choices":[{"index":0,"logprobs":{"content":[${content}]}}]}`;

  test('128 choices, in one chunk or in many', () => {
    const choices = Array.from({ length: 128 }, (_, index) => expect.objectContaining({ index }));
    const all = recorded(manyChoices(128));
    expect(all.truncated).toBe(false);
    expect(value(all)).toMatchObject({ choices });
    const one = recorded(manyChoices(129), END);
    const many = recorded(
      manyChoices(100),
      ...Array.from({ length: 29 }, (_, at) => `{"choices":[{"index":${100 + at}}]}`),
    );
    for (const found of [one, many]) {
      expect(found.truncated).toBe(true);
      expect(value(found)).toMatchObject({ choices });
    }
    expect(value(one)).toMatchObject({ choices: [{ message: { content: 'end' } }, ...choices.slice(1)] });
  });

  test('128 tool calls of a message, in one chunk or in many', () => {
    const tool_calls = Array.from({ length: 128 }, (_, index) => ({ id: `${index}` }));
    expect(recorded(manyCalls(0, 128)).truncated).toBe(false);
    for (const found of [recorded(manyCalls(0, 129)), recorded(manyCalls(0, 100), manyCalls(100, 129))]) {
      expect(found.truncated).toBe(true);
      expect(value(found)).toMatchObject({ choices: [{ message: { tool_calls } }] });
    }
  });

  test('an event with many values is dropped, but its fields are read', () => {
    const event = `{"id":"c-1","usage":{"completion_tokens":9},${manyChoices(30_000).slice(1)}`;
    for (const found of [recorded(BEGIN, event, END), recorded(event, END)]) {
      expect(found.truncated).toBe(true);
      expect(found.found?.completionId).toBe('c-1');
      expect(value(found)).toMatchObject({ choices: [{ index: 0, message: { content: 'end' } }] });
    }
  });

  test('an event with one long string is read', () => {
    const image = 'iVBO'.repeat(200_000);
    const found = recorded(BEGIN, member(`[{"url":"${image}"}]`));
    expect(found.truncated).toBe(false);
    expect(value(found)).toMatchObject({ choices: [{ message: { x: [{ url: image }] } }] });
  });

  test('the log probabilities of real servers are complete', () => {
    const token = '{"token":"ab","logprob":-0.01234567,"bytes":[97,98]}';
    const chunk = logprobs(`{"token":"ab","logprob":-0.01234567,"top_logprobs":[${list(20, () => token)}]}`);
    const found = recorded(...Array.from({ length: 3_000 }, () => chunk));
    expect(found.stream.length).toBeGreaterThan(0.75 * LIMIT);
    expect(found.truncated).toBe(false);
    expect(found.body?.bytes.length).toBeGreaterThan(0.75 * LIMIT);
  });

  test('a completion with more JSON than the limit is its beginning, as text', () => {
    const number = logprobs(list(40_000, () => '1e20'));
    const found = recorded(BEGIN, ...Array.from({ length: 20 }, () => number));
    expect(found.truncated).toBe(true);
    expect(found.body?.isJson).toBe(false);
    expect(found.body?.bytes.length).toBe(LIMIT);
    expect(value(found)).toMatch(/^\{"id":"c-1",.*,100000000000000000000,/);
  });

  test.each([
    ['empty lists', () => logprobs(list(30_000, () => '[]'))],
    ['members of the completion', (at: number) => `{"x${at}":1,"y${at}":1}`],
    ['members of a choice', (at: number) => `{"choices":[{"index":0,"x${at}":1,"y${at}":1}]}`],
    ['members of a message', (at: number) => `{"choices":[{"delta":{"x${at}":1,"y${at}":1}}]}`],
    ['members of a call', (at: number) => `{"choices":[{"delta":{"tool_calls":[{"index":0,"x${at}":1,"y${at}":1}]}}]}`],
    ['kinds of log probabilities', (at: number) => `{"choices":[{"logprobs":{"x${at}":[],"y${at}":[]}}]}`],
    ['names', (at: number) => logprobs(`{${list(8_000, (index) => `"${index}x${at}":1`)}}`)],
    ['levels of nesting', () => member(`${'['.repeat(20_000)}${']'.repeat(20_000)}`)],
  ])('many %s are truncated', (_, data) => {
    const found = recorded(BEGIN, ...Array.from({ length: 40 }, (_, at) => data(at)), END);
    expect(found.stream.length).toBeLessThan(LIMIT);
    expect(found.truncated).toBe(true);
    expect(found.body?.bytes.length).toBeLessThan(0.75 * LIMIT);
    expect(value(found)).toMatchObject({ id: 'c-1', choices: [{ message: { content: 'end' } }] });
  });
});
