import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Script } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { WaitingClient } from '../../grpc/fixtures/waiting-client.ts';
import type { ResponseSink } from '../../response-sink.ts';
import { type IsolatedCall, isolatedCall, NO_OPEN_RESOURCES } from '../fixtures/isolated-call.ts';
import { inputRequired, rootsRequests } from './fixtures/multi-round.ts';
import { LegacyResponseRewriter } from './messages.ts';
import { MultiRoundCall } from './multi-round-call.ts';

const ASKS = inputRequired(rootsRequests('a', 'b'));
const DONE = textResultText('done');
const CAPABILITIES = { roots: {} };

let raw: RawUpstream;
let isolated: IsolatedCall;

beforeEach(async () => {
  raw = await startRawUpstream({ eras: ['modern'] });
  isolated = isolatedCall(raw.url, { idleMs: 10_000, totalMs: 10_000 }, CAPABILITIES);
});
afterEach(async () => {
  vi.useRealTimers();
  await isolated.close();
  await raw.close();
});

/** A call whose upstream sends these responses. */
function started(responses: readonly Script[], sink: ResponseSink = isolated.answer()): MultiRoundCall {
  let given = 0;
  raw.scripts['tools/call'] = (seen) => {
    const response = responses[given++] ?? DONE;
    return typeof response === 'function' ? response(seen) : response;
  };
  const { sessions: links } = isolated.upstream;
  const spec = isolated.spec(links.modern, {
    rewriter: new LegacyResponseRewriter('failed', true),
    needsTranslation: true,
  });
  spec.edits.mirror({}, undefined);
  const facts = { clientInfo: {}, capabilities: CAPABILITIES, logLevel: undefined };
  const call = new MultiRoundCall(isolated.parts, spec, facts, sink);
  call.start();
  return call;
}

/** The server requests, once the client has got two more than `before`. */
async function pending(before = 0): Promise<string[]> {
  await expect.poll(() => isolated.connection.events().length).toBe(before + 2);
  return isolated.connection.events().map(({ data }) => data);
}

const openResources = () => isolated.openResources(isolated.upstream.sessions.modern);
const PENDING = { calls: true, inFlight: 0, activeSessions: 1 };

it.each<[string, readonly Script[], () => unknown]>([
  [
    'completed in the second round',
    [ASKS, DONE],
    async () => {
      for (const serverRequest of await pending()) await isolated.reply(serverRequest);
    },
  ],
  ['completed after rounds without input requests', [inputRequired(undefined, '"s"'), DONE], () => undefined],
  [
    'declined by its client',
    [ASKS],
    async () => isolated.reply((await pending())[0], '"error":{"code":1,"message":"m"}'),
  ],
  [
    'canceled with pending input requests',
    [ASKS],
    async () => {
      await pending();
      expect(openResources()).toEqual(PENDING);
      isolated.cancel();
    },
  ],
  [
    'canceled in the second round',
    [ASKS, { kind: 'silence' }],
    async () => {
      for (const serverRequest of await pending()) await isolated.reply(serverRequest);
      await expect.poll(openResources).toEqual({ calls: true, inFlight: 1, activeSessions: 0 });
      isolated.cancel();
    },
  ],
  [
    'abandoned with pending input requests by an ended session',
    [ASKS],
    async () => {
      await pending();
      isolated.activeSessions.find('s')?.end();
    },
  ],
  [
    'with too many input requests',
    [inputRequired(rootsRequests(...Array.from({ length: 33 }, (_, at) => String(at))))],
    () => undefined,
  ],
  [
    'cut off in the second round',
    [ASKS, { kind: 'cut' }],
    async () => {
      for (const serverRequest of await pending()) await isolated.reply(serverRequest);
    },
  ],
  [
    'half answered when its upstream disconnected',
    [ASKS],
    async () => {
      const serverRequests = await pending();
      await raw.down();
      for (const serverRequest of serverRequests) await isolated.reply(serverRequest);
    },
  ],
])('a call releases all resources after it was %s', async (_how, responses, end) => {
  started(responses);
  await end();
  await expect.poll(openResources).toEqual(NO_OPEN_RESOURCES);
  expect(isolated.connection.writableEnded).toBe(true);
});

it.each([
  ['the first', [ASKS]],
  ['the second', [ASKS, ASKS]],
])(
  'a call that times out with pending server requests in %s round releases all resources',
  async (_which, responses) => {
    await isolated.close();
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    isolated = isolatedCall(raw.url, { idleMs: 10_000, totalMs: 600 }, CAPABILITIES);
    started(responses);
    const serverRequests = await pending();
    if (responses.length > 1) {
      for (const serverRequest of serverRequests) await isolated.reply(serverRequest);
      await pending(2);
    }
    vi.advanceTimersByTime(400);
    expect(openResources()).toEqual(PENDING);
    vi.advanceTimersByTime(400);
    await expect.poll(openResources).toEqual(NO_OPEN_RESOURCES);
    expect(isolated.connection.events().at(-1)?.data).toContain('it did not finish within 0.6 s');
  },
);

it('the duration of a call includes all rounds', async () => {
  started([ASKS, { kind: 'silence' }]);
  const age = () => isolated.parts.calls.find(() => true)?.startedAt;
  const [before, serverRequests] = [age(), await pending()];
  expect([before, age()]).toEqual([expect.any(Number), before]);
  for (const serverRequest of serverRequests) await isolated.reply(serverRequest);
  await expect.poll(() => raw.count('tools/call')).toBe(2);
  expect(age()).toBe(before);
});

it('a server request whose client cannot come back is abandoned', async () => {
  started([ASKS]);
  const serverRequests = await pending();
  isolated.connection.leave();
  isolated.events.sweep(performance.now() + 60_000);
  expect(openResources()).toEqual(PENDING);
  isolated.events.sweep(performance.now() + 6 * 60_000);
  expect(openResources()).toEqual(NO_OPEN_RESOURCES);
  for (const serverRequest of serverRequests) await isolated.reply(serverRequest);
  expect(raw.count('tools/call')).toBe(1);
});

it('a client that disconnected before a server request does not get it', async () => {
  const responded = Promise.withResolvers<string>();
  started([() => responded.promise]);
  await expect.poll(() => raw.count('tools/call')).toBe(1);
  isolated.connection.leave();
  responded.resolve(ASKS);
  await expect.poll(openResources).toEqual(NO_OPEN_RESOURCES);
  expect(isolated.connection.events()).toEqual([]);
});

it('a call calls every listener when its client disconnects', async () => {
  const client = new WaitingClient({ era: 'legacy' });
  const called: string[] = [];
  const call = started([DONE], client);
  for (const name of ['a', 'b']) call.onDisconnect(() => called.push(name));
  client.leave();
  expect(called).toEqual(['a', 'b']);
});
