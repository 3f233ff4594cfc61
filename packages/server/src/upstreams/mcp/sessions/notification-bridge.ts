import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { MINIMUM_LEVEL, reachesLevel } from '@sluice/protocol/mcp/capabilities';
import { LIST_CHANGED_METHODS } from '@sluice/protocol/mcp/constants';
import { legacyResourceUpdated } from '@sluice/protocol/mcp/subscriptions';
import type { TimeSlicer } from '@sluice/protocol/time-slicer';
import type { Backoff } from '@sluice/protocol/timing';
import type { Access, PermitOutline } from '../../../access/access.ts';
import type { Steps } from '../../../registry/steps.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { DownstreamChannel, DownstreamClient, DownstreamSession, StreamListener } from '../../downstream.ts';
import type { InFlightCalls } from '../../in-flight-calls.ts';
import type { MessageTranslator } from '../relay/call-spec.ts';
import { RelayedServerRequests } from '../relay/server-requests.ts';
import type { LegacyClient } from '../rpc-client.ts';
import { postMessage } from '../rpc-request.ts';
import { subscribeEach } from '../streams/legacy-driver.ts';
import { NotificationStream, type NotificationStreamHandler } from '../streams/notification-stream.ts';
import type { Upstream } from '../upstream.ts';
import type { SessionNotificationBridge, UpstreamSession } from '../upstream-sessions.ts';

/** A session that was opened at an upstream for the session of a client. */
export interface BoundSession {
  readonly upstream: Upstream;
  readonly client: DownstreamClient;
  /** Session at the upstream, and its client. */
  readonly bound: UpstreamSession;
  readonly rpc: LegacyClient;
  /** Delays between attempts to open the upstream's stream; reset once it is open. */
  readonly backoff: Backoff;
}

export interface NotificationBridgeOptions extends BoundSession {
  readonly access: Pick<Access, 'outline' | 'slicer'>;
  readonly calls: InFlightCalls;
  readonly log: TargetLogger;
  /** Translates messages about tasks; undefined for none. */
  readonly tasks: MessageTranslator | undefined;
  /** The upstream lost the session. */
  onMissedEvents(): void;
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
  /** The upstream's stream is open, or will be with its first event, or the upstream has none. */
  #settled = false;
  /** The client may have missed notifications, and is informed once the stream is open. */
  #gap = false;
  #closed = false;

  constructor(options: NotificationBridgeOptions) {
    this.#options = options;
    const { upstream, client, rpc, tasks } = options;
    this.#updates = new ResourceUpdates(options, () => this.#stream?.resume());
    const { channel } = this.#updates;
    this.#serverRequests = new RelayedServerRequests({
      channel: () => channel,
      send: (text) => void this.#updates.send(text),
      post: (text) =>
        postMessage(upstream.transport, [...rpc.sessionHeaders, ...client.headers], tasks?.toUpstream(text) ?? text),
    });
    channel.addListener(this);
    this.onListeningChanged(channel.isListening);
  }

  get isHidden(): boolean {
    return this.#updates.permit.isHidden();
  }

  get pinned(): boolean {
    return this.#updates.channel.isListening;
  }

  onListeningChanged(isListening: boolean): void {
    const { upstream, client, rpc } = this.#options;
    if (!isListening) return this.#stop();
    if (this.#stream) return;
    const stream = new NotificationStream(upstream.transport, rpc, client.headers, this);
    this.#stream = stream;
    void stream.ready().then(() => {
      if (this.#stream === stream) this.#settle(this.#gap);
    });
  }

  onMessage(received: string, value: JsonObject): boolean {
    const { upstream, calls, client, bound, tasks } = this.#options;
    const { method } = value;
    const text = tasks ? tasks.toClient(received, value) : received;
    if (text === undefined) return true;
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
        if (tasks?.isTaskProgress(value)) return this.#updates.send(text);
        calls.dispatchProgress(bound, text, value);
        return true;
      case 'notifications/message':
        return !reachesLevel(value.params, client.session.state.logLevel ?? MINIMUM_LEVEL) || this.#updates.send(text);
      case 'notifications/resources/updated':
        return !this.#updates.isAllowed(value) || this.#updates.send(text);
      default:
        if (!LIST_CHANGED_METHODS.has(method)) return this.#updates.send(text);
        // Clients are notified once the change has arrived here.
        upstream.changed.emit({ kind: 'lists', method });
        return true;
    }
  }

  onOpen(gap: boolean): void {
    this.#options.backoff.reset();
    if (gap) this.#settle(true);
  }

  onUnavailable(): void {
    const { log, upstream } = this.#options;
    log.debug('upstream offers no notification stream', { upstream: upstream.transport.address });
  }

  onMissed(): void {
    if (this.#settled) this.#settle(true);
    else this.#gap = true;
  }

  onResourcesChanged(): void {
    void this.#updates.findRestored()?.then((restored) => this.#restore(restored));
  }

  #restore(restored: readonly string[]): void {
    // Not sent if the session was opened while they were hidden.
    if (restored.length > 0) void this.#subscribe(restored).then(() => this.#updates.notifyMissed(new Set(restored)));
  }

  /** Restores the subscriptions of the client in the new session. */
  async resubscribe(): Promise<void> {
    const uris = this.#updates.subscribed;
    if (uris.length === 0) return;
    await this.#subscribe(uris);
    // Updates between the previous session and this one were missed.
    this.onMissed();
  }

  /** Subscribes to those of these uris that the client is still subscribed to. Requests that the upstream rejects are ignored. */
  async #subscribe(uris: readonly string[]): Promise<void> {
    const { rpc } = this.#options;
    await subscribeEach(uris, async (uri) => {
      if (this.#closed || !this.#updates.isSubscribed(uri)) return;
      await rpc.subscribe(this.#updates.permit, uri).catch(() => undefined);
      if (this.#updates.isSubscribed(uri)) return;
      await rpc.request('resources/unsubscribe', { uri }).catch(() => undefined);
    });
  }

  onSessionLost(): void {
    this.#options.onMissedEvents();
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

/** Returns the outline of a permit for what a session sends to an upstream besides calls, and gets from it. */
export function outlineFor(
  access: Pick<Access, 'outline'>,
  { principal, session: { namespace } }: DownstreamClient,
  { forward }: Pick<Upstream, 'forward'>,
): PermitOutline {
  return access.outline(principal, { namespace, forward });
}

/**
 * Sends the notifications of one upstream on the notification stream of a legacy session, with backpressure, and notifies
 * the client of the resources that it is subscribed to there after updates may have been missed.
 */
export class ResourceUpdates {
  readonly channel: DownstreamChannel;
  /** For subscriptions of the client at the upstream. */
  readonly permit: PermitOutline;
  readonly #forward: string | undefined;
  readonly #session: DownstreamSession;
  readonly #onDrain: () => void;
  /** Uris of updates to send when the client reads again, once each. */
  readonly #pending = new Set<string>();
  /** True while the client reads too slowly. */
  isBlocked = false;
  /** As of the last call of `findRestored`. */
  #hidden: ReadonlySet<string>;
  /** The last search for restored uris, and whether another one follows. */
  #searching: Promise<unknown> = Promise.resolve();
  #isDue = false;
  readonly #slicer: TimeSlicer;

  /** `onDrain` is called when the client reads again after `send` returned false. */
  constructor(
    options: Pick<NotificationBridgeOptions, 'access' | 'client'> & { readonly upstream: Pick<Upstream, 'forward'> },
    onDrain: () => void,
  ) {
    const { access, client, upstream } = options;
    this.#slicer = access.slicer;
    this.channel = client.session.channel();
    this.permit = outlineFor(access, client, upstream);
    this.#forward = upstream.forward;
    this.#session = client.session;
    this.#onDrain = onDrain;
    this.#hidden = this.hidden;
  }

  /** Uris that the client is subscribed to at the upstream, without hidden ones. */
  get subscribed(): string[] {
    return this.#own.filter((uri) => !this.permit.isHidden(uri));
  }

  isSubscribed(uri: string): boolean {
    return this.#own.includes(uri) && !this.permit.isHidden(uri);
  }

  /** Whether the client may know of the resource of an update. */
  isAllowed({ params }: JsonObject): boolean {
    const uri = isJsonObject(params) ? params.uri : undefined;
    return typeof uri !== 'string' || !this.permit.isHidden(uri);
  }

  /** Uris that the client is subscribed to and may not use at present. They may be restored. */
  get hidden(): ReadonlySet<string> {
    return new Set(this.#own.filter((uri) => this.permit.isHidden(uri)));
  }

  /** Updates which resources are hidden, in slices; returns those that are not hidden any more. Undefined if another call will. */
  findRestored(): Promise<readonly string[]> | undefined {
    if (this.#isDue) return undefined;
    this.#isDue = true;
    const searching = this.#searching.then(() => {
      this.#isDue = false;
      return this.#slicer.run(this.#takeRestored());
    });
    this.#searching = searching;
    return searching;
  }

  *#takeRestored(): Steps<readonly string[]> {
    const hidden = new Set<string>();
    const restored: string[] = [];
    for (const uri of this.#own) {
      if (this.permit.isHidden(uri)) hidden.add(uri);
      else if (this.#hidden.has(uri)) restored.push(uri);
      yield;
    }
    this.#hidden = hidden;
    return restored;
  }

  get #own(): string[] {
    return this.#session.state.subscriptions.filter(({ forward }) => forward === this.#forward).map(({ uri }) => uri);
  }

  /** Sends a notification of the upstream. False: the client reads slowly, wait for `onDrain`. */
  send(text: string): boolean {
    if (this.channel.send(text)) return true;
    if (this.isBlocked) return false;
    this.isBlocked = true;
    this.channel.onDrain(() => this.#flush());
    return false;
  }

  /** Sends an update for each subscribed resource, or each of `uris`: it may have changed. */
  notifyMissed(uris?: ReadonlySet<string>): void {
    for (const uri of this.subscribed) if (uris?.has(uri) ?? true) this.#notify(uri);
  }

  /** Drops pending updates: the client no longer listens. */
  clear(): void {
    this.#pending.clear();
    this.isBlocked = false;
  }

  #notify(uri: string): void {
    if (this.isBlocked) this.#pending.add(uri);
    else this.send(legacyResourceUpdated(uri));
  }

  #flush(): void {
    this.isBlocked = false;
    const uris = [...this.#pending];
    this.#pending.clear();
    for (const uri of uris) this.#notify(uri);
    if (!this.isBlocked) this.#onDrain();
  }
}
