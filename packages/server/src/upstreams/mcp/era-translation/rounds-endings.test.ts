import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Script } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { type LoneCall, loneCall, NOTHING } from '../fixtures/lone-call.ts';
import { modernHeaders } from '../relay/request-rewrite.ts';
import { inputRequired, rootsUnder } from './fixtures/asking.ts';
import { MultiRoundCall } from './input-rounds.ts';
import { LegacyAnswer } from './messages.ts';

const ASKS = inputRequired(rootsUnder('a', 'b'));
const DONE = textResultText('done');
const CAPABILITIES = { roots: {} };

let raw: RawUpstream;
let lone: LoneCall;

beforeEach(async () => {
  raw = await startRawUpstream({ eras: ['modern'] });
  lone = loneCall(raw.url, { silenceMs: 10_000, totalMs: 10_000 }, CAPABILITIES);
});
afterEach(async () => {
  vi.useRealTimers();
  await lone.close();
  await raw.close();
});

/** A call whose upstream gives these answers. */
function started(answers: readonly Script[]): void {
  let given = 0;
  raw.scripts['tools/call'] = (seen) => {
    const answer = answers[given++] ?? DONE;
    return typeof answer === 'function' ? answer(seen) : answer;
  };
  const { links } = lone.upstream;
  const plan = lone.plan(links.modern, { rewriting: new LegacyAnswer('failed', true), crosses: true });
  const headers = modernHeaders(plan.message, 'work', {}, undefined);
  const facts = { clientInfo: {}, capabilities: CAPABILITIES, logLevel: undefined, trace: undefined };
  new MultiRoundCall(lone.parts, { ...plan, headers }, facts, lone.answer(plan)).start();
}

/** The questions, once the client has got two more than `before`. */
async function asked(before = 0): Promise<string[]> {
  await expect.poll(() => lone.target.events().length).toBe(before + 2);
  return lone.target.events().map(({ data }) => data);
}

const held = () => lone.holds(lone.upstream.links.modern);
const ASKED = { calls: true, active: 0, lives: 1 };

it.each<[string, readonly Script[], () => unknown]>([
  [
    'answered in the second round',
    [ASKS, DONE],
    async () => {
      for (const question of await asked()) await lone.reply(question);
    },
  ],
  ['answered after rounds that asked nothing', [inputRequired(undefined, '"s"'), DONE], () => undefined],
  ['refused by its client', [ASKS], async () => lone.reply((await asked())[0], '"error":{"code":1,"message":"m"}')],
  [
    'cancelled with questions open',
    [ASKS],
    async () => {
      await asked();
      expect(held()).toEqual(ASKED);
      lone.cancel();
    },
  ],
  [
    'cancelled in the second round',
    [ASKS, { kind: 'silence' }],
    async () => {
      for (const question of await asked()) await lone.reply(question);
      await expect.poll(held).toEqual({ calls: true, active: 1, lives: 0 });
      lone.cancel();
    },
  ],
  [
    'left with questions open by a session that ended',
    [ASKS],
    async () => {
      await asked();
      lone.parts.lives.find('s')?.end();
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
      for (const question of await asked()) await lone.reply(question);
    },
  ],
  [
    'answered by half when its upstream had gone',
    [ASKS],
    async () => {
      const questions = await asked();
      await raw.down();
      for (const question of questions) await lone.reply(question);
    },
  ],
])('a call holds nothing any more once it was %s', async (_how, answers, end) => {
  started(answers);
  await end();
  await expect.poll(held).toEqual(NOTHING);
  expect(lone.target.writableEnded).toBe(true);
});

it.each([
  ['the first', [ASKS]],
  ['the second', [ASKS, ASKS]],
])('a call that takes too long with questions open in %s round holds nothing any more', async (_which, answers) => {
  await lone.close();
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  lone = loneCall(raw.url, { silenceMs: 10_000, totalMs: 600 }, CAPABILITIES);
  started(answers);
  const questions = await asked();
  if (answers.length > 1) {
    for (const question of questions) await lone.reply(question);
    await asked(2);
  }
  vi.advanceTimersByTime(400);
  expect(held()).toEqual(ASKED);
  vi.advanceTimersByTime(400);
  await expect.poll(held).toEqual(NOTHING);
  expect(lone.target.events().at(-1)?.data).toContain('it did not finish within 0.6 s');
});

it('a call is as old in a later round as in the first', async () => {
  started([ASKS, { kind: 'silence' }]);
  const age = () => lone.parts.calls.find(() => true)?.startedAt;
  const [before, questions] = [age(), await asked()];
  expect([before, age()]).toEqual([expect.any(Number), before]);
  for (const question of questions) await lone.reply(question);
  await expect.poll(() => raw.count('tools/call')).toBe(2);
  expect(age()).toBe(before);
});

it('a question whose client can no longer come back is not waited for', async () => {
  started([ASKS]);
  const questions = await asked();
  lone.target.leave();
  lone.events.sweep(performance.now() + 60_000);
  expect(held()).toEqual(ASKED);
  lone.events.sweep(performance.now() + 6 * 60_000);
  expect(held()).toEqual(NOTHING);
  for (const question of questions) await lone.reply(question);
  expect(raw.count('tools/call')).toBe(1);
});

it('a client that has left before it was asked is not asked', async () => {
  const answered = Promise.withResolvers<string>();
  started([() => answered.promise]);
  await expect.poll(() => raw.count('tools/call')).toBe(1);
  lone.target.leave();
  answered.resolve(ASKS);
  await expect.poll(held).toEqual(NOTHING);
  expect(lone.target.events()).toEqual([]);
});
