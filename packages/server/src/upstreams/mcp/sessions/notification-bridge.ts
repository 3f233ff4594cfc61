import { setTimeout as delay } from 'node:timers/promises';
import type { Backoff } from '@sluice/protocol/backoff';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { LEAST_LEVEL, reachesLevel } from '@sluice/protocol/mcp/capabilities';
import { LIST_CHANGED_METHODS } from '@sluice/protocol/mcp/constants';
import { legacyResourceUpdated } from '@sluice/protocol/mcp/subscriptions';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { DownstreamChannel, DownstreamSession, StreamListener } from '../../downstream.ts';
import { dispatchProgress, type InFlightCall, type InFlightCalls } from '../relay/in-flight-calls.ts';
import { RelayedServerRequests } from '../relay/server-requests.ts';
import { DefaultResponder, postMessage } from '../rpc-request.ts';
import { NotificationStream, type NotificationStreamHandler } from '../streams/notification-stream.ts';
import type { SessionNotificationBridge, Upstream, UpstreamSession } from '../upstream.ts';

export interface NotificationBridgeOptions {
  readonly upstream: Upstream;
  readonly upstreamSession: UpstreamSession;
  /** Headers besides those of the upstream session: names and values, alternating. */
  readonly headers: readonly string[];
  /** Session of the client. */
  readonly session: DownstreamSession;
  readonly calls: InFlightCalls<InFlightCall>;
  readonly log: TargetLogger;
  /** Delays between attempts to open the upstream's stream; reset once it is open. */
  readonly backoff: Backoff;
  /** The upstream lost the session. */
  onLost(): void;
}

/**
 * Connects the notification stream of a legacy client with the one of its session at an upstream: the latter is open while
 * the client has one, and its messages are sent to the client (2025-11-25, "Listening for Messages from the Server").
 */
export class NotificationBridge implements StreamListener, SessionNotificationBridge, NotificationStreamHandler {
  readonly #options: NotificationBridgeOptions;
  readonly #channel: DownstreamChannel;
  readonly #serverRequests: RelayedServerRequests;
  readonly #responder: DefaultResponder;
  #stream: NotificationStream | undefined = undefined;
  /** The upstream's stream is open, or the upstream has none. */
  #settled = false;
  /** The client may have missed notifications, and is informed once the stream is open. */
  #gap = false;
  /** The client reads too slowly: the upstream's stream is paused. */
  #blocked = false;
  #closed = false;

  constructor(options: NotificationBridgeOptions) {
    this.#options = options;
    const { upstream, upstreamSession, headers, session } = options;
    const channel = session.channel();
    this.#channel = channel;
    const post = (text: string) =>
      postMessage(upstream.transport, [...upstreamSession.identityHeaders, ...headers], text);
    this.#responder = new DefaultResponder(post);
    this.#serverRequests = new RelayedServerRequests({
      channel: () => channel,
      send: (text) => void this.#notify(text),
      post,
    });
    channel.addListener(this);
    this.onListeningChanged(channel.isListening);
  }

  get closed(): boolean {
    return this.#closed;
  }

  get pinned(): boolean {
    return this.#channel.isListening;
  }

  onListeningChanged(isListening: boolean): void {
    if (isListening) this.#stream ??= this.#openStream();
    else this.#stop();
  }

  onMessage(text: string, value: JsonObject): boolean {
    const { upstream, calls, session } = this.#options;
    const { method } = value;
    // No responses are expected on this stream.
    if (typeof method !== 'string') return true;
    if ('id' in value) {
      if (!this.#channel.isListening || !this.#serverRequests.relay(text)) this.#responder.respond(text, method);
      return !this.#blocked;
    }
    switch (method) {
      case 'notifications/cancelled':
        this.#serverRequests.onCancelled(text);
        return !this.#blocked;
      case 'notifications/progress':
        dispatchProgress(calls, upstream, session.id, text, value);
        return true;
      case 'notifications/message':
        return !reachesLevel(value.params, session.logLevel ?? LEAST_LEVEL) || this.#notify(text);
      default:
        if (!LIST_CHANGED_METHODS.has(method)) return this.#notify(text);
        // Clients are notified once the change has arrived here.
        upstream.reportListsChanged();
        return true;
    }
  }

  onOpen(gap: boolean): void {
    this.#options.backoff.reset();
    this.#settle(gap || this.#gap);
  }

  onUnavailable(): void {
    const { log, upstream } = this.#options;
    log.debug('upstream offers no notification stream', { upstream: upstream.transport.address });
    this.#settle(this.#gap);
  }

  onMissed(): void {
    if (this.#settled) this.#settle(true);
    else this.#gap = true;
  }

  onSessionLost(): void {
    void this.#checkSession(this.#stream);
  }

  onSessionDiscarded(): void {
    this.#options.onLost();
  }

  close(): void {
    this.#closed = true;
    this.#stop();
    this.#serverRequests.cancelAll();
    this.#channel.removeListener(this);
  }

  /** After a gap, notifies the client of all its subscriptions, so that it reads the resources again. */
  #settle(gap: boolean): void {
    this.#settled = true;
    // A client that reads slowly is notified once it has caught up, once for all gaps.
    this.#gap = gap && this.#blocked;
    if (!gap || this.#blocked) return;
    const { upstream, session } = this.#options;
    for (const { uri, forward } of session.subscriptions) {
      if (forward === upstream.forward) this.#notify(legacyResourceUpdated(uri));
    }
  }

  #openStream(): NotificationStream {
    const { upstream, upstreamSession, headers } = this.#options;
    return new NotificationStream(upstream.transport, [...upstreamSession.identityHeaders, ...headers], this);
  }

  /** Some upstreams answer "session not found" if they have no stream: `ping` finds out whether the session is lost. */
  async #checkSession(stream: NotificationStream | undefined): Promise<void> {
    const { upstreamSession, backoff } = this.#options;
    let isLost = false;
    try {
      await upstreamSession.client?.request('ping');
      if (this.#stream === stream) this.onUnavailable();
      return;
    } catch (error) {
      isLost = error instanceof UpstreamError && error.kind === 'session-lost';
    }
    if (!isLost) await delay(backoff.next(), undefined, { ref: false });
    // The bridge was closed meanwhile, or the client has closed its stream.
    if (this.#stream !== stream) return;
    if (isLost) this.#options.onLost();
    else this.#stream = this.#openStream();
  }

  #stop(): void {
    if (this.#settled) this.#gap = true;
    this.#settled = false;
    this.#blocked = false;
    this.#stream?.close();
    this.#stream = undefined;
  }

  #notify(text: string): boolean {
    if (this.#channel.send(text)) return true;
    if (this.#blocked) return false;
    this.#blocked = true;
    this.#channel.onDrain(() => {
      this.#blocked = false;
      this.#stream?.resume();
      if (this.#gap && this.#settled) this.#settle(true);
    });
    return false;
  }
}
