import { type Check, isComplaint } from './check.ts';

/** What one scenario of a referee found. */
export interface Scenario {
  readonly name: string;
  /** Why the referee runs it without counting it (`extension`, `pending`, ...); undefined when it counts. */
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

/** True when a server passes, by the referee's own rule: no check failed. */
export function serverPasses(scenario: Scenario): boolean {
  return counts(scenario).failed === 0;
}

/**
 * True when a client passes: by the referee's own rule for one scenario no check failed or warned, and, since a client
 * that does nothing at all passes some of them so, at least one check succeeded.
 */
export function clientPasses(scenario: Scenario): boolean {
  const { passed, failed, warnings } = counts(scenario);
  return passed > 0 && failed === 0 && warnings === 0;
}

/** The checks that failed or warned, one line each: id, status, and what the referee said. */
export function complaints({ checks }: Scenario): string[] {
  return checks
    .filter(({ status }) => isComplaint(status))
    .map(({ id, name, status, message }) => `${id} (${name}): ${status}${message && `, ${message.slice(0, 300)}`}`);
}
