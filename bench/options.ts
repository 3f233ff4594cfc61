import { parseArgs } from 'node:util';
import { NODE_FLAGS } from '../packages/server/src/app/node-flags.mjs';
import { requestParts } from './cases.ts';

/** Part of the benchmark. */
export type Part = (typeof parts)[number];

/** Options of a run. */
export interface Options {
  readonly parts: ReadonlySet<Part>;
  readonly quick: boolean;
  /** Writes the figures of the parts to their marked blocks in bench/README.md. */
  readonly write: boolean;
  /** Names of the cases to profile; empty to measure. */
  readonly profile: readonly string[];
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
  readonly plan: Plan;
}

/** Number and duration of measurements. */
export interface Plan {
  /** Rounds, and those of cases whose ratio is close to its bound. */
  readonly rounds: number;
  readonly closeRounds: number;
  /** Seconds of load per target, case and round. */
  readonly seconds: number;
  /** Limit of the warm-up of a case, and of one with large bodies. */
  readonly warmUpSeconds: number;
  readonly largeWarmUpSeconds: number;
  /** Requests of the single caller per target, case and round. */
  readonly singleCalls: number;
  /** Seconds of calls at a steady rate, also before the first round. */
  readonly pacedSeconds: number;
  /** Duration of each event stream. */
  readonly streamSeconds: number;
  /** Warm-up of the gateway with many events at a time; another one at the measured rate follows. */
  readonly streamWarmUpSeconds: number;
  /** Number of tools in the small and the large imported file. */
  readonly importSizes: readonly [number, number];
  /** Number of host processes that are started to measure the time. */
  readonly hostStarts: number;
  /** Seconds of concurrent writes to replicas, half of it before those that count. */
  readonly writeSeconds: number;
  /** Number of single changes whose arrival at the other replicas is measured. */
  readonly changes: number;
  /** Namespaces of the registry with which a replica starts. */
  readonly namespaces: number;
}

/** Parts of the short form. */
const quickParts = [...requestParts, 'mixed-users', 'latency', 'streams'] as const;
const parts = [
  ...quickParts,
  'access',
  'memory',
  'pairings',
  'bridge',
  'inference',
  'telemetry',
  'import',
  'evaluators',
  'replica-cost',
  'replica-processes',
  'replica-writes',
  'replica-start',
] as const;

/** Returns the text of `--help`. */
export const usage = (profiled: readonly string[]) => `usage: npm run bench -- [options]

  --quick               Run the short form (under 5 minutes instead of 40), less precise and only the parts
                        ${quickParts.join(', ')}
  --only <part,...>     Run only these parts: ${quickParts.join(', ')},
                        ${parts.slice(quickParts.length).join(', ')}
  --write               Write the figures of the parts to bench/README.md
  --profile <case,...>  Profile the gateway in these cases (or all) instead of measuring:
                        ${profiled.join(', ')}
  --against <commit>    Compare CPU time with the gateway of this commit in interleaved pairs
  --pairs <n>           Number of interleaved pairs per case of --against (default: 20)
  --log <directives>    RUST_LOG of the gateway (default: unset)
  --node-flags=<flags>  Node.js flags of the gateway (default: those of npm start)
  --entry <file>        File that starts the gateway (default: packages/server/src/main.ts)
  --help                Print this help`;

const fullPlan: Plan = {
  rounds: 7,
  closeRounds: 7,
  seconds: 2,
  warmUpSeconds: 12,
  largeWarmUpSeconds: 12,
  singleCalls: 400,
  pacedSeconds: 5,
  streamSeconds: 3,
  streamWarmUpSeconds: 5,
  importSizes: [2_500, 20_000],
  hostStarts: 15,
  writeSeconds: 10,
  changes: 250,
  namespaces: 1_000,
};

const quickPlan: Plan = {
  rounds: 3,
  closeRounds: 6,
  seconds: 1,
  warmUpSeconds: 10,
  largeWarmUpSeconds: 4,
  singleCalls: 200,
  pacedSeconds: 3,
  streamSeconds: 2,
  streamWarmUpSeconds: 4,
  importSizes: [2_500, 10_000],
  hostStarts: 5,
  writeSeconds: 3,
  changes: 40,
  namespaces: 100,
};

/**
 * Parses the command line.
 *
 * @param root folder of the workspace
 * @param profiled names of the cases that can be profiled
 * @returns the options, or `undefined` for `--help`
 * @throws Error that names the option and the accepted values
 */
export function parseOptions(argv: readonly string[], root: string, profiled: readonly string[]): Options | undefined {
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
  for (const [one, other] of [
    ['write', 'against'],
    ['write', 'profile'],
    ['profile', 'against'],
  ] as const) {
    if (values[one] && values[other]) throw new Error(`--${one} cannot be combined with --${other}`);
  }
  if (values.pairs !== undefined && values.against === undefined) throw new Error('--pairs requires --against');
  const pairs = Number(values.pairs ?? 20);
  if (!Number.isInteger(pairs) || pairs < 1) throw new Error(`--pairs ${values.pairs}: expected a positive integer`);
  const toProfile = values.profile === 'all' ? profiled : parseList('--profile', values.profile ?? '', profiled);
  return {
    parts: selected,
    quick: values.quick,
    write: values.write,
    profile: toProfile,
    entry: values.entry ?? `${root}/packages/server/src/main.ts`,
    nodeFlags: values['node-flags']?.split(/\s+/).filter((word) => word !== '') ?? NODE_FLAGS,
    customNodeFlags: values['node-flags'] !== undefined,
    log: values.log,
    against: values.against,
    pairs,
    plan: values.quick ? quickPlan : fullPlan,
  };
}

function parseList<T extends string>(option: string, text: string, allowed: readonly T[]): T[] {
  const items = text === '' ? [] : text.split(',');
  return items.map((item) => {
    const found = allowed.find((name) => name === item.trim());
    if (found === undefined) throw new Error(`${option} ${item}: expected one of ${allowed.join(', ')}`);
    return found;
  });
}
