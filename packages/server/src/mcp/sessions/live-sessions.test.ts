import { randomBytes } from 'node:crypto';
import { TokenSealer } from '@sluice/protocol/seal';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ActiveSessions, type Question } from './live-sessions.ts';
import { EventStore } from './resumable-streams.ts';

let events: EventStore;
let lives: ActiveSessions;
beforeEach(() => {
  events = new EventStore(new TokenSealer(randomBytes(32)), 'replica-a');
  lives = new ActiveSessions(events, 'replica-a');
});
afterEach(() => events.close());

const question = (idText: string): Question => ({
  idText,
  answered: () => Promise.resolve(),
  progressed: () => undefined,
  abandoned: () => undefined,
});

it('a question’s id names the process that waits for its answer, and no two are alike', () => {
  const [one, other] = [lives.of('a').ask(question), lives.of('b').ask(question)];
  for (const { idText } of [one, other]) expect(JSON.parse(idText)).toMatch(/^replica-a\.\d+$/);
  expect(one.idText).not.toBe(other.idText);
  expect(lives.find('b')?.question(one.idText)).toBeUndefined();
});

it('a session is there as long as something is open in it', () => {
  const asked = lives.of('a').ask(question);
  expect(lives.size).toBe(1);
  lives.of('a').withdraw(asked);
  expect(lives.size).toBe(0);
  const stream = lives.of('a').openStream(() => undefined);
  expect(lives.find('a')?.listening).toBe(true);
  lives.find('a')?.closeStream(stream);
  expect(lives.size).toBe(0);
});
