import { parseArgs } from 'node:util';
import { NODE_FLAGS } from '../packages/server/src/app/node-flags.mjs';
import {
  type BridgeCaseName,
  bridgeCaseNames,
  type CaseName,
  caseNames,
  completionStreams,
  type InferenceCaseName,
  type PairingName,
  pairings,
  requestParts,
  type StreamCaseName,
  streamCaseNames,
} from './cases.ts';

/** Part of the benchmark. */
export type Part = (typeof parts)[number];

/** Measurements of the part `replicas`. */
const replicaMeasurements = ['cost', 'processes', 'writes', 'fleet', 'start'] as const;
export type ReplicaMeasurement = (typeof replicaMeasurements)[number];

/** Options of a run. */
export interface Options {
  readonly parts: ReadonlySet<Part>;
  readonly quick: boolean;
  /** Writes the figures of the parts (or the profile) to their marked blocks in bench/README.md. */
  readonly write: boolean;
  /** Cases to profile; empty to measure. */
  readonly profile: readonly (CaseName | PairingName | StreamCaseName | BridgeCaseName | InferenceCaseName)[];
  /** File that starts the gateway. */
  readonly entry: string;
  /** Node.js flags of the gateway. */
  readonly nodeFlags: readonly string[];
  /** True if the flags were given on the command line. */
  readonly customNodeFlags: boolean;
  /** Commit to compare the gateway with. */
  readonly against: string | undefined;
  /** Interleaved pairs of the comparison per case. */
  readonly pairs: number;
  /** RUST_LOG of the gateway; undefined for its default. */
  readonly log: string | undefined;
  /** Measurements of the part `replicas`. */
  readonly replicas: ReadonlySet<ReplicaMeasurement>;
  readonly plan: Plan;
}

/** Number and duration of measurements. */
export interface Plan {
  /** Rounds of cases with small bodies, of those with large ones and mixed load, and of those close to their floor. */
  readonly caseRounds: number;
  readonly otherRounds: number;
  readonly closeRounds: number;
  /** Rounds with nginx, and seconds of load per target, case and round. */
  readonly nginxRounds: number;
  readonly caseSeconds: number;
  /** True for figures without the log. */
  readonly withLogOff: boolean;
  /** Rounds and seconds of calls at a steady rate, and seconds of those before the first round. */
  readonly pacedRounds: number;
  readonly pacedSeconds: number;
  readonly pacedWarmUpSeconds: number;
  /** Rounds of the single caller. */
  readonly singleRounds: number;
  /** Rounds of calls over gRPC, and seconds of load of the other parts. */
  readonly rounds: number;
  readonly loadSeconds: number;
  /** Limits of the warm-up of the gateway before the first round of a case. */
  readonly warmUpRequests: number;
  readonly warmUpSeconds: number;
  /** The same for cases with large bodies and mixed load. */
  readonly otherWarmUpSeconds: number;
  /** Requests of the single caller per contender, case and round. */
  readonly singleCalls: number;
  /** Rounds that also load the upstream without a proxy. */
  readonly directRounds: number;
  readonly pairingRounds: number;
  readonly mixedUsersRounds: number;
  readonly streamRounds: number;
  /** Rounds of event streams that also read those of the upstream without a proxy. */
  readonly streamDirectRounds: number;
  /** Duration of each event stream in seconds. */
  readonly streamSeconds: number;
  /** Warm-up of the gateway with many events at a time, in seconds; another one at the measured rate follows. */
  readonly streamWarmUpSeconds: number;
  /** Rounds of streamed chat completions, and of those in one piece. */
  readonly completionRounds: number;
  readonly answerRounds: number;
  readonly telemetryRounds: number;
  readonly sizeNamespaces: number;
  readonly sizeStarts: number;
  readonly sizeRounds: number;
  /** Number of tools in the imported files, ascending. */
  readonly importSizes: readonly number[];
  readonly importRounds: number;
  readonly evaluatorRounds: number;
  /** Seconds of sequential and of concurrent evaluations, per toolchain and round. */
  readonly evaluatorSeconds: number;
  /** Number of host processes that are started, and killed, to measure the time. */
  readonly evaluatorStarts: number;
  /** Rounds of requests to replicas, in pairs. */
  readonly replicaRounds: number;
  /** Seconds of concurrent writes, and before those that count. */
  readonly replicaWriteSeconds: number;
  readonly replicaWarmUpSeconds: number;
  /** Number of single changes whose arrival at the other replicas is measured. */
  readonly replicaChanges: number;
  /** Numbers of simulated replicas, seconds without changes, and number of changes of each kind. */
  readonly replicaFleets: readonly number[];
  readonly replicaIdleSeconds: number;
  readonly replicaFleetChanges: number;
  /** Namespaces of the registry with which a replica starts. */
  readonly replicaNamespaces: number;
}

/** Parts of the short form. */
const quickParts = [...requestParts, 'mixed-users', 'latency', 'streams'] as const;
const parts = [
  ...quickParts,
  'memory',
  'pairings',
  'bridge',
  'inference',
  'telemetry',
  'size',
  'import',
  'evaluators',
  'replicas',
] as const;
// Pairings within one era are covered by the call cases.
const crossings = pairings.filter(({ era, upstream }) => era !== upstream).map(({ name }) => name);
const profiled = [...caseNames, ...crossings, ...streamCaseNames, ...bridgeCaseNames, completionStreams.name];

/** Text of `--help`. */
export const usage = `usage: npm run bench -- [options]

  --quick               Run the short form (under 5 minutes instead of 50), less precise and only the parts
                        ${quickParts.join(', ')}
  --only <part,...>     Run only these parts: ${quickParts.join(', ')},
                        ${parts.slice(quickParts.length).join(', ')}
  --replicas <name,...> Run only these measurements of the part replicas: ${replicaMeasurements.join(', ')}
  --write               Write the figures of the parts to bench/README.md
  --profile <case,...>  Profile the gateway in these cases (or all) instead of measuring:
                        ${profiled.join(', ')}
  --against <commit>    Compare CPU time with the gateway of this commit in interleaved pairs;
                        with --only telemetry, compare only calls without telemetry
  --pairs <n>           Number of interleaved pairs per case of --against (default: 20)
  --log <directives>    RUST_LOG of the gateway (default: unset)
  --node-flags=<flags>  Node.js flags of the gateway (default: those of npm start)
  --entry <file>        File that starts the gateway (default: packages/server/src/main.ts)
  --help                Print this help`;

const fullPlan: Plan = {
  caseRounds: 7,
  otherRounds: 7,
  closeRounds: 7,
  nginxRounds: 7,
  caseSeconds: 2,
  withLogOff: true,
  pacedRounds: 7,
  pacedSeconds: 5,
  pacedWarmUpSeconds: 5,
  singleRounds: 7,
  rounds: 7,
  loadSeconds: 3,
  warmUpRequests: 150_000,
  warmUpSeconds: 12,
  otherWarmUpSeconds: 12,
  singleCalls: 400,
  directRounds: 1,
  pairingRounds: 7,
  mixedUsersRounds: 7,
  streamRounds: 7,
  streamDirectRounds: 7,
  streamSeconds: 3,
  streamWarmUpSeconds: 5,
  completionRounds: 5,
  answerRounds: 3,
  telemetryRounds: 7,
  sizeNamespaces: 50,
  sizeStarts: 3,
  sizeRounds: 3,
  importSizes: [2_500, 5_000, 10_000, 20_000],
  importRounds: 3,
  evaluatorRounds: 5,
  evaluatorSeconds: 3,
  evaluatorStarts: 15,
  replicaRounds: 10,
  replicaWriteSeconds: 10,
  replicaWarmUpSeconds: 4,
  replicaChanges: 250,
  replicaFleets: [10, 30, 100],
  replicaIdleSeconds: 10,
  replicaFleetChanges: 20,
  replicaNamespaces: 1_000,
};

const quickPlan: Plan = {
  caseRounds: 3,
  otherRounds: 2,
  closeRounds: 6,
  nginxRounds: 1,
  caseSeconds: 1,
  withLogOff: false,
  pacedRounds: 3,
  pacedSeconds: 3,
  pacedWarmUpSeconds: 2,
  singleRounds: 4,
  rounds: 2,
  loadSeconds: 1,
  warmUpRequests: 150_000,
  warmUpSeconds: 10,
  otherWarmUpSeconds: 4,
  singleCalls: 150,
  directRounds: 0,
  pairingRounds: 4,
  mixedUsersRounds: 4,
  streamRounds: 4,
  streamDirectRounds: 1,
  streamSeconds: 2,
  streamWarmUpSeconds: 4,
  completionRounds: 2,
  answerRounds: 2,
  telemetryRounds: 3,
  sizeNamespaces: 10,
  sizeStarts: 1,
  sizeRounds: 1,
  importSizes: [2_500, 10_000],
  importRounds: 1,
  evaluatorRounds: 2,
  evaluatorSeconds: 1,
  evaluatorStarts: 5,
  replicaRounds: 3,
  replicaWriteSeconds: 3,
  replicaWarmUpSeconds: 2,
  replicaChanges: 40,
  replicaFleets: [10, 100],
  replicaIdleSeconds: 3,
  replicaFleetChanges: 5,
  replicaNamespaces: 100,
};

/**
 * Parses the command line.
 *
 * @param root folder of the workspace
 * @returns the options, or `undefined` for `--help`
 * @throws Error that names the option and the accepted values
 */
export function parseOptions(argv: readonly string[], root: string): Options | undefined {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      quick: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
      only: { type: 'string' },
      replicas: { type: 'string' },
      profile: { type: 'string' },
      log: { type: 'string' },
      'node-flags': { type: 'string' },
      entry: { type: 'string' },
      against: { type: 'string' },
      pairs: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return undefined;
  const usual = values.quick && values.against === undefined ? quickParts : parts;
  const selected = new Set<Part>(values.only === undefined ? usual : parseList('--only', values.only, parts));
  const ofRequests = requestParts.filter((part) => selected.has(part)).length;
  if (values.write && ofRequests > 0 && ofRequests < requestParts.length) {
    throw new Error(`--write replaces the table of requests: run all of its parts (${requestParts.join(',')})`);
  }
  if (values.write && values.against !== undefined) throw new Error('--write cannot be combined with --against');
  if (values.profile !== undefined && values.against !== undefined) {
    throw new Error('--profile cannot be combined with --against');
  }
  if (values.pairs !== undefined && values.against === undefined) throw new Error('--pairs requires --against');
  const pairs = Number(values.pairs ?? 20);
  if (!Number.isInteger(pairs) || pairs < 1) throw new Error(`--pairs ${values.pairs}: expected a positive integer`);
  return {
    parts: selected,
    quick: values.quick,
    write: values.write,
    profile:
      values.profile === undefined
        ? []
        : values.profile === 'all'
          ? profiled
          : parseList('--profile', values.profile, profiled),
    entry: values.entry ?? `${root}/packages/server/src/main.ts`,
    nodeFlags: values['node-flags'] === undefined ? NODE_FLAGS : splitWords(values['node-flags']),
    customNodeFlags: values['node-flags'] !== undefined,
    log: values.log,
    replicas: new Set(
      values.replicas === undefined
        ? replicaMeasurements
        : parseList('--replicas', values.replicas, replicaMeasurements),
    ),
    against: values.against,
    pairs,
    plan: values.quick ? quickPlan : fullPlan,
  };
}

function parseList<T extends string>(option: string, text: string, allowed: readonly T[]): T[] {
  return text.split(',').map((item) => {
    const found = allowed.find((name) => name === item.trim());
    if (found === undefined) throw new Error(`${option} ${item}: expected one of ${allowed.join(', ')}`);
    return found;
  });
}

const splitWords = (text: string) => text.split(/\s+/).filter((word) => word !== '');
