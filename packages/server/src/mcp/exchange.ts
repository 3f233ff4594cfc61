import type { JsonObject } from '@sluice/protocol/json/parse';
import type { Era } from '@sluice/protocol/mcp/constants';
import type { Batch, Message, RequestMessage } from '@sluice/protocol/mcp/message';
import type { Filter } from '../http/chain.ts';
import { HttpExchange } from '../http/exchange.ts';
import type { ErrorOutcome, Outcome } from '../http/outcome.ts';
import type { NamespaceState } from '../registry/snapshot.ts';
import type { ClientFacts } from '../upstreams/client-facts.ts';
import type { DeferredOutcome } from '../upstreams/deferred-outcome.ts';
import type { ClientSink } from './client-sink.ts';
import type { ClientSession } from './sessions/sessions.ts';

const NO_CAPABILITIES: JsonObject = {};

/** An exchange of a listener that may serve MCP. Each mutable member names the filter that sets it. */
export class McpExchange extends HttpExchange {
  /** True if the body was not read, because the request will be rejected. Set by the listener. */
  isUnread = false;
  /** Parsed body of a POST request. Set by `mcp`; `service_namespace` replaces the call of an app's own tool. */
  override message: Message | undefined = undefined;
  /** Set instead of `message` if the body is a batch, until the session is known to allow batches. Set by `mcp`. */
  batch: Batch | undefined = undefined;
  /** Set by `mcp`. */
  override era: Era = 'legacy';
  /** State of the namespace when the request arrived or was evaluated. Set by `service_namespace`, `service_evaluator` and `DiscoveryWaits`. */
  override namespace: NamespaceState | undefined = undefined;
  /** Session of a legacy client. Set by `service_namespace`. */
  override session: ClientSession | undefined = undefined;
  /** True if evaluators ran for this request: its response must not be cached. Set by `service_evaluator`. */
  evaluated = false;
  /** Names to which evaluators limit the visible tools of a list; undefined: all. Set by `service_evaluator`. */
  selection: ReadonlySet<string> | undefined = undefined;
  /** Deadline of waits for discoveries, in milliseconds of `performance.now()`. Set by `DiscoveryWaits`. */
  waitUntil: number | undefined = undefined;
  /** Capabilities of the client: of its session, or of this request in the modern era. Set by `mcp`, `service_namespace`. */
  capabilities: JsonObject = NO_CAPABILITIES;
  /** Facts of the client for what is executed upstream. Set by the filter that executes it. */
  client: ClientFacts | undefined = undefined;

  /** JSON text of the request id, as sent by the client; `null` if there is none. */
  get idText(): string {
    return this.message && this.message.kind !== 'notification' ? this.message.idText : 'null';
  }
}

/** Outcome of a filter of an MCP listener. `batch`: each message of the batch runs through the whole chain. */
export type McpOutcome = Outcome | DeferredOutcome<ClientSink> | Batch;

/** A filter that reads or sets the MCP part of a request. */
export type McpFilter = Filter<McpExchange, McpOutcome>;

/** A JSON-RPC request to a namespace. */
export type McpRequest = McpExchange & { readonly message: RequestMessage; readonly namespace: NamespaceState };

/**
 * Returns "not found" for a request whose name the namespace does not serve, even after any action has run. The filter itself
 * would return the same error.
 */
export type FindMissing = (exchange: McpExchange) => ErrorOutcome | undefined | Promise<ErrorOutcome | undefined>;
