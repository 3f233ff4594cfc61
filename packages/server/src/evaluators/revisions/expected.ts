import { EvaluatorsError } from '../evaluators-error.ts';

/** What a request's `If-Match` names: whichever revision is active, or one of these; 0 stands for none. */
export type IfMatch = '*' | readonly number[];

/** What whoever changes the evaluators believes is active. Of both, both have to hold. */
export interface Expected {
  /** The revision that has to be active, 0 for none; undefined: whatever it is. */
  readonly expectedRevision: number | undefined;
  /** Undefined: whatever it is. */
  readonly ifMatch?: IfMatch | undefined;
}

/** An entity tag of a list, or a place in it without one, to the next comma or the end. */
const ELEMENT = /[ \t]*(?:((?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")[ \t]*)?(,|$)/gy;

/**
 * Reads an `If-Match` (RFC 9110, section 13.1.1); undefined for what is none. Tags that no revision has, weak ones among
 * them, match nothing and are left out.
 */
export function parseIfMatch(header: string): IfMatch | undefined {
  if (header.trim() === '*') return '*';
  const elements = [...header.matchAll(ELEMENT)];
  const tags = elements.map(([, tag]) => tag).filter((tag) => tag !== undefined);
  if (elements.at(-1)?.[2] !== '' || tags.length === 0) return undefined;
  return tags.filter((tag) => /^"(?:0|[1-9]\d{0,14})"$/.test(tag)).map((tag) => Number(tag.slice(1, -1)));
}

/** Throws {@link EvaluatorsError} CONFLICT unless what is expected is active; `active` is 0 when none is. */
export function checkExpected({ expectedRevision, ifMatch }: Expected, active: number): void {
  if (expectedRevision !== undefined && expectedRevision !== active) throw stale([expectedRevision], active);
  if (ifMatch === undefined || (ifMatch === '*' ? active !== 0 : ifMatch.includes(active))) return;
  throw stale(ifMatch === '*' ? [] : ifMatch, active);
}

function stale(expected: readonly number[], active: number): EvaluatorsError {
  const is = active === 0 ? 'none is' : `revision ${active} is`;
  const [only, ...others] = expected;
  if (only === undefined || others.length > 0) {
    const message = `no revision that If-Match names is active, ${is}: read the evaluators again`;
    return new EvaluatorsError('CONFLICT', message, { active_revision: active });
  }
  return new EvaluatorsError('CONFLICT', `revision ${only} is not active, ${is}: read the evaluators again`, {
    expected_revision: only,
    active_revision: active,
  });
}
