import { cpus } from 'node:os';
import { type EvaluatorFigures, hostCount, type ToolchainFigures } from './evaluators.ts';
import type { Options } from './options.ts';
import type { Report } from './report.ts';
import { bold, hundredths, range, table, tenths, thousandths, whole } from './table.ts';

/** Of components without an engine in them: the median of one evaluation, and evaluations per second on two cores. */
const small = { p50Ms: { aim: 1, limit: 2 }, perSecond: { aim: 2_000, floor: 800 } };

/** Of a host process that is started anew. */
const startLimitMs = 150;

/** Puts evaluations into tables. */
export function evaluatorReport(found: EvaluatorFigures, { quick, plan }: Options, loadBefore: number): Report {
  const missed: string[] = [];
  const [processor] = cpus();
  const circumstances =
    `${quick ? 'Quick form' : 'Full form'}, ${new Date().toISOString().slice(0, 10)}: ${cpus().length} cores of ` +
    `${processor?.model.trim() ?? 'unknown'}, Node.js ${process.version.slice(1)}; load of the machine before ` +
    `${loadBefore.toFixed(1)}; ${plan.evaluatorRounds} rounds of ${plan.evaluatorSeconds} s. Medians, in brackets least ` +
    `to greatest.`;
  return { text: [circumstances, evaluations(found, missed), processes(found, missed)].join('\n\n'), missed };
}

function evaluations({ toolchains }: EvaluatorFigures, missed: string[]): string {
  return table(
    [
      'the same action, built with',
      'p50 ms',
      'p99 ms',
      `per second, ${hostCount} at once`,
      'CPU µs in the service',
      'CPU µs in the hosts',
      'host MiB',
      'component kB',
      'ms to compile',
      'ms to take in',
    ],
    toolchains.map((figures) => {
      const limits = judged(figures, missed);
      return [
        figures.toolchain,
        `${bold(range(figures.p50Ms, thousandths), limits)}${limits ? `, aim ${small.p50Ms.aim}, limit ${small.p50Ms.limit}` : ''}`,
        range(figures.p99Ms, hundredths),
        `${bold(range(figures.perSecond, whole), limits)}${limits ? `, aim ${whole(small.perSecond.aim)}, floor ${small.perSecond.floor}` : ''}`,
        range(figures.ownUs, whole),
        range(figures.hostUs, whole),
        whole(figures.hostMiB),
        tenths(figures.componentBytes / 1000),
        whole(figures.compileMs),
        range(figures.loadMs, tenths),
      ];
    }),
  );
}

/** Whether there are limits for it; tells `missed` of those that were missed. */
function judged({ toolchain, p50Ms, perSecond }: ToolchainFigures, missed: string[]): boolean {
  if (toolchain !== 'wat' && toolchain !== 'assemblyscript') return false;
  if (p50Ms.median > small.p50Ms.limit) {
    missed.push(
      `evaluation, ${toolchain}: p50 of ${thousandths(p50Ms.median)} ms is above its limit ${small.p50Ms.limit} ms`,
    );
  }
  if (perSecond.median < small.perSecond.floor) {
    missed.push(
      `evaluation, ${toolchain}: ${whole(perSecond.median)} per second are below the floor ${small.perSecond.floor}`,
    );
  }
  return true;
}

function processes({ successionMs, startMs }: EvaluatorFigures, missed: string[]): string {
  if (startMs.median > startLimitMs) {
    missed.push(`a host process takes ${whole(startMs.median)} ms to start, limit ${startLimitMs} ms`);
  }
  return table(
    ['host processes', 'ms', 'limit'],
    [
      ['from a kill until what waited has been run by the spare one', range(successionMs, tenths), ''],
      [
        'from the start of a process until it can run a small action',
        bold(range(startMs, whole), true),
        String(startLimitMs),
      ],
    ],
  );
}
