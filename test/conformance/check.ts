/** Result of one check. */
export type CheckStatus = 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO';

/** One check of a scenario. Ids repeat within a scenario; the name distinguishes them. */
export interface Check {
  readonly id: string;
  readonly name: string;
  readonly status: CheckStatus;
  /** Message of the suite; may be empty. */
  readonly message: string;
}

/** In ascending severity. */
const SEVERITY: readonly CheckStatus[] = ['SUCCESS', 'INFO', 'SKIPPED', 'WARNING', 'FAILURE'];

/** Returns the worse of two results of the same check. */
export function worse(one: CheckStatus, other: CheckStatus): CheckStatus {
  return SEVERITY.indexOf(one) < SEVERITY.indexOf(other) ? other : one;
}

/** True for the two results that count against an implementation. */
export function isFailureOrWarning(status: CheckStatus): boolean {
  return status === 'FAILURE' || status === 'WARNING';
}

/** Parses a `checks.json` of the suite. Throws if it is invalid. */
export function readChecks(text: string): Check[] {
  const value: unknown = JSON.parse(text);
  if (!Array.isArray(value)) throw new Error('invalid checks.json: expected an array');
  return value.map(readCheck);
}

/** Parses a check status. Throws if it is unknown. */
export function readStatus(value: unknown): CheckStatus {
  const known = SEVERITY.find((candidate) => candidate === value);
  if (known === undefined) throw new Error(`unknown check status ${JSON.stringify(value)}`);
  return known;
}

function readCheck(value: unknown): Check {
  const { id, name, status, errorMessage }: Record<string, unknown> = Object(value);
  if (typeof id !== 'string' || typeof name !== 'string') {
    throw new Error(`invalid check in checks.json: ${JSON.stringify(value)}`);
  }
  return { id, name, status: readStatus(status), message: typeof errorMessage === 'string' ? errorMessage : '' };
}
