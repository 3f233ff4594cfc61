import { exportingAim, exportingLimit, offLimit, pairingLimit, streamAddedLimitMs } from './cases.ts';
import { bold, formatRange, hundredths, type Spread, table, tenths, thousandths, whole } from './figures.ts';
import type { MixedUsersFigures } from './mixed-users.ts';
import type { PairingFigures } from './pairings.ts';
import type { CaseFigures } from './rounds.ts';
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
  ratio: number | undefined,
  addedMs: number | undefined,
  { title, floor }: { readonly title: string; readonly floor: number | undefined },
  missed: string[],
): void {
  if (ratio !== undefined && floor !== undefined && ratio < floor) {
    missed.push(`${title}: ratio ${hundredths(ratio)} is below its floor ${floor}`);
  }
  if (addedMs !== undefined && addedMs > streamAddedLimitMs) {
    missed.push(`${title}: added p50 of ${addedMs.toFixed(3)} ms is above ${streamAddedLimitMs} ms`);
  }
}

/** Returns the table of event streams; adds missed floors and limits to `missed`. */
export function streamTable(figures: readonly StreamFigures[], missed: string[]): string {
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
      if (own) checkLimits(row.ratio?.figure, row.addedMs?.median, measured, missed);
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
export function telemetryTable(figures: readonly TelemetryFigures[], missed: string[]): string {
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

/** Returns the table of calls over gRPC or of completions in one piece; adds missed floors to `missed`. */
export function caseTable(figures: readonly CaseFigures[], missed: string[]): string {
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
      if (own) checkLimits(row.ratio?.median, undefined, measured, missed);
      return [
        measured.title,
        own ? '**gateway**' : row.contender,
        formatRange(row.perCpuSecond, whole),
        bold(formatRange(row.ratio, hundredths), own),
        own ? (measured.aim?.toFixed(2) ?? '') : '',
        own ? (measured.floor?.toFixed(2) ?? '') : '',
        row.perSecond === undefined ? '' : whole(row.perSecond.median),
        row.p50Ms.toFixed(3),
        row.addedMs === undefined ? '' : row.addedMs.toFixed(3),
        row.p99Ms.toFixed(3),
        row.rssMiB === undefined ? '' : whole(row.rssMiB),
      ];
    }),
  );
  return table(head, body);
}

/** Returns the table of pairings of eras; adds missed limits to `missed`. */
export function pairingTable(pairs: readonly PairingFigures[], missed: string[]): string {
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

/** Returns the table of the loads of one and of many users. */
export function mixedUsersTable(figures: readonly MixedUsersFigures[]): string {
  return table(
    ['calls and lists, both eras', 'CPU µs per response', 'relative to few', 'per second'],
    figures.map(({ title, cpuUs, ratio, perSecond }) => [
      title,
      formatRange(cpuUs, tenths),
      bold(formatRange(ratio, hundredths), true),
      whole(perSecond.median),
    ]),
  );
}

/** Returns a sentence about the most expensive pairing. */
export function pairingSummary(pairs: readonly PairingFigures[]): string {
  const most = Math.max(...pairs.map(({ against }) => against?.median ?? 0));
  return most > pairingLimit
    ? `The most expensive pairing across eras costs ${hundredths(most)} times the pairing in the client’s era (limit ${pairingLimit}, missed).`
    : `The most expensive pairing across eras costs ${hundredths(most)} times the pairing in the client’s era (limit ${pairingLimit}).`;
}

/** Returns the table of registries; adds missed limits to `missed`. */
export function sizeTable({ full, small }: SizeFigures, missed: string[]): string {
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

/** Returns the table of imports; adds missed limits to `missed`. */
export function importTable(imports: readonly ImportFigures[], missed: string[]): string {
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
