import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import { METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { UpstreamError } from '../../../http/client/errors.ts';
import { type LegacyClient, openLegacy, type RpcReply, toUpstreamError } from '../rpc-client.ts';
import { NotificationStream, type NotificationStreamHandler } from './notification-stream.ts';
import type { DriverHandler, DriverOptions, DriverRequest, SubscriptionDriver } from './subscription-driver.ts';

const METHOD = 'resources/subscribe';
const MAX_CONCURRENT_SUBSCRIBES = 8;

/**
 * Time after which a notification stream without a response counts as open, in milliseconds: some servers, such as those of the
 * Java SDK, send its head with the first event.
 */
export const STREAM_HEAD_MS = 500;

/** Calls `subscribe` for each uri, for a few at a time. Rejects as the first one does. */
export async function subscribeEach(uris: Iterable<string>, subscribe: (uri: string) => Promise<void>): Promise<void> {
  const remaining = Iterator.from(uris);
  const next = async (): Promise<void> => {
    for (const uri of remaining) await subscribe(uri);
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT_SUBSCRIBES }, next));
}

/**
 * A dedicated session with a legacy upstream: its notification stream, and `resources/subscribe` for each uri. Nothing is granted
 * before that stream is open, since no notification could arrive without it, or is waiting for a response.
 *
 * Server requests are rejected: the client declares no capabilities.
 */
export class LegacyDriver implements SubscriptionDriver, NotificationStreamHandler {
  readonly #options: DriverOptions;
  readonly #request: DriverRequest;
  readonly #uris: readonly string[];
  readonly #handler: DriverHandler;
  #session: LegacyClient | undefined = undefined;
  #stream: NotificationStream | undefined = undefined;
  /** Uris accepted so far; undefined until the stream is open. */
  #accepted: Set<string> | undefined = undefined;
  #granted: readonly string[] | undefined = undefined;
  readonly #grantTimer: NodeJS.Timeout | undefined;
  #headTimer: NodeJS.Timeout | undefined = undefined;
  #closed = false;

  constructor(options: DriverOptions, request: DriverRequest, handler: DriverHandler) {
    this.#options = options;
    this.#request = request;
    this.#uris = request.filter.resourceSubscriptions ?? [];
    this.#handler = handler;
    const { wasGranted, grantBy } = request;
    if (!wasGranted && this.#uris.length > 0) {
      const waitMs = Math.max(grantBy - performance.now(), 0);
      this.#grantTimer = setTimeout(() => {
        if (this.#accepted && this.#accepted.size > 0) this.#grant(this.#accepted);
      }, waitMs).unref();
    }
    void this.#open();
  }

  resume(): void {
    this.#stream?.resume();
  }

  /** Closes the session. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#grantTimer);
    clearTimeout(this.#headTimer);
    this.#stream?.close();
    // In the background.
    void this.#session?.close();
  }

  onOpen(gap: boolean): void {
    clearTimeout(this.#headTimer);
    if (!this.#accepted) void this.#subscribe();
    else if (gap && this.#granted) this.#reportGranted(this.#granted);
  }

  onMessage(text: string, value: JsonObject): boolean {
    const { method } = value;
    if (typeof method !== 'string') return true;
    if (!('id' in value)) return this.#handler.onNotification(text, value);
    this.#stream?.respondByDefault(text, method);
    return true;
  }

  onSessionLost(error: UpstreamError): void {
    clearTimeout(this.#headTimer);
    this.#handler.onFailed(error);
  }

  onUnavailable(): void {
    clearTimeout(this.#headTimer);
    this.#handler.onFailed(this.#error('offers no notification stream'), true);
  }

  async #open(): Promise<void> {
    const { upstream, client, delays } = this.#options;
    const { transport, closeSignal: signal } = upstream;
    const { clientInfo, headers } = client;
    try {
      // Not aborted by `close`: the upstream would be left with a session of unknown id.
      const session = await openLegacy({ transport, clientInfo, headers, capabilities: NO_CAPABILITIES, signal });
      if (this.#closed) return void session.close();
      this.#session = session;
      const { resources } = session.serverCapabilities;
      if (this.#uris.length > 0 && !(isJsonObject(resources) && resources.subscribe === true)) {
        return this.#handler.onFailed(this.#error(`does not declare ${METHOD}`), true);
      }
      this.#stream = new NotificationStream(transport, session, headers, this, delays);
      this.#headTimer = setTimeout(() => void this.#subscribe(), STREAM_HEAD_MS).unref();
    } catch (error) {
      this.#onError(error);
    }
  }

  async #subscribe(): Promise<void> {
    const accepted = new Set<string>();
    this.#accepted = accepted;
    try {
      await subscribeEach(this.#uris, async (uri) => {
        if (this.#closed || this.#granted) return;
        const reply = await this.#session?.request(METHOD, { uri });
        if (reply?.kind === 'result') accepted.add(uri);
        else if (reply) this.#onUriRejected(reply);
      });
      this.#grant(accepted);
    } catch (error) {
      this.#onError(error);
    }
  }

  /** Fails the attempt only if the method is gone or the uri was granted before; else fewer uris are granted. */
  #onUriRejected(reply: Extract<RpcReply, { kind: 'error' }>): void {
    if (this.#closed || (reply.code !== METHOD_NOT_FOUND && !this.#request.wasGranted)) return;
    this.#handler.onFailed(toUpstreamError(reply, METHOD, this.#options.upstream.transport.address), true);
  }

  #grant(accepted: ReadonlySet<string>): void {
    if (this.#closed || this.#granted) return;
    this.#granted = [...accepted];
    this.#reportGranted(this.#granted);
  }

  #reportGranted(resourceSubscriptions: readonly string[]): void {
    this.#handler.onGranted({ ...this.#request.filter, resourceSubscriptions });
  }

  #onError(error: unknown): void {
    if (this.#closed) return;
    if (!(error instanceof UpstreamError)) throw error;
    // No client waits for a subscription to lists only: it is retried after any error.
    if (this.#uris.length === 0) this.#handler.onFailed(error, false);
    else this.#handler.onFailed(error);
  }

  #error(what: string): UpstreamError {
    return new UpstreamError('invalid', this.#options.upstream.transport.address, what);
  }
}
