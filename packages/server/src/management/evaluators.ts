import { operations } from '@sluice/contract';
import type { Principal } from '../identity/principal.ts';
import { EVALUATOR_REVISIONS } from '../policy/evaluator-revisions.ts';
import type { UpdateOptions, UpdateResult } from '../policy/evaluators.ts';

import { OperationError } from '../registry/operation-error.ts';
import {
  type ExpectedRevision,
  type Revision,
  serializeMetadata,
  serializeRevision,
} from '../registry/store/revisions.ts';
import type { ManagementContext } from './context.ts';
import { ifMatchOf } from './entity-tag.ts';
import { type ApiResponse, dataResponse, listResponse } from './responses.ts';
import type { ApiRequest, Router } from './router.ts';

/** `/api/v1/evaluators` without bindings. */
export function evaluatorRoutes(router: Router, { evaluators: active, dryRuns }: ManagementContext): void {
  const { list, replace, dryRun, connections, revisions, activeRevision, revision, activate } = operations.evaluators;

  router.add(list, () => {
    const { list: loaded, revision: id } = active.current;
    return listResponse(loaded, ({ definition }) => JSON.stringify(definition), { headers: etag(id) });
  });

  // Without `await`, which would keep the submitted definitions in memory while the update waits for others.
  router.addWithBody(replace, (request) =>
    active.replace(request.body.evaluators, optionsOf(request)).then(updateResponse),
  );

  router.addWithBody(dryRun, async ({ http, body }) => {
    const canceled = new AbortController();
    // Without a client nobody needs the result, and the next dry run would wait for it.
    const onClose = () => canceled.abort(new OperationError('UNAVAILABLE', 'the client disconnected'));
    http.socket.once('close', onClose);
    try {
      return dataResponse(JSON.stringify(await dryRuns.run(body, canceled.signal)));
    } finally {
      http.socket.off('close', onClose);
    }
  });

  router.add(connections, () => dataResponse(JSON.stringify(active.connectionNames)));

  router.add(revisions, () => listResponse(active.history.list, serializeMetadata));

  router.add(activeRevision, () => revisionResponse(active.history.active, 'no revision is active'));

  router.add(revision, ({ name }) => revisionResponse(active.history.get(idOf(name)), notFound(name)));

  router.addWithBody(activate, async (request) => {
    const { name } = request;
    const id = idOf(name);
    const options = optionsOf(request);
    if (Number.isNaN(id)) throw new OperationError('NOT_FOUND', notFound(name));
    return updateResponse(await active.activate(id, options));
  });
}

function updateResponse({ set, warnings, unconfirmed }: UpdateResult): ApiResponse {
  const definitions = set.list.map(({ definition }) => definition);
  return dataResponse(JSON.stringify(definitions), { headers: etag(set.revision), warnings, unconfirmed });
}

function revisionResponse(revision: Revision | undefined, notFoundMessage: string): ApiResponse {
  if (!revision) throw new OperationError('NOT_FOUND', notFoundMessage);
  return dataResponse(serializeRevision(revision, EVALUATOR_REVISIONS));
}

function etag(revision: number): Record<string, string> {
  return { etag: `"${revision}"` };
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

/** A request that makes another revision active. */
interface UpdateRequest extends ApiRequest<'strict'> {
  readonly body: { readonly expected_revision?: number | undefined };
}

/** The expected active revision, and who changes it. OperationError BAD_REQUEST for an invalid `If-Match`. */
function optionsOf({ http, principal, query, body }: UpdateRequest): UpdateOptions {
  return {
    ...updateOptionsOf(principal, query('strict')),
    expectedRevision: body.expected_revision,
    ifMatch: ifMatchOf(http.headers['if-match']),
  };
}

/** Who changes the evaluators, and whether all have to be loadable: the value of `?strict=`. */
export function updateOptionsOf(
  { id }: Principal,
  strict: string | undefined,
): Omit<UpdateOptions, keyof ExpectedRevision> {
  return {
    actor: id === '' ? undefined : [...id].slice(0, MAX_ACTOR_CHARACTERS).join(''),
    strict: strict === undefined ? undefined : strict === 'true',
  };
}
