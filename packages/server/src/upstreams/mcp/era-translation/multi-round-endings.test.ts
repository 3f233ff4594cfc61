import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Script } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { type IsolatedCall, isolatedCall, NO_HELD_RESOURCES } from '../fixtures/isolated-call.ts';
import { modernHeaders } from '../relay/request-rewrite.ts';
import { inputRequired, rootsRequests } from './fixtures/multi-round.ts';
import { LegacyResponseRewriter } from './messages.ts';
import { MultiRoundCall } from './multi-round-call.ts';

const ASKS = inputRequired(rootsRequests('a', 'b'));
const DONE = textResultText('done');
const CAPABILITIES = { roots: {} };

let raw: RawUpstream;
let lone: IsolatedCall;

beforeEach(async () => {
  raw = await startRawUpstream({ eras: ['modern'] });
  lone = isolatedCall(raw.url, { silenceMs: 10_000, totalMs: 10_000 }, CAPABILITIES);
});
afterEach(async () => {
  vi.useRealTimers();
  await lone.close();
  await raw.close();
});

/** A call whose upstream sends these responses. */
function started(responses: readonly Script[]): void {
  let given = 0;
  raw.scripts['tools/call'] = (seen) => {
    const response = responses[given++] ?? DONE;
    return typeof response === 'function' ? response(seen) : response;
  };
  const { sessions: links } = lone.upstream;
  const plan = lone.plan(links.modern, {
    rewriter: new LegacyResponseRewriter('failed', true),
    needsTranslation: true,
  });
  const headers = modernHeaders(plan.message, 'work', {}, undefined);
  const facts = { clientInfo: {}, capabilities: CAPABILITIES, logLevel: undefined, trace: undefined };
  new MultiRoundCall(lone.parts, { ...plan, headers }, facts, lone.answer(plan)).start();
}

/** The server requests, once the client has got two more than `before`. */
async function pending(before = 0): Promise<string[]> {
  await expect.poll(() => lone.connection.events().length).toBe(before + 2);
  return lone.connection.events().map(({ data }) => data);
}

const held = () => lone.heldResources(lone.upstream.sessions.modern);
const PENDING = { calls: true, inFlight: 0, activeSessions: 1 };

it.each<[string, readonly Script[], () => unknown]>([
  [
    'completed in the second round',
    [ASKS, DONE],
    async () => {
      for (const serverRequest of await pending()) await lone.reply(serverRequest);
    },
  ],
  ['completed after rounds without input requests', [inputRequired(undefined, '"s"'), DONE], () => undefined],
  ['declined by its client', [ASKS], async () => lone.reply((await pending())[0], '"error":{"code":1,"message":"m"}')],
  [
    'canceled with pending input requests',
    [ASKS],
    async () => {
      await pending();
      expect(held()).toEqual(PENDING);
      lone.cancel();
    },
  ],
  [
    'canceled in the second round',
    [ASKS, { kind: 'silence' }],
    async () => {
      for (const serverRequest of await pending()) await lone.reply(serverRequest);
      await expect.poll(held).toEqual({ calls: true, inFlight: 1, activeSessions: 0 });
      lone.cancel();
    },
  ],
  [
    'abandoned with pending input requests by an ended session',
    [ASKS],
    async () => {
      await pending();
      lone.activeSessions.find('s')?.end();
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
      for (const serverRequest of await pending()) await lone.reply(serverRequest);
    },
  ],
  [
    'half answered when its upstream disconnected',
    [ASKS],
    async () => {
      const serverRequests = await pending();
      await raw.down();
      for (const serverRequest of serverRequests) await lone.reply(serverRequest);
    },
  ],
])('a call releases all resources after it was %s', async (_how, responses, end) => {
  started(responses);
  await end();
  await expect.poll(held).toEqual(NO_HELD_RESOURCES);
  expect(lone.connection.writableEnded).toBe(true);
});

it.each([
  ['the first', [ASKS]],
  ['the second', [ASKS, ASKS]],
])(
  'a call that times out with pending server requests in %s round releases all resources',
  async (_which, responses) => {
    await lone.close();
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    lone = isolatedCall(raw.url, { silenceMs: 10_000, totalMs: 600 }, CAPABILITIES);
    started(responses);
    const serverRequests = await pending();
    if (responses.length > 1) {
      for (const serverRequest of serverRequests) await lone.reply(serverRequest);
      await pending(2);
    }
    vi.advanceTimersByTime(400);
    expect(held()).toEqual(PENDING);
    vi.advanceTimersByTime(400);
    await expect.poll(held).toEqual(NO_HELD_RESOURCES);
    expect(lone.connection.events().at(-1)?.data).toContain('it did not finish within 0.6 s');
  },
);

it('the duration of a call includes all rounds', async () => {
  started([ASKS, { kind: 'silence' }]);
  const age = () => lone.parts.calls.find(() => true)?.startedAt;
  const [before, serverRequests] = [age(), await pending()];
  expect([before, age()]).toEqual([expect.any(Number), before]);
  for (const serverRequest of serverRequests) await lone.reply(serverRequest);
  await expect.poll(() => raw.count('tools/call')).toBe(2);
  expect(age()).toBe(before);
});

it('a server request whose client cannot come back is abandoned', async () => {
  started([ASKS]);
  const serverRequests = await pending();
  lone.connection.leave();
  lone.events.sweep(performance.now() + 60_000);
  expect(held()).toEqual(PENDING);
  lone.events.sweep(performance.now() + 6 * 60_000);
  expect(held()).toEqual(NO_HELD_RESOURCES);
  for (const serverRequest of serverRequests) await lone.reply(serverRequest);
  expect(raw.count('tools/call')).toBe(1);
});

it('a client that left before a server request does not get it', async () => {
  const responded = Promise.withResolvers<string>();
  started([() => responded.promise]);
  await expect.poll(() => raw.count('tools/call')).toBe(1);
  lone.connection.leave();
  responded.resolve(ASKS);
  await expect.poll(held).toEqual(NO_HELD_RESOURCES);
  expect(lone.connection.events()).toEqual([]);
});
