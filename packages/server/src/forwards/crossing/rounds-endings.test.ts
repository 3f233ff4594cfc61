import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Script } from '../../../../../test/fixtures/raw-upstream/message.ts';
import { textResultText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { ClientAnswer } from '../../answer/client-answer.ts';
import { DEFAULT_LOG_FILTER } from '../../config/log-directives.ts';
import { ClientProfiles } from '../../mcp/client-profile.ts';
import { parseMessage, type RequestMessage, type ResponseMessage } from '../../mcp/message.ts';
import { DEFAULT_NAMESPACE } from '../../registry/names.ts';
import { Registry } from '../../registry/registry.ts';
import { memoryStore } from '../../registry/store/memory.ts';
import { EventStore } from '../../sessions/event-store.ts';
import { type StreamTarget, streamTarget } from '../../sessions/fixtures/stream-target.ts';
import { keptInMemory } from '../../sessions/kept-sessions.ts';
import { LiveSessions } from '../../sessions/live-sessions.ts';
import { Sealer } from '../../sessions/seal.ts';
import { type ClientSession, ClientSessions } from '../../sessions/sessions.ts';
import { createLogger } from '../../telemetry/log.ts';
import { answerTo, notification } from '../../testing/live.ts';
import { callText } from '../../testing/session-client.ts';
import type { CallUnderWay } from '../call-under-way.ts';
import { CallsUnderWay } from '../calls-under-way.ts';
import { LinkedResources } from '../linked-resources.ts';
import { modernHeaders } from '../modern-headers.ts';
import { Upstream } from '../upstream.ts';
import { inputRequired, rootsUnder } from './fixtures/asking.ts';
import { LegacyAnswer } from './legacy-answer.ts';
import { CallInRounds } from './rounds.ts';

const ASKS = inputRequired(rootsUnder('a', 'b'));
const DONE = textResultText('done');

let raw: RawUpstream;
let upstream: Upstream;
let events: EventStore;
let lives: LiveSessions;
let sessions: ClientSessions;
let profiles: ClientProfiles;
let calls: CallsUnderWay<CallUnderWay>;
let target: StreamTarget;

beforeEach(async () => {
  raw = await startRawUpstream({ eras: ['modern'] });
  upstream = new Upstream(raw.url, { failed() {}, succeeded() {}, changed() {} });
  events = new EventStore(new Sealer(randomBytes(32)), 'replica');
  lives = new LiveSessions(events, 'replica');
  profiles = new ClientProfiles(new Registry(memoryStore()), { name: 'x', title: 'X', version: '1' });
  sessions = new ClientSessions(new Sealer(randomBytes(32)), profiles, keptInMemory());
  calls = new CallsUnderWay({ silenceMs: 10_000, totalMs: 10_000 });
  target = streamTarget();
});
afterEach(async () => {
  calls.close();
  events.close();
  await upstream.destroy();
  await raw.close();
});

function request(text: string): RequestMessage {
  const message = parseMessage(Buffer.from(text));
  if (message.kind !== 'request') throw new Error(`a ${message.kind}`);
  return message;
}

/** A call of session `s` whose upstream gives these answers. */
function started(answers: readonly Script[]): void {
  let given = 0;
  raw.scripts['tools/call'] = (seen) => {
    const answer = answers[given++] ?? DONE;
    return typeof answer === 'function' ? answer(seen) : answer;
  };
  const capabilities = { roots: {} };
  const message = request(callText('"c"'));
  const session: ClientSession = {
    id: 's',
    namespace: DEFAULT_NAMESPACE,
    protocolVersion: '2025-11-25',
    clientInfo: {},
    profile: profiles.of('legacy', capabilities),
    user: undefined,
    expires: Number.POSITIVE_INFINITY,
  };
  const plan = {
    upstream,
    message,
    edits: [],
    rewriting: new LegacyAnswer('failed', true),
    crosses: true,
    questions: undefined,
    capabilities,
    progressToken: undefined,
    headers: modernHeaders(message, 'work', {}, undefined),
    link: () => upstream.links.modern,
    failure: 'failed',
    streams: true,
    json: true,
    era: 'legacy' as const,
    session,
    forward: undefined,
    namespace: undefined,
  };
  const log = createLogger(DEFAULT_LOG_FILTER, () => undefined).target('service::forward');
  const linkedResources = new LinkedResources(() => true);
  const parts = { calls, lives, sessions, linkedResources, maxResponseBytes: 1_000_000, log };
  const answer = new ClientAnswer(target, [], '"c"', (idText) => events.open('s', idText));
  new CallInRounds(parts, plan, { clientInfo: {}, capabilities, logLevel: undefined }, answer).start();
}

/** The questions, once the client has got two more than `before`. */
async function asked(before = 0): Promise<string[]> {
  await expect.poll(() => target.events().length).toBe(before + 2);
  return target.events().map(({ data }) => data);
}

/** The client answers a question as it got it. */
async function answer(question: string | undefined, member?: string): Promise<void> {
  const message = parseMessage(Buffer.from(answerTo(question ?? '{}', member)));
  if (message.kind === 'response') await lives.find('s')?.answer(message satisfies ResponseMessage);
}

function cancel(): void {
  const message = parseMessage(Buffer.from(notification('cancelled', '{"requestId":"c"}')));
  if (message.kind === 'notification') calls.find((call) => call.isFor('s', '"c"'))?.cancel(message);
}

const held = () => ({
  calls: calls.find(() => true) !== undefined,
  active: upstream.links.modern.active,
  lives: lives.size,
});
const ASKED = { calls: true, active: 0, lives: 1 };
const NOTHING = { calls: false, active: 0, lives: 0 };

it.each<[string, readonly Script[], () => unknown]>([
  [
    'answered in the second round',
    [ASKS, DONE],
    async () => {
      for (const question of await asked()) await answer(question);
    },
  ],
  ['answered after rounds that asked nothing', [inputRequired(undefined, '"s"'), DONE], () => undefined],
  ['refused by its client', [ASKS], async () => answer((await asked())[0], '"error":{"code":1,"message":"m"}')],
  [
    'cancelled with questions open',
    [ASKS],
    async () => {
      await asked();
      expect(held()).toEqual(ASKED);
      cancel();
    },
  ],
  [
    'cancelled in the second round',
    [ASKS, { kind: 'silence' }],
    async () => {
      for (const question of await asked()) await answer(question);
      await expect.poll(held).toEqual({ calls: true, active: 1, lives: 0 });
      cancel();
    },
  ],
  [
    'left with questions open by a session that ended',
    [ASKS],
    async () => {
      await asked();
      lives.find('s')?.end();
    },
  ],
  [
    'asked too much',
    [inputRequired(rootsUnder(...Array.from({ length: 33 }, (_, at) => String(at))))],
    () => undefined,
  ],
  [
    'cut off in the second round',
    [ASKS, { kind: 'cut' }],
    async () => {
      for (const question of await asked()) await answer(question);
    },
  ],
  [
    'answered by half when its upstream had gone',
    [ASKS],
    async () => {
      const questions = await asked();
      await raw.down();
      for (const question of questions) await answer(question);
    },
  ],
])('a call holds nothing any more once it was %s', async (_how, answers, end) => {
  started(answers);
  await end();
  await expect.poll(held).toEqual(NOTHING);
  expect(target.writableEnded).toBe(true);
});

it.each([
  ['the first', [ASKS]],
  ['the second', [ASKS, ASKS]],
])('a call that takes too long with questions open in %s round holds nothing any more', async (_which, answers) => {
  calls.close();
  calls = new CallsUnderWay({ silenceMs: 10_000, totalMs: 600 });
  started(answers);
  const questions = await asked();
  if (answers.length > 1) {
    for (const question of questions) await answer(question);
    await asked(2);
  }
  await expect.poll(held).toEqual(NOTHING);
  expect(target.events().at(-1)?.data).toContain('it did not finish within 0.6 s');
});

it('a call is as old in a later round as in the first', async () => {
  started([ASKS, { kind: 'silence' }]);
  const age = () => calls.find(() => true)?.startedAt;
  const [before, questions] = [age(), await asked()];
  expect([before, age()]).toEqual([expect.any(Number), before]);
  for (const question of questions) await answer(question);
  await expect.poll(() => raw.count('tools/call')).toBe(2);
  expect(age()).toBe(before);
});

it('a question whose client can no longer come back is not waited for', async () => {
  started([ASKS]);
  const questions = await asked();
  target.leave();
  events.sweep(performance.now() + 60_000);
  expect(held()).toEqual(ASKED);
  events.sweep(performance.now() + 6 * 60_000);
  expect(held()).toEqual(NOTHING);
  for (const question of questions) await answer(question);
  expect(raw.count('tools/call')).toBe(1);
});

it('a client that has left before it was asked is not asked', async () => {
  const answered = Promise.withResolvers<string>();
  started([() => answered.promise]);
  await expect.poll(() => raw.count('tools/call')).toBe(1);
  target.leave();
  answered.resolve(ASKS);
  await expect.poll(held).toEqual(NOTHING);
  expect(target.events()).toEqual([]);
});
