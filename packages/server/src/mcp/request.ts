import type { IncomingHttpHeaders } from 'node:http';
import type { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import type { JsonObject } from '@sluice/protocol/json/parse';
import type { Era } from '@sluice/protocol/mcp/constants';
import type { Batch, Message } from '@sluice/protocol/mcp/message';
import { type Correlation, correlationOf } from '../exchange/correlation.ts';
import type { Filter, FilterRoute } from '../http/chain.ts';
import { RequestContext } from '../http/context.ts';
import type { ErrorOutcome, Outcome } from '../http/outcome.ts';
import { ANONYMOUS, type Principal } from '../identity/principal.ts';
import type { NamespaceState } from '../registry/snapshot.ts';
import type { RequestObservation } from '../telemetry/request-telemetry.ts';
import type { DeferredOutcome } from '../upstreams/downstream.ts';
import type { ResponseWriter } from './response.ts';
import type { ClientSession } from './sessions/sessions.ts';

const NO_CAPABILITIES: JsonObject = {};

/**
 * State of one request to a pipeline listener: an HTTP request, or one message of a batch. Each mutable member names the
 * filter that sets it.
 */
export class McpRequest extends RequestContext {
  /** True for a message of a batch; each message runs through the chain as a request of its own. */
  readonly inBatch: boolean;
  readonly correlation: Correlation;
  readonly principal: Principal;

  /** True if another replica has passed the request on. Set by the listener. */
  viaPeer = false;
  /** True if the body was not read, because the request will be rejected. Set by the listener. */
  isUnread = false;
  /** Parsed body of a POST request. Set by `mcp`. */
  message: Message | undefined = undefined;
  /** Set instead of `message` if the body is a batch, until the session is known to allow batches. Set by `mcp`. */
  batch: Batch | undefined = undefined;
  /** Set by `mcp`. */
  era: Era = 'legacy';
  /** State of the namespace when the request arrived or was evaluated. Set by `service_namespace`, `service_evaluator`. */
  namespace: NamespaceState | undefined = undefined;
  /** Session of a legacy client. Set by `service_namespace`. */
  session: ClientSession | undefined = undefined;
  /** True if evaluators ran for this request: its response must not be cached. Set by `service_evaluator`. */
  evaluated = false;
  /** Names of the tools that `tools/list` returns; all if undefined. Set by `service_evaluator`. */
  onlyTools: ReadonlySet<string> | undefined = undefined;
  /** When it stops to wait for discoveries, in milliseconds of `performance.now()`. Set by `DiscoveryWaits`. */
  waitUntil: number | undefined = undefined;
  /** Capabilities of the client: of its session, or of this request in the modern era. Set by `mcp`, `service_namespace`. */
  capabilities: JsonObject = NO_CAPABILITIES;

  constructor(
    method: string,
    target: string,
    headers: IncomingHttpHeaders,
    body: ChunkBuffer,
    observation?: RequestObservation,
    inBatch = false,
  ) {
    super(method, target, headers, body, observation);
    this.inBatch = inBatch;
    this.correlation = observation ? observation.correlation : correlationOf(headers);
    this.principal = observation ? observation.principal : ANONYMOUS;
  }

  protected override initialMetadata(): [string, string][] {
    const { message, namespace } = this;
    const own: [string, string][] = [];
    if (message && 'method' in message) own.push(['mcp.method', message.method]);
    if (namespace) own.push(['service.namespace', namespace.name]);
    return own;
  }

  /** JSON text of the request id, as sent by the client; `null` if there is none. */
  get idText(): string {
    return this.message && this.message.kind !== 'notification' ? this.message.idText : 'null';
  }
}

/** Outcome of a filter of an MCP listener. `batch`: each message of the batch runs through the whole chain. */
export type McpOutcome = Outcome | DeferredOutcome<ResponseWriter> | Batch;

/** A filter that reads or sets the MCP part of a request. */
export type McpFilter = Filter<McpRequest, McpOutcome>;

/**
 * Returns "not found" for a request whose name the namespace does not serve, and would not after an action has run. The filter
 * itself would respond with the same.
 */
export type FindMissing = (context: McpRequest) => ErrorOutcome | undefined | Promise<ErrorOutcome | undefined>;

/** A filter for the requests with certain JSON-RPC methods, or with all; `findMissing` if they name an entry or a task. */
export interface McpMethodFilter extends FilterRoute<McpFilter> {
  readonly findMissing?: FindMissing | undefined;
}
