import { type Check, type CheckStatus, isComplaint, worse } from './check.ts';
import { type Scenario, serverPasses } from './scenario.ts';

/** One scenario, run against an upstream and against the gateway in front of it. */
export interface Pair {
  readonly direct: Scenario;
  /** Undefined when the referee did not get as far as running it. */
  readonly through: Scenario | undefined;
  /** Passes directly and fails through the gateway. */
  readonly broken: boolean;
  /** Checks that end worse through the gateway. */
  readonly changed: readonly Change[];
}

/** A check that succeeds directly only, or that fails or warns through the gateway only. */
export interface Change {
  readonly id: string;
  readonly name: string;
  /** `absent`: the scenario never came to it. */
  readonly through: CheckStatus | 'absent';
  readonly message: string;
}

/** Sets the results of two runs of the same referee side by side, in the order of the direct one. */
export function compare(direct: readonly Scenario[], through: readonly Scenario[]): Pair[] {
  return direct.map((scenario) => {
    const other = through.find(({ name }) => name === scenario.name);
    return {
      direct: scenario,
      through: other,
      broken: serverPasses(scenario) && !(other !== undefined && serverPasses(other)),
      changed: changes(scenario.checks, other?.checks ?? []),
    };
  });
}

/**
 * True for a change that takes something away. INFO does not: it is the referee's word for another choice that the
 * protocol leaves (such as answering a list as JSON, where the upstream opens an event stream for it).
 */
export function isLoss({ through }: Change): boolean {
  return through !== 'INFO';
}

function changes(direct: readonly Check[], through: readonly Check[]): Change[] {
  const before = worstEnds(direct);
  const after = worstEnds(through);
  const lost = [...before].flatMap(([key, { id, name, status }]): Change[] => {
    const end = after.get(key);
    if (status !== 'SUCCESS' || end?.status === 'SUCCESS') return [];
    return [{ id, name, through: end?.status ?? 'absent', message: end?.message ?? '' }];
  });
  const come = [...after].flatMap(([key, { id, name, status, message }]): Change[] => {
    const start = before.get(key)?.status;
    if (start === 'SUCCESS' || start === 'FAILURE' || start === status || !isComplaint(status)) return [];
    return [{ id, name, through: status, message }];
  });
  return [...lost, ...come];
}

/** The worst end of each check: the same one may be made several times in a scenario. */
export function worstEnds(checks: readonly Check[]): Map<string, Check> {
  const ends = new Map<string, Check>();
  for (const check of checks) {
    const key = `${check.id} ${check.name}`;
    const known = ends.get(key);
    if (known === undefined || worse(known.status, check.status) !== known.status) ends.set(key, check);
  }
  return ends;
}
