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
import type { LlmConnection } from '../../app/config/bootstrap-file.ts';
import { localhostCertificate } from '../../http/client/certificate.fixture.ts';
import { listen } from '../../http/client/listening.fixture.ts';
import { LlmClient, LlmFailure, type LlmLimits, type LlmMessage } from './client.ts';

const KEY = 'sk-very-secret';
const MODEL = 'model-of-ours';
const ASKED: readonly LlmMessage[] = [
  { role: 'system', content: 'system-prompt' },
  { role: 'user', content: 'user-prompt é😀' },
];

let llm: ChatCompletions;
beforeAll(async () => {
  llm = await startChatCompletions();
});
afterAll(() => llm.close());

function connectionTo(url: string, apiKey?: string): LlmConnection {
  return { name: 'judge', model: MODEL, url, ...(apiKey !== undefined && { apiKey }) };
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

/** What a call fails with; throws when it does not fail so. */
async function failureOf(call: Promise<string>): Promise<LlmFailure> {
  const failure: unknown = await call.then(
    (content) => new Error(`no failure: ${content}`),
    (error) => error,
  );
  if (!(failure instanceof LlmFailure)) throw failure;
  return failure;
}

describe('a question', () => {
  test('is sent as it is decided', async () => {
    llm.script('no');
    expect(await clientWith().ask(connectionTo(llm.url, KEY), ASKED)).toBe('no');
    const { method, path, headers, text } = llm.asked.at(-1) ?? {};
    expect([method, path]).toEqual(['POST', '/v1/chat/completions']);
    expect(JSON.parse(text ?? '')).toEqual({ model: MODEL, messages: ASKED, temperature: 0 });
    expect(headers).toMatchObject({
      authorization: `Bearer ${KEY}`,
      'content-type': 'application/json',
      accept: 'application/json',
      'accept-encoding': 'identity',
    });
  });

  test.each([
    ['no key', undefined],
    ['an empty key', ''],
  ])('with %s has no authorization', async (_which, key) => {
    await clientWith().ask(connectionTo(llm.url, key), ASKED);
    expect(llm.asked.at(-1)?.headers).not.toHaveProperty('authorization');
  });

  test.each(['', '/', '//'])('goes to the address without the slashes at its end: %j', async (slashes) => {
    await clientWith().ask(connectionTo(`${llm.url}${slashes}`), ASKED);
    expect(llm.asked.at(-1)?.path).toBe('/v1/chat/completions');
  });

  test('goes over the connection of the one before', async () => {
    const client = clientWith();
    const before = llm.connections;
    for (let times = 0; times < 3; times++) await client.ask(connectionTo(llm.url), ASKED);
    expect(llm.connections - before).toBe(1);
  });

  test('does not wait for others', async () => {
    const own = await ownServer();
    const client = clientWith();
    const held = Promise.withResolvers<void>();
    own.script({ content: 'late', after: held.promise }, 'soon');
    const first = client.ask(connectionTo(own.url), ASKED);
    await own.next();
    expect(await client.ask(connectionTo(own.url), ASKED)).toBe('soon');
    held.resolve();
    expect(await first).toBe('late');
  });

  test('goes over TLS to a server whose certificate is good', async () => {
    const secure = await startChatCompletions(localhostCertificate);
    onTestFinished(() => secure.close());
    const refused = await failureOf(clientWith().ask(connectionTo(secure.url, KEY), ASKED));
    expect([refused.fault, refused.message]).toEqual([
      'network',
      'llm connection "judge" could not be connected to (DEPTH_ZERO_SELF_SIGNED_CERT)',
    ]);
    expect(secure.asked).toEqual([]);
    const trusted = getCACertificates('default');
    setDefaultCACertificates([...trusted, localhostCertificate.cert]);
    onTestFinished(() => setDefaultCACertificates(trusted));
    expect(await clientWith().ask(connectionTo(secure.url, KEY), ASKED)).toBe('yes');
  });
});

describe('an answer', () => {
  test.each([
    ['a text', 'Line\n\t"x" é😀'],
    ['an empty text', ''],
    ['JSON', '{"a":1.0}'],
    ['a fence', '```json\n{}\n```'],
    ['a text of nearly 1 MiB', 'x'.repeat(1024 * 1024 - 400)],
  ])('may be %s', async (_what, content) => {
    llm.script(content);
    expect(await clientWith().ask(connectionTo(llm.url), ASKED)).toBe(content);
  });

  test.each<[string, CompletionScript]>([
    ['half of a surrogate', { body: '{"choices":[{"message":{"content":"a\\ud800"}}]}' }],
    ['a name with an escape', { body: '{"choices":[{"message":{"c\\u006fntent":"a\\ufffd"}}]}' }],
    ['another status of success', { content: 'a\ufffd', status: 201 }],
    ['another type', { content: 'a\ufffd', headers: { 'content-type': 'text/html' } }],
    ['an encoding that is none', { content: 'a\ufffd', headers: { 'content-encoding': 'identity' } }],
    ['an encoding that is empty', { content: 'a\ufffd', headers: { 'content-encoding': '' } }],
    ['further choices', { body: '{"choices":[{"message":{"content":"a\\ufffd"}},7]}' }],
  ])('may have %s', async (_what, script) => {
    llm.script(script);
    expect(await clientWith().ask(connectionTo(llm.url), ASKED)).toBe('a\ufffd');
  });
});

test('an answer may have as many bytes as there may be, and no more', async () => {
  const body = '{"choices":[{"message":{"content":"yes"}}]}';
  llm.script({ body }, { body });
  expect(await clientWith({ maxBytes: body.length }).ask(connectionTo(llm.url), ASKED)).toBe('yes');
  const failure = await failureOf(clientWith({ maxBytes: body.length - 1 }).ask(connectionTo(llm.url), ASKED));
  expect(failure.fault).toBe('too-large');
});

const NO_TEXT = 'answered without a text in choices[0].message.content';
const ENDED = 'closed the connection before the answer was complete';

describe('a failure', () => {
  test.each<[string, CompletionScript, string, string | RegExp]>([
    ['400', { status: 400, body: '{"error":"of the answer"}' }, 'status', 'answered with HTTP 400'],
    ['401', { status: 401, content: 'of the answer' }, 'status', 'answered with HTTP 401'],
    [
      '404',
      { status: 404, content: 'of the answer' },
      'status',
      'answered with HTTP 404: has the server this model, and is /chat/completions below the url that is configured?',
    ],
    ['429', { status: 429, content: 'of the answer' }, 'status', 'answered with HTTP 429'],
    ['500', { status: 500, body: '' }, 'status', 'answered with HTTP 500'],
    ['204', { status: 204, body: '' }, 'invalid', 'answered with what is not JSON'],
    ['no JSON', { body: 'of the answer' }, 'invalid', 'answered with what is not JSON'],
    [
      'half of JSON',
      { body: '{"choices":[{"message":{"content":"of the' },
      'invalid',
      'answered with what is not JSON',
    ],
    ['nothing', { body: '' }, 'invalid', 'answered with what is not JSON'],
    ['an event stream', { body: 'data: {"choices":[]}\n\n' }, 'invalid', 'answered with what is not JSON'],
    [
      'no UTF-8',
      { body: Buffer.from('{"choices":[{"message":{"content":"\xff"}}]}', 'latin1') },
      'invalid',
      'answered with bytes that are not UTF-8',
    ],
    [
      'an encoding',
      { content: 'of the answer', headers: { 'content-encoding': 'gzip' } },
      'invalid',
      'answered in an encoding that was not asked for',
    ],
    ['content that is null', { content: null }, 'no-content', NO_TEXT],
    ['content that is a list', { content: [{ type: 'text', text: 'of the answer' }] }, 'no-content', NO_TEXT],
    ['content that is a number', { content: 5 }, 'no-content', NO_TEXT],
    ['content that is an object', { content: { text: 'of the answer' } }, 'no-content', NO_TEXT],
    ['no content', { content: undefined }, 'no-content', NO_TEXT],
    ['no message', { body: '{"choices":[{}]}' }, 'no-content', NO_TEXT],
    ['a choice that is null', { body: '{"choices":[null]}' }, 'no-content', NO_TEXT],
    ['no choices', { body: '{"choices":[]}' }, 'no-content', NO_TEXT],
    ['choices that are no list', { body: '{"choices":{"0":{"message":{"content":"x"}}}}' }, 'no-content', NO_TEXT],
    ['JSON that is null', { body: 'null' }, 'no-content', NO_TEXT],
    ['an error with 200', { body: '{"error":{"message":"of the answer"}}' }, 'no-content', NO_TEXT],
    ['too much', { content: 'x'.repeat(1024 * 1024) }, 'too-large', 'answered with more than 1048576 bytes'],
    ['no head', { stopsIn: 'head', hangsUp: true }, 'network', new RegExp(`^${ENDED}`)],
    [
      'half of a body',
      { content: 'of the answer', stopsIn: 'body', hangsUp: true },
      'network',
      new RegExp(`^${ENDED}`),
    ],
  ])('is %s', async (_what, script, fault, what) => {
    llm.script(script);
    const failure = await failureOf(clientWith().ask(connectionTo(llm.url, KEY), ASKED));
    expect(failure.fault).toBe(fault);
    const said = failure.message.replace('llm connection "judge" ', '');
    if (typeof what === 'string') expect(said).toBe(what);
    else expect(said).toMatch(what);
    expectNothingTold(failure);
  });

  test.each([300, 301, 302, 303, 307, 308])('is a redirect, which is not followed (%i)', async (status) => {
    const before = llm.asked.length;
    llm.script({ status, body: '', headers: { location: `${llm.url}/chat/completions?token=${KEY}` } });
    const failure = await failureOf(clientWith().ask(connectionTo(llm.url, KEY), ASKED));
    expect([failure.fault, failure.message]).toEqual([
      'status',
      `llm connection "judge" redirects (HTTP ${status}), which is not followed: configure the address it means`,
    ]);
    expect(llm.asked.length - before).toBe(1);
    expectNothingTold(failure);
  });

  test('is an endless answer, which is read no further than the limit', async () => {
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
    const failure = await failureOf(clientWith().ask(connectionTo(`http://127.0.0.1:${port}`), ASKED));
    expect(failure.fault).toBe('too-large');
    await ended.promise;
  });

  test('is what does not speak HTTP', async () => {
    for (const said of ['SSH-2.0-x\r\n', `HTTP/1.1 200 OK\r\nx: ${'x'.repeat(1024 * 1024)}`]) {
      const port = await listen(createTcpServer((socket) => socket.on('error', () => undefined).end(said)));
      const failure = await failureOf(clientWith().ask(connectionTo(`http://127.0.0.1:${port}`, KEY), ASKED));
      expect([failure.fault, failure.message]).toEqual([
        'invalid',
        'llm connection "judge" did not answer in HTTP/1.1',
      ]);
    }
  });

  test('is nobody who listens', async () => {
    const failure = await failureOf(clientWith().ask(connectionTo('http://127.0.0.1:1/v1', KEY), ASKED));
    expect([failure.fault, failure.message]).toEqual([
      'network',
      'llm connection "judge" could not be connected to (ECONNREFUSED)',
    ]);
    expectNothingTold(failure);
  });

  test.each<[string, CompletionScript]>([
    ['no head', { stopsIn: 'head' }],
    ['half of a body', { content: 'of the answer', stopsIn: 'body' }],
  ])('is %s and then nothing within the time there is', async (_what, script) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const own = await ownServer();
    own.script(script);
    const call = failureOf(clientWith({ timeoutMs: 200 }).ask(connectionTo(own.url, KEY), ASKED));
    const asked = await own.next();
    // What there is of an answer comes meanwhile.
    for (let turn = 0; turn < 10; turn++) await nextTurn();
    vi.advanceTimersByTime(200);
    const failure = await call;
    expect([failure.fault, failure.message]).toEqual(['timeout', 'llm connection "judge" did not answer within 0.2 s']);
    await asked.left;
    expectNothingTold(failure);
  });

  test('is no answer within 10 s, where nothing else is said', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const own = await ownServer();
    own.script({ stopsIn: 'head' });
    const ended = vi.fn();
    const call = failureOf(clientWith().ask(connectionTo(own.url, KEY), ASKED)).finally(ended);
    await own.next();
    vi.advanceTimersByTime(9_999);
    for (let turn = 0; turn < 10; turn++) await nextTurn();
    expect(ended).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect((await call).message).toBe('llm connection "judge" did not answer within 10 s');
  });

  test('is no connection within the same time, and no sooner', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const connected = Promise.withResolvers<void>();
    const port = await listen(createTcpServer((socket) => connected.resolve(void socket.on('error', () => undefined))));
    const ended = vi.fn();
    const call = failureOf(clientWith().ask(connectionTo(`https://127.0.0.1:${port}`, KEY), ASKED)).finally(ended);
    await connected.promise;
    vi.advanceTimersByTime(9_999);
    for (let turn = 0; turn < 10; turn++) await nextTurn();
    expect(ended).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    await call;
  });

  test('is an answer that takes too long as a whole, though something always comes', async () => {
    const server = createServer((_request, response) => {
      const dripping = setInterval(() => response.write(' '), 20);
      response.on('close', () => clearInterval(dripping));
    });
    const port = await listen(server);
    const call = clientWith({ timeoutMs: 300 }).ask(connectionTo(`http://127.0.0.1:${port}`), ASKED);
    expect((await failureOf(call)).fault).toBe('timeout');
  });

  test.each([
    ['a key that no header can carry', llmUrl, 'k\r\nx: y'],
    ['an address that is none', () => 'nowhere', KEY],
    ['an address of another scheme', () => 'ftp://127.0.0.1/', KEY],
  ])('is %s', async (_what, url, key) => {
    const failure = await failureOf(clientWith().ask(connectionTo(url(), key), ASKED));
    expect([failure.fault, failure.message]).toEqual([
      'request',
      'llm connection "judge" cannot be asked: its url or its api_key cannot be used',
    ]);
    expectNothingTold(failure);
  });
});

describe('ending it', () => {
  test('ends a call under way, and its connection', async () => {
    const ending = new AbortController();
    const own = await ownServer();
    own.script({ stopsIn: 'head' });
    const call = failureOf(clientWith().ask(connectionTo(own.url, KEY), ASKED, ending.signal));
    const asked = await own.next();
    ending.abort(new Error(KEY));
    expect(await call).toMatchObject({
      fault: 'aborted',
      message: 'llm connection "judge" was not waited for: the request was ended',
    });
    await asked.left;
    expectNothingTold(await call);
  });

  test('before it began sends nothing', async () => {
    const before = llm.asked.length;
    const failure = await failureOf(clientWith().ask(connectionTo(llm.url), ASKED, AbortSignal.abort()));
    expect([failure.fault, llm.asked.length - before]).toEqual(['aborted', 0]);
  });

  test('after an answer changes nothing, and nothing listens for it any more', async () => {
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
    expect(await clientWith().ask(connectionTo(llm.url), ASKED, signal)).toBe('yes');
    expect(listening.size).toBe(0);
  });

  test('is not for a timer to do that an answer has come before', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const client = clientWith({ timeoutMs: 123_456 });
    const set = vi.spyOn(globalThis, 'setTimeout');
    const clear = vi.spyOn(globalThis, 'clearTimeout');
    onTestFinished(() => void vi.restoreAllMocks());
    await client.ask(connectionTo(llm.url), ASKED);
    const deadlines = set.mock.results.filter((_, at) => set.mock.calls[at]?.[1] === 123_456);
    expect(deadlines.length).toBeGreaterThan(0);
    for (const { value } of deadlines) expect(clear).toHaveBeenCalledWith(value);
  });

  test('of the client ends calls, connections and whatever comes later', async () => {
    const own = await ownServer();
    const client = clientWith();
    await client.ask(connectionTo(own.url), ASKED);
    await own.next();
    own.script({ stopsIn: 'head' });
    const call = failureOf(client.ask(connectionTo(own.url), ASKED));
    const asked = await own.next();
    await client.close();
    expect((await call).fault).toBe('aborted');
    await asked.left;
    expect((await failureOf(client.ask(connectionTo(own.url), ASKED))).fault).toBe('aborted');
    expect((await failureOf(client.ask(connectionTo(`${own.url}/other`), ASKED))).fault).toBe('aborted');
    expect(own.asked).toHaveLength(2);
  });
});

function llmUrl(): string {
  return llm.url;
}

function expectNothingTold(failure: LlmFailure): void {
  const told = [failure.message, failure.stack, JSON.stringify(failure), String(failure.cause)].join('\n');
  for (const secret of [KEY, MODEL, 'system-prompt', 'user-prompt', 'of the answer', '127.0.0.1', '/v1']) {
    expect(told).not.toContain(secret);
  }
}
