import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { addedLimitMs, pairingLimit } from './cases.ts';
import { type ImportFigures, importAim, importLimit } from './import.ts';
import type { InferenceFigures } from './inference.ts';
import { judge } from './judge.ts';
import type { CaseFigures } from './measure.ts';
import type { Options } from './options.ts';
import type { PairingFigures } from './pairings.ts';
import type { Profile, Share } from './profile.ts';
import { growthAim, growthLimit, type RegistryFigures, type SizeFigures } from './size.ts';
import type { Spread } from './statistics.ts';
import { streamTable } from './stream-table.ts';
import type { StreamFigures } from './streams.ts';
import { bold, code, hundredths, range, table, tenths, thousandths, whole } from './table.ts';
import type { TelemetryFigures } from './telemetry.ts';
import { telemetryTable } from './telemetry-table.ts';

/** What the parts found; empty or undefined where they did not run. */
export interface Findings {
  readonly cases: readonly CaseFigures[];
  readonly pairings: readonly PairingFigures[];
  readonly streams: readonly StreamFigures[];
  readonly bridge: readonly CaseFigures[];
  readonly inference: InferenceFigures | undefined;
  readonly telemetry: readonly TelemetryFigures[];
  readonly size: SizeFigures | undefined;
  readonly imports: readonly ImportFigures[];
}

/** What was found, as text, and which limits were missed. */
export interface Report {
  readonly text: string;
  /** One line for each floor or limit that was missed. */
  readonly missed: readonly string[];
}

/** Puts the figures of one run into tables; `loadBefore` is the machine's load average when it began. */
export function report(found: Findings, options: Options, loadBefore: number): Report {
  const { cases, pairings, streams, bridge, inference, telemetry, size, imports } = found;
  const missed: string[] = [];
  const parts = [circumstances(options, loadBefore)];
  if (cases.length > 0) parts.push(caseTable(cases, addedLimitMs, missed));
  if (pairings.length > 0) parts.push(pairingTable(pairings, missed), pairingVerdict(pairings));
  if (streams.length > 0) parts.push(streamTable(streams, missed));
  if (bridge.length > 0) parts.push(caseTable(bridge, undefined, missed));
  if (inference !== undefined) parts.push(streamTable([inference.streams], missed));
  if (inference?.answers !== undefined) parts.push(caseTable([inference.answers], undefined, missed));
  if (telemetry.length > 0) parts.push(telemetryTable(telemetry, missed));
  if (size !== undefined) parts.push(sizeTable(size, missed));
  if (imports.length > 0) parts.push(importTable(imports, missed));
  return { text: parts.join('\n\n'), missed };
}

/** Puts profiles into tables of their largest shares. */
export function profileText(profiles: readonly Profile[]): string {
  const shares = (head: string, list: readonly Share[]) =>
    table(
      [head, 'share'],
      list.map(({ name, share }) => [code(name), `${(share * 100).toFixed(1)} %`]),
    );
  return profiles
    .map((profile) =>
      [
        `**${profile.case.title}**: whose time it is`,
        shares('whose', profile.groups),
        'by file',
        shares('file', profile.files),
        'by function',
        shares('function', profile.functions),
      ].join('\n\n'),
    )
    .join('\n\n');
}

/** Replaces the block between the two comments that carry `name` in a Markdown file. */
export function writeBlock(file: string, name: string, text: string): void {
  const [begin, end] = [`<!-- ${name}: begin -->`, `<!-- ${name}: end -->`];
  const page = readFileSync(file, 'utf8');
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${file}: the comments "${begin}" and "${end}" are not there in order`);
  writeFileSync(file, `${page.slice(0, from + begin.length)}\n\n${text}\n\n${page.slice(to)}`);
}

function circumstances({ quick, plan, nodeFlags, log }: Options, loadBefore: number): string {
  const [processor] = cpus();
  const form = quick ? 'Quick form' : 'Full form';
  const flags = nodeFlags.length > 0 ? ` with ${nodeFlags.join(' ')}` : '';
  return (
    `${form}, ${new Date().toISOString().slice(0, 10)}: ${cpus().length} cores of ${processor?.model.trim() ?? 'unknown'}, ` +
    `Node.js ${process.version.slice(1)}${flags}, ${nginxVersion()}, log ${log ?? 'as shipped'}; ` +
    `load of the machine before ${loadBefore.toFixed(1)}; ` +
    `${plan.rounds} rounds of ${plan.loadSeconds} s, of pairings ${plan.pairingRounds}, of event streams ${plan.streamRounds} of ${plan.streamSeconds} s, of completions ${plan.completionRounds} and in one piece ${plan.answerRounds}, of telemetry ${plan.telemetryRounds}. Medians, in brackets least to greatest.`
  );
}

function nginxVersion(): string {
  try {
    return /nginx\/[\d.]+/.exec(execFileSync('sh', ['-c', 'nginx -v 2>&1'], { encoding: 'utf8' }))?.[0] ?? 'no nginx';
  } catch {
    return 'no nginx';
  }
}

/** `limitMs`: most that the gateway may add to the p50, where there is a limit. */
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
      if (own) judge(row.ratio, row.addedMs, limitMs, measured, missed);
      const limit = own && limitMs !== undefined ? ` (limit ${limitMs})` : '';
      return [
        measured.title,
        own ? '**gateway**' : row.contender,
        range(row.perCpuSecond, whole),
        bold(range(row.ratio, hundredths), own),
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
    ['pairing of eras', 'CPU µs per call', 'against the relay in the client’s era', 'limit', 'per second'],
    pairs.map(({ pairing: { title }, cpuPerCallUs, against, perSecond }) => {
      if (against !== undefined && against.median > pairingLimit) {
        missed.push(
          `${title}: ${hundredths(against.median)} times the relay in the client’s era, limit ${pairingLimit}`,
        );
      }
      return [
        title,
        range(cpuPerCallUs, tenths),
        bold(range(against, hundredths), true),
        against === undefined ? '' : pairingLimit.toFixed(2),
        whole(perSecond.median),
      ];
    }),
  );
}

function pairingVerdict(pairs: readonly PairingFigures[]): string {
  const most = Math.max(...pairs.map(({ against }) => against?.median ?? 0));
  return most > pairingLimit
    ? `A pairing costs ${hundredths(most)} times its same-era relay, which is more than ${pairingLimit}.`
    : `No pairing costs more than ${pairingLimit} times its same-era relay: the dearest ${hundredths(most)} times.`;
}

function sizeTable({ full, alone }: SizeFigures, missed: string[]): string {
  const growth = (what: string, pick: (figures: RegistryFigures) => Spread | undefined) => {
    const ratio = (pick(full)?.median ?? Number.NaN) / (pick(alone)?.median ?? Number.NaN);
    if (ratio > growthLimit) missed.push(`${what}: costs ${hundredths(ratio)} times as much beside others' tools`);
    const cell = (figures: RegistryFigures) => range(pick(figures), (value) => value.toFixed(3));
    const verdict = Number.isNaN(ratio) ? '' : `${hundredths(ratio)} (aim ${growthAim}, limit ${growthLimit})`;
    return [what, cell(full), cell(alone), verdict];
  };
  const holds = ({ tools, namespaces }: RegistryFigures) => `${tools} tools in ${namespaces} namespaces`;
  return table(
    ['registry', holds(full), holds(alone), 'full against alone'],
    [
      ['start to ready, ms', range(full.readyMs, whole), range(alone.readyMs, whole), ''],
      ['RSS when ready, MiB', range(full.readyMiB, whole), range(alone.readyMiB, whole), ''],
      ['RSS after discovery and lists, MiB', whole(full.settledMiB), whole(alone.settledMiB), ''],
      growth('tools/list of 2,000 tools, CPU ms', ({ largeListMs }) => largeListMs),
      growth('tools/list of 20 tools, CPU ms', ({ smallListMs }) => smallListMs),
    ],
  );
}

function importTable(imports: readonly ImportFigures[], missed: string[]): string {
  const smallest = imports[0]?.toolMs.median ?? Number.NaN;
  const body = imports.map(({ tools, wholeMs, toolMs, progress }) => {
    const ratio = toolMs.median / smallest;
    if (ratio > importLimit) missed.push(`import of ${tools} tools: each takes ${hundredths(ratio)} times as long`);
    return [whole(tools), range(wholeMs, whole), range(toolMs, thousandths), hundredths(ratio), whole(progress)];
  });
  const verdict = `per tool against the smallest (aim ${importAim}, limit ${importLimit})`;
  return table(['tools imported', 'ms', 'ms per tool', verdict, 'lines of progress'], body);
}
