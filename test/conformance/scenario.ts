import { type Check, isFailureOrWarning } from './check.ts';

/** Result of one scenario of a suite. */
export interface Scenario {
  readonly name: string;
  /** Reason why the suite does not score it (`extension`, `pending`, ...); undefined if it is scored. */
  readonly unscored: string | undefined;
  readonly checks: readonly Check[];
}

/** How many checks of a scenario passed, failed, and ended with a warning. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly warnings: number;
}

/** Counts the checks of a scenario. */
export function counts({ checks }: Scenario): Counts {
  const of = (status: Check['status']) => checks.filter((check) => check.status === status).length;
  return { passed: of('SUCCESS'), failed: of('FAILURE'), warnings: of('WARNING') };
}

/** True if a server passes by the rule of the suite: no check failed. */
export function serverPasses(scenario: Scenario): boolean {
  return counts(scenario).failed === 0;
}

/**
 * True if a client passes: no check failed or warned, which is the rule of the suite, and at least one check succeeded,
 * since an idle client passes some scenarios by the rule of the suite.
 */
export function clientPasses(scenario: Scenario): boolean {
  const { passed, failed, warnings } = counts(scenario);
  return passed > 0 && failed === 0 && warnings === 0;
}

/** Checks that failed or warned, one line each: id, status and message. */
export function failureLines({ checks }: Scenario): string[] {
  return checks
    .filter(({ status }) => isFailureOrWarning(status))
    .map(({ id, name, status, message }) => `${id} (${name}): ${status}${message && `, ${message.slice(0, 300)}`}`);
}
