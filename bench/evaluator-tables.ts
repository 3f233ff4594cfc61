import { type EvaluatorFigures, hostCount, type ToolchainFigures } from './evaluators.ts';
import { bold, formatRange, hundredths, table, tenths, thousandths, whole } from './figures.ts';

/** Limits for components without a JavaScript engine, on two cores. */
const engineLessLimits = { p50Ms: { aim: 1, limit: 2 }, perSecond: { aim: 2_000, floor: 800 } };

/** Limit of the start time of a host process. */
const startLimitMs = 150;

/** Returns the table of evaluations; adds missed limits to `missed`. */
export function evaluationTable({ toolchains }: EvaluatorFigures, missed: string[]): string {
  return table(
    [
      'toolchain',
      'p50 ms',
      'p99 ms',
      `per second, ${hostCount} in flight`,
      'CPU µs in the service',
      'CPU µs in the hosts',
      'host MiB',
      'component kB',
      'compile ms',
      'load ms',
    ],
    toolchains.map((figures) => {
      const limits = checkEvaluatorLimits(figures, missed);
      return [
        figures.toolchain,
        `${bold(formatRange(figures.p50Ms, thousandths), limits)}${limits ? `, aim ${engineLessLimits.p50Ms.aim}, limit ${engineLessLimits.p50Ms.limit}` : ''}`,
        formatRange(figures.p99Ms, hundredths),
        `${bold(formatRange(figures.perSecond, whole), limits)}${limits ? `, aim ${whole(engineLessLimits.perSecond.aim)}, floor ${engineLessLimits.perSecond.floor}` : ''}`,
        formatRange(figures.ownUs, whole),
        formatRange(figures.hostUs, whole),
        whole(figures.hostMiB),
        tenths(figures.componentBytes / 1000),
        whole(figures.compileMs),
        formatRange(figures.loadMs, tenths),
      ];
    }),
  );
}

/** Returns true if the toolchain has limits; adds missed ones to `missed`. */
function checkEvaluatorLimits({ toolchain, p50Ms, perSecond }: ToolchainFigures, missed: string[]): boolean {
  if (toolchain !== 'wat' && toolchain !== 'assemblyscript') return false;
  if (p50Ms.median > engineLessLimits.p50Ms.limit) {
    missed.push(
      `evaluation, ${toolchain}: p50 of ${thousandths(p50Ms.median)} ms is above its limit ${engineLessLimits.p50Ms.limit} ms`,
    );
  }
  if (perSecond.median < engineLessLimits.perSecond.floor) {
    missed.push(
      `evaluation, ${toolchain}: ${whole(perSecond.median)} per second are below the floor ${engineLessLimits.perSecond.floor}`,
    );
  }
  return true;
}

/** Returns the table of host processes; adds missed limits to `missed`. */
export function hostTable({ failoverMs, startMs }: EvaluatorFigures, missed: string[]): string {
  if (startMs.median > startLimitMs) {
    missed.push(`start of a host process: ${whole(startMs.median)} ms, limit ${startLimitMs} ms`);
  }
  return table(
    ['host processes', 'ms', 'limit'],
    [
      ['failover: from a kill to the response of a waiting evaluation', formatRange(failoverMs, tenths), ''],
      ['start of a process with a small action', bold(formatRange(startMs, whole), true), String(startLimitMs)],
    ],
  );
}
