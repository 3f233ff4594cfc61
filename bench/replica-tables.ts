import { bold, formatRange, hundredths, type Interval, table, tenths, thousandths, whole } from './figures.ts';
import { type CostFigures, costLimits, type ProcessFigures, processesFloor } from './replica-cost.ts';
import type { FleetFigures } from './replica-fleet.ts';
import { bytesPerToolLimit, type StartFigures, startSeconds, toolsPerNamespace } from './replica-start.ts';
import { seenLimitMs, type WriteFigures, writesFloor } from './replica-writes.ts';
import type { ReplicaFigures } from './replicas.ts';

/** Returns the tables of the measurements of replicas that ran; adds missed limits to `missed`. */
export function replicaTables(figures: ReplicaFigures, missed: string[]): string {
  const { cost, processes, writes, fleet, start } = figures;
  return [
    ...(cost.length > 0 ? [costTable(cost, missed)] : []),
    ...(processes.length > 0 ? [processTable(processes, missed)] : []),
    ...(writes ? [writeTable(writes, missed)] : []),
    ...(fleet.length > 0 ? [fleetTable(fleet)] : []),
    ...(start ? [startTable(start, missed)] : []),
  ].join('\n\n');
}

const interval = ({ median, low, high }: Interval) => `${hundredths(median)} (${hundredths(low)}-${hundredths(high)})`;

function costTable(figures: readonly CostFigures[], missed: string[]): string {
  const { list, call, addedMs } = costLimits;
  return table(
    [
      'PostgreSQL and registry folder',
      'µs with a folder',
      'µs on PostgreSQL',
      'ratio',
      'limit',
      'p50 ms added',
      'limit',
    ],
    figures.map(({ case: { title, method }, folderUs, postgresUs, ratio, folderMs, postgresMs }) => {
      const isList = method === 'list';
      const limit = isList ? list : call;
      // The requirement for a list is a tie, of which a measurement is never exactly one.
      const isTie = isList && ratio.low <= 1;
      if (ratio.median > limit && !isTie) {
        missed.push(`${title}: ${hundredths(ratio.median)} times the CPU time with a registry folder, limit ${limit}`);
      }
      const added = postgresMs - folderMs;
      if (added > addedMs) missed.push(`${title}: p50 is ${thousandths(added)} ms above that with a registry folder`);
      return [
        title,
        formatRange(folderUs, tenths),
        formatRange(postgresUs, tenths),
        bold(interval(ratio), true),
        isList ? `${list}, or a tie` : hundredths(limit),
        thousandths(added),
        tenths(addedMs),
      ];
    }),
  );
}

function processTable(figures: readonly ProcessFigures[], missed: string[]): string {
  return table(
    ['`SERVICE_PROCESSES`', '1, per second', '2, per second', 'ratio', 'floor', '1, CPU µs', '2, CPU µs'],
    figures.map(({ case: { title }, onePerSecond, twoPerSecond, ratio, oneUs, twoUs }) => {
      if (ratio.median < processesFloor) {
        missed.push(`${title}: two processes answer ${hundredths(ratio.median)} times as many requests as one`);
      }
      return [
        title,
        formatRange(onePerSecond, whole),
        formatRange(twoPerSecond, whole),
        bold(interval(ratio), true),
        hundredths(processesFloor),
        formatRange(oneUs, tenths),
        formatRange(twoUs, tenths),
      ];
    }),
  );
}

function writeTable(figures: WriteFigures, missed: string[]): string {
  const { perSecond, p50Ms, p99Ms, perCommit, seenP50Ms, seenP99Ms, removalP50Ms, removalP99Ms } = figures;
  if (perSecond < writesFloor) missed.push(`${whole(perSecond)} writes per second, floor ${whole(writesFloor)}`);
  if (seenP99Ms > seenLimitMs) missed.push(`a change is seen everywhere after ${tenths(seenP99Ms)} ms (p99)`);
  return table(
    ['three replicas', 'figure', 'limit', 'p50 ms', 'p99 ms'],
    [
      [
        'acknowledged writes per second',
        bold(whole(perSecond), true),
        `at least ${whole(writesFloor)}`,
        tenths(p50Ms),
        tenths(p99Ms),
      ],
      ['writes per commit', tenths(perCommit), '', '', ''],
      [
        'from an acknowledged change until it is seen everywhere',
        '',
        `${seenLimitMs} ms`,
        tenths(seenP50Ms),
        bold(tenths(seenP99Ms), true),
      ],
      ['removal, applied by all replicas', '', '', tenths(removalP50Ms), tenths(removalP99Ms)],
    ],
  );
}

/** The number of replicas for which the figures of the smallest and the largest fleet are extrapolated in a straight line. */
const EXTRAPOLATED = 1_000;

function fleetTable(figures: readonly FleetFigures[]): string {
  const [smallest, largest] = [figures.at(0), figures.at(-1)];
  const row = (title: string, format: (value: number) => string, name: keyof FleetFigures, isExtrapolated = true) => {
    const cells = figures.map((each) => format(each[name]));
    if (!smallest || !largest || smallest === largest || !isExtrapolated) return [title, ...cells, ''];
    const perReplica = (largest[name] - smallest[name]) / (largest.replicas - smallest.replicas);
    return [title, ...cells, format(largest[name] + perReplica * (EXTRAPOLATED - largest.replicas))];
  };
  return table(
    ['simulated replicas', ...figures.map(({ replicas }) => String(replicas)), `${whole(EXTRAPOLATED)}, extrapolated`],
    [
      row('connections', whole, 'connections'),
      row('idle: transactions per second', whole, 'idleTransactions'),
      row('idle: CPU ms of PostgreSQL per second', tenths, 'idleCpuMs'),
      row('change: transactions', tenths, 'changeTransactions'),
      row('change: CPU ms of PostgreSQL', tenths, 'changeCpuMs'),
      row('change: ms until all have applied it, p50', tenths, 'appliedP50Ms', false),
      row('change: the same, p99', tenths, 'appliedP99Ms', false),
      row('change that all confirm: CPU ms of PostgreSQL', tenths, 'confirmedCpuMs'),
      row('change that all confirm: ms, p50', tenths, 'confirmedP50Ms', false),
      row('change that all confirm: the same, p99', tenths, 'confirmedP99Ms', false),
    ],
  );
}

function startTable(figures: StartFigures, missed: string[]): string {
  const { namespaces, readyMs, cpuSeconds, readyMiB, peakMiB, bytesPerTool } = figures;
  const { aim, limit } = startSeconds;
  const tools = whole(namespaces * toolsPerNamespace);
  if (readyMs > limit * 1_000)
    missed.push(`ready after ${tenths(readyMs / 1_000)} s with ${tools} tools, limit ${limit} s`);
  if (bytesPerTool > bytesPerToolLimit)
    missed.push(`${whole(bytesPerTool)} bytes per tool, limit ${bytesPerToolLimit}`);
  return table(
    [`${tools} tools in ${whole(namespaces)} namespaces`, 'figure', 'limit'],
    [
      ['start to ready, s', bold(tenths(readyMs / 1_000), true), `${limit}, aim ${aim}`],
      ['CPU time of the replica until then, s', tenths(cpuSeconds), ''],
      ['bytes per tool, without garbage', bold(whole(bytesPerTool), true), String(bytesPerToolLimit)],
      ['RSS when ready, MiB', whole(readyMiB), ''],
      ['RSS at most until then, MiB', whole(peakMiB), ''],
    ],
  );
}
