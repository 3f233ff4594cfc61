import { operations } from '@sluice/contract';
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { UpdateOptions, UpdateResult } from '../policy/evaluators.ts';
import {
  type ExpectedRevision,
  parseIfMatch,
  type Revision,
  serializeMetadata,
  serializeRevision,
} from '../policy/revisions.ts';
import type { ManagementContext } from './context.ts';
import { RequestError, route, routeWithBody, sendData, sendList, sendWarned } from './route.ts';

/** `/api/v1/evaluators` without bindings (specification, "Evaluator management endpoints"; decisions 2.10, 4.5). */
export function evaluatorRoutes(app: FastifyInstance, { evaluators: active }: ManagementContext): void {
  const { list, replace, connections, revisions, activeRevision, revision, activate } = operations.evaluators;

  route(app, list, (_request, reply) => {
    const { list: loaded, revision: id } = active.current;
    return sendList(withETag(reply, id), loaded, ({ definition }) => JSON.stringify(definition));
  });

  // Without `await`, which would keep the submitted definitions in memory while the update waits for others.
  routeWithBody(app, replace, ({ body: { evaluators, expected_revision } }, reply) => {
    const options = optionsOf(reply, expected_revision);
    return active.replace(evaluators, options).then((update) => sendUpdate(reply, update));
  });

  route(app, connections, (_request, reply) => sendData(reply, JSON.stringify(active.connectionNames)));

  route(app, revisions, (_request, reply) => sendList(reply, active.revisions, serializeMetadata));

  // Before the route of a revision by number, which would match it too.
  route(app, activeRevision, (_request, reply) => sendRevision(reply, active.activeRevision, 'no revision is active'));

  route(app, revision, ({ name }, reply) => sendRevision(reply, active.revision(idOf(name)), notFound(name)));

  routeWithBody(app, activate, async ({ name, body: { expected_revision } }, reply) => {
    const id = idOf(name);
    const options = optionsOf(reply, expected_revision);
    if (Number.isNaN(id)) throw new RequestError('NOT_FOUND', notFound(name));
    return sendUpdate(reply, await active.activate(id, options));
  });
}

function sendUpdate(reply: FastifyReply, { set, warnings }: UpdateResult): FastifyReply {
  const definitions = set.list.map(({ definition }) => definition);
  const warningsJson = warnings.length > 0 ? JSON.stringify(warnings) : undefined;
  return sendWarned(withETag(reply, set.revision), JSON.stringify(definitions), warningsJson);
}

function sendRevision(reply: FastifyReply, revision: Revision | undefined, notFoundMessage: string): FastifyReply {
  if (!revision) throw new RequestError('NOT_FOUND', notFoundMessage);
  return sendData(reply, serializeRevision(revision));
}

function withETag(reply: FastifyReply, revision: number): FastifyReply {
  return reply.header('etag', `"${revision}"`);
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

/**
 * The expected active revision and the actor, as named by an authenticating proxy (decisions 2.10). RequestError
 * BAD_REQUEST for an invalid `If-Match`.
 */
function optionsOf({ request }: FastifyReply, expectedRevision: number | undefined): UpdateOptions {
  const { 'x-forwarded-user': forwarded, 'x-auth-request-user': requested } = request.headers;
  const [actor] = [forwarded, requested]
    .map((user) => user?.toString())
    .filter((user) => user !== undefined && user !== '');
  const ifMatch = ifMatchOf(request.headers['if-match']);
  return { expectedRevision, ifMatch, actor: actor && [...actor].slice(0, MAX_ACTOR_CHARACTERS).join('') };
}

function ifMatchOf(header: string | undefined): ExpectedRevision['ifMatch'] {
  if (header === undefined) return undefined;
  const ifMatch = parseIfMatch(header);
  if (ifMatch !== undefined) return ifMatch;
  throw new RequestError('BAD_REQUEST', 'invalid If-Match header: expected the ETag value or *');
}
