import type { IncomingMessage, ServerResponse } from 'node:http';
import { INVALID_REQUEST, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { isRejection } from '../http/chain.ts';
import type { ResponseLike } from '../http/context.ts';
import { editResponseHead } from '../http/filters/rewrite.ts';
import type { HostOriginGuard } from '../http/host-origin-guard.ts';
import { httpProblem } from '../http/outcome.ts';
import { collectBody, drainRequestBody, hasBody, loggedStatus } from '../http/request-body.ts';
import type { Refusal } from '../http/server.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { ObserveRequest, RequestObservation } from '../telemetry/request-telemetry.ts';
import { serveBatch } from './batch.ts';
import { type McpFilter, type McpOutcome, McpRequest } from './request.ts';
import { INTERNAL, type OpenStream, ResponseWriter } from './response.ts';
import type { EventStore } from './sessions/resumable-streams.ts';

/** In the place of a client that has left, where what it asked for goes on: takes everything, and nobody hears of it. */
export class NullResponse implements ResponseLike {
  readonly destroyed = true;
  headersSent = false;
  writableEnded = false;

  writeHead(): void {
    this.headersSent = true;
  }

  write(): boolean {
    return true;
  }

  end(): void {
    this.writableEnded = true;
  }

  cork(): void {}

  destroy(): void {}

  /** That it has left is told whoever asks, as of a client that leaves later: not before they are ready for it. */
  on(event: 'close' | 'drain', listener: () => void): void {
    if (event === 'close') process.nextTick(listener);
  }

  once(event: 'close' | 'drain', listener: () => void): void {
    this.on(event, listener);
  }
}

/** Options of {@link serveRequest}, one object per listener. */
export interface ServingOptions {
  /** The compiled filter chain. */
  readonly chain: McpFilter;
  readonly guard: HostOriginGuard;
  /** True for a TLS listener. */
  readonly secure: boolean;
  /**
   * Options of a chain with the filter `mcp`, which gets complete bodies and JSON-RPC errors. Undefined for chains that
   * stream bodies.
   */
  readonly mcp: McpServing | undefined;
  readonly observe: ObserveRequest;
  readonly log: TargetLogger;
}

/** See {@link ServingOptions}. */
export interface McpServing {
  /** Resumable streams of clients with a session. */
  readonly events: EventStore;
  /** Largest request body, in bytes. */
  readonly maxRequestBytes: number;
}

const EMPTY = Buffer.alloc(0);

/**
 * Serves a request of a pipeline listener: reads the body if the chain needs it, runs the chain and writes the outcome.
 * `unserved`: why the server rejects the request.
 *
 * Part of the hot path: plain `node:http` serves lists as fast as a proxy written in C; a framework costs at least a third
 * of that.
 */
export function serveRequest(
  options: ServingOptions,
  request: IncomingMessage,
  response: ServerResponse,
  unserved?: Refusal,
): void {
  const { method = '', url: target = '/', headers, socket } = request;
  const observation = options.observe({ method, target, headers, client: socket.remoteAddress, inBatch: false });
  response.on('close', () => observation.end(loggedStatus(response), response.writableFinished));
  if (unserved) return refuse(options, observation, response, unserved.status, unserved.reason);
  const refusal = options.guard(socket.localAddress, headers.host, headers.origin);
  if (refusal) {
    drainRequestBody(request, response);
    return refuse(options, observation, response, refusal.status, refusal.reason);
  }
  if (!options.mcp) return handle(options, observation, request, response, undefined);
  if (hasBody(headers)) return readBody(options, options.mcp, observation, request, response);
  request.resume();
  // With Content-Length: 0 the body is known to be empty; most requests without a body have no such header.
  handle(options, observation, request, response, headers['content-length'] === undefined ? undefined : EMPTY);
}

/** Reads the body, then runs the chain. A body over the limit is rejected as soon as it is known. */
function readBody(
  options: ServingOptions,
  { maxRequestBytes: limit }: McpServing,
  observation: RequestObservation,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  collectBody(request, limit, {
    onBody: (body) => handle(options, observation, request, response, body),
    onTooLarge: () => {
      drainRequestBody(request, response);
      refuse(options, observation, response, 413, 'request body too large');
    },
    // The client disconnected before its request was complete.
    onError: () => response.destroy(),
  });
}

/** Responds to a request that did not reach the chain. */
function refuse(
  { mcp }: ServingOptions,
  observation: RequestObservation,
  response: ServerResponse,
  status: number,
  message: string,
): void {
  observation.rejected = true;
  const client = new ResponseWriter(response, [], 'null');
  observation.answer = client;
  if (mcp) return client.sendError({ code: INVALID_REQUEST, message }, status);
  const { headers, body } = httpProblem(status, message);
  client.sendPlain(status, headers, body);
}

/** A request, and its body where that was read. */
interface Received {
  readonly request: IncomingMessage;
  readonly body: Buffer | undefined;
}

function handle(
  options: ServingOptions,
  observation: RequestObservation,
  request: IncomingMessage,
  response: ServerResponse,
  body: Buffer | undefined,
): void {
  const { method, target, headers } = observation.request;
  const context = new McpRequest(method, target, headers, body ?? EMPTY, observation);
  if (options.secure) context.scheme = 'https';
  serve(options, context, response, { request, body });
}

/** `received` is undefined for a message of a batch, which has no request of its own. */
function serve(options: ServingOptions, context: McpRequest, response: ResponseLike, received?: Received): void {
  context.client = response;
  const done = (outcome: McpOutcome | undefined): void => answer(options, context, response, outcome, received);
  const fail = (error: unknown): void => {
    options.log.error('request failed', { error, method: context.metadata.get('mcp.method') });
    // Half an answer cannot be taken back: the connection says that it is one.
    if (response.headersSent) response.destroy();
    else done(internalError(options, context));
  };
  try {
    const outcome = options.chain(context);
    if (!(outcome instanceof Promise)) return done(outcome);
    outcome.then(done).catch(fail);
  } catch (error) {
    fail(error);
  }
}

/** Only a JSON-RPC request can be told so in its answer: all else goes by the status. */
function internalError({ mcp }: ServingOptions, { message }: McpRequest): McpOutcome {
  if (!mcp) return httpProblem(500, 'internal error');
  return { kind: 'error', error: INTERNAL, status: message?.kind === 'request' ? 200 : 500 };
}

function answer(
  options: ServingOptions,
  context: McpRequest,
  response: ResponseLike,
  outcome: McpOutcome = unanswered(options, context),
  received?: Received,
): void {
  if (response.destroyed) return carryOn(context, outcome);
  if (context.observation) context.observation.rejected = isRejection(outcome);
  if (context.headerEdits.length > 0 && !context.inBatch) editResponseHead(response, context.headerEdits);
  if (outcome.kind === 'exchange') {
    // One message of a batch is no HTTP request that could be sent on.
    if (!received) return answer(options, context, response, unanswered(options, context));
    return outcome.start(received.request, response, received.body);
  }
  // A body that nobody wants is not left in the way of the next request.
  if (!options.mcp && received) drainRequestBody(received.request, response);
  const idText = outcome.kind === 'error' && outcome.idText !== undefined ? outcome.idText : context.idText;
  const client = new ResponseWriter(response, context.responseHeaders, idText, openStream(options, context, outcome));
  if (context.observation) context.observation.answer = client;
  switch (outcome.kind) {
    case 'result':
      return client.sendResult(outcome.json, outcome.bytes, outcome.headers);
    case 'error':
      return client.sendError(outcome.error, outcome.status);
    case 'plain':
      return client.sendPlain(outcome.status, outcome.headers, outcome.body);
    case 'deferred':
      return outcome.start(client);
    case 'batch':
      return serveBatch(context, outcome, response, (part, target) => serve(options, part, target));
  }
}

/**
 * What becomes of a request whose client left before it was decided on. A legacy client has not cancelled by that (mcp 1):
 * its call is carried out, although it cannot come back for the answer, since it was told of no stream.
 */
function carryOn({ era, message, idText }: McpRequest, outcome: McpOutcome): void {
  if (era !== 'legacy' || message?.kind !== 'request' || outcome.kind !== 'deferred') return;
  outcome.start(new ResponseWriter(new NullResponse(), [], idText));
}

/** The outcome of a request that came to the end of the chain. */
function unanswered({ mcp }: ServingOptions, { era, metadata }: McpRequest): McpOutcome {
  if (!mcp) return httpProblem(404, 'nothing answers this request');
  const message = `method not found: ${metadata.get('mcp.method')}`;
  return { kind: 'error', error: { code: METHOD_NOT_FOUND, message }, status: era === 'modern' ? 404 : 200 };
}

/** How the answer's stream is made resumable, where it can be. */
function openStream({ mcp }: ServingOptions, context: McpRequest, outcome: McpOutcome): OpenStream | undefined {
  const { session, message, inBatch } = context;
  // The stream that the answer to a batch may be carries those to several requests: it cannot be taken up again.
  if (!mcp || outcome.kind !== 'deferred' || !session || message?.kind !== 'request' || inBatch) return undefined;
  return (request) => mcp.events.open(session.id, request);
}
