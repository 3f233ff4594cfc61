import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import { METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { UpstreamError } from '../../../http/client/errors.ts';
import { type LegacyClient, openLegacy, type RpcReply, toUpstreamError } from '../rpc-client.ts';
import { NotificationStream, type NotificationStreamHandler } from './notification-stream.ts';
import type { AttemptOptions, DriverHandler, SubscriptionDriver } from './subscription-driver.ts';

const METHOD = 'resources/subscribe';
const MAX_CONCURRENT_SUBSCRIBES = 8;

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
  readonly #options: AttemptOptions;
  readonly #uris: readonly string[];
  readonly #handler: DriverHandler;
  #session: LegacyClient | undefined = undefined;
  #stream: NotificationStream | undefined = undefined;
  readonly #accepted = new Set<string>();
  #granted: readonly string[] | undefined = undefined;
  readonly #grantTimer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: AttemptOptions, handler: DriverHandler) {
    const { resources, wasGranted, grantBy } = options;
    this.#options = options;
    this.#uris = resources?.uris ?? [];
    this.#handler = handler;
    if (!wasGranted && this.#uris.length > 0) {
      const waitMs = Math.max(grantBy - performance.now(), 0);
      this.#grantTimer = setTimeout(() => {
        if (this.#accepted.size > 0) this.#grant();
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
    this.#stream?.close();
    // In the background.
    void this.#session?.close();
  }

  onOpen(gap: boolean): void {
    if (gap && this.#granted) this.#reportGranted(this.#granted);
  }

  onMessage(text: string, value: JsonObject): boolean {
    if (!('id' in value)) return this.#handler.onNotification(text, value);
    this.#stream?.respondByDefault(text, value.method);
    return true;
  }

  onSessionLost(error: UpstreamError): void {
    this.#handler.onFailed(error);
  }

  onUnavailable(): void {
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
      await this.#stream.ready();
      await this.#subscribe(session);
    } catch (error) {
      if (this.#closed) return;
      if (!(error instanceof UpstreamError)) throw error;
      // No client waits for a subscription to lists only: it is retried after any error.
      this.#handler.onFailed(error, this.#uris.length === 0 ? false : undefined);
    }
  }

  async #subscribe(session: LegacyClient): Promise<void> {
    const { resources } = this.#options;
    await subscribeEach(this.#uris, async (uri) => {
      if (this.#closed || this.#granted || !resources) return;
      const reply = await session.subscribe(resources.permit, uri);
      if (reply.kind === 'result') this.#accepted.add(uri);
      else this.#onUriRejected(reply);
    });
    this.#grant();
  }

  /** Fails the attempt only if the method is gone or the uri was granted before; else fewer uris are granted. */
  #onUriRejected(reply: Extract<RpcReply, { kind: 'error' }>): void {
    if (this.#closed || (reply.code !== METHOD_NOT_FOUND && !this.#options.wasGranted)) return;
    this.#handler.onFailed(toUpstreamError(reply, METHOD, this.#options.upstream.transport.address), true);
  }

  #grant(): void {
    if (this.#closed || this.#granted) return;
    this.#granted = [...this.#accepted];
    this.#reportGranted(this.#granted);
  }

  #reportGranted(resourceSubscriptions: readonly string[]): void {
    this.#handler.onGranted({ ...this.#options.filter, resourceSubscriptions });
  }

  #error(what: string): UpstreamError {
    return new UpstreamError('invalid', this.#options.upstream.transport.address, what);
  }
}
