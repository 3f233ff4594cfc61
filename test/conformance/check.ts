/** How one check of a referee ended. */
export type CheckStatus = 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO';

/** One check of a scenario. Ids repeat inside a scenario; the name tells what of the id was checked. */
export interface Check {
  readonly id: string;
  readonly name: string;
  readonly status: CheckStatus;
  /** What the referee said about it; empty when it said nothing. */
  readonly message: string;
}

/** Later ones are worse. */
const SEVERITY: readonly CheckStatus[] = ['SUCCESS', 'INFO', 'SKIPPED', 'WARNING', 'FAILURE'];

/** The worse of two ends of the same check. */
export function worse(one: CheckStatus, other: CheckStatus): CheckStatus {
  return SEVERITY.indexOf(one) < SEVERITY.indexOf(other) ? other : one;
}

/** True for the two ends that count against an implementation. */
export function isComplaint(status: CheckStatus): boolean {
  return status === 'FAILURE' || status === 'WARNING';
}

/** Reads the text of a `checks.json`, as a referee leaves it. Throws when it is not one. */
export function readChecks(text: string): Check[] {
  const value: unknown = JSON.parse(text);
  if (!Array.isArray(value)) throw new Error('checks.json holds no array');
  return value.map(readCheck);
}

/** Throws when it is none. */
export function readStatus(value: unknown): CheckStatus {
  const known = SEVERITY.find((candidate) => candidate === value);
  if (known === undefined) throw new Error(`a check cannot end with ${JSON.stringify(value)}`);
  return known;
}

function readCheck(value: unknown): Check {
  const { id, name, status, errorMessage }: Record<string, unknown> = Object(value);
  if (typeof id !== 'string' || typeof name !== 'string') {
    throw new Error(`checks.json holds something that is no check: ${JSON.stringify(value)}`);
  }
  return { id, name, status: readStatus(status), message: typeof errorMessage === 'string' ? errorMessage : '' };
}
