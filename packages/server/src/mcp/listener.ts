import type { IncomingMessage, ServerResponse } from 'node:http';
import { INVALID_REQUEST, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import type { Chain } from '../http/chain.ts';
import { httpProblem, type Outcome, RequestContext, type ResponseLike } from '../http/context.ts';
import { editHead } from '../http/filters/rewrite.ts';
import type { Guard } from '../http/host-origin-guard.ts';
import { answeredStatus, collectBody, drainRequestBody, hasBody } from '../http/request-body.ts';
import type { Refusal } from '../http/server.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { ObserveRequest, RequestObservation } from '../telemetry/request-telemetry.ts';
import { serveBatch } from './batch.ts';
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

/** How the requests of one listener are served. */
export interface ServingOptions {
  /** The compiled chain that every request goes through. */
  readonly chain: Chain;
  readonly guard: Guard;
  /** Whether the listener speaks TLS. */
  readonly secure: boolean;
  /**
   * What a chain needs that has the filter `mcp`: bodies are held whole, and what goes wrong is said in JSON-RPC.
   * Undefined for chains that pass bodies on as they come.
   */
  readonly mcp: McpServing | undefined;
  readonly observe: ObserveRequest;
  readonly log: TargetLogger;
}

/** See {@link ServingOptions}. */
export interface McpServing {
  /** Where the streams of clients with a session are kept, for them to come back to. */
  readonly events: EventStore;
  /** Bound on a request's body, in bytes. */
  readonly maxRequestBytes: number;
}

const EMPTY = Buffer.alloc(0);

/**
 * What a listener of the pipeline does with each request, unless it has been found that it is not to be served: reads the
 * body where the chain is to have it, runs the chain and writes its outcome.
 *
 * Part of the hot path: measured, plain `node:http` answers a list at the speed of a proxy written in C, and every
 * framework in between costs a third of that or more.
 */
export function serveRequest(
  options: ServingOptions,
  request: IncomingMessage,
  response: ServerResponse,
  unserved?: Refusal,
): void {
  const { method = '', url: target = '/', headers, socket } = request;
  const observation = options.observe({ method, target, headers, client: socket.remoteAddress, inBatch: false });
  response.on('close', () => observation.end(answeredStatus(response), response.writableFinished));
  if (unserved) return refuse(options, observation, response, unserved.status, unserved.reason);
  const refusal = options.guard(socket.localAddress, headers.host, headers.origin);
  if (refusal) {
    drainRequestBody(request, response);
    return refuse(options, observation, response, refusal.status, refusal.reason);
  }
  if (!options.mcp) return handle(options, observation, request, response, undefined);
  if (hasBody(headers)) return readBody(options, options.mcp, observation, request, response);
  request.resume();
  // A body that is said to be empty is known; most requests say nothing of one.
  handle(options, observation, request, response, headers['content-length'] === undefined ? undefined : EMPTY);
}

/** Collects the body and hands it on. A body over the limit is refused as soon as that is known. */
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
    // A client that leaves in the middle of its body has asked nothing.
    onError: () => response.destroy(),
  });
}

/** Answers a request that did not get as far as the chain. */
function refuse(
  { mcp }: ServingOptions,
  observation: RequestObservation,
  response: ServerResponse,
  status: number,
  message: string,
): void {
  observation.refused();
  const client = new ResponseWriter(response, [], 'null');
  observation.answer = client;
  if (mcp) return client.error({ code: INVALID_REQUEST, message }, status);
  const { headers, body } = httpProblem(status, message);
  client.plain(status, headers, body);
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
  const context = new RequestContext(method, target, headers, body ?? EMPTY, observation);
  if (options.secure) context.scheme = 'https';
  serve(options, context, response, { request, body });
}

/** `received` is undefined for a message of a batch, which has no request of its own. */
function serve(options: ServingOptions, context: RequestContext, response: ResponseLike, received?: Received): void {
  context.client = response;
  const done = (outcome: Outcome | undefined): void => answer(options, context, response, outcome, received);
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
function internalError({ mcp }: ServingOptions, { message }: RequestContext): Outcome {
  if (!mcp) return httpProblem(500, 'internal error');
  return { kind: 'error', error: INTERNAL, status: message?.kind === 'request' ? 200 : 500 };
}

function answer(
  options: ServingOptions,
  context: RequestContext,
  response: ResponseLike,
  outcome: Outcome = unanswered(options, context),
  received?: Received,
): void {
  if (response.destroyed) return carryOn(context, outcome);
  context.observation?.decided(outcome);
  if (context.headerEdits.length > 0 && !context.inBatch) editHead(response, context.headerEdits);
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
      return client.result(outcome.json, outcome.bytes, outcome.headers);
    case 'error':
      return client.error(outcome.error, outcome.status);
    case 'plain':
      return client.plain(outcome.status, outcome.headers, outcome.body);
    case 'stream':
      return outcome.start(client);
    case 'batch':
      return serveBatch(context, outcome, response, (part, target) => serve(options, part, target));
  }
}

/**
 * What becomes of a request whose client left before it was decided on. A legacy client has not cancelled by that (mcp 1):
 * its call is carried out, although it cannot come back for the answer, since it was told of no stream.
 */
function carryOn({ era, message, idText }: RequestContext, outcome: Outcome): void {
  if (era !== 'legacy' || message?.kind !== 'request' || outcome.kind !== 'stream') return;
  outcome.start(new ResponseWriter(new NullResponse(), [], idText));
}

/** The outcome of a request that came to the end of the chain. */
function unanswered({ mcp }: ServingOptions, { era, metadata }: RequestContext): Outcome {
  if (!mcp) return httpProblem(404, 'nothing answers this request');
  const message = `method not found: ${metadata.get('mcp.method')}`;
  return { kind: 'error', error: { code: METHOD_NOT_FOUND, message }, status: era === 'modern' ? 404 : 200 };
}

/** How the answer's stream is made resumable, where it can be. */
function openStream({ mcp }: ServingOptions, context: RequestContext, outcome: Outcome): OpenStream | undefined {
  const { session, message, inBatch } = context;
  // The stream that the answer to a batch may be carries those to several requests: it cannot be taken up again.
  if (!mcp || outcome.kind !== 'stream' || !session || message?.kind !== 'request' || inBatch) return undefined;
  return (request) => mcp.events.open(session.id, request);
}
