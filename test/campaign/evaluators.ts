import { setTimeout as delay } from 'node:timers/promises';
import type { HostileAction } from '../../packages/server/src/policy/sandbox/fixtures/hostile/hostile-action.ts';
import { hostileActions } from '../../packages/server/src/policy/sandbox/fixtures/hostile-actions.ts';
import type { Campaign } from './campaign.ts';
import { type EvaluatorGateway, startEvaluatorGateway } from './evaluators-gateway.ts';
import { type HostileRound, hostileRound, installActions } from './evaluators-hostile.ts';
import { type Probed, Prober } from './evaluators-prober.ts';
import { type ActionProcesses, actionProcesses, ProcessWatch } from './evaluators-processes.ts';
import { type UpdatesResult, updatesUnderLoad } from './evaluators-updates.ts';
import { INSPECTOR_ARGS, ProcessProbe } from './process-probe.ts';
import { quantile } from './tally.ts';

const ROUNDS = 3;
const UPDATES = 1_000;
const CALLERS = 16;
const MEGABYTE = 1024 * 1024;
/** Limit for the p99 of `tools/list` while hostile actions run. */
const MAX_PROBE_MS = 50;
const MAX_HOST_BYTES = 256 * MEGABYTE;
const MAX_COMPILER_BYTES = 512 * MEGABYTE;
/** Limits for the growth of the service's heap and RSS after the first round, without evaluators. */
const MAX_HEAP_GROWTH = 20 * MEGABYTE;
const MAX_RSS_GROWTH = 128 * MEGABYTE;
/** Time until the last host process has exited, once there are no evaluators. */
const EXIT_MS = 10_000;

/** Result of one run of the campaign. */
export interface EvaluatorsRun {
  readonly actions: number;
  readonly rounds: readonly HostileRound[];
  readonly updates: UpdatesResult;
  readonly probed: Probed;
  readonly processes: ActionProcesses;
  /** Heap and RSS of the service in bytes, after each round and at the end. */
  readonly memory: readonly { readonly heap: number; readonly rss: number }[];
  /** One line per violation, except for the latency of probes. */
  readonly failures: readonly string[];
}

/** Workload of a run. */
export interface EvaluatorsPlan {
  readonly actions: readonly HostileAction[];
  readonly rounds: number;
  readonly updates: number;
  readonly callers: number;
}

/**
 * Lets hostile actions evaluate requests of a gateway, and then replaces its evaluators many times under load. Tools are
 * listed during the whole run.
 */
export async function runEvaluators(plan: EvaluatorsPlan, print: (line: string) => void): Promise<EvaluatorsRun> {
  await using target = await startEvaluatorGateway(INSPECTOR_ARGS);
  const { gateway } = target;
  const pid = gateway.pid() ?? 0;
  await register(target);
  // Before any measurement: building actions uses the CPU of this process.
  const installed = await installActions(target, plan.actions);
  const probe = await ProcessProbe.connect(gateway);
  const watch = new ProcessWatch(pid);
  const prober = new Prober(gateway.url());
  const memory: { heap: number; rss: number }[] = [];
  const failures: string[] = [];
  const measure = async () => {
    await target.replace([]);
    failures.push(...(await remainingProcesses(() => actionProcesses(pid))));
    const { heap, rss } = await probe.usage([]);
    memory.push({ heap, rss });
  };

  const rounds: HostileRound[] = [];
  for (let round = 1; round <= plan.rounds; round++) {
    rounds.push(await hostileRound(target, installed));
    await measure();
    print(`round ${round}: ${rounds.at(-1)?.evaluated} evaluated, ${rounds.at(-1)?.failures.length} findings`);
  }
  const updates = await updatesUnderLoad(target, plan.updates, plan.callers);
  print(`${updates.updates} updates, ${updates.requests} requests, ${updates.failures.length} findings`);
  await measure();

  const probed = await prober.stop();
  const processes = await watch.stop();
  // A process does not exit while an inspector is connected.
  probe.close();
  const code = await gateway.stop();
  if (code !== 0) failures.push(`the gateway exited with code ${code}`);
  const observed = new Set([...processes.hosts, ...processes.compilers]);
  failures.push(...(await remainingProcesses(() => actionProcesses().filter((other) => observed.has(other)))));
  const errors = gateway.logs.filter(({ level }) => level === 'error').slice(0, 10);
  failures.push(...errors.map((line) => `error in the log: ${JSON.stringify(line).slice(0, 500)}`));
  failures.push(
    ...rounds.flatMap((round) => round.failures),
    ...updates.failures,
    ...probed.failures,
    ...bounds(processes, memory),
  );
  return { actions: installed.length, rounds, updates, probed, processes, memory, failures };
}

/** Registers the tool that the actions look up. */
async function register({ gateway }: EvaluatorGateway): Promise<void> {
  const tool = { name: 'weather', description: 'Forecast', uri: 'http://weather', toolType: 'http' };
  const { status } = await gateway.api('POST', '/api/v1/tools', { ...tool, input_schema: { type: 'object' } });
  if (status !== 201) throw new Error(`POST /api/v1/tools: ${status}`);
}

/** Waits until no such process exists; returns a line with those that remain. */
async function remainingProcesses(find: () => readonly number[]): Promise<string[]> {
  const deadline = performance.now() + EXIT_MS;
  for (;;) {
    const pids = find();
    if (pids.length === 0) return [];
    if (performance.now() > deadline) return [`processes ${pids.join()} still run`];
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
    ...(hosts.length === 0 ? ['no host process was observed'] : []),
    ...(compilers.length === 0 ? ['no compiler process was observed'] : []),
    ...(hostPeak > MAX_HOST_BYTES ? [`a host process had ${megabytes(hostPeak)}`] : []),
    ...(compilerPeak > MAX_COMPILER_BYTES ? [`a compiler process had ${megabytes(compilerPeak)}`] : []),
    ...(grown('heap') > MAX_HEAP_GROWTH ? [`the service's heap has grown by ${megabytes(grown('heap'))}`] : []),
    ...(grown('rss') > MAX_RSS_GROWTH ? [`the service has grown by ${megabytes(grown('rss'))}`] : []),
  ];
}

/** Runs hostile actions, and replaces sets of evaluators under load. A round runs every action twice. */
export const evaluatorsCampaign: Campaign = {
  name: 'evaluators',
  title: `Hostile actions, and ${UPDATES} updates of evaluators under load`,
  async run(print, rounds = ROUNDS) {
    const actions = Object.values(hostileActions).flat();
    const run = await runEvaluators({ actions, rounds, updates: UPDATES, callers: CALLERS }, print);
    const p99 = quantile(run.probed.times, 0.99);
    const failures = [
      ...run.failures,
      ...(p99 > MAX_PROBE_MS ? [`the p99 of tools/list was ${Math.round(p99)} ms`] : []),
    ];
    for (const line of failures) print(`  ${line}`);
    return { passed: failures.length === 0, report: report(run, failures) };
  },
};

function report(run: EvaluatorsRun, failures: readonly string[]): string {
  const { rounds, updates, probed, processes, memory } = run;
  const evaluated = rounds.reduce((sum, round) => sum + round.evaluated, 0);
  const probeTimes = [0.5, 0.99, 1].map((part) => `${quantile(probed.times, part).toFixed(1)} ms`).join(', ');
  const updateTimes = [0.5, 0.99].map((part) => `${quantile(updates.times, part).toFixed(1)} ms`).join(', ');
  const rows: readonly (readonly [string, string | number])[] = [
    [
      'rounds; hostile actions in each; of these rejected as invalid files',
      `${rounds.length}; ${run.actions}; ${rounds[0]?.rejected}`,
    ],
    ['requests evaluated by the others, half of them with `on_error` block, half with continue', evaluated],
    ['host processes; maximum RSS of one', `${processes.hosts.length}; ${megabytes(processes.hostPeak)}`],
    ['compiler processes; maximum RSS of one', `${processes.compilers.length}; ${megabytes(processes.compilerPeak)}`],
    ['updates under load; p50 and p99', `${updates.updates}; ${updateTimes}`],
    [
      'requests meanwhile; of these evaluated by a set that was replaced before they ended',
      `${updates.requests}; ${updates.evaluatedByReplaced}`,
    ],
    ['`tools/list` during the whole run; p50, p99, maximum', `${probed.times.length}; ${probeTimes}`],
    ['heap of the service after each round, and at the end', memory.map(({ heap }) => megabytes(heap)).join(', ')],
    ['RSS of the service, likewise', memory.map(({ rss }) => megabytes(rss)).join(', ')],
    [
      '**wrong decisions, missing responses, evaluations by another set, or leaked processes**',
      `**${failures.length}**`,
    ],
  ];
  const lines = rows.map(([what, value]) => `| ${what} | ${value} |\n`);
  return `| | |\n|---|---|\n${lines.join('')}${failures
    .slice(0, 50)
    .map((line) => `- ${line}\n`)
    .join('')}`;
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / MEGABYTE)} MB`;
}
