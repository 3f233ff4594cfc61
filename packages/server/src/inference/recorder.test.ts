import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { propertyRuns } from '../../../../test/fixtures/seed.ts';
import {
  ANSWER,
  ASKING,
  bodyValue,
  EVENTS,
  type Exchange,
  LIMIT,
  RecordedExchanges,
  sized,
} from './exchange.fixture.ts';

describe('recorded is', () => {
  test('a POST whose JSON body has an array of messages, with what was asked and answered', () => {
    const exchanges = new RecordedExchanges();
    const before = Date.now();
    const found = exchanges.recordPlain({ target: '/v1/any/path?key=secret', answer: ANSWER });
    expect(found).toMatchObject({
      path: '/v1/any/path',
      conversationId: undefined,
      completionId: 'c-1',
      model: 'big',
      statusCode: 200,
      request: { truncated: false },
      response: { truncated: false },
    });
    expect(found?.epochMs).toBeGreaterThanOrEqual(before);
    expect(found?.epochMs).toBeLessThanOrEqual(Date.now());
    expect(found?.durationMs).toBeGreaterThanOrEqual(0);
    expect(found?.request.body?.bytes.toString()).toBe(ASKING);
    expect(found?.response.body?.bytes.toString()).toBe(ANSWER);
  });

  test.for<[string, Exchange, object]>([
    ['a failure', { status: 500, answer: '{"error":{"message":"no"}}' }, { statusCode: 500, completionId: undefined }],
    ['an answer without a body', { status: 204 }, { statusCode: 204, response: { body: undefined, truncated: false } }],
    [
      'an exchange without an answer',
      { status: 0 },
      { statusCode: 0, response: { body: undefined, truncated: false } },
    ],
    ['an empty list of messages', { request: '{"messages":[]}' }, { statusCode: 200 }],
    [
      'a body behind a byte order mark, without that',
      { request: `\ufeff${ASKING}` },
      { request: { body: { isJson: true, bytes: Buffer.from(ASKING) } } },
    ],
  ])('%s', ([_name, exchange, wanted]) => {
    expect(new RecordedExchanges().recordPlain(exchange)).toMatchObject(wanted);
  });

  test.for<[string, Exchange]>([
    ['a GET', { method: 'GET' }],
    ['a PUT', { method: 'PUT' }],
    ['a body without messages', { request: '{"model":"m","input":"x"}' }],
    ['messages that are no array', { request: '{"messages":"x"}' }],
    ['messages further inside', { request: '{"a":{"messages":[]}}' }],
    ['an array', { request: '[{"messages":[]}]' }],
    ['what is no JSON', { request: `${ASKING}!` }],
    ['no body', { request: '' }],
    ['a request that breaks off', { request: ASKING.slice(0, -1), requestEnds: false, status: 0 }],
    ['a coding that nobody knows', { headers: { 'content-encoding': 'secret' } }],
  ])('%s is not recorded', ([_name, exchange]) => {
    const exchanges = new RecordedExchanges();
    expect(exchanges.recordPlain({ answer: ANSWER, ...exchange })).toBeUndefined();
    expect(exchanges.log).toEqual([]);
  });

  test('nothing with a capacity of 0, and what begins later when that is changed', () => {
    const { store, recorder } = new RecordedExchanges();
    store.capacity = 0;
    expect(recorder.begin('POST', '/', {})).toBeUndefined();
    store.capacity = 1;
    expect(recorder.begin('POST', '/', {})).toBeDefined();
  });
});

describe('the conversation', () => {
  test.for<[object, string | undefined]>([
    [{ 'x-conversation-id': 'a', 'x-request-id': 'b' }, 'a'],
    [{ 'x-request-id': 'b' }, 'b'],
    [{}, undefined],
    [{ 'x-conversation-id': 'é'.repeat(256) }, 'é'.repeat(256)],
  ])('of %j is %s', ([headers, wanted]) => {
    expect(new RecordedExchanges().recordPlain({ headers: { ...headers } })?.conversationId).toBe(wanted);
  });

  test('has an id of 256 bytes at most: a longer one is none, with a warning', () => {
    const exchanges = new RecordedExchanges();
    const headers = { 'x-conversation-id': 'x'.repeat(257), 'x-request-id': 'b' };
    expect(exchanges.recordPlain({ headers })?.conversationId).toBe('b');
    expect(exchanges.log).toEqual([expect.stringMatching(/"level":"warn".*x-conversation-id has more than 256 bytes/)]);
  });
});

describe('what is cut', () => {
  test.for([
    [LIMIT, false],
    [LIMIT + 1, true],
  ] as const)('is a body of more than 4 MiB: one of %i is %s', ([bytes, cut]) => {
    const request = sized(bytes, '"messages":[],"model":"m"');
    const answer = sized(bytes, '"id":"c-1","model":"big"');
    const found = new RecordedExchanges().recordPlain({ request, answer, places: [1, 65_536, 1_000_000] });
    expect(found).toMatchObject({ completionId: 'c-1', model: 'big' });
    for (const [text, body] of [
      [request, found?.request],
      [answer, found?.response],
    ] as const) {
      expect(body?.truncated).toBe(cut);
      expect(body?.body?.isJson).toBe(!cut);
      expect(body?.body?.bytes.toString() === text.slice(0, LIMIT)).toBe(true);
    }
  });

  test.for([
    ['/v1/chat/completions', true],
    ['/openai/deployments/x/chat/completions?version=1', true],
    ['/v1/messages', false],
  ] as const)('counts by its path: %s is recorded: %s', ([target, isRecorded]) => {
    const request = sized(LIMIT + 1, '"messages":[]');
    expect(new RecordedExchanges().recordPlain({ target, request }) !== undefined).toBe(isRecorded);
    const unreadable = 'x'.repeat(LIMIT + 1);
    expect(new RecordedExchanges().recordPlain({ target, request: unreadable }) !== undefined).toBe(isRecorded);
  });

  test('ends with a whole character', () => {
    const exchanges = new RecordedExchanges({ bodyLimit: 100 });
    for (const character of ['a', 'é', '€', '😀']) {
      for (let before = 80; before < 90; before++) {
        const request = `{"messages":[${'x'.repeat(before)}${character.repeat(20)}`;
        const kept = exchanges.recordPlain({ request })?.request.body?.bytes.toString() ?? '';
        expect(request.startsWith(kept), kept).toBe(true);
        expect(Buffer.byteLength(kept)).toBeGreaterThan(100 - Buffer.byteLength(character));
      }
    }
  });

  test('is what comes while others hold too much', () => {
    const exchanges = new RecordedExchanges({ underWayLimit: 1_150 });
    const other = exchanges.recorder.begin('POST', '/v1/chat/completions', {});
    other?.requestChunk(Buffer.from(ASKING.padEnd(1_100)));
    const squeezed = exchanges.recordPlain({ answer: ANSWER });
    expect(squeezed?.request).toMatchObject({ truncated: true, body: undefined });
    // It is given back when it is over.
    other?.requestEnd();
    other?.end();
    exchanges.store.clear();
    for (let again = 0; again < 10; again++) {
      expect(exchanges.recordPlain({ answer: ANSWER })?.request.truncated).toBe(false);
      expect(exchanges.recordPlain({ request: '{}', answer: ANSWER })).toBeUndefined();
      expect(exchanges.recordPlain({ headers: { 'content-encoding': 'secret' }, answer: ANSWER })).toBeUndefined();
      expect(exchanges.recordPlain({ answerHeaders: EVENTS, answer: 'data: {"choices":[]}\n\n' })).toBeDefined();
    }
  });
});

describe('a body is', () => {
  test('a text when it is no JSON, is nested too deeply, or broke off; ids are read from what there is', () => {
    const exchanges = new RecordedExchanges();
    const broken = exchanges.recordPlain({ answer: ANSWER.slice(0, -1) });
    expect(broken).toMatchObject({ completionId: 'c-1', model: 'big', response: { truncated: false } });
    expect(bodyValue(broken?.response ?? { body: undefined, truncated: false })).toBe(ANSWER.slice(0, -1));
    const deep = `{"id":"c-1","a":${'['.repeat(256)}${']'.repeat(256)}}`;
    expect(exchanges.recordPlain({ answer: deep })).toMatchObject({
      completionId: 'c-1',
      response: { body: { isJson: false } },
    });
    expect(exchanges.recordPlain({ answer: 'plain' })?.response.body).toEqual({
      isJson: false,
      bytes: Buffer.from('plain'),
    });
  });

  test('UTF-8, whatever was sent', () => {
    const request = Buffer.from('{"messages":["\xff"],"é":"\xc3\xa9"}', 'latin1');
    const found = new RecordedExchanges().recordPlain({ request, answer: Buffer.from([0xff, 0xfe, 0x41]) });
    expect(found && bodyValue(found.request)).toMatchObject({ messages: ['\ufffd'] });
    expect(found && bodyValue(found.response)).toBe('\ufffd\ufffdA');
  });

  test('in memory of its own, and no more than its bytes', () => {
    const answer = `data: ${JSON.stringify({ choices: [{ delta: { content: 'a' } }] })}\n\n`;
    for (const exchange of [{ answer: ANSWER }, { answerHeaders: EVENTS, answer }, { answer: Buffer.from([0xff]) }]) {
      const found = new RecordedExchanges().recordPlain({ ...exchange, places: [3, 9, 27] });
      for (const bytes of [found?.request.body?.bytes, found?.response.body?.bytes]) {
        expect(bytes?.buffer.byteLength).toBe(bytes?.length);
        expect(bytes?.length).toBeGreaterThan(0);
      }
    }
  });
});

test('whatever is told in whatever order, nothing throws and an exchange is recorded once at most', () => {
  const calls = fc.constantFrom('chunk', 'end', 'head', 'answer', 'over');
  fc.assert(
    fc.property(fc.array(calls, { maxLength: 12 }), (order) => {
      const { recorder, store, log } = new RecordedExchanges();
      const recording = recorder.begin('POST', '/v1/chat/completions', {});
      for (const call of order) {
        if (call === 'chunk') recording?.requestChunk(Buffer.from(ASKING));
        else if (call === 'end') recording?.requestEnd();
        else if (call === 'head') recording?.responseHead(200, EVENTS);
        else if (call === 'answer') recording?.responseChunk(Buffer.from('data: {"choices":[]}\n\n'));
        else recording?.end();
      }
      const asked = order.slice(0, order.includes('end') ? order.indexOf('end') : undefined);
      const once = asked.slice(0, asked.includes('over') ? asked.indexOf('over') : undefined);
      const isRecorded = order.includes('over') && once.filter((call) => call === 'chunk').length === 1;
      expect(store.list()).toHaveLength(isRecorded ? 1 : 0);
      expect(log).toEqual([]);
    }),
    { numRuns: propertyRuns(500) },
  );
});
