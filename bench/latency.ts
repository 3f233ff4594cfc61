import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { at, makeCaller, parseJson } from './caller.ts';
import { type Case, cases } from './cases.ts';
import type { Contender, ContenderName } from './contenders.ts';
import { percentile, type Spread, spread } from './figures.ts';
import type { Message } from './messages.ts';
import type { Plan } from './options.ts';
import { type LoadPlan, load } from './programs.ts';
import { planLoad, rotate, warmUp } from './requests.ts';
import { callSequentially } from './rounds.ts';

/** Input of the paced caller. */
export interface PacedPlan {
  readonly url: string;
  /** Requests, one for each connection in turn. */
  readonly messages: readonly Message[];
  readonly connections: number;
  /** Calls per second of all connections. */
  readonly perSecond: number;
  readonly seconds: number;
  readonly answerBytes: number;
}

/** Result of the paced caller: response times from when a call was due. */
export interface PacedResult {
  readonly calls: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Median response times of a single caller, by target. */
export interface SingleFigures {
  readonly case: Case;
  readonly p50Ms: ReadonlyMap<ContenderName, number>;
}

/** Response times of a target at a steady rate. */
export interface PacedRow {
  readonly contender: ContenderName;
  readonly p50Ms: Spread;
  readonly p99Ms: Spread;
  /** The p99 relative to that of the relay in the same round. */
  readonly ratio: Spread;
}

/** Response times. */
export interface LatencyFigures {
  readonly single: readonly SingleFigures[];
  readonly paced: readonly PacedRow[];
}

/** Calls per second of the steady rate: about a twentieth of what the gateway can handle. */
export const pacedRate = 1_000;
const pacedCase = 'call-legacy';

/** Target with its load and measurements. */
interface Lane {
  readonly contender: Contender;
  readonly load: LoadPlan;
  readonly times: number[];
  readonly paced: PacedResult[];
}

/**
 * Measures response times of a single caller in the cases of lists and calls, and those of calls at a steady rate, with all
 * targets in turn in every round.
 *
 * @param withWarmUp false omits the warm-up with the load generator
 * @param log called after every measurement
 */
export async function measureLatency(
  contenders: readonly Contender[],
  plan: Plan,
  folder: string,
  withWarmUp: boolean,
  log: (line: string) => void,
): Promise<LatencyFigures> {
  const single: SingleFigures[] = [];
  let paced: PacedRow[] = [];
  for (const measured of cases.filter(({ part }) => part === 'list' || part === 'call')) {
    using caller = makeCaller();
    const lanes: Lane[] = [];
    for (const contender of contenders) {
      const url = contender.endpoint(measured.upstream);
      const withSessions = contender.name !== 'relay' && contender.name !== 'nginx';
      const planned = await planLoad(caller, measured, url, `${folder}/load.lua`, contender.pid, withSessions);
      lanes.push({ contender, load: planned, times: [], paced: [] });
    }
    for (const { contender, load: planned } of lanes) {
      if (contender.child === undefined) continue;
      if (withWarmUp) await warmUp(plan, (seconds) => load(planned, seconds));
      contender.child.clearOutput();
    }
    for (let round = 0; round < plan.singleRounds; round++) {
      await callSequentially(caller, rotate(lanes, round), plan.singleCalls);
    }
    const p50Ms = new Map(lanes.map(({ contender, times }) => [contender.name, percentile(times, 0.5)]));
    log(`${measured.name}, p50: ${[...p50Ms].map(([name, ms]) => `${name} ${ms.toFixed(3)} ms`).join(', ')}`);
    single.push({ case: measured, p50Ms });
    if (measured.name === pacedCase) paced = await measurePaced(lanes, plan, folder, log);
  }
  return { single, paced };
}

const run = promisify(execFile);

async function measurePaced(
  lanes: readonly Lane[],
  plan: Plan,
  folder: string,
  log: (line: string) => void,
): Promise<PacedRow[]> {
  const called = async ({ contender, load: { url, messages, answerBytes } }: Lane, seconds: number) => {
    const rate = { connections: 64, perSecond: pacedRate, seconds };
    const input: PacedPlan = { url: url.href, messages, answerBytes, ...rate };
    const file = `${folder}/paced.json`;
    writeFileSync(file, JSON.stringify(input));
    const { stdout } = await run(process.execPath, [`${import.meta.dirname}/paced-caller.ts`, file]);
    contender.child?.clearOutput();
    const value = parseJson(stdout);
    const [calls, p50Ms, p99Ms] = ['calls', 'p50Ms', 'p99Ms'].map((name) => Number(at(value, name)));
    if (!calls || !p50Ms || !p99Ms) throw new Error(`steady calls at ${url}: unexpected result: ${stdout}`);
    return { calls, p50Ms, p99Ms };
  };
  // V8 compiles functions again when a turn has one request instead of many.
  for (const lane of lanes) if (lane.contender.child !== undefined) await called(lane, plan.pacedWarmUpSeconds);
  for (let round = 0; round < plan.pacedRounds; round++) {
    for (const lane of rotate(lanes, round)) {
      const { contender, paced } = lane;
      if (contender.name === 'nginx' && round >= plan.nginxRounds) continue;
      const { calls, p50Ms, p99Ms } = await called(lane, plan.pacedSeconds);
      paced.push({ calls, p50Ms, p99Ms });
      const where = `${pacedRate} calls per second, round ${round + 1} of ${plan.pacedRounds}, ${contender.name}`;
      log(`${where}: p50 ${p50Ms.toFixed(3)} ms, p99 ${p99Ms.toFixed(3)} ms`);
    }
  }
  const relay = lanes.find(({ contender }) => contender.name === 'relay');
  return lanes.map(({ contender, paced }) => ({
    contender: contender.name,
    p50Ms: spread(paced.map(({ p50Ms }) => p50Ms)),
    p99Ms: spread(paced.map(({ p99Ms }) => p99Ms)),
    ratio: spread(paced.map(({ p99Ms }, round) => p99Ms / (relay?.paced[round]?.p99Ms ?? Number.NaN))),
  }));
}
