import { findMemberProblem } from '../json/duplicates.ts';
import { isJsonObject, parseJson } from '../json/parse.ts';
import type { ScannedMember } from './envelope.ts';

/** Number of keys up to which a linear search is faster than a set. */
const MAX_LINEAR = 16;

/**
 * Members with a meaning. Some parsers ignore case in names: a policy that sees `name` must not be bypassed with
 * `Name`.
 */
export const ENVELOPE_MEMBERS: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params', 'result', 'error']);
const PARAM_MEMBERS: ReadonlySet<string> = new Set(['name', 'arguments', 'uri', '_meta']);
const COMPLETION_MEMBERS: ReadonlySet<string> = new Set([...PARAM_MEMBERS, 'ref', 'argument']);
const REFERENCE_MEMBERS: ReadonlySet<string> = new Set(['type', 'name', 'uri']);
/** Names that cannot be mistaken for a known one, or are one. */
const LOWER_CASE_NAME = /^[a-z_]*$/;
/** Methods with these params; others are defined by their vendors. */
const CORE_METHOD = /^(?:tools|prompts|resources|completion)\//;

/** Returns the problem of a key that a parser may take for one of the known members; undefined if it is one, or none. */
export function similarMember(key: string, known: ReadonlySet<string>): string | undefined {
  if (LOWER_CASE_NAME.test(key)) return undefined;
  // Parsers written in C end a name at its first U+0000.
  const [prefix = ''] = key.split('\0');
  // Both conversions, because some letters, such as the long s, map to an ASCII letter only in upper case.
  const folded = prefix.toUpperCase().toLowerCase();
  return known.has(folded) ? `member ${JSON.stringify(key)} must be written ${JSON.stringify(folded)}` : undefined;
}

/** Finds a duplicate key in the params of a method or their `_meta`, or one that an upstream may take for another. */
export function problemOfParams(method: string, params: readonly ScannedMember[]): string | undefined {
  const duplicate = duplicateKey(params);
  if (duplicate !== undefined) return `duplicate member ${JSON.stringify(duplicate)} in "params"`;
  const isCoreMethod = CORE_METHOD.test(method);
  const known = method === 'completion/complete' ? COMPLETION_MEMBERS : PARAM_MEMBERS;
  for (const { key, members: inner } of params) {
    const similar = isCoreMethod ? similarMember(key, known) : undefined;
    if (similar !== undefined) return `${similar} in "params"`;
    const inMeta = key === '_meta' && inner ? duplicateKey(inner) : undefined;
    if (inMeta !== undefined) return `duplicate member ${JSON.stringify(inMeta)} in "params._meta"`;
  }
  return undefined;
}

/** The same for the reference of a completion, as JSON text. */
export function problemOfReference(json: string): string | undefined {
  const search = findMemberProblem(json, 0, json.length, Number.POSITIVE_INFINITY);
  let step = search.next();
  while (!step.done) step = search.next();
  if (step.value) return `duplicate member ${JSON.stringify(step.value.key)} in "params.ref"`;
  const ref = parseJson(json);
  for (const key of isJsonObject(ref) ? Object.keys(ref) : []) {
    const similar = similarMember(key, REFERENCE_MEMBERS);
    if (similar !== undefined) return `${similar} in "params.ref"`;
  }
  return undefined;
}

function duplicateKey(scanned: readonly ScannedMember[]): string | undefined {
  if (scanned.length > MAX_LINEAR) {
    const seen = new Set<string>();
    return scanned.find(({ key }) => seen.size === seen.add(key).size)?.key;
  }
  for (let at = 1; at < scanned.length; at++) {
    for (let other = 0; other < at; other++) if (scanned[other]?.key === scanned[at]?.key) return scanned[at]?.key;
  }
  return undefined;
}
