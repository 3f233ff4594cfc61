import { parseArgs } from 'node:util';
import { NODE_FLAGS } from '../packages/server/src/node-flags.ts';
import {
  type BridgeCaseName,
  bridgeCaseNames,
  type CaseName,
  caseNames,
  completionStreams,
  type InferenceCaseName,
  type PairingName,
  pairings,
  type StreamCaseName,
  streamCaseNames,
} from './cases.ts';

/**
 * Which part of the bench runs: the list cases, the call cases, pairings of eras, event streams, calls over gRPC, chat
 * completions, calls with telemetry exported, the registry at size, imports, evaluations without the LLM.
 */
export type Part = (typeof parts)[number];

/** What one run of the bench does. */
export interface Options {
  readonly parts: ReadonlySet<Part>;
  readonly quick: boolean;
  /** Writes the figures (or the profile) into the marked blocks of the bench's own page. */
  readonly write: boolean;
  /** Cases to profile; empty: measure. */
  readonly profile: readonly (CaseName | PairingName | StreamCaseName | BridgeCaseName | InferenceCaseName)[];
  /** The file that starts the gateway. */
  readonly entry: string;
  /** Flags of Node.js in front of it. */
  readonly nodeFlags: readonly string[];
  /** Another state of the source to compare calls with telemetry off with; undefined: none. */
  readonly against: string | undefined;
  /** Log directives of the gateway; undefined: its default. */
  readonly log: string | undefined;
  readonly plan: Plan;
}

/** How long and how often things are measured. */
export interface Plan {
  readonly rounds: number;
  /** Seconds of load per contender, case and round. */
  readonly loadSeconds: number;
  /** Load on the gateway before the first round of a case: so many requests, but at most so many seconds. */
  readonly warmUpRequests: number;
  readonly warmUpSeconds: number;
  /** Requests of the single caller per contender, case and round. */
  readonly singleCalls: number;
  /** Rounds in which the upstream without a proxy is loaded too. */
  readonly directRounds: number;
  readonly pairingRounds: number;
  readonly streamRounds: number;
  /** Seconds that each event stream lasts. */
  readonly streamSeconds: number;
  /** Seconds of event streams on the gateway before the first round of a case. */
  readonly streamWarmUpSeconds: number;
  /** Rounds of streamed chat completions, and of those in one piece. */
  readonly completionRounds: number;
  readonly answerRounds: number;
  readonly telemetryRounds: number;
  readonly sizeNamespaces: number;
  readonly sizeStarts: number;
  readonly sizeRounds: number;
  /** Tools in the files that are imported, from the smallest on. */
  readonly importSizes: readonly number[];
  readonly importRounds: number;
  readonly evaluatorRounds: number;
  /** Seconds of evaluations one at a time, and of several, per tool chain and round. */
  readonly evaluatorSeconds: number;
  /** Host processes that are started, and killed, to see how long it takes. */
  readonly evaluatorStarts: number;
}

const parts = [
  'list',
  'call',
  'pairings',
  'streams',
  'bridge',
  'inference',
  'telemetry',
  'size',
  'import',
  'evaluators',
] as const;
// The pairings within one era are cases already.
const crossings = pairings.filter(({ era, upstream }) => era !== upstream).map(({ name }) => name);
const profiled = [...caseNames, ...crossings, ...streamCaseNames, ...bridgeCaseNames, completionStreams.name];

/** What `--help` prints. */
export const usage = `usage: npm run bench -- [options]

  --quick               short form, about five minutes (the full form takes about twenty)
  --only <part,...>     parts to run: ${parts.join(', ')} (default: all)
  --write               put the figures into bench/README.md
  --profile <case,...>  show where the gateway's time goes instead, or all:
                        ${profiled.join(', ')}
  --log <directives>    RUST_LOG of the gateway (default: unset, so that it logs as shipped)
  --node-flags=<flags>  flags of Node.js for the gateway (default: those of the npm start script)
  --against <commit>    part telemetry: compare calls without telemetry with those of the source at this commit
  --entry <file>        another gateway to start, of another checkout for example
  --help                this text`;

const fullPlan: Plan = {
  rounds: 7,
  loadSeconds: 3,
  warmUpRequests: 150_000,
  warmUpSeconds: 12,
  singleCalls: 400,
  directRounds: 1,
  pairingRounds: 7,
  streamRounds: 7,
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
};

const quickPlan: Plan = {
  rounds: 2,
  loadSeconds: 1,
  warmUpRequests: 80_000,
  warmUpSeconds: 4,
  singleCalls: 150,
  directRounds: 0,
  pairingRounds: 4,
  streamRounds: 2,
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
};

/**
 * Reads the command line.
 *
 * @param root folder of the workspace
 * @returns the options, or `undefined` when help was asked for
 * @throws Error with one line that names the option and what it accepts
 */
export function parseOptions(argv: readonly string[], root: string): Options | undefined {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      quick: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
      only: { type: 'string' },
      profile: { type: 'string' },
      log: { type: 'string' },
      'node-flags': { type: 'string' },
      entry: { type: 'string' },
      against: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return undefined;
  // Evaluations have a block of their own.
  if (values.write && values.only !== undefined && values.only !== 'evaluators') {
    throw new Error('--write replaces all figures; leave out --only, or take --only evaluators');
  }
  return {
    parts: new Set(values.only === undefined ? parts : chosen('--only', values.only, parts)),
    quick: values.quick,
    write: values.write,
    profile:
      values.profile === undefined
        ? []
        : values.profile === 'all'
          ? profiled
          : chosen('--profile', values.profile, profiled),
    entry: values.entry ?? `${root}/packages/server/src/main.ts`,
    nodeFlags: values['node-flags'] === undefined ? NODE_FLAGS : words(values['node-flags']),
    log: values.log,
    against: values.against,
    plan: values.quick ? quickPlan : fullPlan,
  };
}

function chosen<T extends string>(option: string, text: string, allowed: readonly T[]): T[] {
  return text.split(',').map((word) => {
    const found = allowed.find((name) => name === word.trim());
    if (found === undefined) throw new Error(`${option} ${word}: unknown; it takes ${allowed.join(', ')}`);
    return found;
  });
}

const words = (text: string) => text.split(/\s+/).filter((word) => word !== '');
