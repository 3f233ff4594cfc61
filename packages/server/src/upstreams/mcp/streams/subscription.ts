import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { type Era, LIST_CHANGED_METHODS, METHOD_NOT_FOUND, MODERN_ERROR_CODES } from '@sluice/protocol/mcp/constants';
import type { ListenFilter } from '@sluice/protocol/mcp/subscriptions';
import { TASK_NOTIFICATION } from '@sluice/protocol/mcp/tasks';
import type { UpstreamError } from '../../../http/client/errors.ts';
import type { Upstream } from '../upstream.ts';
import { LegacyDriver } from './legacy-driver.ts';
import { ListenDriver } from './listen-driver.ts';
import { isTemporary, Reconnector } from './reconnecting-stream.ts';
import type { DriverHandler, DriverOptions, SubscriptionDriver } from './subscription-driver.ts';

/** Granted part of a subscription. */
export interface Grant {
  /** Lists whose changes are reported. */
  readonly lists: Pick<ListenFilter, 'toolsListChanged' | 'promptsListChanged' | 'resourcesListChanged'>;
  readonly uris: ReadonlySet<string>;
  /** Ids of tasks, as the upstream knows them. */
  readonly taskIds: readonly string[];
}

/** Callbacks of a {@link Subscription}; none from its constructor, none after `close`. */
export interface SubscriptionHandler {
  /**
   * The upstream granted this. Repeated after each reconnect with `gap` true: notifications may have been missed before.
   */
  onGranted(granted: Grant, gap: boolean): void;
  /** The subscription failed; `final`: closed for good, otherwise it is retried. */
  onRejected(error: UpstreamError, final: boolean): void;
  /**
   * The upstream's `notifications/resources/updated`, as text. False pauses until `resume`; what has already arrived is
   * still delivered.
   */
  onUpdated?(uri: string, text: string): boolean;
  /** The upstream's `notifications/tasks`, as text and parsed; likewise. */
  onTask?(text: string, value: JsonObject): boolean;
  /** The upstream was closed, and the subscription with it. */
  onUpstreamClosed(): void;
}

export interface SubscriptionOptions extends DriverOptions {
  /** Era of the subscription. */
  readonly era: Era;
  readonly handler: SubscriptionHandler;
  /** Milliseconds after which a legacy upstream has granted what it has accepted so far (default 4000). */
  readonly grantMs?: number;
  /** Milliseconds after which an active subscription resets the reconnect delay (default 60000). */
  readonly stableMs?: number;
}

/** Less than clients wait, so that one slow uri does not prevent the others. */
const GRANT_MS = 4_000;
const STABLE_MS = 60_000;

/**
 * Subscription to list changes and resources of one upstream: opened immediately by the driver of its era, and again with
 * increasing delay whenever it ends, until it is rejected for good. List changes are reported to the upstream.
 */
export class Subscription implements DriverHandler, EventListenerObject {
  readonly upstream: Upstream;
  /** Uris of the latest attempt: without those that were hidden then. */
  requested: ReadonlySet<string>;
  /** Uris whose updates are delivered: a subset of the requested, later of the granted ones. */
  uris: ReadonlySet<string>;
  /** Uris granted so far; undefined before the first grant and after the final rejection. */
  granted: ReadonlySet<string> | undefined = undefined;
  /** True once the upstream has granted or rejected it. */
  isSettled = false;
  /** True while notifications arrive; false before the grant and while the connection is broken. */
  isActive = false;
  readonly #options: SubscriptionOptions;
  readonly #grantBy: number;
  readonly #connection: Reconnector;
  #stableTimer: NodeJS.Timeout | undefined = undefined;
  #isStable = false;

  constructor(options: SubscriptionOptions) {
    const { upstream, resources, grantMs = GRANT_MS, delays } = options;
    this.upstream = upstream;
    this.requested = new Set(resources?.uris);
    this.uris = this.requested;
    this.#options = options;
    this.#grantBy = performance.now() + grantMs;
    upstream.closeSignal.addEventListener('abort', this);
    this.#connection = new Reconnector(() => this.#connect(), delays);
    this.#connection.open();
  }

  /** The upstream is closed. */
  handleEvent(): void {
    this.close();
    this.#options.handler.onUpstreamClosed();
  }

  /** Delivers only updates of these uris, as far as they are granted. */
  restrictTo(uris: Iterable<string>): void {
    const { granted } = this;
    this.uris = new Set([...uris].filter((uri) => granted?.has(uri) ?? true));
  }

  /** Resumes after `onUpdated` returned false. */
  resume(): void {
    this.#connection.resume();
  }

  close(): void {
    this.isActive = false;
    this.upstream.closeSignal.removeEventListener('abort', this);
    clearTimeout(this.#stableTimer);
    this.#connection.close();
  }

  onGranted({ resourceSubscriptions, taskIds = [], ...lists }: ListenFilter): void {
    const uris = new Set(resourceSubscriptions?.filter((uri) => this.requested.has(uri)));
    const gap = this.granted !== undefined;
    // A uri once granted stays so: after a reconnect the upstream may grant fewer for a while.
    if (this.granted) this.granted = this.granted.union(uris);
    else {
      this.granted = uris;
      this.restrictTo(this.uris);
    }
    this.isSettled = true;
    this.isActive = true;
    clearTimeout(this.#stableTimer);
    this.#stableTimer = setTimeout(() => {
      this.#isStable = true;
      this.#connection.delay.reset();
    }, this.#options.stableMs ?? STABLE_MS).unref();
    this.#options.handler.onGranted({ lists, uris, taskIds }, gap);
  }

  onNotification(text: string, { method, params = null }: JsonObject): boolean {
    if (LIST_CHANGED_METHODS.has(method)) this.upstream.changed.emit({ kind: 'lists', method });
    const { onTask } = this.#options.handler;
    if (method === TASK_NOTIFICATION && onTask) return this.#connection.deliver(() => onTask(text, { method, params }));
    if (!this.granted || method !== 'notifications/resources/updated') return true;
    const uri = isJsonObject(params) ? params.uri : undefined;
    if (typeof uri !== 'string' || !coversUri(this.uris, uri)) return true;
    // A sub-resource may be hidden by itself.
    if (this.#options.resources?.permit.isHidden(uri)) return true;
    return this.#connection.deliver(() => this.#options.handler.onUpdated?.(uri, text) ?? true);
  }

  onRetryMs(retryMs: number): void {
    this.#connection.delay.setRetryMs(retryMs);
  }

  onFailed(error: UpstreamError | undefined, final = error !== undefined && this.#isFinal(error)): void {
    // A session that the upstream lost after a long time, mostly by a restart, is replaced at once.
    const immediately = this.#isStable && error?.kind === 'session-lost';
    this.isActive = false;
    this.#isStable = false;
    clearTimeout(this.#stableTimer);
    if (final) {
      this.close();
      this.isSettled = true;
      this.granted = undefined;
    } else {
      this.#connection.reconnect(immediately);
    }
    if (error) this.#options.handler.onRejected(error, final);
  }

  /** True if another attempt would fail as well. */
  #isFinal({ kind, code, status }: UpstreamError): boolean {
    if (kind === 'redirect' || kind === 'aborted') return true;
    if (code === METHOD_NOT_FOUND || MODERN_ERROR_CODES.has(code ?? 0)) return true;
    if (status !== undefined && isTemporary(status)) return false;
    if (status !== undefined && status >= 400) return true;
    return (kind === 'rpc' || kind === 'invalid' || kind === 'http') && this.granted === undefined;
  }

  #connect(): SubscriptionDriver {
    const { granted } = this;
    const options = this.#options;
    const { permit, uris = [] } = options.resources ?? {};
    // Without those that the upstream has rejected.
    const wanted = granted?.size ? [...granted] : uris;
    const resources = permit && { permit, uris: wanted.filter((uri) => !permit.isHidden(uri)) };
    this.requested = new Set(resources?.uris);
    const attempt = { ...options, resources, wasGranted: granted !== undefined, grantBy: this.#grantBy };
    return options.era === 'legacy' ? new LegacyDriver(attempt, this) : new ListenDriver(attempt, this);
  }
}

/**
 * True if an update of `uri` concerns one of the watched resources: it may name a sub-resource (schema of both eras,
 * `ResourceUpdatedNotification`).
 */
function coversUri(watched: ReadonlySet<string>, uri: string): boolean {
  if (watched.has(uri)) return true;
  for (const parent of watched) if (uri.startsWith(parent) && isBelow(parent, uri)) return true;
  return false;
}

/** Whether the rest of the uri begins a sub-resource and not a longer name: `/a/b` is below `/a`, `/ab` is not. */
function isBelow(watched: string, uri: string): boolean {
  return watched.endsWith('/') || '/?#'.includes(uri[watched.length] ?? '');
}
