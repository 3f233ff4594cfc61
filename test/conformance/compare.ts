import { type Check, type CheckStatus, isFailureOrWarning, worse } from './check.ts';
import { type Scenario, serverPasses } from './scenario.ts';

/** One scenario, run against an upstream and against the gateway in front of it. */
export interface Pair {
  readonly direct: Scenario;
  /** Undefined if the suite did not run it. */
  readonly through: Scenario | undefined;
  /** Passes directly and fails through the gateway. */
  readonly failed: boolean;
  /** Checks with another result through the gateway. */
  readonly changed: readonly Change[];
}

/** A check that succeeds only directly, or that fails or warns only through the gateway. */
export interface Change {
  readonly id: string;
  readonly name: string;
  /** `absent`: the scenario did not reach it. */
  readonly through: CheckStatus | 'absent';
  readonly message: string;
}

/** Compares two runs of the same suite, in the order of the direct one. */
export function compare(direct: readonly Scenario[], through: readonly Scenario[]): Pair[] {
  return direct.map((scenario) => {
    const other = through.find(({ name }) => name === scenario.name);
    return {
      direct: scenario,
      through: other,
      failed: serverPasses(scenario) && !(other !== undefined && serverPasses(other)),
      changed: changes(scenario.checks, other?.checks ?? []),
    };
  });
}

/**
 * True for a change for the worse. INFO is none: it is another choice that the protocol allows, such as a JSON response
 * to a list request for which the upstream opens an event stream.
 */
export function isRegression({ through }: Change): boolean {
  return through !== 'INFO';
}

function changes(direct: readonly Check[], through: readonly Check[]): Change[] {
  const before = worstResults(direct);
  const after = worstResults(through);
  const missing = [...before].flatMap(([key, { id, name, status }]): Change[] => {
    const result = after.get(key);
    if (status !== 'SUCCESS' || result?.status === 'SUCCESS') return [];
    return [{ id, name, through: result?.status ?? 'absent', message: result?.message ?? '' }];
  });
  const added = [...after].flatMap(([key, { id, name, status, message }]): Change[] => {
    const start = before.get(key)?.status;
    if (start === 'SUCCESS' || start === 'FAILURE' || start === status || !isFailureOrWarning(status)) return [];
    return [{ id, name, through: status, message }];
  });
  return [...missing, ...added];
}

/** The worst result of each check: a scenario may make the same check several times. */
export function worstResults(checks: readonly Check[]): Map<string, Check> {
  const results = new Map<string, Check>();
  for (const check of checks) {
    const key = `${check.id} ${check.name}`;
    const known = results.get(key);
    if (known === undefined || worse(known.status, check.status) !== known.status) results.set(key, check);
  }
  return results;
}
