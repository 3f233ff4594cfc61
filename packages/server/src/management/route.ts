import type { Operation, RequestBody } from '@sluice/contract';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { readBody } from './body.ts';

/** What an operation's path and query say. */
export interface OperationRequest<Parameter extends string> {
  /** The name in the path, or what stands there in place of one, decoded; empty where the path has none. */
  readonly name: string;
  /** A parameter of the query; of a repeated one the first counts. Unknown ones are ignored (decisions 2.2). */
  query(parameter: Parameter): string | undefined;
}

/** The names of an operation's query parameters. */
type Parameters<Of extends Operation> = keyof NonNullable<Of['query']> & string;

/** Adds the route of an operation that needs no body. */
export function route<Of extends Operation>(
  app: FastifyInstance,
  operation: Of,
  answer: (request: OperationRequest<Parameters<Of>>, reply: FastifyReply) => FastifyReply | Promise<FastifyReply>,
): void {
  add(app, operation, (request, reply) => answer(parametersOf(request), reply));
}

/**
 * Adds the route of an operation with a body, which is read by the operation's own schema: RequestError BAD_REQUEST when
 * it breaks that, before anything else is looked at.
 */
export function routeWithBody<Of extends Operation, Schema extends z.ZodType>(
  app: FastifyInstance,
  operation: Of & { readonly body: RequestBody & { readonly schema: Schema } },
  answer: (
    request: OperationRequest<Parameters<Of>> & { readonly body: z.output<Schema> },
    reply: FastifyReply,
  ) => Promise<FastifyReply>,
): void {
  const { kind, schema, optional = false } = operation.body;
  add(app, operation, async (request, reply) => {
    const body = readBody(request, kind, schema, optional);
    return answer({ ...parametersOf(request), body }, reply);
  });
}

/** No path has more than one parameter. */
type ByName = { Params: Readonly<Record<string, string>> };

function add(
  app: FastifyInstance,
  { method, path }: Operation,
  handler: (request: FastifyRequest<ByName>, reply: FastifyReply) => FastifyReply | Promise<FastifyReply>,
): void {
  app.route<ByName>({ method, url: path.replaceAll(/\{(\w+)\}/g, ':$1'), handler });
}

function parametersOf(request: FastifyRequest<ByName>): OperationRequest<string> {
  const at = request.url.indexOf('?');
  const query = new URLSearchParams(at === -1 ? '' : request.url.slice(at + 1));
  const [name = ''] = Object.values(request.params);
  return { name, query: (parameter) => query.get(parameter) ?? undefined };
}
