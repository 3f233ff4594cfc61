import type { Era } from '@sluice/protocol/mcp/constants';
import type { Message } from '@sluice/protocol/mcp/message';
import { ANONYMOUS_CALLER, type Authenticated, type ReceivedHead } from '../identity/authenticator.ts';
import type { Principal } from '../identity/principal.ts';
import { type Correlation, correlationOf } from './correlation.ts';
import { ExchangeFacts } from './facts.ts';

/** Head of an HTTP request as it arrives, or of one message of a batch. */
export interface RequestHead extends ReceivedHead {
  readonly method: string;
  /** Name of the listener. */
  readonly listener: string;
  readonly scheme: 'http' | 'https';
  /** True for one message of a batch; the HTTP request has a head of its own. */
  readonly inBatch: boolean;
  /** `performance.now()` at its arrival. */
  readonly startedAt: number;
}

/** Names of the listeners that no pipeline file defines: of the management API, and of requests from other replicas. */
export const MANAGEMENT_LISTENER = 'management';
export const REPLICA_LISTENER = 'peer';

/** Returns what a call was made through, if not by a client itself: the console uses the management listener. */
function viaOf({ listener }: Pick<RequestHead, 'listener'>): 'console' | undefined {
  return listener === MANAGEMENT_LISTENER ? 'console' : undefined;
}

/**
 * One request, from its arrival to its end: an HTTP request, or one message of a batch. It has whatever is known of the request;
 * telemetry reads it once at the end. What outlives the request retains its principal, correlation and facts only.
 */
export class Exchange {
  /** The head as received. */
  readonly head: RequestHead;
  readonly correlation: Correlation;
  readonly facts: ExchangeFacts = new ExchangeFacts();
  /** Set by the server once the request is authenticated; anonymous for requests that it rejects before. */
  authenticated: Authenticated = ANONYMOUS_CALLER;
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

  get principal(): Principal {
    return this.authenticated.principal;
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
