import { setTimeout as delay } from 'node:timers/promises';
import { toolchains } from '../../packages/server/src/policy/sandbox/fixtures/ordinary-actions.ts';
import { modernClient } from '../fixtures/raw-client.ts';
import type { JudgingGateway } from './evaluators-start.ts';

/** What came of updates under load. */
export interface UpdatesResult {
  readonly updates: number;
  readonly requests: number;
  /** Requests whose set had been replaced, and the update been answered, when they ended. */
  readonly outlived: number;
  /** Milliseconds that updates took. */
  readonly times: readonly number[];
  /** A line for everything that was not as it must be. */
  readonly wrong: readonly string[];
}

/** How long the LLM thinks at most: long enough for an update to come between the two evaluators of a request. */
const THINKING_MS = 20;

/**
 * Replaces all evaluators so many times while callers are judged. Both evaluators of a set carry its number; the second
 * one blocks with it. So every answer tells its set, which must have been active while the request was under way: not
 * older than the last one answered before it, not newer than the last one sent before its end, and one for both.
 */
export async function updatesUnderLoad(
  judging: JudgingGateway,
  updates: number,
  callers: number,
): Promise<UpdatesResult> {
  const { gateway, llm } = judging;
  const path = await judging.keep('ordinary.wasm', await toolchains.wat());
  const wrong: string[] = [];
  // The others are more of the same.
  const reject = (line: string) => {
    if (wrong.length < 50) wrong.push(line);
  };
  const times: number[] = [];
  let [sent, answered, requests, outlived] = [0, 0, 0, 0];
  const replace = async () => {
    sent++;
    const began = performance.now();
    const evaluators = ['first', 'second'].map((name) => {
      return { name, method: 'tools/call', prompt: `${name} of set ${sent}`, path, onError: 'block' as const };
    });
    const skipped = await judging.replace(evaluators);
    if (skipped.length > 0) reject(`set ${sent}: ${skipped.join()} skipped`);
    times.push(performance.now() - began);
    answered = sent;
  };

  /** Sets that judged a request, by its number. */
  const judges = new Map<number, string[]>();
  llm.otherwise = ({ messages: [system, user] }) => {
    const [, place, set = ''] = /^(first|second) of set (\d+)$/.exec(system?.content ?? '') ?? [];
    judges.get(Number(/^ *request: (\d+)$/m.exec(user?.content ?? '')?.[1]))?.push(`${place} of ${set}`);
    return {
      content: place === 'first' ? 'warn:seen' : `block:set ${set}`,
      after: delay(Math.random() * THINKING_MS),
    };
  };
  const call = async () => {
    const number = ++requests;
    const seen: string[] = [];
    judges.set(number, seen);
    const oldest = answered;
    const params = JSON.stringify({ name: 'transfer', arguments: { request: String(number) } });
    const { text } = await modernClient(gateway.url()).call('tools/call', params);
    const [newest, replacedBy] = [sent, answered];
    judges.delete(number);
    const [, set] =
      /"code":-32001,"message":"set (\d+)","data":\{"evaluator":"second","kind":"block"\}/.exec(text) ?? [];
    const told = `request ${number}, sets ${oldest} to ${newest}, judged by ${seen.join(', ')}: ${text.slice(0, 300)}`;
    const one = seen.join() === `first of ${set},second of ${set}`;
    if (set === undefined || !one || Number(set) < oldest || Number(set) > newest) reject(told);
    else if (Number(set) < replacedBy) outlived++;
  };

  await replace();
  let over = false;
  const caller = async () => {
    while (!over) await call().catch((error: unknown) => reject(`a call failed: ${error}`));
  };
  const calling = Promise.all(Array.from({ length: callers }, caller));
  try {
    while (sent < updates) await replace();
  } finally {
    over = true;
    await calling;
  }
  return { updates: sent, requests, outlived, times, wrong };
}
