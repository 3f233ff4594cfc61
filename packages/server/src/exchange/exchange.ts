import type { Era } from '@sluice/protocol/mcp/constants';
import type { Message } from '@sluice/protocol/mcp/message';
import { ANONYMOUS, type Principal } from '../identity/principal.ts';
import { type Correlation, correlationOf } from './correlation.ts';
import { ExchangeFacts } from './facts.ts';
import { type RequestHead, viaOf } from './head.ts';

/**
 * One request, from its arrival to its end: an HTTP request, or one message of a batch. It has whatever is known of the request;
 * telemetry reads it once at the end. What outlives the request retains its principal, correlation and facts only.
 */
export class Exchange {
  /** The head as received. */
  readonly head: RequestHead;
  readonly correlation: Correlation;
  readonly facts: ExchangeFacts = new ExchangeFacts();
  /** Set by the server once the request is authenticated; requests that it rejects before have none. */
  principal: Principal = ANONYMOUS;
  #metadata: Map<string, string> | undefined = undefined;

  // Members of MCP requests, which other requests do not have.
  declare readonly message?: Message | undefined;
  declare readonly era?: Era;
  declare readonly namespace?: { readonly name: string } | undefined;
  declare readonly session?: { readonly id: string; readonly protocolVersion: string } | undefined;

  constructor(head: RequestHead) {
    this.head = head;
    this.correlation = correlationOf(head.headers, viaOf(head));
  }

  /** Values that actions set, and those that the request has by itself; created when they are needed. */
  get metadata(): Map<string, string> {
    this.#metadata ??= this.#initialMetadata();
    return this.#metadata;
  }

  #initialMetadata(): Map<string, string> {
    const { message, namespace } = this;
    const own = new Map<string, string>();
    if (message && 'method' in message) own.set('mcp.method', message.method);
    if (namespace) own.set('service.namespace', namespace.name);
    return own;
  }
}
