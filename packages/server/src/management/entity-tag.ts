import { createHash } from 'node:crypto';
import { OperationError } from '../registry/operation-error.ts';

/** Returns an `ETag` of a JSON value: equal for equal texts. */
export function entityTag(json: string): string {
  return `"${createHash('sha256').update(json).digest('base64url').slice(0, 22)}"`;
}

const ELEMENT = /\s*(?:(W\/)?("[^"]*"))?\s*(,|$)/gy;

/**
 * Checks an `If-Match` header against the current tag. OperationError CONFLICT if it does not match, BAD_REQUEST if it is
 * malformed.
 */
export function requireMatch(header: string | undefined, current: string, what: string): void {
  if (header === undefined || header.trim() === '*') return;
  const elements = [...header.matchAll(ELEMENT)];
  const tags = elements.flatMap(([, weak, tag]) => (tag === undefined ? [] : [{ weak, tag }]));
  if (elements.at(-1)?.[3] !== '' || tags.length === 0) {
    throw new OperationError('BAD_REQUEST', 'invalid If-Match header: expected the ETag value or *');
  }
  if (tags.some(({ weak, tag }) => weak === undefined && tag === current)) return;
  throw new OperationError('CONFLICT', `${what} has changed: If-Match does not match its ETag`, { etag: current });
}
