import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ERROR_STATUS, type ErrorCode, type Operation, type RequestBody, validate } from '@sluice/contract';
import { isJsonObject, type JsonValue, parseLossless } from '@sluice/protocol/json/parse';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { PlainOutcome } from '../http/context.ts';

/** A request that the API itself refuses. The message is answered, so it names what to do and carries no internals. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly code: ErrorCode;
  readonly details: unknown;

  constructor(code: ErrorCode, message: string, details?: unknown) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** The envelope around a payload (specification, "Response envelope"). Both are JSON text. */
function envelope(data: string, warnings?: string): string {
  return `{"data":${data},"error":null${warnings === undefined ? '' : `,"warnings":${warnings}`}}`;
}

/** The envelope around an error (decisions 2.1). */
export function errorEnvelope(code: ErrorCode, message: string, details?: unknown): string {
  return JSON.stringify({ data: null, error: { code, message, ...(details !== undefined && { details }) } });
}

/** An error as an answer that is not Fastify's to write. */
export function plainError(code: ErrorCode, message: string): PlainOutcome {
  const headers = ['Content-Type', 'application/json'];
  return { kind: 'plain', status: ERROR_STATUS[code], headers, body: errorEnvelope(code, message) };
}

/** Answers with a payload that is JSON text already: entries keep the spelling of their numbers. */
export function sendData(reply: FastifyReply, data: string, status = 200): FastifyReply {
  return sendJson(reply, envelope(data), status);
}

/** Answers with a payload, and with warnings beside it when there are any (decisions 2.1). Both are JSON text. */
export function sendWarned(reply: FastifyReply, data: string, warnings: string | undefined): FastifyReply {
  return sendJson(reply, envelope(data, warnings), 200);
}

/** Answers with an error. */
export function sendError(reply: FastifyReply, code: ErrorCode, message: string, details?: unknown): FastifyReply {
  return sendJson(reply, errorEnvelope(code, message, details), ERROR_STATUS[code]);
}

/** Items rendered in one turn of the event loop: about a millisecond of work. */
const SLICE = 200;

/**
 * Answers with a list. A long one is rendered a slice per turn while it is sent, so that listing 100,000 tools holds up
 * nobody else's request.
 */
export function sendList<T>(reply: FastifyReply, items: readonly T[], render: (item: T) => string): FastifyReply {
  if (items.length <= SLICE) return sendData(reply, `[${items.map(render).join(',')}]`);
  return reply.type('application/json').send(Readable.from(slices(items, render), { objectMode: false }));
}

async function* slices<T>(items: readonly T[], render: (item: T) => string): AsyncGenerator<Buffer> {
  yield Buffer.from('{"data":[');
  for (let at = 0; at < items.length; at += SLICE) {
    const text = items
      .slice(at, at + SLICE)
      .map(render)
      .join(',');
    yield Buffer.from(at === 0 ? text : `,${text}`);
    await nextTurn();
  }
  yield Buffer.from('],"error":null}');
}

function sendJson(reply: FastifyReply, text: string, status: number): FastifyReply {
  // As bytes, because Fastify adds a charset to text, which JSON has not got.
  return reply.code(status).type('application/json').send(Buffer.from(text));
}

/** Levels of nesting in a body. What is deeper than any schema of a tool could exhaust the stack of whoever reads it. */
const DEEPEST = 256;

/**
 * The request's body as the schema's type. `kind` names what it describes. RequestError BAD_REQUEST when it is missing
 * (one that is `optional` is `{}` then), is no JSON object in UTF-8, or breaks the schema; the message then names the
 * first member concerned and `details` has all of them (decisions 2.1, 4.1).
 */
export function readBody<T extends z.ZodType>(
  request: FastifyRequest,
  kind: string,
  schema: T,
  optional = false,
): z.output<T> {
  const { body } = request;
  const text = Buffer.isBuffer(body) ? textOf(body, kind) : '';
  const missing = text.trim() === '';
  if (missing && !optional) throw new RequestError('BAD_REQUEST', 'request body required');
  const result = validate(schema, missing ? {} : parse(text, kind));
  if ('value' in result) return result.value;
  const [first] = result.issues;
  throw new RequestError('BAD_REQUEST', `invalid ${kind}: ${first?.path} ${first?.message}`, result.issues);
}

function textOf(body: Buffer, kind: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch {
    throw unreadable(kind, 'not valid UTF-8');
  }
}

function parse(text: string, kind: string): JsonValue {
  let value: JsonValue;
  try {
    value = parseLossless(text);
  } catch (error) {
    // Besides a SyntaxError, nesting beyond the parser's own stack ends here.
    throw unreadable(kind, error instanceof SyntaxError ? error.message : 'nested too deeply');
  }
  if (!isJsonObject(value)) throw unreadable(kind, 'not an object');
  if (isDeeperThan(value, DEEPEST)) throw unreadable(kind, `nested deeper than ${DEEPEST} levels`);
  return value;
}

function unreadable(kind: string, reason: string): RequestError {
  return new RequestError('BAD_REQUEST', `invalid ${kind} JSON: ${reason}`);
}

function isDeeperThan(value: JsonValue, levels: number): boolean {
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1));
}

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
