import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { evaluationTable, hostTable } from './evaluator-tables.ts';
import type { EvaluatorFigures } from './evaluators.ts';
import { code, table } from './figures.ts';
import type { InferenceFigures } from './inference.ts';
import type { LatencyFigures } from './latency.ts';
import type { MemoryFigures } from './memory.ts';
import type { MixedUsersFigures } from './mixed-users.ts';
import type { Options } from './options.ts';
import type { PairingFigures } from './pairings.ts';
import type { Profile } from './profile.ts';
import { replicaTables } from './replica-tables.ts';
import type { ReplicaFigures } from './replicas.ts';
import type { RequestFigures } from './requests.ts';
import type { CaseFigures } from './rounds.ts';
import type { ImportFigures, SizeFigures } from './scale.ts';
import { latencyTables, memoryTable, requestTable, variantTable } from './shipped-tables.ts';
import type { StreamFigures } from './streams.ts';
import {
  caseTable,
  importTable,
  mixedUsersTable,
  pairingSummary,
  pairingTable,
  sizeTable,
  streamTable,
  telemetryTable,
} from './tables.ts';
import type { TelemetryFigures } from './telemetry.ts';

/** Figures of the parts that ran. */
export interface Results {
  readonly requests?: readonly RequestFigures[] | undefined;
  readonly latency?: LatencyFigures | undefined;
  readonly streams: readonly StreamFigures[] | undefined;
  readonly mixedUsers: readonly MixedUsersFigures[] | undefined;
  readonly memory: MemoryFigures | undefined;
  readonly pairings: readonly PairingFigures[] | undefined;
  readonly bridge: readonly CaseFigures[] | undefined;
  readonly inference: InferenceFigures | undefined;
  readonly telemetry: readonly TelemetryFigures[] | undefined;
  readonly size: SizeFigures | undefined;
  readonly imports: readonly ImportFigures[] | undefined;
  readonly evaluators: EvaluatorFigures | undefined;
  readonly replicas: ReplicaFigures | undefined;
}

/** Report of a part. */
export interface Report {
  /** Name of the block in the page. */
  readonly block: string;
  readonly text: string;
  /** One line for each missed floor or limit. */
  readonly missed: readonly string[];
}

/** Formats the figures of each part that ran as tables. `loadBefore` is the load average at the start. */
export function reports(found: Results, options: Options, loadBefore: number): Report[] {
  const {
    requests,
    latency,
    streams,
    mixedUsers,
    memory,
    pairings,
    bridge,
    inference,
    telemetry,
    size,
    imports,
    evaluators,
    replicas,
  } = found;
  const { plan } = options;
  const all: Report[] = [];
  const add = (block: string, measured: string, ...tables: readonly ((missed: string[]) => string)[]) => {
    const missed: string[] = [];
    const texts = tables.map((format) => format(missed));
    all.push({ block, text: [environmentLine(options, loadBefore, measured), ...texts].join('\n\n'), missed });
  };
  if (requests !== undefined) {
    const hasVariants = requests.some(({ rows }) => rows.some(({ toGateway }) => toGateway !== undefined));
    const counts = requests.map(({ rounds }) => rounds);
    const [least, most] = [Math.min(...counts), Math.max(...counts)];
    const rounds = `${least === most ? most : `${least} to ${most}`} rounds of ${plan.caseSeconds} s`;
    const variants = hasVariants ? [(missed: string[]) => variantTable(requests, missed)] : [];
    add('requests', rounds, (missed) => requestTable(requests, missed), ...variants);
  }
  if (latency !== undefined) {
    const calls = `${plan.singleRounds * plan.singleCalls} calls of a single caller`;
    const paced = `${plan.pacedRounds} rounds of ${plan.pacedSeconds} s at the steady rate`;
    add('latency', `${calls}, ${paced}`, (missed) => latencyTables(latency, missed));
  }
  if (streams !== undefined) {
    add('streams', `${plan.streamRounds} rounds of ${plan.streamSeconds} s`, (missed) => streamTable(streams, missed));
  }
  if (mixedUsers !== undefined) {
    add('mixed-users', `${plan.mixedUsersRounds} rounds of ${plan.loadSeconds} s`, () => mixedUsersTable(mixedUsers));
  }
  if (memory !== undefined) add('memory', '', (missed) => memoryTable(memory, missed));
  if (pairings !== undefined) {
    const rounds = `${plan.pairingRounds} rounds of ${plan.loadSeconds} s`;
    add(
      'pairings',
      rounds,
      (missed) => pairingTable(pairings, missed),
      () => pairingSummary(pairings),
    );
  }
  if (bridge !== undefined) {
    add('bridge', `${plan.rounds} rounds of ${plan.loadSeconds} s`, (missed) => caseTable(bridge, missed));
  }
  if (inference !== undefined) {
    const { streams: streamed, answers } = inference;
    const rounds = `${plan.completionRounds} rounds of ${plan.streamSeconds} s`;
    const inOnePiece = `${plan.answerRounds} rounds of ${plan.loadSeconds} s in one piece`;
    const tables = [(missed: string[]) => streamTable([streamed], missed)];
    if (answers !== undefined) tables.push((missed) => caseTable([answers], missed));
    add('inference', `${rounds} streamed, ${inOnePiece}`, ...tables);
  }
  if (telemetry !== undefined) {
    const rounds = `${plan.telemetryRounds} rounds of ${plan.loadSeconds} s`;
    add('telemetry', rounds, (missed) => telemetryTable(telemetry, missed));
  }
  if (size !== undefined) add('size', `${plan.sizeRounds} rounds`, (missed) => sizeTable(size, missed));
  if (imports !== undefined) add('import', `${plan.importRounds} rounds`, (missed) => importTable(imports, missed));
  if (evaluators !== undefined) {
    const rounds = `${plan.evaluatorRounds} rounds of ${plan.evaluatorSeconds} s`;
    const evaluations = (missed: string[]) => evaluationTable(evaluators, missed);
    add('evaluators', rounds, evaluations, (missed) => hostTable(evaluators, missed));
  }
  if (replicas !== undefined) {
    const rounds = `${plan.replicaRounds} rounds of ${plan.caseSeconds} s`;
    add('replicas', rounds, (missed) => replicaTables(replicas, missed));
  }
  return all;
}

/** Formats profiles as the shares of components and a table of the largest functions. */
export function profileReport(profiles: readonly Profile[]): string {
  const percent = (share: number) => `${(share * 100).toFixed(1)} %`;
  return profiles
    .map(({ case: { title }, groups, functions }) => {
      const components = groups.map(({ name, share }) => `${name} ${percent(share)}`).join(', ');
      const body = functions.map(({ name, share }) => [code(name), percent(share)]);
      return `**${title}**: ${components}\n\n${table(['function', 'share'], body)}`;
    })
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

function environmentLine(
  { quick, nodeFlags, customNodeFlags, log }: Options,
  loadBefore: number,
  measured: string,
): string {
  const [processor] = cpus();
  const parts = [
    `${quick ? 'Quick form' : 'Full form'}, ${new Date().toISOString().slice(0, 10)}`,
    `${cpus().length} cores of ${processor?.model.trim() ?? 'unknown'}`,
    `Node.js ${process.version.slice(1)}${customNodeFlags ? ` with ${nodeFlags.join(' ')}` : ''}`,
    nginxVersion(),
    ...(log === undefined ? [] : [`log ${log}`]),
    `load average before ${loadBefore.toFixed(1)}`,
    ...(measured === '' ? [] : [measured]),
  ];
  return `${parts.join(', ')}.`;
}

function nginxVersion(): string {
  try {
    return /nginx\/[\d.]+/.exec(execFileSync('sh', ['-c', 'nginx -v 2>&1'], { encoding: 'utf8' }))?.[0] ?? 'no nginx';
  } catch {
    return 'no nginx';
  }
}
