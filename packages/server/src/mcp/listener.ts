import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { INVALID_REQUEST, METHOD_NOT_FOUND, POLLING_VERSION, SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import type { RequestHead } from '../exchange/head.ts';
import { type BodyBudget, NO_MEMORY, RETRY_AFTER_SECONDS } from '../http/body-budget.ts';
import { isRejection } from '../http/chain.ts';
import type { ResponseLike } from '../http/context.ts';
import type { CorsHeaders } from '../http/filters/cors.ts';
import { editResponseHead } from '../http/filters/rewrite.ts';
import type { Rejection } from '../http/host-rule.ts';
import { httpProblem } from '../http/outcome.ts';
import { collectBody, drainRequestBody, hasBody, takeSmallBody } from '../http/request-body.ts';
import type { ServerRequest } from '../http/server/request.ts';
import type { ServeRequest } from '../http/server.ts';
import { quotaOwner } from '../http/shares.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { RequestObservation } from '../telemetry/request-telemetry.ts';
import { serveBatch } from './batch.ts';
import { bodyTooLarge } from './methods/parse.ts';
import type { OpenResponses } from './open-responses.ts';
import { type McpFilter, type McpOutcome, McpRequest } from './request.ts';
import { INTERNAL, type OpenStream, ResponseWriter } from './response.ts';
import type { EventStore } from './sessions/event-store.ts';

/** Response of a disconnected client whose request continues: accepts and discards all output. */
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

  uncork(): void {}

  destroy(): void {}

  /** The disconnect has been. */
  on(): void {}

  once(): void {}
}

/** Options of {@link requestHandler}, one object per listener. */
export interface ServingOptions {
  /** The compiled filter chain. */
  readonly chain: McpFilter;
  /** True for a TLS listener. */
  readonly secure: boolean;
  /**
   * Options of a chain with the filter `mcp`, which gets complete bodies and JSON-RPC errors. Undefined for chains that
   * stream bodies.
   */
  readonly mcp: McpServing | undefined;
  readonly log: TargetLogger;
  /** True for requests of other replicas. */
  readonly viaPeer?: boolean;
  /** Target and headers for the chain, where they are not those of the request. */
  readonly view?: RequestView;
  /** CORS headers of responses to requests that do not reach the chain; undefined without any. */
  readonly corsHeaders?: CorsHeaders | undefined;
}

/** Returns a request as the chain sees it. */
export type RequestView = (head: RequestHead) => RequestHead;

/** See {@link ServingOptions}. */
export interface McpServing {
  /** Resumable streams of clients with a session. */
  readonly events: EventStore;
  /** Responses to requests that are executed upstream. */
  readonly openResponses: OpenResponses;
  /** Largest request body, in bytes. */
  readonly maxRequestBytes: number;
  /** Memory for request bodies. */
  readonly bodies: BodyBudget;
  /** Name of the namespace whose endpoint this path is; undefined for other paths. */
  namespaceAt(path: string): string | undefined;
  /** Whether a filter may read the body of a request to this path; otherwise it is rejected without (decisions 10.3). */
  readsBody(path: string): boolean;
  /** Brings the registry up to date with other replicas, in bounded time; undefined without any. */
  readonly recheck?: () => Promise<void> | undefined;
}

const EMPTY = new ChunkBuffer();

/**
 * Creates the request handler of a pipeline listener: it reads the body if the chain needs it, runs the chain and writes the
 * outcome.
 *
 * Part of the hot path.
 */
export function requestHandler(options: ServingOptions): ServeRequest {
  const { mcp } = options;
  return (request, response, observation, rejection) => {
    if (rejection) return reject(options, observation, response, rejection);
    const { headers } = request;
    if (!mcp) return handle(options, observation, request, response, undefined);
    if (hasBody(headers)) {
      const { target } = options.view?.(observation.head) ?? observation.head;
      const query = target.indexOf('?');
      const path = query === -1 ? target : target.slice(0, query);
      if (mcp.readsBody(path)) return receive(options, mcp, path, observation, request, response);
      const refuse = () => handle(options, observation, request, response, undefined, true);
      const rechecked = mcp.recheck?.();
      if (!rechecked) return refuse();
      return void rechecked.then(() =>
        mcp.readsBody(path) ? receive(options, mcp, path, observation, request, response) : refuse(),
      );
    }
    request.resume();
    // With Content-Length: 0 the body is known to be empty; most requests without a body have no such header.
    handle(options, observation, request, response, headers['content-length'] === undefined ? undefined : EMPTY);
  };
}

/** Reads the body of a request, then runs the chain. */
function receive(
  options: ServingOptions,
  mcp: McpServing,
  path: string,
  observation: RequestObservation,
  request: ServerRequest,
  response: ResponseLike,
): void {
  const whole = takeSmallBody(request, mcp.maxRequestBytes);
  if (whole) return handle(options, observation, request, response, whole);
  const { principal, head } = observation;
  const memory = {
    budget: mcp.bodies,
    response,
    holder: () => quotaOwner(mcp.namespaceAt(path) ?? '', principal, head.address),
  };
  collectBody(request, mcp.maxRequestBytes, memory, {
    onBody: (body) => handle(options, observation, request, response, body),
    onTooLarge: () => {
      drainRequestBody(request);
      reject(options, observation, response, { status: 413, reason: bodyTooLarge(mcp.maxRequestBytes) });
    },
    onNoMemory: () => {
      drainRequestBody(request);
      observation.rejected = true;
      const headers = ['Retry-After', RETRY_AFTER_SECONDS, ...corsHeadersOf(options, observation)];
      const client = new ResponseWriter(response, headers, 'null');
      observation.answer = client;
      client.sendError({ code: SERVER_ERROR, message: NO_MEMORY }, 503);
    },
    // The client disconnected before its request was complete.
    onError: () => response.destroy(),
  });
}

/** Responds to a request that did not reach the chain. */
function reject(
  options: ServingOptions,
  observation: RequestObservation,
  response: ResponseLike,
  { status, reason, headers: extra = [], isForeignOrigin = false }: Rejection,
): void {
  observation.rejected = true;
  const cors = isForeignOrigin ? [] : corsHeadersOf(options, observation);
  const client = new ResponseWriter(response, [...extra, ...cors], 'null');
  observation.answer = client;
  if (options.mcp) return client.sendError({ code: INVALID_REQUEST, message: reason }, status);
  const { headers, body } = httpProblem(status, reason);
  client.sendPlain(status, headers, body);
}

function corsHeadersOf({ corsHeaders }: ServingOptions, { head }: RequestObservation): readonly string[] {
  return corsHeaders?.(head.headers.origin) ?? [];
}

/** A request, and its body where that was read. */
interface ReceivedRequest {
  readonly request: ServerRequest;
  readonly body: ChunkBuffer | undefined;
}

function handle(
  options: ServingOptions,
  observation: RequestObservation,
  request: ServerRequest,
  response: ResponseLike,
  body: ChunkBuffer | undefined,
  isUnread = false,
): void {
  const { method, target, headers } = options.view?.(observation.head) ?? observation.head;
  const context = new McpRequest(method, target, headers, body ?? EMPTY, observation);
  context.isUnread = isUnread;
  if (options.viaPeer) context.viaPeer = true;
  if (options.secure) context.scheme = 'https';
  context.localAddress = request.socket.localAddress;
  serve(options, context, response, { request, body });
}

/** `received` is undefined for a message of a batch, which has no request of its own. */
function serve(options: ServingOptions, context: McpRequest, response: ResponseLike, received?: ReceivedRequest): void {
  context.client = response;
  try {
    const outcome = options.chain(context);
    if (!(outcome instanceof Promise)) return respond(options, context, response, outcome, received);
    outcome
      .then((settled) => respond(options, context, response, settled, received))
      .catch((error: unknown) => fail(options, context, response, error, received));
  } catch (error) {
    fail(options, context, response, error, received);
  }
}

function fail(
  options: ServingOptions,
  context: McpRequest,
  response: ResponseLike,
  error: unknown,
  received: ReceivedRequest | undefined,
): void {
  options.log.error('request failed', { error, method: context.metadata.get('mcp.method') });
  // A partial response cannot be replaced: closing the connection shows that it is incomplete.
  if (response.headersSent) response.destroy();
  else respond(options, context, response, internalError(options, context), received);
}

/** Only a JSON-RPC request has an error in the response body; all others have the HTTP status only. */
function internalError({ mcp }: ServingOptions, { message }: McpRequest): McpOutcome {
  if (!mcp) return httpProblem(500, 'internal error');
  return { kind: 'error', error: INTERNAL, status: message?.kind === 'request' ? 200 : 500 };
}

function respond(
  options: ServingOptions,
  context: McpRequest,
  response: ResponseLike,
  outcome: McpOutcome = unhandledOutcome(options, context),
  received?: ReceivedRequest,
): void {
  if (response.destroyed) return continueWithoutClient(context, outcome);
  if (context.observation) context.observation.rejected = isRejection(outcome);
  // Rejected before the chain, or by its first filter.
  if (outcome.kind === 'error' && received && context.responseHeaders.length === 0) {
    context.responseHeaders = options.corsHeaders?.(context.headers.origin) ?? [];
  }
  if (context.headerEdits.length > 0 && !context.inBatch) editResponseHead(response, context.headerEdits);
  if (outcome.kind === 'exchange') {
    // A message of a batch is not an HTTP request that could be proxied.
    if (!received) return respond(options, context, response, unhandledOutcome(options, context));
    return outcome.start(received.request, response, received.body?.concat());
  }
  if (outcome.kind === 'passed') return outcome.start(response, context.body.concat());
  // Drains the unused body, so that the next request can be read.
  if ((!options.mcp || context.isUnread) && received) drainRequestBody(received.request);
  const { idText = context.idText } = outcome.kind === 'error' || outcome.kind === 'deferred' ? outcome : context;
  const client = new ResponseWriter(response, context.responseHeaders, idText, openStream(options, context, outcome));
  if (context.observation) context.observation.answer = client;
  switch (outcome.kind) {
    case 'result':
      return client.sendResult(
        outcome.json,
        outcome.bytes,
        outcome.headers,
        context.inBatch ? undefined : context.headers.accept,
      );
    case 'error':
      return client.sendError(outcome.error, outcome.status);
    case 'plain':
      return client.sendPlain(outcome.status, outcome.headers, outcome.body);
    case 'deferred':
      keepOpen(options, context, client);
      return outcome.start(client);
    case 'batch':
      return serveBatch(context, outcome, response, {
        openResponses: options.mcp?.openResponses,
        serve: (part, target) => serve(options, part, target),
      });
  }
}

/**
 * Handles a request whose client disconnected before the decision. For a legacy client that is no cancellation (mcp 1):
 * its call is executed, although the response cannot be resumed without a stream.
 */
function continueWithoutClient({ era, message, idText }: McpRequest, outcome: McpOutcome): void {
  if (era !== 'legacy' || message?.kind !== 'request' || outcome.kind !== 'deferred') return;
  outcome.start(new ResponseWriter(new NullResponse(), [], idText));
}

/** Outcome of a request that no filter of the chain handled. */
function unhandledOutcome({ mcp }: ServingOptions, { era, metadata }: McpRequest): McpOutcome {
  if (!mcp) return httpProblem(404, 'no filter handles this request');
  const message = `method not found: ${metadata.get('mcp.method')}`;
  return { kind: 'error', error: { code: METHOD_NOT_FOUND, message }, status: era === 'modern' ? 404 : 200 };
}

/** All checks of our own have passed: from here on, the client waits for an upstream. */
function keepOpen({ mcp }: ServingOptions, context: McpRequest, client: ResponseWriter): void {
  const { session, headers, inBatch, observation } = context;
  // The messages of a batch share its response.
  if (!mcp || inBatch) return;
  const isResumable = session !== undefined && session.protocolVersion >= POLLING_VERSION;
  client.keepOpen(mcp.openResponses, headers.accept, observation?.startedAt ?? performance.now(), isResumable);
}

/** Returns the function that opens a resumable stream for the response; undefined if it cannot be resumed. */
function openStream({ mcp }: ServingOptions, context: McpRequest, outcome: McpOutcome): OpenStream | undefined {
  const { session, message, inBatch } = context;
  // The stream of a batch carries the responses to several requests, so it cannot be resumed.
  if (!mcp || outcome.kind !== 'deferred' || !session || message?.kind !== 'request' || inBatch) return undefined;
  return (request) => mcp.events.open(session, request);
}
