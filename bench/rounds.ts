import { costRatio, tenths } from './figures.ts';

/** What a figure has to meet. */
export type Bound = { readonly aim?: number } & ({ readonly floor: number } | { readonly limit: number });

/** Whether a figure is not below its floor or above its limit. */
export const meets = (figure: number, bound: Bound): boolean =>
  'floor' in bound ? figure >= bound.floor : figure <= bound.limit;

/** Result of a measurement. */
export interface Sample {
  /** CPU time of the target per response or chunk, in microseconds; NaN without a process. */
  readonly cpuUs: number;
  /** Responses or chunks per second of wall-clock time. */
  readonly perSecond: number;
  /** Delay of chunks in milliseconds. */
  readonly p50Ms?: number;
  readonly p99Ms?: number;
}

/** Load of a case on a target. */
export interface Workload {
  /** Generates load until the engine has compiled the code of the case. */
  warmUp(): Promise<unknown>;
  /** Generates load for the duration of a measurement. */
  measure(): Promise<Sample>;
}

/** Target of a case with its measurements, one for each round. */
export interface Lane {
  readonly name: string;
  readonly workload: Workload;
  readonly samples: Sample[];
}

/** Case with its targets. */
export interface MeasuredCase {
  readonly title: string;
  /** The first one is the baseline of the last one. */
  readonly lanes: readonly Lane[];
  /** Required ratio: a floor of the baseline's CPU time relative to that of the last target, or a limit of the reverse. */
  readonly bound?: Bound | undefined;
}

/** Returns a target without measurements. */
export const makeLane = (name: string, workload: Workload): Lane => ({ name, workload, samples: [] });

/** Returns the ratio of CPU times that a case is measured for. */
export function ratioOf({ lanes, bound }: MeasuredCase, pick = ({ cpuUs }: Sample): number => cpuUs) {
  const [baseline, last] = [lanes[0], lanes.at(-1)].map((lane) => lane?.samples.map(pick) ?? []);
  return bound !== undefined && 'limit' in bound
    ? costRatio(last ?? [], baseline ?? [])
    : costRatio(baseline ?? [], last ?? []);
}

/** A ratio within this factor of its bound is measured in more rounds. */
const closeFactor = 1.15;

/**
 * Measures cases: in every round all of them, each with all its targets in turn, so that other activity on the machine affects
 * all of them. Cases whose ratio is close to their bound have more rounds.
 *
 * @param log called after every measurement
 */
export async function measureRounds(
  cases: readonly MeasuredCase[],
  { rounds, closeRounds = rounds }: { readonly rounds: number; readonly closeRounds?: number },
  log: (line: string) => void,
): Promise<void> {
  for (const { lanes } of cases) for (const { workload } of lanes) await workload.warmUp();
  const measure = async (round: number, measured: readonly MeasuredCase[]) => {
    for (const { title, lanes } of measured) {
      for (const { name, workload, samples } of rotate(lanes, round)) {
        const sample = await workload.measure();
        samples.push(sample);
        log(`${title}, round ${round + 1}, ${name}: ${describe(sample)}`);
      }
    }
  };
  for (let round = 0; round < rounds; round++) await measure(round, cases);
  const close = cases.filter(isClose);
  for (let round = rounds; round < closeRounds; round++) await measure(round, close);
}

function isClose(measured: MeasuredCase): boolean {
  const { bound } = measured;
  if (bound === undefined) return false;
  const { figure } = ratioOf(measured);
  return meets(figure * closeFactor, bound) !== meets(figure / closeFactor, bound);
}

const describe = ({ cpuUs, perSecond, p50Ms }: Sample) =>
  [
    ...(Number.isNaN(cpuUs) ? [] : [`${tenths(cpuUs)} µs of CPU`]),
    `${Math.round(perSecond)} per second`,
    ...(p50Ms === undefined ? [] : [`p50 ${p50Ms.toFixed(3)} ms`]),
  ].join(', ');

/** Rotates the items, so that the order of targets changes between rounds. */
export const rotate = <T>(items: readonly T[], by: number): T[] => {
  const from = by % items.length;
  return [...items.slice(from), ...items.slice(0, from)];
};
