import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { addedLimitMs, exportingAim, exportingLimit, offLimit, pairingLimit, streamAddedLimitMs } from './cases.ts';
import { type EvaluatorFigures, hostCount, type ToolchainFigures } from './evaluators.ts';
import { bold, code, formatRange, hundredths, type Spread, table, tenths, thousandths, whole } from './figures.ts';
import type { InferenceFigures } from './inference.ts';
import type { Options } from './options.ts';
import type { Profile, Share } from './profile.ts';
import type { CaseFigures, PairingFigures } from './requests.ts';
import {
  growthAim,
  growthLimit,
  type ImportFigures,
  importAim,
  importLimit,
  type RegistryFigures,
  type SizeFigures,
} from './scale.ts';
import { type StreamFigures, streamCount } from './streams.ts';
import type { Telemetry, TelemetryFigures } from './telemetry.ts';

/** Adds a line to `missed` for a ratio below its floor and for an added time above its limit. */
function checkLimits(
  ratio: Spread | undefined,
  addedMs: number | undefined,
  limitMs: number | undefined,
  { title, floor }: { readonly title: string; readonly floor: number | undefined },
  missed: string[],
): void {
  if (ratio !== undefined && floor !== undefined && ratio.median < floor) {
    missed.push(`${title}: ratio ${hundredths(ratio.median)} is below its floor ${floor}`);
  }
  if (addedMs !== undefined && limitMs !== undefined && addedMs > limitMs) {
    missed.push(`${title}: added p50 of ${addedMs.toFixed(3)} ms is above ${limitMs} ms`);
  }
}

/** Returns the table of event streams; adds missed floors and limits to `missed`. */
function streamTable(figures: readonly StreamFigures[], missed: string[]): string {
  const head = [
    `${streamCount} at once`,
    'through',
    'CPU µs per chunk',
    'ratio',
    'aim',
    'floor',
    'chunks per second',
    'p50 ms',
    'added',
    'p99 ms',
    'RSS MiB',
  ];
  const body = figures.flatMap(({ case: measured, rows }) =>
    rows.map((row) => {
      const own = row.contender === 'gateway';
      if (own) checkLimits(row.ratio, row.addedMs?.median, streamAddedLimitMs, measured, missed);
      const added = formatRange(row.addedMs, thousandths);
      return [
        measured.title,
        own ? '**gateway**' : row.contender,
        formatRange(row.cpuPerChunkUs, tenths),
        bold(formatRange(row.ratio, hundredths), own),
        own ? (measured.aim?.toFixed(2) ?? '') : '',
        own ? (measured.floor?.toFixed(2) ?? '') : '',
        whole(row.perSecond.median),
        formatRange(row.p50Ms, thousandths),
        own ? `${added}, limit ${streamAddedLimitMs}` : added,
        formatRange(row.p99Ms, tenths),
        row.rssMiB === undefined ? '' : whole(row.rssMiB),
      ];
    }),
  );
  return table(head, body);
}

const names: Readonly<Record<Telemetry, string>> = {
  off: 'off',
  exporting: 'exporting',
  absent: 'other commit (off relative to it)',
};

/** Returns the table of the telemetry part; adds missed limits to `missed`. */
function telemetryTable(figures: readonly TelemetryFigures[], missed: string[]): string {
  return table(
    ['telemetry', 'CPU µs per call', 'ratio', 'aim', 'limit', 'per second', 'calls with spans', 'bytes per call'],
    figures.map(({ telemetry, cpuPerCallUs, ratio, perSecond, arrived }) => {
      const limit = telemetry === 'absent' ? offLimit : exportingLimit;
      if (ratio !== undefined && ratio.median > limit) {
        const what =
          telemetry === 'absent' ? 'telemetry off relative to the other commit' : 'telemetry exporting relative to off';
        missed.push(`${what}: ${hundredths(ratio.median)} times the CPU time of a tools/call, limit ${limit}`);
      }
      return [
        names[telemetry],
        formatRange(cpuPerCallUs, tenths),
        bold(formatRange(ratio, hundredths), true),
        telemetry === 'exporting' ? exportingAim.toFixed(2) : '',
        ratio === undefined ? '' : limit.toFixed(2),
        whole(perSecond.median),
        arrived === undefined
          ? ''
          : `${(arrived.calls * 100).toFixed(1)} %, ${hundredths(arrived.spans)} spans per call`,
        arrived === undefined ? '' : whole(arrived.bytes),
      ];
    }),
  );
}

/** Figures of the parts; empty or undefined for parts that did not run. */
export interface Results {
  readonly cases: readonly CaseFigures[];
  readonly pairings: readonly PairingFigures[];
  readonly streams: readonly StreamFigures[];
  readonly bridge: readonly CaseFigures[];
  readonly inference: InferenceFigures | undefined;
  readonly telemetry: readonly TelemetryFigures[];
  readonly size: SizeFigures | undefined;
  readonly imports: readonly ImportFigures[];
}

/** Report of a run. */
export interface Report {
  readonly text: string;
  /** One line for each missed floor or limit. */
  readonly missed: readonly string[];
}

/** Formats the figures as tables. `loadBefore` is the load average at the start. */
export function report(found: Results, options: Options, loadBefore: number): Report {
  const { cases, pairings, streams, bridge, inference, telemetry, size, imports } = found;
  const missed: string[] = [];
  const parts = [environmentLine(options, loadBefore)];
  if (cases.length > 0) parts.push(caseTable(cases, addedLimitMs, missed));
  if (pairings.length > 0) parts.push(pairingTable(pairings, missed), pairingSummary(pairings));
  if (streams.length > 0) parts.push(streamTable(streams, missed));
  if (bridge.length > 0) parts.push(caseTable(bridge, undefined, missed));
  if (inference !== undefined) parts.push(streamTable([inference.streams], missed));
  if (inference?.answers !== undefined) parts.push(caseTable([inference.answers], undefined, missed));
  if (telemetry.length > 0) parts.push(telemetryTable(telemetry, missed));
  if (size !== undefined) parts.push(sizeTable(size, missed));
  if (imports.length > 0) parts.push(importTable(imports, missed));
  return { text: parts.join('\n\n'), missed };
}

/** Formats profiles as tables of the largest shares. */
export function profileReport(profiles: readonly Profile[]): string {
  const shares = (head: string, list: readonly Share[]) =>
    table(
      [head, 'share'],
      list.map(({ name, share }) => [code(name), `${(share * 100).toFixed(1)} %`]),
    );
  return profiles
    .map((profile) =>
      [
        `**${profile.case.title}**`,
        shares('component', profile.groups),
        'by file',
        shares('file', profile.files),
        'by function',
        shares('function', profile.functions),
      ].join('\n\n'),
    )
    .join('\n\n');
}

/** Replaces the block between the comments with this name in a Markdown file. */
export function writeBlock(file: string, name: string, text: string): void {
  const [begin, end] = [`<!-- ${name}: begin -->`, `<!-- ${name}: end -->`];
  const page = readFileSync(file, 'utf8');
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${file}: missing or misplaced comments "${begin}" and "${end}"`);
  writeFileSync(file, `${page.slice(0, from + begin.length)}\n\n${text}\n\n${page.slice(to)}`);
}

function environmentLine({ quick, plan, nodeFlags, log }: Options, loadBefore: number): string {
  const [processor] = cpus();
  const form = quick ? 'Quick form' : 'Full form';
  const flags = nodeFlags.length > 0 ? ` with ${nodeFlags.join(' ')}` : '';
  return (
    `${form}, ${new Date().toISOString().slice(0, 10)}: ${cpus().length} cores of ${processor?.model.trim() ?? 'unknown'}, ` +
    `Node.js ${process.version.slice(1)}${flags}, ${nginxVersion()}, log ${log ?? 'default'}; ` +
    `load average before ${loadBefore.toFixed(1)}; ` +
    `${plan.rounds} rounds of ${plan.loadSeconds} s, pairings ${plan.pairingRounds}, event streams ${plan.streamRounds} of ${plan.streamSeconds} s, streamed completions ${plan.completionRounds}, completions in one piece ${plan.answerRounds}, telemetry ${plan.telemetryRounds}. Medians with minimum and maximum.`
  );
}

function nginxVersion(): string {
  try {
    return /nginx\/[\d.]+/.exec(execFileSync('sh', ['-c', 'nginx -v 2>&1'], { encoding: 'utf8' }))?.[0] ?? 'no nginx';
  } catch {
    return 'no nginx';
  }
}

/** Returns the table of request cases. `limitMs` is the limit of the added p50. */
function caseTable(figures: readonly CaseFigures[], limitMs: number | undefined, missed: string[]): string {
  const head = [
    'case',
    'through',
    'per CPU-second',
    'ratio',
    'aim',
    'floor',
    'per second',
    'p50 ms',
    'added',
    'p99 ms',
    'RSS MiB',
  ];
  const body = figures.flatMap(({ case: measured, rows }) =>
    rows.map((row) => {
      const own = row.contender === 'gateway';
      if (own) checkLimits(row.ratio, row.addedMs, limitMs, measured, missed);
      const limit = own && limitMs !== undefined ? ` (limit ${limitMs})` : '';
      return [
        measured.title,
        own ? '**gateway**' : row.contender,
        formatRange(row.perCpuSecond, whole),
        bold(formatRange(row.ratio, hundredths), own),
        own ? (measured.aim?.toFixed(2) ?? '') : '',
        own ? (measured.floor?.toFixed(2) ?? '') : '',
        row.perSecond === undefined ? '' : whole(row.perSecond.median),
        row.p50Ms.toFixed(3),
        row.addedMs === undefined ? '' : `${row.addedMs.toFixed(3)}${limit}`,
        row.p99Ms.toFixed(3),
        row.rssMiB === undefined ? '' : whole(row.rssMiB),
      ];
    }),
  );
  return table(head, body);
}

function pairingTable(pairs: readonly PairingFigures[], missed: string[]): string {
  return table(
    ['pairing of eras', 'CPU µs per call', 'relative to the client’s era', 'limit', 'per second'],
    pairs.map(({ pairing: { title }, cpuPerCallUs, against, perSecond }) => {
      if (against !== undefined && against.median > pairingLimit) {
        missed.push(
          `${title}: ${hundredths(against.median)} times the pairing in the client’s era, limit ${pairingLimit}`,
        );
      }
      return [
        title,
        formatRange(cpuPerCallUs, tenths),
        bold(formatRange(against, hundredths), true),
        against === undefined ? '' : pairingLimit.toFixed(2),
        whole(perSecond.median),
      ];
    }),
  );
}

function pairingSummary(pairs: readonly PairingFigures[]): string {
  const most = Math.max(...pairs.map(({ against }) => against?.median ?? 0));
  return most > pairingLimit
    ? `The most expensive pairing across eras costs ${hundredths(most)} times the pairing in the client’s era (limit ${pairingLimit}, missed).`
    : `The most expensive pairing across eras costs ${hundredths(most)} times the pairing in the client’s era (limit ${pairingLimit}).`;
}

function sizeTable({ full, small }: SizeFigures, missed: string[]): string {
  const growth = (what: string, pick: (figures: RegistryFigures) => Spread | undefined) => {
    const ratio = (pick(full)?.median ?? Number.NaN) / (pick(small)?.median ?? Number.NaN);
    if (ratio > growthLimit) missed.push(`${what}: costs ${hundredths(ratio)} times as much with other namespaces`);
    const cell = (figures: RegistryFigures) => formatRange(pick(figures), (value) => value.toFixed(3));
    const comparison = Number.isNaN(ratio) ? '' : `${hundredths(ratio)} (aim ${growthAim}, limit ${growthLimit})`;
    return [what, cell(full), cell(small), comparison];
  };
  const label = ({ tools, namespaces }: RegistryFigures) => `${tools} tools in ${namespaces} namespaces`;
  return table(
    ['registry', label(full), label(small), 'ratio'],
    [
      ['start to ready, ms', formatRange(full.readyMs, whole), formatRange(small.readyMs, whole), ''],
      ['RSS when ready, MiB', formatRange(full.readyMiB, whole), formatRange(small.readyMiB, whole), ''],
      ['RSS after discovery and lists, MiB', whole(full.settledMiB), whole(small.settledMiB), ''],
      growth('tools/list of 2,000 tools, CPU ms', ({ largeListMs }) => largeListMs),
      growth('tools/list of 20 tools, CPU ms', ({ smallListMs }) => smallListMs),
    ],
  );
}

function importTable(imports: readonly ImportFigures[], missed: string[]): string {
  const smallest = imports[0]?.toolMs.median ?? Number.NaN;
  const body = imports.map(({ tools, wholeMs, toolMs, progress }) => {
    const ratio = toolMs.median / smallest;
    if (ratio > importLimit) missed.push(`import of ${tools} tools: ${hundredths(ratio)} times the time per tool`);
    return [
      whole(tools),
      formatRange(wholeMs, whole),
      formatRange(toolMs, thousandths),
      hundredths(ratio),
      whole(progress),
    ];
  });
  const ratioTitle = `per tool relative to the smallest (aim ${importAim}, limit ${importLimit})`;
  return table(['tools imported', 'ms', 'ms per tool', ratioTitle, 'progress lines'], body);
}

/** Limits for components without a JavaScript engine, on two cores. */
const engineLessLimits = { p50Ms: { aim: 1, limit: 2 }, perSecond: { aim: 2_000, floor: 800 } };

/** Limit of the start time of a host process. */
const startLimitMs = 150;

/** Formats the figures of evaluations as tables. */
export function evaluatorReport(found: EvaluatorFigures, { quick, plan }: Options, loadBefore: number): Report {
  const missed: string[] = [];
  const [processor] = cpus();
  const environment =
    `${quick ? 'Quick form' : 'Full form'}, ${new Date().toISOString().slice(0, 10)}: ${cpus().length} cores of ` +
    `${processor?.model.trim() ?? 'unknown'}, Node.js ${process.version.slice(1)}; load average before ` +
    `${loadBefore.toFixed(1)}; ${plan.evaluatorRounds} rounds of ${plan.evaluatorSeconds} s. Medians with ` +
    `minimum and maximum.`;
  return { text: [environment, evaluations(found, missed), processes(found, missed)].join('\n\n'), missed };
}

function evaluations({ toolchains }: EvaluatorFigures, missed: string[]): string {
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

function processes({ failoverMs, startMs }: EvaluatorFigures, missed: string[]): string {
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
