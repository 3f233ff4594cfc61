import type { ReconnectDelayOptions } from '@sluice/protocol/backoff';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import type { ClientCapabilities } from '@sluice/protocol/mcp/capabilities';
import {
  HEADER_HOPS,
  HEADER_METHOD,
  HEADER_PROTOCOL_VERSION,
  LATEST_MODERN,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_PROTOCOL_VERSION,
  METHOD_NOT_FOUND,
} from '@sluice/protocol/mcp/constants';
import { type ListenFilter, parseListenFilter } from '@sluice/protocol/mcp/subscriptions';
import type { UpstreamRequest, UpstreamTransport } from '../../../http/client/client.ts';
import { quoted, UpstreamError } from '../../../http/client/errors.ts';
import { MESSAGE_HEADERS } from '../rpc-request.ts';
import {
  type ConnectionHandler,
  type ConnectionOutcome,
  isTemporary,
  ReconnectingConnection,
  StreamConnection,
} from './reconnecting-stream.ts';

/** Callbacks of a {@link ListenSubscription}; none from its constructor, none after `close`. */
export interface ListenHandler {
  /** The upstream granted this. Repeated after each reconnect with `gap` true: notifications may have been missed. */
  onAcknowledged(granted: ListenFilter, gap: boolean): void;
  /**
   * A notification, as text and parsed. False pauses the stream until `resume`; messages that have already arrived are
   * still delivered.
   */
  onNotification(text: string, value: JsonObject): boolean;
  /**
   * The upstream rejects the subscription, is unreachable or does not acknowledge in time. `final`: closed for good;
   * otherwise it is retried.
   */
  onRefused(error: UpstreamError, final: boolean): void;
}

export interface ListenSubscriptionOptions {
  readonly transport: UpstreamTransport;
  readonly clientInfo: Readonly<Record<string, unknown>>;
  readonly capabilities: ClientCapabilities;
  /** Headers besides the protocol's own, alternating names and values. */
  readonly headers?: readonly string[];
  readonly filter: ListenFilter;
  /** Returns an id unique among the requests to the upstream; called once per attempt. */
  readonly nextId: () => number;
  readonly handler: ListenHandler;
  /** Modern version (default: the latest). */
  readonly protocolVersion?: string;
  /** Milliseconds for the acknowledgement (default 10000). */
  readonly acknowledgeMs?: number;
  /** Milliseconds after which an open stream resets the reconnect delay (default 60000). */
  readonly settledMs?: number;
  /** Limit on one event in bytes (default 64 MiB, decisions 8). */
  readonly maxEventBytes?: number;
  readonly delays?: ReconnectDelayOptions;
}

const METHOD = 'subscriptions/listen';
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';
const ACKNOWLEDGE_MS = 10_000;
const SETTLED_MS = 60_000;

/**
 * A `subscriptions/listen` request to a modern upstream (2026-07-28, "Subscriptions"): sent immediately, and again when
 * the upstream ends it or the connection breaks. Messages before the acknowledgement are dropped.
 */
export class ListenSubscription implements ConnectionHandler {
  readonly #options: ListenSubscriptionOptions;
  readonly #headers: readonly string[];
  readonly #connection: ReconnectingConnection;
  /** Until the acknowledgement is overdue, then until the stream counts as stable. */
  #timer: NodeJS.Timeout | undefined = undefined;
  /** Id of the current request. */
  #id = 0;
  #acknowledged = false;
  /** Acknowledged on this connection or an earlier one, so the upstream supports it. */
  #wasAcknowledged = false;

  constructor(options: ListenSubscriptionOptions) {
    const { headers = [], protocolVersion = LATEST_MODERN } = options;
    this.#options = options;
    const hops = headers.some((name, index) => index % 2 === 0 && name.toLowerCase() === HEADER_HOPS);
    this.#headers = [
      ...MESSAGE_HEADERS,
      ...(hops ? [] : [HEADER_HOPS, '1']),
      ...[HEADER_PROTOCOL_VERSION, protocolVersion],
      ...[HEADER_METHOD, METHOD],
      ...headers,
    ];
    this.#connection = new ReconnectingConnection(() => this.#connect(), options.delays);
    this.#connection.open();
  }

  /** True while there is a connection on which the upstream has acknowledged. */
  get isAcknowledged(): boolean {
    return this.#acknowledged;
  }

  /** Resumes after `onNotification` returned false. */
  resume(): void {
    this.#connection.resume();
  }

  /** Aborts the HTTP request, which cancels it upstream; no callbacks afterwards. */
  close(): void {
    clearTimeout(this.#timer);
    this.#connection.close();
  }

  onStream(): void {
    // Wait for the acknowledgement.
  }

  onMessage(text: string, value: JsonObject): boolean {
    if (typeof value.method !== 'string') {
      this.#onResponse(value);
      return true;
    }
    if (!this.#acknowledged) {
      if (value.method === ACKNOWLEDGED) this.#onAcknowledgement(value);
      return true;
    }
    // The modern era has no server requests.
    if ('id' in value) return true;
    return this.#connection.deliver(() => this.#options.handler.onNotification(text, value));
  }

  onCursor(_id: string | undefined, retryMs: number | undefined): void {
    if (retryMs !== undefined) this.#connection.delay.setRetryMs(retryMs);
  }

  onClosed(end: ConnectionOutcome): void {
    if (end.kind === 'answered') return this.#onAnswer(end);
    if (end.error?.kind === 'redirect' || end.error?.kind === 'aborted') return this.#reject(end.error, true);
    if (this.#acknowledged) return this.#reconnectLater();
    const error = end.error ?? this.#error('dropped', `ended ${METHOD} before the acknowledgement`);
    // A failed connection is temporary; a stream that ends without acknowledgement is not.
    this.#reject(error, end.kind === 'ended' && end.error === undefined && !this.#wasAcknowledged);
  }

  /** The response ends the subscription: gracefully or with an error. */
  #onResponse(value: JsonObject): void {
    if (isJsonObject(value.error) && (value.id === this.#id || (value.id ?? null) === null)) {
      this.#connection.disconnect();
      this.#onRpcError(value.error, undefined);
    } else if (value.id === this.#id) {
      this.#connection.disconnect();
      this.onClosed({ kind: 'ended', error: undefined });
    }
  }

  #onAcknowledgement({ params }: JsonObject): void {
    const granted = parseListenFilter(isJsonObject(params) ? params.notifications : undefined);
    const gap = this.#wasAcknowledged;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#connection.delay.reset(), this.#options.settledMs ?? SETTLED_MS).unref();
    this.#acknowledged = true;
    this.#wasAcknowledged = true;
    this.#options.handler.onAcknowledged(typeof granted === 'string' ? {} : granted, gap);
  }

  #onAnswer({ status, value }: Extract<ConnectionOutcome, { kind: 'answered' }>): void {
    if (isJsonObject(value?.error)) return this.#onRpcError(value.error, status);
    if (status >= 300) return this.#reject(this.#error('http', `answered ${METHOD} with HTTP ${status}`, { status }));
    this.#reject(this.#error('invalid', `answered ${METHOD} with no event stream`, { status }));
  }

  #onRpcError({ code, message, data }: JsonObject, status: number | undefined): void {
    const number = typeof code === 'number' ? code : 0;
    const text = typeof message === 'string' ? quoted(message) : '';
    const what = `answered ${METHOD} with error ${number}: ${text}`;
    const details = { code: number, data, ...(status !== undefined && { status }) };
    this.#reject(this.#error('rpc', what, details));
  }

  /** `final` defaults to what the error implies. */
  #reject(error: UpstreamError, final: boolean = this.#isFinal(error)): void {
    if (final) this.close();
    else this.#reconnectLater();
    this.#options.handler.onRefused(error, final);
  }

  #isFinal({ code, status = 200 }: UpstreamError): boolean {
    if (code === METHOD_NOT_FOUND) return true;
    return !isTemporary(status) && (status >= 400 || !this.#wasAcknowledged);
  }

  #reconnectLater(): void {
    this.#acknowledged = false;
    clearTimeout(this.#timer);
    this.#connection.openAfterDelay();
  }

  #connect(): StreamConnection {
    const { transport, filter, nextId, clientInfo, capabilities, protocolVersion = LATEST_MODERN } = this.#options;
    this.#id = nextId();
    const _meta = {
      [META_PROTOCOL_VERSION]: protocolVersion,
      [META_CLIENT_INFO]: clientInfo,
      [META_CLIENT_CAPABILITIES]: capabilities,
    };
    const params = { notifications: filter, _meta };
    const body = JSON.stringify({ jsonrpc: '2.0', id: this.#id, method: METHOD, params });
    const request: UpstreamRequest = { method: 'POST', headers: [...this.#headers], body };
    const { acknowledgeMs = ACKNOWLEDGE_MS } = this.#options;
    this.#timer = setTimeout(() => {
      this.#connection.disconnect();
      const what = `did not acknowledge ${METHOD} within ${acknowledgeMs / 1000} s`;
      this.#reject(this.#error('timeout', what), !this.#wasAcknowledged);
    }, acknowledgeMs).unref();
    return new StreamConnection(transport, request, this, this.#options.maxEventBytes);
  }

  #error(
    kind: UpstreamError['kind'],
    what: string,
    details: ConstructorParameters<typeof UpstreamError>[3] = {},
  ): UpstreamError {
    return new UpstreamError(kind, this.#options.transport.address, what, details);
  }
}
