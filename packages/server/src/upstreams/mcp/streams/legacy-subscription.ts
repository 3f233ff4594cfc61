import { ReconnectDelay, type ReconnectDelayOptions } from '@sluice/protocol/backoff';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import { LIST_CHANGED_METHODS, METHOD_NOT_FOUND, MODERN_ERROR_CODES } from '@sluice/protocol/mcp/constants';
import type { UpstreamTransport } from '../../../http/client/client.ts';
import { UpstreamError } from '../../../http/client/errors.ts';
import { errorOf, type LegacyClient, openLegacy, type Reply } from '../client.ts';
import { Refusals } from '../relay/request-rewrite.ts';
import { postMessage } from '../rpc-request.ts';
import type { ListenSink } from './listen-subscription.ts';
import { SessionStream, type SessionStreamSink } from './notification-stream.ts';
import { isTemporary } from './reconnecting-stream.ts';

export interface LegacyListeningOptions {
  readonly transport: UpstreamTransport;
  /** Who watches, told to the upstream. */
  readonly clientInfo: Readonly<Record<string, unknown>>;
  /** Headers besides the protocol's own, alternating names and values. */
  readonly headers: readonly string[];
  /** What is to be watched. */
  readonly uris: readonly string[];
  /** Called as by a `Listening`; notifications may be of any method. */
  readonly sink: ListenSink;
  /** The upstream says that what it offers has changed. */
  readonly changed: () => void;
  /** Milliseconds after which what is granted by then is all that is (default 4000). */
  readonly grantMs?: number;
  /** Milliseconds of being open after which the next session counts as a first one (default 60000). */
  readonly settledMs?: number;
  readonly delays?: ReconnectDelayOptions;
}

const METHOD = 'resources/subscribe';
/** Less than clients are made to wait: one uri that the upstream is slow with is not to cost them all others. */
const GRANT_MS = 4_000;
const SETTLED_MS = 60_000;
/** Subscriptions that are made at a time. */
const SUBSCRIBING = 8;

/**
 * Resources watched at a legacy upstream for a client of the modern era (mcp 5): what `Listening` is at a modern one, in
 * a session that serves nothing else, with `resources/subscribe` for each uri and the session's notification stream.
 * That must be open before anything counts as granted: without it, the upstream could not tell.
 *
 * A session that the upstream forgets, or in which a request fails, is given up and another one opened after a while.
 * Whoever watches cannot be asked anything: the upstream's requests are refused.
 */
export class LegacySubscription implements SessionStreamSink {
  readonly #options: LegacyListeningOptions;
  readonly #refusals: Refusals;
  readonly #delay: ReconnectDelay;
  /** What is subscribed to: what was asked for, and later what was granted of it. */
  #uris: ReadonlySet<string>;
  #granted = false;
  #session: LegacyClient | undefined = undefined;
  #stream: SessionStream | undefined = undefined;
  /** What the upstream has taken in this session; undefined until its stream is open. */
  #accepted: Set<string> | undefined = undefined;
  #acknowledged = false;
  readonly #grantTimer: NodeJS.Timeout;
  /** Until the next session is opened, and then until it is there to stay. */
  #timer: NodeJS.Timeout | undefined = undefined;
  #closed = false;

  constructor(options: LegacyListeningOptions) {
    this.#options = options;
    this.#uris = new Set(options.uris);
    this.#delay = new ReconnectDelay(options.delays);
    this.#refusals = new Refusals(async (answer) => {
      if (this.#session) await postMessage(options.transport, this.#headers(this.#session), answer);
    });
    this.#grantTimer = setTimeout(() => {
      if (!this.#granted && this.#accepted && this.#accepted.size > 0) this.#acknowledge(this.#accepted);
    }, options.grantMs ?? GRANT_MS).unref();
    void this.#open();
  }

  /** True once the upstream has granted in the session that is open now. */
  get acknowledged(): boolean {
    return this.#acknowledged;
  }

  /** Goes on after `onNotification` returned false. */
  resume(): void {
    this.#stream?.resume();
  }

  /** Ends the session upstream; nothing is called back any more. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#grantTimer);
    this.#drop();
  }

  onOpen(gap: boolean): void {
    const session = this.#session;
    if (session && !this.#accepted) void this.#subscribe(session);
    else if (gap && this.#acknowledged) this.#tell(true);
  }

  onMessage(text: string, value: JsonObject): boolean {
    const { method } = value;
    if (typeof method !== 'string') return true;
    if ('id' in value) this.#refusals.refuse(text, method);
    else if (LIST_CHANGED_METHODS.has(method)) this.#options.changed();
    else if (this.#granted) return this.#options.sink.onNotification(text, value);
    return true;
  }

  onSessionLost(): void {
    void this.#lookForSession(this.#session);
  }

  onUnavailable(): void {
    this.#refuse(this.#error('invalid', 'offers no notification stream'));
  }

  async #open(): Promise<void> {
    const { transport, clientInfo, headers, delays } = this.#options;
    try {
      // Not ended when this is closed meanwhile: the upstream would be left with a session that nobody knows.
      const session = await openLegacy({ transport, clientInfo, headers, capabilities: NO_CAPABILITIES });
      if (this.#closed) return void session.close();
      this.#session = session;
      const { resources } = session.serverCapabilities;
      if (isJsonObject(resources) && resources.subscribe === true) {
        this.#stream = new SessionStream(transport, this.#headers(session), this, delays);
      } else {
        this.#refuse(this.#error('invalid', `does not declare ${METHOD}`));
      }
    } catch (error) {
      if (!this.#closed) this.#fail(error);
    }
  }

  async #subscribe(session: LegacyClient): Promise<void> {
    const accepted = new Set<string>();
    this.#accepted = accepted;
    const left = this.#uris.values();
    const subscribe = async (): Promise<void> => {
      for (const uri of left) {
        if (this.#session !== session || this.#acknowledged) return;
        const reply = await session.request(METHOD, { uri });
        if (reply.kind === 'result') accepted.add(uri);
        else if (this.#session === session) this.#refusedOne(reply);
      }
    };
    try {
      await Promise.all(Array.from({ length: SUBSCRIBING }, subscribe));
      if (this.#session === session && !this.#acknowledged) this.#acknowledge(accepted);
    } catch (error) {
      if (this.#session === session) this.#fail(error);
    }
  }

  /** Fewer resources are granted, unless it takes subscriptions no longer, or not to what it has granted before. */
  #refusedOne(reply: Extract<Reply, { kind: 'error' }>): void {
    if (reply.code !== METHOD_NOT_FOUND && !this.#granted) return;
    this.#refuse(errorOf(reply, METHOD, this.#options.transport.address));
  }

  #acknowledge(accepted: ReadonlySet<string>): void {
    const gap = this.#granted;
    this.#uris = new Set(accepted);
    this.#granted = true;
    this.#acknowledged = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#delay.reset(), this.#options.settledMs ?? SETTLED_MS).unref();
    this.#tell(gap);
  }

  #tell(gap: boolean): void {
    this.#options.sink.onAcknowledged({ resourceSubscriptions: [...this.#uris] }, gap);
  }

  /** Some say that they do not know the session of a stream that they do not offer: which it is, `ping` tells. */
  async #lookForSession(session: LegacyClient | undefined): Promise<void> {
    this.#acknowledged = false;
    try {
      await session?.request('ping');
      if (this.#session === session) this.onUnavailable();
    } catch (error) {
      if (this.#session === session) this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (!(error instanceof UpstreamError)) throw error;
    if (this.#isFinal(error)) return this.#refuse(error);
    this.#drop();
    this.#timer = setTimeout(() => void this.#open(), this.#delay.next()).unref();
    this.#options.sink.onRefused(error, false);
  }

  #refuse(error: UpstreamError): void {
    this.close();
    this.#options.sink.onRefused(error, true);
  }

  /** What says that there is nothing to be had here, and not only now. */
  #isFinal({ kind, code, status = 200 }: UpstreamError): boolean {
    if (kind === 'redirect' || kind === 'aborted') return true;
    if (code === METHOD_NOT_FOUND || MODERN_ERROR_CODES.has(code ?? 0)) return true;
    if (kind === 'http') return !isTemporary(status);
    return (kind === 'rpc' || kind === 'invalid') && !this.#granted;
  }

  /** Leaves the session. */
  #drop(): void {
    clearTimeout(this.#timer);
    this.#stream?.close();
    this.#stream = undefined;
    // Nobody waits for the upstream to forget it.
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
