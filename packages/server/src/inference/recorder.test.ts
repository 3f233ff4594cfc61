import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { propertyRuns } from '../../../../test/fixtures/seed.ts';
import {
  bodyValue,
  COMPLETION_REQUEST,
  COMPLETION_RESPONSE,
  EVENTS,
  type Exchange,
  LIMIT,
  RecordedExchanges,
  sized,
} from './exchange.fixture.ts';

describe('the recorder', () => {
  test('records a POST whose JSON body has an array of messages, with both bodies', () => {
    const exchanges = new RecordedExchanges();
    const before = Date.now();
    const found = exchanges.recordPlain({ target: '/v1/any/path?key=secret', response: COMPLETION_RESPONSE });
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
    expect(found?.request.body?.bytes.toString()).toBe(COMPLETION_REQUEST);
    expect(found?.response.body?.bytes.toString()).toBe(COMPLETION_RESPONSE);
  });

  test.for<[string, Exchange, object]>([
    [
      'an error response',
      { status: 500, response: '{"error":{"message":"no"}}' },
      { statusCode: 500, completionId: undefined },
    ],
    [
      'a response without a body',
      { status: 204 },
      { statusCode: 204, response: { body: undefined, truncated: false } },
    ],
    [
      'an exchange without a response',
      { status: 0 },
      { statusCode: 0, response: { body: undefined, truncated: false } },
    ],
    ['an empty list of messages', { request: '{"messages":[]}' }, { statusCode: 200 }],
    [
      'a body without its byte order mark',
      { request: `\ufeff${COMPLETION_REQUEST}` },
      { request: { body: { isJson: true, bytes: Buffer.from(COMPLETION_REQUEST) } } },
    ],
  ])('records %s', ([_name, exchange, wanted]) => {
    expect(new RecordedExchanges().recordPlain(exchange)).toMatchObject(wanted);
  });

  test.for<[string, Exchange]>([
    ['a GET', { method: 'GET' }],
    ['a PUT', { method: 'PUT' }],
    ['a body without messages', { request: '{"model":"m","input":"x"}' }],
    ['messages that are not an array', { request: '{"messages":"x"}' }],
    ['nested messages', { request: '{"a":{"messages":[]}}' }],
    ['an array', { request: '[{"messages":[]}]' }],
    ['invalid JSON', { request: `${COMPLETION_REQUEST}!` }],
    ['no body', { request: '' }],
    ['an incomplete request', { request: COMPLETION_REQUEST.slice(0, -1), requestEnds: false, status: 0 }],
    ['an unknown content coding', { headers: { 'content-encoding': 'secret' } }],
  ])('does not record %s', ([_name, exchange]) => {
    const exchanges = new RecordedExchanges();
    expect(exchanges.recordPlain({ response: COMPLETION_RESPONSE, ...exchange })).toBeUndefined();
    expect(exchanges.log).toEqual([]);
  });

  test('records nothing with a capacity of 0, and new exchanges after it has changed', () => {
    const { store, startRecording } = new RecordedExchanges();
    store.capacity = 0;
    expect(startRecording({ method: 'POST', target: '/', headers: {} })).toBeUndefined();
    store.capacity = 1;
    expect(startRecording({ method: 'POST', target: '/', headers: {} })).toBeDefined();
  });
});

describe('the conversation id', () => {
  test.for<[object, string | undefined]>([
    [{ 'x-conversation-id': 'a', 'x-request-id': 'b' }, 'a'],
    [{ 'x-request-id': 'b' }, 'b'],
    [{}, undefined],
    [{ 'x-conversation-id': 'é'.repeat(256) }, 'é'.repeat(256)],
  ])('for %j is %s', ([headers, wanted]) => {
    expect(new RecordedExchanges().recordPlain({ headers: { ...headers } })?.conversationId).toBe(wanted);
  });

  test('has at most 256 bytes: a longer one is ignored with a warning', () => {
    const exchanges = new RecordedExchanges();
    const headers = { 'x-conversation-id': 'x'.repeat(257), 'x-request-id': 'b' };
    expect(exchanges.recordPlain({ headers })?.conversationId).toBe('b');
    expect(exchanges.log).toEqual([
      expect.stringMatching(/"level":"warn".*x-conversation-id has more than 256 bytes and is ignored"/),
    ]);
  });
});

describe('truncation', () => {
  test.for([
    [LIMIT, false],
    [LIMIT + 1, true],
  ] as const)('applies to bodies of more than 4 MiB: of %i bytes: %s', ([bytes, isTruncated]) => {
    const request = sized(bytes, '"messages":[],"model":"m"');
    const response = sized(bytes, '"id":"c-1","model":"big"');
    const found = new RecordedExchanges().recordPlain({ request, response, splitAt: [1, 65_536, 1_000_000] });
    expect(found).toMatchObject({ completionId: 'c-1', model: 'big' });
    for (const [text, body] of [
      [request, found?.request],
      [response, found?.response],
    ] as const) {
      expect(body?.truncated).toBe(isTruncated);
      expect(body?.body?.isJson).toBe(!isTruncated);
      expect(body?.body?.bytes.toString() === text.slice(0, LIMIT)).toBe(true);
    }
  });

  test.for([
    ['/v1/chat/completions', true],
    ['/openai/deployments/x/chat/completions?version=1', true],
    ['/v1/messages', false],
  ] as const)('a truncated request without messages is recorded by its path: %s: %s', ([target, isRecorded]) => {
    const request = sized(LIMIT + 1, '"messages":[]');
    expect(new RecordedExchanges().recordPlain({ target, request })).toBeDefined();
    const unreadable = 'x'.repeat(LIMIT + 1);
    expect(new RecordedExchanges().recordPlain({ target, request: unreadable }) !== undefined).toBe(isRecorded);
  });

  test('ends with a whole character', () => {
    const exchanges = new RecordedExchanges({ bodyLimit: 100 });
    for (const character of ['a', 'é', '€', '😀']) {
      for (let before = 80; before < 90; before++) {
        const request = `{"messages":[${'x'.repeat(before)}${character.repeat(20)}`;
        const recorded = exchanges.recordPlain({ request })?.request.body?.bytes.toString() ?? '';
        expect(request.startsWith(recorded), recorded).toBe(true);
        expect(Buffer.byteLength(recorded)).toBeGreaterThan(100 - Buffer.byteLength(character));
      }
    }
  });

  test('applies while other exchanges use the memory budget', () => {
    const exchanges = new RecordedExchanges({ totalLimit: 1_150 });
    const other = exchanges.startRecording({ method: 'POST', target: '/v1/chat/completions', headers: {} });
    other?.requestChunk(Buffer.from(COMPLETION_REQUEST.padEnd(1_100)));
    const limited = exchanges.recordPlain({ response: COMPLETION_RESPONSE });
    expect(limited?.request).toMatchObject({ truncated: true, body: undefined });
    // It is released at the end.
    other?.requestEnd();
    other?.end();
    exchanges.store.clear();
    for (let again = 0; again < 10; again++) {
      expect(exchanges.recordPlain({ response: COMPLETION_RESPONSE })?.request.truncated).toBe(false);
      expect(exchanges.recordPlain({ request: '{}', response: COMPLETION_RESPONSE })).toBeUndefined();
      expect(
        exchanges.recordPlain({ headers: { 'content-encoding': 'secret' }, response: COMPLETION_RESPONSE }),
      ).toBeUndefined();
      expect(exchanges.recordPlain({ responseHeaders: EVENTS, response: 'data: {"choices":[]}\n\n' })).toBeDefined();
    }
  });
});

describe('a recorded body', () => {
  test('is text if it is not JSON, too deep or incomplete; ids are read as far as possible', () => {
    const exchanges = new RecordedExchanges();
    const broken = exchanges.recordPlain({ response: COMPLETION_RESPONSE.slice(0, -1) });
    expect(broken).toMatchObject({ completionId: 'c-1', model: 'big', response: { truncated: false } });
    expect(bodyValue(broken?.response ?? { body: undefined, truncated: false })).toBe(COMPLETION_RESPONSE.slice(0, -1));
    const deep = `{"id":"c-1","a":${'['.repeat(256)}${']'.repeat(256)}}`;
    expect(exchanges.recordPlain({ response: deep })).toMatchObject({
      completionId: 'c-1',
      response: { body: { isJson: false } },
    });
    expect(exchanges.recordPlain({ response: 'plain' })?.response.body).toEqual({
      isJson: false,
      bytes: Buffer.from('plain'),
    });
  });

  test('is valid UTF-8', () => {
    const request = Buffer.from('{"messages":["\xff"],"é":"\xc3\xa9"}', 'latin1');
    const found = new RecordedExchanges().recordPlain({ request, response: Buffer.from([0xff, 0xfe, 0x41]) });
    expect(found && bodyValue(found.request)).toMatchObject({ messages: ['\ufffd'] });
    expect(found && bodyValue(found.response)).toBe('\ufffd\ufffdA');
  });

  test('has a buffer of its own and of its size', () => {
    const events = `data: ${JSON.stringify({ choices: [{ delta: { content: 'a' } }] })}\n\n`;
    for (const exchange of [
      { response: COMPLETION_RESPONSE },
      { responseHeaders: EVENTS, response: events },
      { response: Buffer.from([0xff]) },
    ]) {
      const found = new RecordedExchanges().recordPlain({ ...exchange, splitAt: [3, 9, 27] });
      for (const bytes of [found?.request.body?.bytes, found?.response.body?.bytes]) {
        expect(bytes?.buffer.byteLength).toBe(bytes?.length);
        expect(bytes?.length).toBeGreaterThan(0);
      }
    }
  });
});

test('calls in any order do not throw and record an exchange at most once', () => {
  const calls = fc.constantFrom('request-chunk', 'request-end', 'head', 'response-chunk', 'end');
  fc.assert(
    fc.property(fc.array(calls, { maxLength: 12 }), (order) => {
      const { startRecording, store, log } = new RecordedExchanges();
      const recording = startRecording({ method: 'POST', target: '/v1/chat/completions', headers: {} });
      for (const call of order) {
        if (call === 'request-chunk') recording?.requestChunk(Buffer.from(COMPLETION_REQUEST));
        else if (call === 'request-end') recording?.requestEnd();
        else if (call === 'head') recording?.responseHead(200, EVENTS);
        else if (call === 'response-chunk') recording?.responseChunk(Buffer.from('data: {"choices":[]}\n\n'));
        else recording?.end();
      }
      const untilRequestEnd = order.slice(0, order.includes('request-end') ? order.indexOf('request-end') : undefined);
      const untilEnd = untilRequestEnd.slice(
        0,
        untilRequestEnd.includes('end') ? untilRequestEnd.indexOf('end') : undefined,
      );
      const isRecorded = order.includes('end') && untilEnd.filter((call) => call === 'request-chunk').length === 1;
      expect(store.list()).toHaveLength(isRecorded ? 1 : 0);
      expect(log).toEqual([]);
    }),
    { numRuns: propertyRuns(500) },
  );
});
