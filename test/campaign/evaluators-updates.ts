import { setTimeout as delay } from 'node:timers/promises';
import { toolchains } from '../../packages/server/src/policy/sandbox/fixtures/ordinary-actions.ts';
import { modernClient } from '../fixtures/raw-client.ts';
import type { EvaluatorGateway } from './evaluators-gateway.ts';

/** Result of updates under load. */
export interface UpdatesResult {
  readonly updates: number;
  readonly requests: number;
  /** Requests that ended after their set had been replaced and the update had its response. */
  readonly evaluatedByReplaced: number;
  /** Milliseconds of each update. */
  readonly times: readonly number[];
  /** One line per violation. */
  readonly failures: readonly string[];
}

/** Maximum latency of the LLM: long enough for an update between the two evaluators of a request. */
const LLM_LATENCY_MS = 20;

/**
 * Replaces all evaluators repeatedly while requests are evaluated. Both evaluators of a set have its number; the second
 * one blocks with it. So every response identifies its set. It must be the same for both evaluators, and active while the
 * request was in flight: not older than the last update completed before the request, not newer than the last one sent
 * before its end.
 */
export async function updatesUnderLoad(
  target: EvaluatorGateway,
  updates: number,
  callers: number,
): Promise<UpdatesResult> {
  const { gateway, llm } = target;
  const path = await target.writeAction('ordinary.wasm', await toolchains.wat());
  const failures: string[] = [];
  // Further ones are redundant.
  const fail = (line: string) => {
    if (failures.length < 50) failures.push(line);
  };
  const times: number[] = [];
  let [sent, completed, requests, evaluatedByReplaced] = [0, 0, 0, 0];
  const replace = async () => {
    sent++;
    const start = performance.now();
    const evaluators = ['first', 'second'].map((name) => {
      return { name, method: 'tools/call', prompt: `${name} of set ${sent}`, path, onError: 'block' as const };
    });
    const skipped = await target.replace(evaluators);
    if (skipped.length > 0) fail(`set ${sent}: ${skipped.join()} skipped`);
    times.push(performance.now() - start);
    completed = sent;
  };

  /** Evaluators that evaluated a request, by its number. */
  const evaluatedBy = new Map<number, string[]>();
  llm.defaultResult = ({ messages: [system, user] }) => {
    const [, place, set = ''] = /^(first|second) of set (\d+)$/.exec(system?.content ?? '') ?? [];
    evaluatedBy.get(Number(/^ *request: (\d+)$/m.exec(user?.content ?? '')?.[1]))?.push(`${place} of ${set}`);
    return {
      content: place === 'first' ? 'warn:seen' : `block:set ${set}`,
      after: delay(Math.random() * LLM_LATENCY_MS),
    };
  };
  const call = async () => {
    const number = ++requests;
    const used: string[] = [];
    evaluatedBy.set(number, used);
    const oldest = completed;
    const params = JSON.stringify({ name: 'transfer', arguments: { request: String(number) } });
    const { text } = await modernClient(gateway.url()).call('tools/call', params);
    const [newest, replacedBy] = [sent, completed];
    evaluatedBy.delete(number);
    const [, set] =
      /"code":-32001,"message":"set (\d+)","data":\{"evaluator":"second","kind":"block"\}/.exec(text) ?? [];
    const details = `request ${number}, sets ${oldest} to ${newest}, evaluated by ${used.join(', ')}: ${text.slice(0, 300)}`;
    const isOneSet = used.join() === `first of ${set},second of ${set}`;
    if (set === undefined || !isOneSet || Number(set) < oldest || Number(set) > newest) fail(details);
    else if (Number(set) < replacedBy) evaluatedByReplaced++;
  };

  const tool = { name: 'transfer', description: 'Transfer', uri: 'own://transfer', toolType: 'own', input_schema: {} };
  const { status } = await gateway.api('POST', '/api/v1/tools', tool);
  if (status !== 201) throw new Error(`POST /api/v1/tools: ${status}`);
  await replace();
  let isDone = false;
  const caller = async () => {
    while (!isDone) await call().catch((error: unknown) => fail(`a call failed: ${error}`));
  };
  const calls = Promise.all(Array.from({ length: callers }, caller));
  try {
    while (sent < updates) await replace();
  } finally {
    isDone = true;
    await calls;
  }
  return { updates: sent, requests, evaluatedByReplaced, times, failures };
}
