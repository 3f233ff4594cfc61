import { setTimeout as delay } from 'node:timers/promises';
import type { HostileAction } from '../../packages/server/src/policy/sandbox/fixtures/hostile/hostile-action.ts';
import { hostileActions } from '../../packages/server/src/policy/sandbox/fixtures/hostile-actions.ts';
import type { Campaign } from './campaign.ts';
import { type HostileRound, hostileRound, place } from './evaluators-hostile.ts';
import { type Probed, Prober } from './evaluators-prober.ts';
import { type ActionProcesses, actionProcesses, ProcessWatch } from './evaluators-processes.ts';
import { type JudgingGateway, startJudging } from './evaluators-start.ts';
import { type UpdatesResult, updatesUnderLoad } from './evaluators-updates.ts';
import { PROBED, ProcessProbe } from './process-probe.ts';
import { quantile } from './witness.ts';

const ROUNDS = 3;
const UPDATES = 1_000;
const CALLERS = 16;
const MEGABYTE = 1024 * 1024;
/** The p99 of a `tools/list` while hostile actions run. */
const MOST_PROBE_MS = 50;
const MOST_HOST_BYTES = 256 * MEGABYTE;
const MOST_COMPILER_BYTES = 512 * MEGABYTE;
/** What the service's heap and main memory may have grown by after the first round, when there are no evaluators. */
const MOST_HEAP = 20 * MEGABYTE;
const MOST_MEMORY = 128 * MEGABYTE;
/** Until no host process is left when the last evaluator is gone. */
const END_MS = 10_000;

/** What one run of the campaign found. */
export interface EvaluatorsRun {
  readonly actions: number;
  readonly rounds: readonly HostileRound[];
  readonly updates: UpdatesResult;
  readonly probed: Probed;
  readonly processes: ActionProcesses;
  /** Bytes of the service's heap and of it in main memory after each round, and at the end. */
  readonly memory: readonly { readonly heap: number; readonly rss: number }[];
  /** A line for everything that was not as it must be, but how long probes took. */
  readonly wrong: readonly string[];
}

/** How much a run does. */
export interface EvaluatorsPlan {
  readonly actions: readonly HostileAction[];
  readonly rounds: number;
  readonly updates: number;
  readonly callers: number;
}

/**
 * Hostile actions judge requests of a gateway, and then its evaluators are replaced many times under load, while tools
 * are listed all through.
 */
export async function runEvaluators(plan: EvaluatorsPlan, print: (line: string) => void): Promise<EvaluatorsRun> {
  await using judging = await startJudging(PROBED);
  const { gateway } = judging;
  const pid = gateway.pid() ?? 0;
  await register(judging);
  // Before anything is measured: building takes this process's time.
  const placed = await place(judging, plan.actions);
  const looking = await ProcessProbe.connect(gateway);
  const watch = new ProcessWatch(pid);
  const prober = new Prober(gateway.url());
  const memory: { heap: number; rss: number }[] = [];
  const wrong: string[] = [];
  const look = async () => {
    await judging.replace([]);
    wrong.push(...(await left(() => actionProcesses(pid))));
    const { heap, rss } = await looking.holdings([]);
    memory.push({ heap, rss });
  };

  const rounds: HostileRound[] = [];
  for (let round = 1; round <= plan.rounds; round++) {
    rounds.push(await hostileRound(judging, placed));
    await look();
    print(`round ${round}: ${rounds.at(-1)?.judged} judged, ${rounds.at(-1)?.wrong.length} findings`);
  }
  const updates = await updatesUnderLoad(judging, plan.updates, plan.callers);
  print(`${updates.updates} updates, ${updates.requests} requests, ${updates.wrong.length} findings`);
  await look();

  const probed = await prober.stop();
  const processes = await watch.stop();
  // A process does not end while it is looked into.
  looking.close();
  const code = await gateway.stop();
  if (code !== 0) wrong.push(`the gateway ended with code ${code}`);
  const seen = new Set([...processes.hosts, ...processes.compilers]);
  wrong.push(...(await left(() => actionProcesses().filter((other) => seen.has(other)))));
  const errors = gateway.logs.filter(({ level }) => level === 'error').slice(0, 10);
  wrong.push(...errors.map((line) => `in the log: ${JSON.stringify(line).slice(0, 500)}`));
  wrong.push(
    ...rounds.flatMap((round) => round.wrong),
    ...updates.wrong,
    ...probed.wrong,
    ...bounds(processes, memory),
  );
  return { actions: placed.length, rounds, updates, probed, processes, memory, wrong };
}

/** What the actions ask for by name. */
async function register({ gateway }: JudgingGateway): Promise<void> {
  const tool = { name: 'weather', description: 'Says it', uri: 'http://weather', toolType: 'http' };
  const { status } = await gateway.api('POST', '/api/v1/tools', { ...tool, input_schema: { type: 'object' } });
  if (status !== 201) throw new Error(`POST /api/v1/tools: ${status}`);
}

/** Waits until no such process for actions is there any more; a line for those that still are. */
async function left(find: () => readonly number[]): Promise<string[]> {
  const over = performance.now() + END_MS;
  for (;;) {
    const pids = find();
    if (pids.length === 0) return [];
    if (performance.now() > over) return [`processes ${pids.join()} are left`];
    await delay(50);
  }
}

function bounds(
  { hosts, hostPeak, compilers, compilerPeak }: ActionProcesses,
  memory: EvaluatorsRun['memory'],
): string[] {
  const [first] = memory;
  const last = memory.at(-1);
  const grown = (part: 'heap' | 'rss') => (last?.[part] ?? 0) - (first?.[part] ?? 0);
  return [
    ...(hosts.length === 0 ? ['no host process was ever seen'] : []),
    ...(compilers.length === 0 ? ['no compiling process was ever seen'] : []),
    ...(hostPeak > MOST_HOST_BYTES ? [`a host process had ${megabytes(hostPeak)}`] : []),
    ...(compilerPeak > MOST_COMPILER_BYTES ? [`a compiling process had ${megabytes(compilerPeak)}`] : []),
    ...(grown('heap') > MOST_HEAP ? [`the service's heap has grown by ${megabytes(grown('heap'))}`] : []),
    ...(grown('rss') > MOST_MEMORY ? [`the service has grown by ${megabytes(grown('rss'))}`] : []),
  ];
}

/** Actions that mean harm, and sets of evaluators that are replaced under load. A round has every action run twice. */
export const evaluatorsCampaign: Campaign = {
  name: 'evaluators',
  title: `Hostile actions, and ${UPDATES} updates of evaluators under load`,
  async run(print, rounds = ROUNDS) {
    const actions = Object.values(hostileActions).flat();
    const run = await runEvaluators({ actions, rounds, updates: UPDATES, callers: CALLERS }, print);
    const p99 = quantile(run.probed.times, 0.99);
    const wrong = [...run.wrong, ...(p99 > MOST_PROBE_MS ? [`the p99 of tools/list was ${Math.round(p99)} ms`] : [])];
    for (const line of wrong) print(`  ${line}`);
    return { passed: wrong.length === 0, report: report(run, wrong) };
  },
};

function report(run: EvaluatorsRun, wrong: readonly string[]): string {
  const { rounds, updates, probed, processes, memory } = run;
  const judged = rounds.reduce((sum, round) => sum + round.judged, 0);
  const probeTimes = [0.5, 0.99, 1].map((part) => `${quantile(probed.times, part).toFixed(1)} ms`).join(', ');
  const updateTimes = [0.5, 0.99].map((part) => `${quantile(updates.times, part).toFixed(1)} ms`).join(', ');
  const rows: readonly (readonly [string, string | number])[] = [
    [
      'rounds; hostile actions in each; of these files that are refused',
      `${rounds.length}; ${run.actions}; ${rounds[0]?.refused}`,
    ],
    ['requests judged by the others, half of them with `on_error` block, half with continue', judged],
    [
      'host processes; the most that one ever had in main memory',
      `${processes.hosts.length}; ${megabytes(processes.hostPeak)}`,
    ],
    [
      'compiling processes; the most that one ever had',
      `${processes.compilers.length}; ${megabytes(processes.compilerPeak)}`,
    ],
    ['updates under load; p50 and p99', `${updates.updates}; ${updateTimes}`],
    [
      'requests meanwhile; of these judged by a set that had been replaced when they ended',
      `${updates.requests}; ${updates.outlived}`,
    ],
    ['`tools/list` all through; p50, p99, longest', `${probed.times.length}; ${probeTimes}`],
    ['heap of the service after each round, and at the end', memory.map(({ heap }) => megabytes(heap)).join(', ')],
    ['main memory of the service likewise', memory.map(({ rss }) => megabytes(rss)).join(', ')],
    ['**decided otherwise, not answered, judged by another set, or left**', `**${wrong.length}**`],
  ];
  const lines = rows.map(([what, value]) => `| ${what} | ${value} |\n`);
  return `| | |\n|---|---|\n${lines.join('')}${wrong
    .slice(0, 50)
    .map((line) => `- ${line}\n`)
    .join('')}`;
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / MEGABYTE)} MB`;
}
