import type { Backoff } from '@sluice/protocol/backoff';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { LEAST_LEVEL, reachesLevel } from '@sluice/protocol/mcp/capabilities';
import { LIST_CHANGED_METHODS } from '@sluice/protocol/mcp/constants';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { DownstreamSession, StreamListener } from '../../downstream.ts';
import { dispatchProgress, type InFlightCall, type InFlightCalls } from '../relay/in-flight-calls.ts';
import { RelayedServerRequests } from '../relay/server-requests.ts';
import type { LegacyClient } from '../rpc-client.ts';
import { postMessage } from '../rpc-request.ts';
import { NotificationStream, type NotificationStreamHandler } from '../streams/notification-stream.ts';
import { ResourceUpdates } from '../streams/resource-updates.ts';
import type { SessionNotificationBridge, Upstream } from '../upstream.ts';

export interface NotificationBridgeOptions {
  readonly upstream: Upstream;
  /** Session at the upstream. */
  readonly client: LegacyClient;
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
  readonly #updates: ResourceUpdates;
  readonly #serverRequests: RelayedServerRequests;
  #stream: NotificationStream | undefined = undefined;
  /** The upstream's stream is open, or the upstream has none. */
  #settled = false;
  /** The client may have missed notifications, and is informed once the stream is open. */
  #gap = false;
  #closed = false;

  constructor(options: NotificationBridgeOptions) {
    this.#options = options;
    const { upstream, client, headers, session } = options;
    this.#updates = new ResourceUpdates(upstream, session, () => this.#stream?.resume());
    const { channel } = this.#updates;
    this.#serverRequests = new RelayedServerRequests({
      channel: () => channel,
      send: (text) => void this.#updates.send(text),
      post: (text) => postMessage(upstream.transport, [...client.sessionHeaders, ...headers], text),
    });
    channel.addListener(this);
    this.onListeningChanged(channel.isListening);
  }

  get closed(): boolean {
    return this.#closed;
  }

  get pinned(): boolean {
    return this.#updates.channel.isListening;
  }

  onListeningChanged(isListening: boolean): void {
    const { upstream, client, headers } = this.#options;
    if (isListening) this.#stream ??= new NotificationStream(upstream.transport, client, headers, this);
    else this.#stop();
  }

  onMessage(text: string, value: JsonObject): boolean {
    const { upstream, calls, session } = this.#options;
    const { method } = value;
    // No responses are expected on this stream.
    if (typeof method !== 'string') return true;
    if ('id' in value) {
      if (!this.#updates.channel.isListening || !this.#serverRequests.relay(text)) {
        this.#stream?.respondByDefault(text, method);
      }
      return !this.#updates.isBlocked;
    }
    switch (method) {
      case 'notifications/cancelled':
        this.#serverRequests.onCancelled(text);
        return !this.#updates.isBlocked;
      case 'notifications/progress':
        dispatchProgress(calls, upstream, session.id, text, value);
        return true;
      case 'notifications/message':
        return !reachesLevel(value.params, session.logLevel ?? LEAST_LEVEL) || this.#updates.send(text);
      default:
        if (!LIST_CHANGED_METHODS.has(method)) return this.#updates.send(text);
        // Clients are notified once the change has arrived here.
        upstream.observer.onListsChanged();
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
    this.#options.onLost();
  }

  onSessionDiscarded(): void {
    this.#options.onLost();
  }

  close(): void {
    this.#closed = true;
    this.#stop();
    this.#serverRequests.cancelAll();
    this.#updates.channel.removeListener(this);
  }

  /** After a gap, notifies the client of all its subscriptions, so that it reads the resources again. */
  #settle(gap: boolean): void {
    this.#settled = true;
    this.#gap = false;
    if (gap) this.#updates.notifyMissed();
  }

  #stop(): void {
    if (this.#settled) this.#gap = true;
    this.#settled = false;
    this.#updates.clear();
    this.#stream?.close();
    this.#stream = undefined;
  }
}
