import { createServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  type ChatCompletions,
  type CompletionScript,
  startChatCompletions,
} from '../../../testing/chat-completions.ts';
import { localhostCertificate } from '../../http/client/certificate.fixture.ts';
import { CODINGS } from '../../http/client/codings.fixture.ts';
import { listen } from '../../http/client/listening.fixture.ts';
import { BusyError, WaitBudget } from '../../http/fair-queue.ts';
import { Secrets } from '../../http/secrets/secrets.ts';
import { USER_AGENT } from '../../telemetry/version.ts';
import { LlmClient, type LlmConnection, LlmError, type LlmLimits, type LlmMessage } from './client.ts';

const KEY = 'sk-very-secret';
const MODEL = 'model-of-ours';
const MESSAGES: readonly LlmMessage[] = [
  { role: 'system', content: 'system-prompt' },
  { role: 'user', content: 'user-prompt é😀' },
];

let llm: ChatCompletions;
beforeAll(async () => {
  llm = await startChatCompletions();
});
afterAll(() => llm.close());

function connectionTo(url: string, apiKey?: string): LlmConnection {
  return { name: 'model', model: MODEL, url, ...(apiKey !== undefined && { apiKey }) };
}

async function ownServer(): Promise<ChatCompletions> {
  const own = await startChatCompletions();
  onTestFinished(() => own.close());
  return own;
}

function clientWith(limits?: LlmLimits): LlmClient {
  const client = new LlmClient(limits);
  onTestFinished(() => client.close());
  return client;
}

/** Returns the error of a call. */
async function failureOf(call: Promise<string>): Promise<LlmError> {
  const failure: unknown = await call.then(
    (content) => new Error(`unexpected content: ${content}`),
    (error) => error,
  );
  if (!(failure instanceof LlmError)) throw failure;
  return failure;
}

describe('a call', () => {
  test('sends the specified request', async () => {
    llm.script('no');
    expect(await clientWith().complete(connectionTo(llm.url, KEY), MESSAGES)).toBe('no');
    const { method, path, headers, text } = llm.requests.at(-1) ?? {};
    expect([method, path]).toEqual(['POST', '/v1/chat/completions']);
    expect(JSON.parse(text ?? '')).toEqual({ model: MODEL, messages: MESSAGES, temperature: 0, stream: false });
    expect(headers).toMatchObject({
      authorization: `Bearer ${KEY}`,
      'content-type': 'application/json',
      accept: 'application/json',
      'accept-encoding': 'identity',
      'user-agent': USER_AGENT,
    });
  });

  test.each(CODINGS)('decodes a response with a content coding: $name', async ({ lines, encode }) => {
    const text = JSON.stringify({ choices: [{ message: { content: 'zip' } }] });
    llm.script({ body: encode(Buffer.from(text)), headers: { 'content-encoding': lines.join(',') } });
    expect(await clientWith().complete(connectionTo(llm.url), MESSAGES)).toBe('zip');
  });

  test.each([
    ['no key', undefined],
    ['an empty key', ''],
  ])('with %s sends no authorization', async (_which, key) => {
    await clientWith().complete(connectionTo(llm.url, key), MESSAGES);
    expect(llm.requests.at(-1)?.headers).not.toHaveProperty('authorization');
  });

  test('resolves references in its key', async () => {
    const [key, missing] = [`$\{env:OPENAI_API_KEY}`, `$\{env:NONE}`];
    const env = { OPENAI_API_KEY: KEY };
    const client = clientWith({ secrets: new Secrets({ env, folder: undefined, origins: new Map() }) });
    await client.complete(connectionTo(llm.url, key), MESSAGES);
    expect(llm.requests.at(-1)?.headers).toMatchObject({ authorization: `Bearer ${KEY}` });
    const failure = await failureOf(client.complete(connectionTo(llm.url, missing), MESSAGES));
    expect(failure.message).toBe(`llm connection "model": api_key refers to ${missing}, which is not set`);
  });

  test.each(['', '/', '//'])('uses the url without trailing slashes: %j', async (slashes) => {
    await clientWith().complete(connectionTo(`${llm.url}${slashes}`), MESSAGES);
    expect(llm.requests.at(-1)?.path).toBe('/v1/chat/completions');
  });

  test('reuses the connection of the previous call', async () => {
    const client = clientWith();
    const before = llm.connections;
    for (let times = 0; times < 3; times++) await client.complete(connectionTo(llm.url), MESSAGES);
    expect(llm.connections - before).toBe(1);
  });

  test('does not wait for other calls', async () => {
    const own = await ownServer();
    const client = clientWith();
    const released = Promise.withResolvers<void>();
    own.script({ content: 'late', after: released.promise }, 'soon');
    const first = client.complete(connectionTo(own.url), MESSAGES);
    await own.next();
    expect(await client.complete(connectionTo(own.url), MESSAGES)).toBe('soon');
    released.resolve();
    expect(await first).toBe('late');
  });

  test('uses TLS and verifies the certificate', async () => {
    const secure = await startChatCompletions(localhostCertificate);
    onTestFinished(() => secure.close());
    const rejected = await failureOf(clientWith().complete(connectionTo(secure.url, KEY), MESSAGES));
    expect([rejected.fault, rejected.message]).toEqual([
      'network',
      'llm connection "model": connection failed (DEPTH_ZERO_SELF_SIGNED_CERT)',
    ]);
    expect(secure.requests).toEqual([]);
    const trusted = getCACertificates('default');
    setDefaultCACertificates([...trusted, localhostCertificate.cert]);
    onTestFinished(() => setDefaultCACertificates(trusted));
    expect(await clientWith().complete(connectionTo(secure.url, KEY), MESSAGES)).toBe('yes');
  });
});

describe('a response', () => {
  test.each([
    ['a text', 'Line\n\t"x" é😀'],
    ['an empty text', ''],
    ['JSON', '{"a":1.0}'],
    ['a fence', '```json\n{}\n```'],
    ['a text of nearly 512 KiB', 'x'.repeat(512 * 1024 - 400)],
  ])('may be %s', async (_what, content) => {
    llm.script(content);
    expect(await clientWith().complete(connectionTo(llm.url), MESSAGES)).toBe(content);
  });

  test.each<[string, CompletionScript]>([
    ['a lone surrogate', { body: '{"choices":[{"message":{"content":"a\\ud800"}}]}' }],
    ['a name with an escape', { body: '{"choices":[{"message":{"c\\u006fntent":"a\\ufffd"}}]}' }],
    ['another 2xx status', { content: 'a\ufffd', status: 201 }],
    ['another type', { content: 'a\ufffd', headers: { 'content-type': 'text/html' } }],
    ['the coding identity', { content: 'a\ufffd', headers: { 'content-encoding': 'identity' } }],
    ['an empty coding', { content: 'a\ufffd', headers: { 'content-encoding': '' } }],
    ['further choices', { body: '{"choices":[{"message":{"content":"a\\ufffd"}},7]}' }],
  ])('may have %s', async (_what, script) => {
    llm.script(script);
    expect(await clientWith().complete(connectionTo(llm.url), MESSAGES)).toBe('a\ufffd');
  });
});

test('a response is limited in bytes', async () => {
  const body = '{"choices":[{"message":{"content":"yes"}}]}';
  llm.script({ body }, { body });
  expect(await clientWith({ maxBytes: body.length }).complete(connectionTo(llm.url), MESSAGES)).toBe('yes');
  const failure = await failureOf(clientWith({ maxBytes: body.length - 1 }).complete(connectionTo(llm.url), MESSAGES));
  expect(failure.fault).toBe('too-large');
});

const NO_TEXT = 'response without text in choices[0].message.content';
const ENDED = 'connection closed before the response was complete';

describe('a failure', () => {
  test.each<[string, CompletionScript, string, string | RegExp]>([
    ['400', { status: 400, body: '{"error":"of the response"}' }, 'status', 'HTTP 400'],
    ['401', { status: 401, content: 'of the response' }, 'status', 'HTTP 401'],
    [
      '404',
      { status: 404, content: 'of the response' },
      'status',
      'HTTP 404; check the model name and that url is the API base',
    ],
    ['429', { status: 429, content: 'of the response' }, 'status', 'HTTP 429'],
    ['500', { status: 500, body: '' }, 'status', 'HTTP 500'],
    ['204', { status: 204, body: '' }, 'invalid', 'response is not valid JSON'],
    ['invalid JSON', { body: 'of the response' }, 'invalid', 'response is not valid JSON'],
    ['incomplete JSON', { body: '{"choices":[{"message":{"content":"of the' }, 'invalid', 'response is not valid JSON'],
    ['an empty body', { body: '' }, 'invalid', 'response is not valid JSON'],
    ['an event stream', { body: 'data: {"choices":[]}\n\n' }, 'invalid', 'response is not valid JSON'],
    [
      'invalid UTF-8',
      { body: Buffer.from('{"choices":[{"message":{"content":"\xff"}}]}', 'latin1') },
      'invalid',
      'response is not valid UTF-8',
    ],
    [
      'a damaged content coding',
      { content: 'of the response', headers: { 'content-encoding': 'gzip' } },
      'invalid',
      'response has a gzip body that is damaged (Z_DATA_ERROR)',
    ],
    [
      'an unknown content coding',
      { content: 'of the response', headers: { 'content-encoding': 'rot13' } },
      'invalid',
      'response has a body with the unknown content coding "rot13"',
    ],
    ['content that is null', { content: null }, 'no-content', NO_TEXT],
    ['content without text', { content: [{ type: 'image', text: 'of the response' }] }, 'no-content', NO_TEXT],
    ['content that is a number', { content: 5 }, 'no-content', NO_TEXT],
    ['content that is an object', { content: { text: 'of the response' } }, 'no-content', NO_TEXT],
    ['no content', { content: undefined }, 'no-content', NO_TEXT],
    ['no message', { body: '{"choices":[{}]}' }, 'no-content', NO_TEXT],
    ['a choice that is null', { body: '{"choices":[null]}' }, 'no-content', NO_TEXT],
    ['no choices', { body: '{"choices":[]}' }, 'no-content', NO_TEXT],
    ['choices that are not an array', { body: '{"choices":{"0":{"message":{"content":"x"}}}}' }, 'no-content', NO_TEXT],
    ['JSON that is null', { body: 'null' }, 'no-content', NO_TEXT],
    ['an error with 200', { body: '{"error":{"message":"of the response"}}' }, 'no-content', NO_TEXT],
    [
      'a response that is too large',
      { content: 'x'.repeat(1024 * 1024) },
      'too-large',
      'response exceeds 524288 bytes',
    ],
    ['no head', { stopsIn: 'head', hangsUp: true }, 'network', new RegExp(`^${ENDED}`)],
    [
      'an incomplete body',
      { content: 'of the response', stopsIn: 'body', hangsUp: true },
      'network',
      new RegExp(`^${ENDED}`),
    ],
  ])('is %s', async (_what, script, fault, what) => {
    llm.script(script);
    const failure = await failureOf(clientWith().complete(connectionTo(llm.url, KEY), MESSAGES));
    expect(failure.fault).toBe(fault);
    const problem = failure.message.replace('llm connection "model": ', '');
    if (typeof what === 'string') expect(problem).toBe(what);
    else expect(problem).toMatch(what);
    expectNothingTold(failure);
  });

  test.each([300, 301, 302, 303, 307, 308])('is a redirect (%i), which is not followed', async (status) => {
    const before = llm.requests.length;
    llm.script({ status, body: '', headers: { location: `${llm.url}/chat/completions?token=${KEY}` } });
    const failure = await failureOf(clientWith().complete(connectionTo(llm.url, KEY), MESSAGES));
    expect([failure.fault, failure.message]).toEqual([
      'status',
      `llm connection "model": HTTP ${status}: redirects are not followed; set url to the target`,
    ]);
    expect(llm.requests.length - before).toBe(1);
    expectNothingTold(failure);
  });

  test('is an endless response, which is read up to the limit', async () => {
    const ended = Promise.withResolvers<void>();
    const server = createServer((_request, response) => {
      response.on('close', () => ended.resolve());
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(65_536)));
      };
      response.on('drain', more);
      more();
    });
    const port = await listen(server);
    const failure = await failureOf(clientWith().complete(connectionTo(`http://127.0.0.1:${port}`), MESSAGES));
    expect(failure.fault).toBe('too-large');
    await ended.promise;
  });

  test('is a response that is not HTTP', async () => {
    for (const received of ['SSH-2.0-x\r\n', `HTTP/1.1 200 OK\r\nx: ${'x'.repeat(1024 * 1024)}`]) {
      const port = await listen(createTcpServer((socket) => socket.on('error', () => undefined).end(received)));
      const failure = await failureOf(clientWith().complete(connectionTo(`http://127.0.0.1:${port}`, KEY), MESSAGES));
      expect([failure.fault, failure.message]).toEqual([
        'invalid',
        'llm connection "model": response is not valid HTTP/1.1',
      ]);
    }
  });

  test('is a refused connection', async () => {
    const failure = await failureOf(clientWith().complete(connectionTo('http://127.0.0.1:1/v1', KEY), MESSAGES));
    expect([failure.fault, failure.message]).toEqual([
      'network',
      'llm connection "model": connection failed (ECONNREFUSED)',
    ]);
    expectNothingTold(failure);
  });

  test.each<[string, CompletionScript]>([
    ['no head', { stopsIn: 'head' }],
    ['an incomplete body', { content: 'of the response', stopsIn: 'body' }],
  ])('is %s and then nothing until the timeout', async (_what, script) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const own = await ownServer();
    own.script(script);
    const call = failureOf(clientWith({ timeoutMs: 200 }).complete(connectionTo(own.url, KEY), MESSAGES));
    const received = await own.next();
    // The beginning of the response arrives in the meantime.
    for (let turn = 0; turn < 10; turn++) await nextTurn();
    vi.advanceTimersByTime(200);
    const failure = await call;
    expect([failure.fault, failure.message]).toEqual([
      'timeout',
      'llm connection "model": no complete response within 0.2 s',
    ]);
    await received.disconnected;
    expectNothingTold(failure);
  });

  test('is no response within 10 s by default', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const own = await ownServer();
    own.script({ stopsIn: 'head' });
    const ended = vi.fn();
    const call = failureOf(clientWith().complete(connectionTo(own.url, KEY), MESSAGES)).finally(ended);
    await own.next();
    vi.advanceTimersByTime(9_999);
    for (let turn = 0; turn < 10; turn++) await nextTurn();
    expect(ended).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect((await call).message).toBe('llm connection "model": no complete response within 10 s');
  });

  test('is no connection within the same time, and no earlier', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const connected = Promise.withResolvers<void>();
    const port = await listen(createTcpServer((socket) => connected.resolve(void socket.on('error', () => undefined))));
    const ended = vi.fn();
    const call = failureOf(clientWith().complete(connectionTo(`https://127.0.0.1:${port}`, KEY), MESSAGES)).finally(
      ended,
    );
    await connected.promise;
    vi.advanceTimersByTime(9_999);
    for (let turn = 0; turn < 10; turn++) await nextTurn();
    expect(ended).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    await call;
  });

  test('is a response that takes too long as a whole, though bytes keep arriving', async () => {
    const server = createServer((_request, response) => {
      const dripping = setInterval(() => response.write(' '), 20);
      response.on('close', () => clearInterval(dripping));
    });
    const port = await listen(server);
    const call = clientWith({ timeoutMs: 300 }).complete(connectionTo(`http://127.0.0.1:${port}`), MESSAGES);
    expect((await failureOf(call)).fault).toBe('timeout');
  });

  test.each([
    ['a key that is not a header value', llmUrl, 'k\r\nx: y'],
    ['an invalid url', () => 'nowhere', KEY],
    ['a url of another scheme', () => 'ftp://127.0.0.1/', KEY],
  ])('is %s', async (_what, url, key) => {
    const failure = await failureOf(clientWith().complete(connectionTo(url(), key), MESSAGES));
    expect([failure.fault, failure.message]).toEqual(['request', 'llm connection "model": invalid url or api_key']);
    expectNothingTold(failure);
  });
});

describe('cancellation', () => {
  test('aborts a call in progress, and its connection', async () => {
    const ending = new AbortController();
    const own = await ownServer();
    own.script({ stopsIn: 'head' });
    const call = failureOf(clientWith().complete(connectionTo(own.url, KEY), MESSAGES, ending.signal));
    const received = await own.next();
    ending.abort(new Error(KEY));
    expect(await call).toMatchObject({
      fault: 'aborted',
      message: 'llm connection "model": request canceled',
    });
    await received.disconnected;
    expectNothingTold(await call);
  });

  test('before the call sends nothing', async () => {
    const before = llm.requests.length;
    const failure = await failureOf(clientWith().complete(connectionTo(llm.url), MESSAGES, AbortSignal.abort()));
    expect([failure.fault, llm.requests.length - before]).toEqual(['aborted', 0]);
  });

  test('after a response changes nothing and leaves no listener', async () => {
    const ending = new AbortController();
    const listening = new Set<string>();
    const { signal } = ending;
    const { addEventListener, removeEventListener } = signal;
    signal.addEventListener = (...given: Parameters<typeof addEventListener>) => {
      listening.add(given[0]);
      addEventListener.apply(signal, given);
    };
    signal.removeEventListener = (...given: Parameters<typeof removeEventListener>) => {
      listening.delete(given[0]);
      removeEventListener.apply(signal, given);
    };
    expect(await clientWith().complete(connectionTo(llm.url), MESSAGES, signal)).toBe('yes');
    expect(listening.size).toBe(0);
  });

  test('does not happen by the timer after a response', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const client = clientWith({ timeoutMs: 123_456 });
    const set = vi.spyOn(globalThis, 'setTimeout');
    const clear = vi.spyOn(globalThis, 'clearTimeout');
    onTestFinished(() => void vi.restoreAllMocks());
    await client.complete(connectionTo(llm.url), MESSAGES);
    const deadlines = set.mock.results.filter((_, at) => set.mock.calls[at]?.[1] === 123_456);
    expect(deadlines.length).toBeGreaterThan(0);
    for (const { value } of deadlines) expect(clear).toHaveBeenCalledWith(value);
  });

  test('by close ends calls, connections and later calls', async () => {
    const own = await ownServer();
    const client = clientWith();
    await client.complete(connectionTo(own.url), MESSAGES);
    await own.next();
    own.script({ stopsIn: 'head' });
    const call = failureOf(client.complete(connectionTo(own.url), MESSAGES));
    const received = await own.next();
    await client.close();
    expect((await call).fault).toBe('aborted');
    await received.disconnected;
    expect((await failureOf(client.complete(connectionTo(own.url), MESSAGES))).fault).toBe('aborted');
    expect((await failureOf(client.complete(connectionTo(`${own.url}/other`), MESSAGES))).fault).toBe('aborted');
    expect(own.requests).toHaveLength(2);
  });
});

function llmUrl(): string {
  return llm.url;
}

function expectNothingTold(failure: LlmError): void {
  const texts = [failure.message, failure.stack, JSON.stringify(failure), String(failure.cause)].join('\n');
  for (const secret of [KEY, MODEL, 'system-prompt', 'user-prompt', 'of the response', '127.0.0.1', '/v1']) {
    expect(texts).not.toContain(secret);
  }
}

describe('with too many concurrent calls', () => {
  test('a call waits for its turn, alternating between namespaces', async () => {
    const own = await ownServer();
    const client = clientWith({ maxConcurrent: 1 });
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    own.script({ content: 'first', after: released });
    const order: string[] = [];
    const call = (name: string) =>
      client
        .complete(connectionTo(own.url), MESSAGES, undefined, new WaitBudget(name.charAt(0), ''))
        .then(() => order.push(name));
    const calls = ['a1', 'a2', 'a3', 'b1'].map(call);
    await expect.poll(() => own.requests.length).toBe(1);
    release();
    await Promise.all(calls);
    expect(order).toEqual(['a1', 'b1', 'a2', 'a3']);
  });

  test('a call that has waited too long is busy, a canceled one is aborted, and others fail when the client closes', async () => {
    const own = await ownServer();
    const client = clientWith({ maxConcurrent: 1 });
    const connection = connectionTo(own.url);
    own.script({ stopsIn: 'head' });
    const first = failureOf(client.complete(connection, MESSAGES));
    await expect(client.complete(connection, MESSAGES, undefined, new WaitBudget('', '', 20))).rejects.toBeInstanceOf(
      BusyError,
    );
    const leaving = new AbortController();
    const left = failureOf(client.complete(connection, MESSAGES, leaving.signal));
    leaving.abort();
    expect(await left).toMatchObject({ fault: 'aborted' });
    const waiting = failureOf(client.complete(connection, MESSAGES));
    await client.close();
    expect([await first, await waiting]).toMatchObject([{ fault: 'aborted' }, { fault: 'aborted' }]);
    expect(own.requests.length).toBeLessThanOrEqual(1);
  });
});
