import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { acceptsJson } from '@sluice/protocol/mcp/accept';
import { INVALID_REQUEST, METHOD_NOT_FOUND, SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import { type BodyBudget, NO_MEMORY, RETRY_AFTER_SECONDS, SMALL_BODY_BYTES } from '../http/body-budget.ts';
import { isRejection } from '../http/chain.ts';
import { collectBody, drainRequestBody, hasBody } from '../http/collect-body.ts';
import { NO_BODY, type ResponseLike } from '../http/exchange.ts';
import type { CorsHeaders } from '../http/filters/cors.ts';
import { editResponseHead } from '../http/filters/rewrite.ts';
import type { Rejection } from '../http/host-rule.ts';
import { httpProblem } from '../http/outcome.ts';
import { quotaOwner } from '../http/quota.ts';
import { BLOCKED, type ServeRequest } from '../http/server.ts';
import type { Blocks } from '../identity/blocks.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import { type ClientFacts, clientFacts } from '../upstreams/client-facts.ts';
import type { DeferredOutcome } from '../upstreams/deferred-outcome.ts';
import { serveBatch } from './batch.ts';
import { ClientSink } from './client-sink.ts';
import type { McpExchange, McpFilter, McpOutcome } from './exchange.ts';
import { bodyTooLarge } from './methods/parse.ts';
import type { OpenResponses } from './open-responses.ts';
import type { ProtectedResource } from './protected-resource.ts';
import { INTERNAL, ResponseWriter } from './response.ts';
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

  /** Never called back: the client has already disconnected. */
  on(): void {}

  once(): void {}
}

/** Options of {@link requestHandler}, one object per listener. */
export interface ServingOptions {
  /** The compiled filter chain. */
  readonly chain: McpFilter;
  /**
   * Options of a chain with the filter `mcp`, which gets complete bodies and JSON-RPC errors. Undefined for chains that
   * stream bodies.
   */
  readonly mcp: McpServing | undefined;
  readonly log: TargetLogger;
  /** The blocked principals: a request may wait, for its body or an evaluator, or be a message of a batch. */
  readonly blocks?: Pick<Blocks, 'isBlocked'> | undefined;
  /** Whether the credential of a request still counts; it always does by default. */
  readonly accepts?: (exchange: McpExchange) => boolean;
  /** Reports the messages of batches. */
  readonly telemetry: Pick<RequestTelemetry, 'begin' | 'end'>;
  /** Sets path, query and headers for the chain, where they are not those of the request. */
  readonly view?: (exchange: McpExchange) => void;
  /** CORS headers of responses to requests that do not reach the chain; undefined without any. */
  readonly corsHeaders?: CorsHeaders | undefined;
  /** Tells clients where they get a token; undefined where they cannot learn it. */
  readonly protectedResource?: ProtectedResource | undefined;
}

/** See {@link ServingOptions}. */
export interface McpServing {
  /** Resumable streams of clients with a session. */
  readonly events: EventStore;
  /** Responses to requests that are executed upstream. */
  readonly openResponses: OpenResponses;
  readonly maxRequestBytes: number;
  readonly bodies: BodyBudget;
  /** Name of the namespace whose endpoint this path is; undefined for other paths. */
  namespaceAt(path: string): string | undefined;
  /** Whether a filter may read the body of a request to this path; otherwise it is rejected without. */
  readsBody(path: string): boolean;
  /** Brings the registry up to date with other replicas, in bounded time; undefined without any. */
  readonly recheck?: () => Promise<void> | undefined;
}

const NONE: readonly never[] = [];

/** Lets scripts of browsers read the challenge. */
export const EXPOSED_CHALLENGE: readonly string[] = ['Access-Control-Expose-Headers', 'WWW-Authenticate'];

/** The body of a request that is known to have none. */
const EMPTY = new ChunkBuffer();

/**
 * Creates the request handler of a pipeline listener: it reads the body if the chain needs it, runs the chain and writes the
 * outcome.
 *
 * Part of the hot path.
 */
export function requestHandler(serving: ServingOptions): ServeRequest<McpExchange> {
  const { mcp, view, protectedResource, corsHeaders } = serving;
  return (exchange, rejection) => {
    const { head } = exchange;
    if (rejection) return reject(serving, exchange, protectedResource?.challenge(rejection, head.target) ?? rejection);
    view?.(exchange);
    if (!mcp) return serve(serving, exchange);
    const { request, path } = exchange;
    const metadata = protectedResource?.respond(head.method, path);
    if (metadata) {
      exchange.isUnread = true;
      exchange.responseHeaders = corsHeaders?.(head.headers.origin) ?? NONE;
      return respond(serving, exchange, metadata);
    }
    if (!hasBody(request.head)) {
      request.body.resume();
      // With Content-Length: 0 the body is known to be empty; most requests without a body have no such header.
      if (request.head.contentLength === 0) exchange.body = EMPTY;
      return serve(serving, exchange);
    }
    // A preflight that is answered is not authenticated: whether its body is read must not tell which namespaces there are.
    if (head.method === 'OPTIONS' && corsHeaders) return serveUnread(serving, exchange);
    if (mcp.readsBody(path)) return receive(serving, exchange, mcp);
    const rechecked = mcp.recheck?.();
    if (!rechecked) return serveUnread(serving, exchange);
    void rechecked.then(() => (mcp.readsBody(path) ? receive(serving, exchange, mcp) : serveUnread(serving, exchange)));
  };
}

/** Reads the body of a request, then runs the chain. */
function receive(serving: ServingOptions, exchange: McpExchange, mcp: McpServing): void {
  const { request, response, path } = exchange;
  // A small body that has arrived with its head, as nearly all have.
  const whole = request.body.take(Math.min(mcp.maxRequestBytes, SMALL_BODY_BYTES));
  if (whole) {
    exchange.body = whole;
    return serve(serving, exchange);
  }
  const memory = {
    budget: mcp.bodies,
    response,
    owner: () => quotaOwner(mcp.namespaceAt(path) ?? '', exchange.principal, exchange.head.address),
  };
  collectBody(request, mcp.maxRequestBytes, memory, {
    onBody: (body) => {
      exchange.body = body;
      serve(serving, exchange);
    },
    onTooLarge: () => reject(serving, exchange, { status: 413, reason: bodyTooLarge(mcp.maxRequestBytes) }),
    onNoMemory: () => {
      const headers = ['Retry-After', RETRY_AFTER_SECONDS];
      reject(serving, exchange, { status: 503, reason: NO_MEMORY, headers }, SERVER_ERROR);
    },
    // No callback for a client that disconnects before its request is complete.
  });
}

/** Runs the chain for a request that it will reject, whose body is not read. */
function serveUnread(serving: ServingOptions, exchange: McpExchange): void {
  exchange.isUnread = true;
  serve(serving, exchange);
}

/** Responds to a request that did not reach the chain, with this code of JSON-RPC. */
function reject(serving: ServingOptions, exchange: McpExchange, rejection: Rejection, code = INVALID_REQUEST): void {
  const { status, reason, headers: extra = [], isForeignOrigin } = rejection;
  const { head, facts, response } = exchange;
  const cors = (!isForeignOrigin && serving.corsHeaders?.(head.headers.origin)) || [];
  const exposed = status === 401 && cors.length > 0 ? EXPOSED_CHALLENGE : NONE;
  const writer = new ResponseWriter(response, [...extra, ...cors, ...exposed], 'null');
  facts.rejected = true;
  if (serving.mcp) {
    const error = { code, message: reason };
    facts.error = error;
    return writer.sendError(error, status);
  }
  const { headers, body } = httpProblem(status, reason);
  writer.sendPlain(status, headers, body);
}

/** Runs the chain for a request, or for a message of a batch, and writes the outcome. */
function serve(serving: ServingOptions, exchange: McpExchange): void {
  if (serving.blocks?.isBlocked(exchange.principal)) return rejectBlocked(serving, exchange);
  try {
    const outcome = serving.chain(exchange);
    if (!(outcome instanceof Promise)) return respond(serving, exchange, outcome);
    outcome
      .then((settled) => respond(serving, exchange, settled))
      .catch((error: unknown) => fail(serving, exchange, error));
  } catch (error) {
    fail(serving, exchange, error);
  }
}

/** Responds to what a principal had requested before it was blocked, unless its client has disconnected. */
function rejectBlocked(serving: ServingOptions, exchange: McpExchange): void {
  exchange.facts.rejection = { evaluator: undefined, reason: BLOCKED.cause };
  if (!exchange.response.destroyed) reject(serving, exchange, BLOCKED);
}

function fail(serving: ServingOptions, exchange: McpExchange, error: unknown): void {
  serving.log.error('request failed', { error, method: exchange.metadata.get('mcp.method') });
  // A partial response cannot be replaced: closing the connection shows that it is incomplete.
  if (exchange.response.headersSent) return void exchange.response.destroy();
  if (!serving.mcp) return respond(serving, exchange, httpProblem(500, 'internal error'));
  // Only for a JSON-RPC request the error is in the body alone.
  const status = exchange.message?.kind === 'request' ? 200 : 500;
  respond(serving, exchange, { kind: 'error', error: INTERNAL, status });
}

function respond(
  serving: ServingOptions,
  exchange: McpExchange,
  outcome: McpOutcome = unhandledOutcome(serving, exchange),
): void {
  const { head, facts, request, response } = exchange;
  if (serving.blocks?.isBlocked(exchange.principal)) return rejectBlocked(serving, exchange);
  if (response.destroyed) return continueWithoutClient(serving, exchange, outcome);
  facts.rejected = isRejection(outcome);
  // Rejected before the chain, or by its first filter.
  if (outcome.kind === 'error' && !head.inBatch && exchange.responseHeaders.length === 0) {
    exchange.responseHeaders = serving.corsHeaders?.(exchange.headers.origin) ?? [];
  }
  if (exchange.headerEdits.length > 0 && !head.inBatch) editResponseHead(response, exchange.headerEdits);
  if (outcome.kind === 'proxied') {
    // A message of a batch is not an HTTP request that could be proxied.
    if (head.inBatch) return respond(serving, exchange, unhandledOutcome(serving, exchange));
    return outcome.start(request, response, exchange.body === NO_BODY ? undefined : exchange.body.concat());
  }
  if (outcome.kind === 'handed_off') return outcome.start(request, response, exchange.body.concat());
  // Drains the unused body, so that the next request can be read.
  if ((!serving.mcp || exchange.isUnread) && !head.inBatch) drainRequestBody(request);
  if (outcome.kind === 'deferred') return start(serving, exchange, outcome);
  const { idText = exchange.idText } = outcome.kind === 'error' ? outcome : exchange;
  const writer = new ResponseWriter(response, exchange.responseHeaders, idText);
  switch (outcome.kind) {
    case 'result':
      if (!head.inBatch && !acceptsJson(exchange.headers.accept)) writer.startStream(outcome.headers);
      return writer.sendResult(outcome);
    case 'error':
      facts.error = outcome.error;
      return writer.sendError(outcome.error, outcome.status);
    case 'plain':
      return writer.sendPlain(outcome.status, outcome.headers, outcome.body);
    case 'batch':
      return serveBatch(exchange, outcome, {
        openResponses: serving.mcp?.openResponses,
        telemetry: serving.telemetry,
        serve: (member) => serve(serving, member),
      });
  }
}

/**
 * Handles a request whose client disconnected before the decision. For a legacy client that is no cancellation: its call is
 * executed, although the response cannot be resumed without a stream.
 */
function continueWithoutClient({ accepts }: ServingOptions, exchange: McpExchange, outcome: McpOutcome): void {
  const { era, message, idText, request } = exchange;
  if (request.isRevoked || era !== 'legacy' || message?.kind !== 'request' || outcome.kind !== 'deferred') return;
  // It was no admitted request any more when others were ended.
  if (accepts?.(exchange) === false) return;
  outcome.start(new ClientSink(new ResponseWriter(new NullResponse(), [], idText), clientOf(exchange, outcome)));
}

/** Starts what is executed upstream. All checks of our own have passed: from here on, the client waits. */
function start({ mcp }: ServingOptions, exchange: McpExchange, outcome: DeferredOutcome<ClientSink>): void {
  const { response, responseHeaders, session, message, head } = exchange;
  const client = clientOf(exchange, outcome);
  const writer = new ResponseWriter(response, responseHeaders, client.idText);
  // The messages of a batch share its response, which cannot be resumed.
  if (!mcp || head.inBatch) return outcome.start(new ClientSink(writer, client));
  if (session && message?.kind === 'request') {
    const openStream = () => mcp.events.open(session, writer.idText);
    writer.openStream = openStream;
  }
  outcome.start(new ClientSink(writer, client, mcp.openResponses.keepOpen(writer, client, head.startedAt)));
}

/** Returns the facts of the client that gets the response. */
function clientOf(exchange: McpExchange, { idText }: DeferredOutcome<ClientSink>): ClientFacts {
  const client = exchange.client ?? clientFacts(exchange, NONE);
  return idText === undefined ? client : { ...client, idText };
}

/** Outcome of a request that no filter of the chain handled. */
function unhandledOutcome({ mcp }: ServingOptions, { era, metadata }: McpExchange): McpOutcome {
  if (!mcp) return httpProblem(404, 'no filter handles this request');
  const message = `method not found: ${metadata.get('mcp.method')}`;
  return { kind: 'error', error: { code: METHOD_NOT_FOUND, message }, status: era === 'modern' ? 404 : 200 };
}
