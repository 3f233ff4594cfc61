import { ReconnectDelay, type ReconnectDelayOptions } from '@sluice/protocol/backoff';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import { LIST_CHANGED_METHODS, METHOD_NOT_FOUND, MODERN_ERROR_CODES } from '@sluice/protocol/mcp/constants';
import type { UpstreamTransport } from '../../../http/client/client.ts';
import { UpstreamError } from '../../../http/client/errors.ts';
import { type LegacyClient, openLegacy, type RpcReply, toUpstreamError } from '../rpc-client.ts';
import { DefaultResponder, postMessage } from '../rpc-request.ts';
import type { ListenHandler } from './listen-subscription.ts';
import { NotificationStream, type NotificationStreamHandler } from './notification-stream.ts';
import { isTemporary } from './reconnecting-stream.ts';

export interface LegacySubscriptionOptions {
  readonly transport: UpstreamTransport;
  /** Identity of the subscriber. */
  readonly clientInfo: Readonly<Record<string, unknown>>;
  /** Headers besides the protocol's own, alternating names and values. */
  readonly headers: readonly string[];
  /** Resources to subscribe to. */
  readonly uris: readonly string[];
  /** As of a `ListenSubscription`; notifications may have any method. */
  readonly handler: ListenHandler;
  /** The upstream has announced changed lists. */
  readonly onListsChanged: () => void;
  /** Milliseconds after which the subscriptions granted so far are final (default 4000). */
  readonly grantMs?: number;
  /** Milliseconds after which an open session resets the reconnect delay (default 60000). */
  readonly settledMs?: number;
  readonly delays?: ReconnectDelayOptions;
}

const METHOD = 'resources/subscribe';
/** Less than clients wait, so that one slow subscription does not prevent the others. */
const GRANT_MS = 4_000;
const SETTLED_MS = 60_000;
const MAX_CONCURRENT_SUBSCRIBES = 8;

/**
 * Resource subscriptions at a legacy upstream for a modern client (mcp 5), with the interface of `ListenSubscription`: a
 * dedicated session with `resources/subscribe` for each uri and the session's notification stream. Nothing is granted
 * before that stream is open, since no update could arrive without it.
 *
 * A session that is lost, or in which a request fails, is replaced after a delay. Server requests are rejected: the
 * client declares no capabilities.
 */
export class LegacySubscription implements NotificationStreamHandler {
  readonly #options: LegacySubscriptionOptions;
  readonly #rejector: DefaultResponder;
  readonly #delay: ReconnectDelay;
  /** The requested uris, later the granted ones. */
  #uris: ReadonlySet<string>;
  #wasAcknowledged = false;
  #session: LegacyClient | undefined = undefined;
  #stream: NotificationStream | undefined = undefined;
  /** Uris accepted in this session; undefined until its stream is open. */
  #accepted: Set<string> | undefined = undefined;
  #acknowledged = false;
  readonly #grantTimer: NodeJS.Timeout;
  /** Until the next session is opened, then until it counts as stable. */
  #timer: NodeJS.Timeout | undefined = undefined;
  #closed = false;

  constructor(options: LegacySubscriptionOptions) {
    this.#options = options;
    this.#uris = new Set(options.uris);
    this.#delay = new ReconnectDelay(options.delays);
    this.#rejector = new DefaultResponder(async (message) => {
      if (this.#session) await postMessage(options.transport, this.#headers(this.#session), message);
    });
    this.#grantTimer = setTimeout(() => {
      if (!this.#wasAcknowledged && this.#accepted && this.#accepted.size > 0) this.#acknowledge(this.#accepted);
    }, options.grantMs ?? GRANT_MS).unref();
    void this.#open();
  }

  /** True once the subscriptions are granted in the current session. */
  get isAcknowledged(): boolean {
    return this.#acknowledged;
  }

  /** Resumes after `onNotification` returned false. */
  resume(): void {
    this.#stream?.resume();
  }

  /** Closes the session; no callbacks afterwards. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#grantTimer);
    this.#closeSession();
  }

  onOpen(gap: boolean): void {
    const session = this.#session;
    if (session && !this.#accepted) void this.#subscribe(session);
    else if (gap && this.#acknowledged) this.#reportAcknowledged(true);
  }

  onMessage(text: string, value: JsonObject): boolean {
    const { method } = value;
    if (typeof method !== 'string') return true;
    if ('id' in value) this.#rejector.respond(text, method);
    else if (LIST_CHANGED_METHODS.has(method)) this.#options.onListsChanged();
    else if (this.#wasAcknowledged) return this.#options.handler.onNotification(text, value);
    return true;
  }

  onSessionLost(): void {
    void this.#checkSession(this.#session);
  }

  onUnavailable(): void {
    this.#reject(this.#error('invalid', 'offers no notification stream'));
  }

  async #open(): Promise<void> {
    const { transport, clientInfo, headers, delays } = this.#options;
    try {
      // Not aborted by `close`: the upstream would be left with a session of unknown id.
      const session = await openLegacy({ transport, clientInfo, headers, capabilities: NO_CAPABILITIES });
      if (this.#closed) return void session.close();
      this.#session = session;
      const { resources } = session.serverCapabilities;
      if (isJsonObject(resources) && resources.subscribe === true) {
        this.#stream = new NotificationStream(transport, this.#headers(session), this, delays);
      } else {
        this.#reject(this.#error('invalid', `does not declare ${METHOD}`));
      }
    } catch (error) {
      if (!this.#closed) this.#retryLater(error);
    }
  }

  async #subscribe(session: LegacyClient): Promise<void> {
    const accepted = new Set<string>();
    this.#accepted = accepted;
    const remaining = this.#uris.values();
    const subscribe = async (): Promise<void> => {
      for (const uri of remaining) {
        if (this.#session !== session || this.#acknowledged) return;
        const reply = await session.request(METHOD, { uri });
        if (reply.kind === 'result') accepted.add(uri);
        else if (this.#session === session) this.#onUriRejected(reply);
      }
    };
    try {
      await Promise.all(Array.from({ length: MAX_CONCURRENT_SUBSCRIBES }, subscribe));
      if (this.#session === session && !this.#acknowledged) this.#acknowledge(accepted);
    } catch (error) {
      if (this.#session === session) this.#retryLater(error);
    }
  }

  /** Fatal only if the method is gone or the uri was granted before; else fewer uris are granted. */
  #onUriRejected(reply: Extract<RpcReply, { kind: 'error' }>): void {
    if (reply.code !== METHOD_NOT_FOUND && !this.#wasAcknowledged) return;
    this.#reject(toUpstreamError(reply, METHOD, this.#options.transport.address));
  }

  #acknowledge(accepted: ReadonlySet<string>): void {
    const gap = this.#wasAcknowledged;
    this.#uris = new Set(accepted);
    this.#wasAcknowledged = true;
    this.#acknowledged = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#delay.reset(), this.#options.settledMs ?? SETTLED_MS).unref();
    this.#reportAcknowledged(gap);
  }

  #reportAcknowledged(gap: boolean): void {
    this.#options.handler.onAcknowledged({ resourceSubscriptions: [...this.#uris] }, gap);
  }

  /** Some upstreams without a stream answer as if the session were lost; `ping` tells which is the case. */
  async #checkSession(session: LegacyClient | undefined): Promise<void> {
    this.#acknowledged = false;
    try {
      await session?.request('ping');
      if (this.#session === session) this.onUnavailable();
    } catch (error) {
      if (this.#session === session) this.#retryLater(error);
    }
  }

  #retryLater(error: unknown): void {
    if (!(error instanceof UpstreamError)) throw error;
    if (this.#isFinal(error)) return this.#reject(error);
    this.#closeSession();
    this.#timer = setTimeout(() => void this.#open(), this.#delay.next()).unref();
    this.#options.handler.onRefused(error, false);
  }

  #reject(error: UpstreamError): void {
    this.close();
    this.#options.handler.onRefused(error, true);
  }

  /** True if the error is permanent. */
  #isFinal({ kind, code, status = 200 }: UpstreamError): boolean {
    if (kind === 'redirect' || kind === 'aborted') return true;
    if (code === METHOD_NOT_FOUND || MODERN_ERROR_CODES.has(code ?? 0)) return true;
    if (kind === 'http') return !isTemporary(status);
    return (kind === 'rpc' || kind === 'invalid') && !this.#wasAcknowledged;
  }

  #closeSession(): void {
    clearTimeout(this.#timer);
    this.#stream?.close();
    this.#stream = undefined;
    // In the background.
    void this.#session?.close();
    this.#session = undefined;
    this.#accepted = undefined;
    this.#acknowledged = false;
  }

  #headers({ sessionHeaders }: LegacyClient): string[] {
    return [...sessionHeaders, ...this.#options.headers];
  }

  #error(kind: UpstreamError['kind'], what: string): UpstreamError {
    return new UpstreamError(kind, this.#options.transport.address, what);
  }
}
