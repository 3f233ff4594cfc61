import { createHash } from 'node:crypto';
import { OperationError } from '../registry/operation-error.ts';
import type { ExpectedRevision } from '../registry/store/revisions.ts';

/** Returns an `ETag` of a JSON value: equal for equal texts. */
export function entityTag(json: string): string {
  return `"${createHash('sha256').update(json).digest('base64url').slice(0, 22)}"`;
}

/** An element of a list of entity tags, possibly empty, up to the next comma or the end. */
const ELEMENT = /[ \t]*(?:((?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")[ \t]*)?(,|$)/gy;

/** The tags of an `If-Match` header (RFC 9110, section 13.1.1), or `*`. OperationError BAD_REQUEST if it is malformed. */
function requireTags(header: string): readonly string[] | '*' {
  if (header.trim() === '*') return '*';
  const elements = [...header.matchAll(ELEMENT)];
  const tags = elements.map(([, tag]) => tag).filter((tag) => tag !== undefined);
  if (elements.at(-1)?.[2] === '' && tags.length > 0) return tags;
  throw new OperationError('BAD_REQUEST', 'invalid If-Match header: expected the ETag value or *');
}

/**
 * Checks an `If-Match` header against the current tag. OperationError CONFLICT if it does not match, BAD_REQUEST if it is
 * malformed.
 */
export function requireMatch(header: string | undefined, current: string, what: string): void {
  if (header === undefined) return;
  const tags = requireTags(header);
  // Weak tags match nothing.
  if (tags === '*' || tags.includes(current)) return;
  throw new OperationError('CONFLICT', `${what} has changed: If-Match does not match its ETag`, { etag: current });
}

/**
 * The revisions of an optional `If-Match` header. Tags that no revision has, such as weak ones, match nothing and are omitted.
 * OperationError BAD_REQUEST if it is malformed.
 */
export function ifMatchOf(header: string | undefined): ExpectedRevision['ifMatch'] {
  if (header === undefined) return undefined;
  const tags = requireTags(header);
  if (tags === '*') return tags;
  return tags.filter((tag) => /^"(?:0|[1-9]\d{0,14})"$/.test(tag)).map((tag) => Number(tag.slice(1, -1)));
}
