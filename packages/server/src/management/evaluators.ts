import { operations } from '@sluice/contract';
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Update, UpdateOptions } from '../policy/evaluator-set.ts';
import { type Expected, metadataJson, parseIfMatch, type Revision, revisionJson } from '../policy/revisions.ts';
import { RequestError, route, routeWithBody, sendData, sendList, sendWarned } from './route.ts';
import type { ManagementContext } from './server.ts';

/** `/api/v1/evaluators`, but for bindings (specification, "Evaluator management endpoints"; decisions 2.10, 4.5). */
export function evaluatorRoutes(app: FastifyInstance, { evaluators: active }: ManagementContext): void {
  const { list, replace, connections, revisions, activeRevision, revision, activate } = operations.evaluators;

  route(app, list, (_request, reply) => {
    const { list: loaded, revision: id } = active.current;
    return sendList(withETag(reply, id), loaded, ({ definition }) => JSON.stringify(definition));
  });

  // Without `await`, which would keep what was submitted in memory for as long as it waits for others.
  routeWithBody(app, replace, ({ body: { evaluators, expected_revision } }, reply) => {
    const options = optionsOf(reply, expected_revision);
    return active.replace(evaluators, options).then((update) => sendUpdate(reply, update));
  });

  route(app, connections, (_request, reply) => sendData(reply, JSON.stringify(active.connections)));

  route(app, revisions, (_request, reply) => sendList(reply, active.revisions, metadataJson));

  // Before the one by its number, which would take the word for one.
  route(app, activeRevision, (_request, reply) => sendRevision(reply, active.activeRevision, 'no revision is active'));

  route(app, revision, ({ name }, reply) => sendRevision(reply, active.revision(idOf(name)), notFound(name)));

  routeWithBody(app, activate, async ({ name, body: { expected_revision } }, reply) => {
    const id = idOf(name);
    const options = optionsOf(reply, expected_revision);
    if (Number.isNaN(id)) throw new RequestError('NOT_FOUND', notFound(name));
    return sendUpdate(reply, await active.activate(id, options));
  });
}

function sendUpdate(reply: FastifyReply, { set, warnings }: Update): FastifyReply {
  const definitions = set.list.map(({ definition }) => definition);
  const told = warnings.length > 0 ? JSON.stringify(warnings) : undefined;
  return sendWarned(withETag(reply, set.revision), JSON.stringify(definitions), told);
}

function sendRevision(reply: FastifyReply, revision: Revision | undefined, otherwise: string): FastifyReply {
  if (!revision) throw new RequestError('NOT_FOUND', otherwise);
  return sendData(reply, revisionJson(revision));
}

function withETag(reply: FastifyReply, revision: number): FastifyReply {
  return reply.header('etag', `"${revision}"`);
}

/** A revision's number in its only spelling; NaN for anything else, which is the number of none. */
function idOf(name: string): number {
  return /^[1-9]\d{0,14}$/.test(name) ? Number(name) : Number.NaN;
}

function notFound(name: string): string {
  return `revision not found: ${name}`;
}

/** Longest name of an actor that is kept, in characters. */
const LONGEST_ACTOR = 256;

/**
 * What is expected to be active, and who asks: what an authenticating proxy says, if there is one (decisions 2.10). Throws
 * RequestError BAD_REQUEST for an `If-Match` that is none.
 */
function optionsOf({ request }: FastifyReply, expectedRevision: number | undefined): UpdateOptions {
  const { 'x-forwarded-user': forwarded, 'x-auth-request-user': requested } = request.headers;
  const [actor] = [forwarded, requested]
    .map((user) => user?.toString())
    .filter((user) => user !== undefined && user !== '');
  const ifMatch = ifMatchOf(request.headers['if-match']);
  return { expectedRevision, ifMatch, actor: actor && [...actor].slice(0, LONGEST_ACTOR).join('') };
}

function ifMatchOf(header: string | undefined): Expected['ifMatch'] {
  if (header === undefined) return undefined;
  const ifMatch = parseIfMatch(header);
  if (ifMatch !== undefined) return ifMatch;
  throw new RequestError('BAD_REQUEST', 'invalid If-Match: send what ETag said, such as "1" with its quotes, or *');
}
