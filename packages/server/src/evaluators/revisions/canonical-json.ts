import { createHash } from 'node:crypto';
import { isJsonObject } from '@sluice/protocol/json/parse';

/** The JSON text of a value, the same for all orders of members. Numbers keep their spelling. */
function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const members = Object.keys(value).toSorted();
  return `{${members.map((member) => `${JSON.stringify(member)}:${canonicalJson(value[member])}`).join(',')}}`;
}

/** What tells sets of evaluators apart: the first 16 hex digits of SHA-256 over their canonical JSON (decisions 2.10). */
export function checksumOf(evaluators: readonly unknown[]): string {
  return createHash('sha256').update(canonicalJson(evaluators)).digest('hex').slice(0, 16);
}
