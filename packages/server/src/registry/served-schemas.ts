import { mcpEntries, type ValidationIssue, validate } from '@sluice/contract';

/** List whose entries have one schema. */
export type ServedList = keyof typeof mcpEntries;

/**
 * The first violation for which clients would reject a list with this entry (decisions 10.1); undefined if they accept it.
 * `value` is a parsed JSON object.
 */
export function findViolation(list: ServedList, value: unknown): ValidationIssue | undefined {
  const checked = validate(mcpEntries[list], value);
  return 'issues' in checked ? checked.issues[0] : undefined;
}
