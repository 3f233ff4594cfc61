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
  type ConnectionEnd,
  type ConnectionSink,
  isTemporary,
  ReconnectingConnection,
  StreamConnection,
} from './reconnecting-stream.ts';

/** What a {@link ListenSubscription} calls back; never from inside its constructor, and nothing after `close`. */
export interface ListenSink {
  /** The upstream granted this; again after each reconnect, then with `gap` true: notices may have been missed. */
  onAcknowledged(granted: ListenFilter, gap: boolean): void;
  /**
   * A notification on the stream, as text and parsed. False: slow down until `resume`; what has arrived already still
   * comes.
   */
  onNotification(text: string, value: JsonObject): boolean;
  /**
   * It did not come about: the upstream refuses, cannot be reached or does not acknowledge in time. `final`: it is over;
   * otherwise it is tried again.
   */
  onRefused(error: UpstreamError, final: boolean): void;
}

export interface ListeningOptions {
  readonly transport: UpstreamTransport;
  readonly clientInfo: Readonly<Record<string, unknown>>;
  readonly capabilities: ClientCapabilities;
  /** Headers besides the protocol's own, alternating names and values. */
  readonly headers?: readonly string[];
  readonly filter: ListenFilter;
  /** Gives an id that no other request to the upstream has, once per attempt. */
  readonly nextId: () => number;
  readonly sink: ListenSink;
  /** The modern version spoken with it (default: the latest). */
  readonly protocolVersion?: string;
  /** Milliseconds for the acknowledgement (default 10000). */
  readonly acknowledgeMs?: number;
  /** Milliseconds of being open after which the next reconnect counts as a first one (default 60000). */
  readonly settledMs?: number;
  /** Bound on one event, in bytes (default 64 MiB, decisions 8). */
  readonly maxEventBytes?: number;
  readonly delays?: ReconnectDelayOptions;
}

const METHOD = 'subscriptions/listen';
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';
const ACKNOWLEDGE_MS = 10_000;
const SETTLED_MS = 60_000;

/**
 * One `subscriptions/listen` request to a modern upstream, kept open (2026-07-28, "Subscriptions"): sent at once, and
 * again when the upstream ends it or the connection breaks. What comes before the acknowledgement is dropped.
 */
export class ListenSubscription implements ConnectionSink {
  readonly #options: ListeningOptions;
  readonly #headers: readonly string[];
  readonly #lasting: ReconnectingConnection;
  /** Until the acknowledgement is overdue, and after it until the stream is there to stay. */
  #timer: NodeJS.Timeout | undefined = undefined;
  /** The id of the request under way. */
  #id = 0;
  #acknowledged = false;
  /** It has been acknowledged before, on this connection or an earlier one: the upstream does offer it. */
  #granted = false;

  constructor(options: ListeningOptions) {
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
    this.#lasting = new ReconnectingConnection(() => this.#connect(), options.delays);
    this.#lasting.open();
  }

  /** True while a connection is there on which the upstream has acknowledged. */
  get acknowledged(): boolean {
    return this.#acknowledged;
  }

  /** Goes on after `onNotification` returned false. */
  resume(): void {
    this.#lasting.resume();
  }

  /** Ends the HTTP request, which cancels it upstream; nothing is called back any more. */
  close(): void {
    clearTimeout(this.#timer);
    this.#lasting.close();
  }

  onStream(): void {
    // The acknowledgement is what counts.
  }

  onMessage(text: string, value: JsonObject): boolean {
    if (typeof value.method !== 'string') {
      this.#response(value);
      return true;
    }
    if (!this.#acknowledged) {
      if (value.method === ACKNOWLEDGED) this.#accept(value);
      return true;
    }
    // There are no requests in this direction.
    if ('id' in value) return true;
    return this.#lasting.pass(() => this.#options.sink.onNotification(text, value));
  }

  onCursor(_id: string | undefined, retryMs: number | undefined): void {
    if (retryMs !== undefined) this.#lasting.delay.asked(retryMs);
  }

  onOver(end: ConnectionEnd): void {
    if (end.kind === 'answered') return this.#answered(end);
    if (end.error?.kind === 'redirect' || end.error?.kind === 'aborted') return this.#refused(end.error, true);
    if (this.#acknowledged) return this.#later();
    const error = end.error ?? this.#error('dropped', `ended ${METHOD} before the acknowledgement`);
    // No answer says nothing about what is offered; a stream that ends at once does.
    this.#refused(error, end.kind === 'ended' && end.error === undefined && !this.#granted);
  }

  /** The response to the request, which ends it: gracefully, or because the upstream cannot go on. */
  #response(value: JsonObject): void {
    if (isJsonObject(value.error) && (value.id === this.#id || (value.id ?? null) === null)) {
      this.#lasting.drop();
      this.#rpcError(value.error, undefined);
    } else if (value.id === this.#id) {
      this.#lasting.drop();
      this.onOver({ kind: 'ended', error: undefined });
    }
  }

  #accept({ params }: JsonObject): void {
    const granted = parseListenFilter(isJsonObject(params) ? params.notifications : undefined);
    const gap = this.#granted;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#lasting.delay.reset(), this.#options.settledMs ?? SETTLED_MS).unref();
    this.#acknowledged = true;
    this.#granted = true;
    this.#options.sink.onAcknowledged(typeof granted === 'string' ? {} : granted, gap);
  }

  #answered({ status, value }: Extract<ConnectionEnd, { kind: 'answered' }>): void {
    if (isJsonObject(value?.error)) return this.#rpcError(value.error, status);
    if (status >= 300) return this.#refused(this.#error('http', `answered ${METHOD} with HTTP ${status}`, { status }));
    this.#refused(this.#error('invalid', `answered ${METHOD} with no event stream`, { status }));
  }

  #rpcError({ code, message, data }: JsonObject, status: number | undefined): void {
    const number = typeof code === 'number' ? code : 0;
    const said = typeof message === 'string' ? quoted(message) : '';
    const what = `answered ${METHOD} with error ${number}: ${said}`;
    const details = { code: number, data, ...(status !== undefined && { status }) };
    this.#refused(this.#error('rpc', what, details));
  }

  /** `final` where it is known; else it follows from the answer, and from whether it was ever granted. */
  #refused(error: UpstreamError, final: boolean = this.#isFinal(error)): void {
    if (final) this.close();
    else this.#later();
    this.#options.sink.onRefused(error, final);
  }

  #isFinal({ code, status = 200 }: UpstreamError): boolean {
    if (code === METHOD_NOT_FOUND) return true;
    return !isTemporary(status) && (status >= 400 || !this.#granted);
  }

  #later(): void {
    this.#acknowledged = false;
    clearTimeout(this.#timer);
    this.#lasting.openLater();
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
      this.#lasting.drop();
      const what = `did not acknowledge ${METHOD} within ${acknowledgeMs / 1000} s`;
      this.#refused(this.#error('timeout', what), !this.#granted);
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
