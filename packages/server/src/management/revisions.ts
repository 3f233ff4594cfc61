import type { Operation } from '@sluice/contract';
import type { Principal } from '../identity/principal.ts';
import { OperationError } from '../registry/operation-error.ts';
import type { RevisionHistory } from '../registry/store/revision-history.ts';
import {
  type ExpectedRevision,
  type Revision,
  serializeMetadata,
  serializeRevision,
} from '../registry/store/revisions.ts';
import { ifMatchOf } from './entity-tag.ts';
import { type ApiResponse, dataResponse, listResponse } from './responses.ts';
import type { ApiRequest, Router } from './router.ts';

/** Adds the routes that read the revisions of settings. */
export function revisionRoutes<Content>(
  router: Router,
  operations: Readonly<Record<'revisions' | 'activeRevision' | 'revision', Operation>>,
  history: RevisionHistory<Content>,
): void {
  const respond = (revision: Revision | undefined, message: string): ApiResponse => {
    if (!revision) throw new OperationError('NOT_FOUND', message);
    return dataResponse(serializeRevision(revision, history.kind));
  };
  router.add(operations.revisions, () => listResponse(history.list, serializeMetadata));
  router.add(operations.activeRevision, () => respond(history.active, 'no revision is active'));
  router.add(operations.revision, ({ name }) => respond(history.get(idOf(name)), notFound(name)));
}

/** The header with a revision. */
export function revisionTag(revision: number): Record<string, string> {
  return { etag: `"${revision}"` };
}

/** The revision that a request names. OperationError NOT_FOUND for anything that is no number of one. */
export function requireRevisionId(name: string): number {
  const id = idOf(name);
  if (Number.isNaN(id)) throw new OperationError('NOT_FOUND', notFound(name));
  return id;
}

/** Parses a revision number; NaN for anything else. */
function idOf(name: string): number {
  return /^[1-9]\d{0,14}$/.test(name) ? Number(name) : Number.NaN;
}

function notFound(name: string): string {
  return `revision not found: ${name}`;
}

/** Longest stored name of an actor, in characters. */
const MAX_ACTOR_CHARACTERS = 256;

/** Returns the name of a principal that a revision has; undefined for an anonymous one. */
export function actorOf({ id }: Principal): string | undefined {
  return id === '' ? undefined : [...id].slice(0, MAX_ACTOR_CHARACTERS).join('');
}

/** The expected active revision. OperationError BAD_REQUEST for an invalid `If-Match`. */
export function expectedOf(
  { http }: Pick<ApiRequest<never>, 'http'>,
  { expected_revision }: { readonly expected_revision?: number | undefined },
): ExpectedRevision {
  return { expectedRevision: expected_revision, ifMatch: ifMatchOf(http.headers['if-match']) };
}
