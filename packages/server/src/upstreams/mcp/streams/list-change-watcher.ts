import { ReconnectDelay, type ReconnectDelayOptions } from '@sluice/protocol/backoff';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import {
  HEADER_HOPS,
  HEADER_PROTOCOL_VERSION,
  HEADER_SESSION_ID,
  LIST_CHANGED_METHODS,
} from '@sluice/protocol/mcp/constants';
import type { ListenFilter } from '@sluice/protocol/mcp/subscriptions';
import type { UpstreamTransport } from '../../../http/client/client.ts';
import type { UpstreamError } from '../../../http/client/errors.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import { withTimeout } from '../../with-timeout.ts';
import { type LegacyClient, openLegacy, type RpcClient, type RpcClientOptions } from '../rpc-client.ts';
import { DefaultResponder, postMessage } from '../rpc-request.ts';
import { type ListenHandler, ListenSubscription } from './listen-subscription.ts';
import { NotificationStream, type NotificationStreamHandler } from './notification-stream.ts';

/** Capabilities of an upstream in each era that it speaks. */
export interface ProbedClients {
  readonly legacy?: Pick<RpcClient, 'serverCapabilities'> | undefined;
  readonly modern?: Pick<RpcClient, 'serverCapabilities' | 'protocolVersion'> | undefined;
}

export interface ListChangeWatcherOptions {
  readonly transport: UpstreamTransport;
  /** Identity of the gateway towards upstreams. */
  readonly clientInfo: RpcClientOptions['clientInfo'];
  /** Returns an id unique among the requests to the upstream. */
  readonly nextId: () => number;
  /** A list of the upstream has changed, or may have. */
  readonly onChange: () => void;
  readonly log: TargetLogger;
  /** Milliseconds that `watch` waits at most (default 500). */
  readonly readyMs?: number;
  readonly delays?: ReconnectDelayOptions;
}

const READY_MS = 500;
/** Lost sessions in a row, without an open stream, after which the upstream is assumed to offer no stream. */
const MAX_LOST_SESSIONS = 2;

/**
 * Watches the lists of one upstream for changes while it is up (mcp 4): with `subscriptions/listen` in the modern era,
 * else, or if that is rejected, with the notification stream of a dedicated legacy session. Upstreams that do not declare
 * `listChanged` are not watched.
 *
 * The controller calls `watch` at each discovery and `pause` when the upstream is down; in between, the watcher reconnects
 * by itself.
 */
export class ListChangeWatcher {
  readonly #options: ListChangeWatcherOptions;
  #active: ActiveWatch | undefined = undefined;
  /** Serialized targets of the active watch; undefined while paused. */
  #key: string | undefined = undefined;
  #closed = false;

  constructor(options: ListChangeWatcherOptions) {
    this.#options = options;
  }

  /**
   * Called at each discovery, before the lists are read, so that no change is missed in between. An active watch with the
   * same targets continues. Resolves when notifications can arrive or never will, or after a timeout, in which case
   * `onChange` is called later. Never rejects. `retryRejected`: try again if the upstream has rejected all targets.
   */
  async watch(clients: ProbedClients, retryRejected = false): Promise<void> {
    const targets = watchTargets(clients);
    const key = JSON.stringify(targets);
    if (this.#closed || (key === this.#key && !(retryRejected && this.#active?.isExhausted))) return;
    this.pause();
    this.#key = key;
    if (targets.length === 0) return;
    this.#active = new ActiveWatch(this.#options, targets);
    await this.#active.waitUntilReady(this.#options.readyMs ?? READY_MS);
  }

  /** True until the next `watch`. */
  get isPaused(): boolean {
    return this.#key === undefined;
  }

  /** Closes the upstream connection until the next `watch`. */
  pause(): void {
    this.#active?.close();
    this.#active = undefined;
    this.#key = undefined;
  }

  /** Stops for good. */
  close(): void {
    this.#closed = true;
    this.pause();
  }
}

/** A mechanism to watch an upstream with. */
type WatchTarget =
  | { readonly era: 'modern'; readonly filter: ListenFilter; readonly protocolVersion: string }
  | { readonly era: 'legacy' };

/** Mechanisms that the upstream supports, the preferred one first; none if it announces no changes. */
function watchTargets({ legacy, modern }: ProbedClients): WatchTarget[] {
  const targets: WatchTarget[] = [];
  if (modern) {
    const filter: ListenFilter = {
      ...(declaresListChanged(modern, 'tools') && { toolsListChanged: true }),
      ...(declaresListChanged(modern, 'prompts') && { promptsListChanged: true }),
      ...(declaresListChanged(modern, 'resources') && { resourcesListChanged: true }),
    };
    const { protocolVersion } = modern;
    if (Object.keys(filter).length > 0) targets.push({ era: 'modern', filter, protocolVersion });
  }
  if (
    legacy &&
    (declaresListChanged(legacy, 'tools') ||
      declaresListChanged(legacy, 'prompts') ||
      declaresListChanged(legacy, 'resources'))
  ) {
    targets.push({ era: 'legacy' });
  }
  return targets;
}

function declaresListChanged({ serverCapabilities }: Pick<RpcClient, 'serverCapabilities'>, list: string): boolean {
  const capability = serverCapabilities[list];
  return isJsonObject(capability) && capability.listChanged === true;
}

/** A watch from one `ListChangeWatcher.watch` to the next or to `pause`. */
class ActiveWatch implements ListenHandler, NotificationStreamHandler {
  readonly #options: ListChangeWatcherOptions;
  /** Targets left to try. */
  readonly #targets: WatchTarget[];
  readonly #closing = new AbortController();
  readonly #delay: ReconnectDelay;
  readonly #ready = Promise.withResolvers<void>();
  readonly #rejector: DefaultResponder;
  /** True once all targets were rejected. */
  isExhausted = false;
  #timer: NodeJS.Timeout | undefined = undefined;
  #stream: ListenSubscription | NotificationStream | undefined = undefined;
  #session: LegacyClient | undefined = undefined;
  /** Notifications may be missed until the stream is open. */
  #missed = false;
  /** Sessions lost since the last open stream. */
  #lostSessions = 0;

  constructor(options: ListChangeWatcherOptions, targets: readonly WatchTarget[]) {
    this.#options = options;
    this.#rejector = new DefaultResponder((answer) => this.#post(answer));
    this.#targets = [...targets];
    this.#delay = new ReconnectDelay(options.delays);
    this.#startNextTarget();
  }

  /** Resolves when notifications can arrive or never will, or after a timeout; opening the stream later counts as a change. */
  async waitUntilReady(ms: number): Promise<void> {
    let isReady = false;
    await withTimeout(
      ms,
      this.#ready.promise.then(() => {
        isReady = true;
      }),
    );
    if (!isReady) this.#missed = true;
  }

  close(): void {
    this.#closing.abort();
    clearTimeout(this.#timer);
    this.#stream?.close();
    // In the background.
    void this.#session?.close();
    this.#session = undefined;
    this.#ready.resolve();
  }

  onAcknowledged(granted: ListenFilter, gap: boolean): void {
    const isEmpty = Object.keys(granted).length === 0;
    if (isEmpty && this.#targets.some(({ era }) => era === 'legacy')) this.#startNextTarget();
    else this.#markReady(gap);
  }

  onNotification(_text: string, { method }: JsonObject): boolean {
    if (LIST_CHANGED_METHODS.has(method)) this.#options.onChange();
    return true;
  }

  onRefused(error: UpstreamError, final: boolean): void {
    this.#options.log.debug('upstream rejects list change subscription', { reason: error.message, final });
    if (final) this.#startNextTarget();
    else this.#markUnavailable();
  }

  onOpen(gap: boolean): void {
    this.#lostSessions = 0;
    this.#delay.reset();
    this.#markReady(gap);
  }

  onMessage(text: string, value: JsonObject): boolean {
    if ('id' in value && typeof value.method === 'string') this.#rejector.respond(text, value.method);
    else this.onNotification(text, value);
    return true;
  }

  onSessionLost(): void {
    // Some upstreams without a stream answer 404.
    if (++this.#lostSessions >= MAX_LOST_SESSIONS) return this.onUnavailable();
    void this.#session?.close();
    this.#session = undefined;
    this.#markUnavailable();
    void this.#openSession();
  }

  onUnavailable(): void {
    const { log, transport } = this.#options;
    log.debug('upstream offers no notification stream', { upstream: transport.address });
    void this.#session?.close();
    this.#session = undefined;
    this.#startNextTarget();
  }

  /** Starts the next target; if there is none, no notification will arrive. */
  #startNextTarget(): void {
    this.#stream?.close();
    this.#stream = undefined;
    const target = this.#targets.shift();
    if (target === undefined) {
      this.isExhausted = true;
      this.#ready.resolve();
    } else if (target.era === 'legacy') {
      void this.#openSession();
    } else {
      const { transport, clientInfo, nextId, delays = {} } = this.#options;
      const { filter, protocolVersion } = target;
      const request = { transport, clientInfo, capabilities: NO_CAPABILITIES, nextId, filter, protocolVersion };
      this.#stream = new ListenSubscription({ ...request, handler: this, delays });
    }
  }

  #markReady(gap: boolean): void {
    const missed = gap || this.#missed;
    this.#missed = false;
    this.#ready.resolve();
    if (missed) this.#options.onChange();
  }

  /** Another attempt is needed, for which `waitUntilReady` does not wait. */
  #markUnavailable(): void {
    this.#missed = true;
    this.#ready.resolve();
  }

  /** Opens a session and a stream in it, with retries. */
  async #openSession(): Promise<void> {
    const { transport, clientInfo, delays } = this.#options;
    const { signal } = this.#closing;
    try {
      const session = await openLegacy({ transport, clientInfo, capabilities: NO_CAPABILITIES, signal });
      if (signal.aborted) return void session.close();
      this.#session = session;
      this.#stream = new NotificationStream(transport, headersOf(session), this, delays);
    } catch {
      if (signal.aborted) return;
      this.#markUnavailable();
      this.#timer = setTimeout(() => void this.#openSession(), this.#delay.next()).unref();
    }
  }

  async #post(message: string): Promise<void> {
    if (this.#session) await postMessage(this.#options.transport, headersOf(this.#session), message);
  }
}

/** Headers of every request in the session. */
function headersOf({ protocolVersion, sessionId }: LegacyClient): string[] {
  const session = sessionId === undefined ? [] : [HEADER_SESSION_ID, sessionId];
  return [HEADER_HOPS, '1', HEADER_PROTOCOL_VERSION, protocolVersion, ...session];
}
