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
import { type ClientOptions, type LegacyClient, openLegacy, type UpstreamClient } from '../client.ts';
import { Refusals } from '../relay/request-rewrite.ts';
import { postMessage } from '../rpc-request.ts';
import { withTimeout } from '../with-timeout.ts';
import { type ListenSink, ListenSubscription } from './listen-subscription.ts';
import { SessionStream, type SessionStreamSink } from './notification-stream.ts';

/** What an upstream says of itself in the eras that it speaks. */
export interface ProbedClients {
  readonly legacy?: Pick<UpstreamClient, 'serverCapabilities'> | undefined;
  readonly modern?: Pick<UpstreamClient, 'serverCapabilities' | 'protocolVersion'> | undefined;
}

export interface WatchOptions {
  readonly transport: UpstreamTransport;
  /** Who we are, towards upstreams. */
  readonly clientInfo: ClientOptions['clientInfo'];
  /** Gives an id that no other request to the upstream has. */
  readonly nextId: () => number;
  /** What the upstream offers has changed, or may have. */
  readonly changed: () => void;
  readonly log: TargetLogger;
  /** Milliseconds that `follow` waits at most (default 500). */
  readonly readyMs?: number;
  readonly delays?: ReconnectDelayOptions;
}

const READY_MS = 500;
/** Sessions that the upstream may forget one after the other, without a stream having come about, before it is believed. */
const MAX_UNHEARD = 2;

/**
 * Watches what one upstream offers, for as long as it is well (mcp 4): over `subscriptions/listen` when it speaks the
 * modern era, else, or when it refuses that, over the notification stream of a legacy session that serves nothing else.
 * Upstreams that declare no `listChanged` are left in peace.
 *
 * The supervisor has it follow each discovery and pause while the upstream is down; between the two it reconnects by
 * itself.
 */
export class ListChangeWatcher {
  readonly #options: WatchOptions;
  #watching: ActiveWatch | undefined = undefined;
  /** What is watched, as a text that is equal as long as there is nothing to do anew; undefined while paused. */
  #key: string | undefined = undefined;
  #ended = false;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /**
   * To be told at each discovery, before the lists are read: so that no change falls between reading and watching. What
   * is watched already goes on. Resolves when notices would be heard or never will be, or when that takes too long: then
   * `changed` follows. Never rejects. `anew`: an upstream that has refused to be watched is asked again.
   */
  async follow(spoken: ProbedClients, anew = false): Promise<void> {
    const targets = targetsOf(spoken);
    const key = JSON.stringify(targets);
    if (this.#ended || (key === this.#key && !(anew && this.#watching?.refused))) return;
    this.pause();
    this.#key = key;
    if (targets.length === 0) return;
    this.#watching = new ActiveWatch(this.#options, targets);
    await this.#watching.ready(this.#options.readyMs ?? READY_MS);
  }

  /** True when it waits for `follow`. */
  get paused(): boolean {
    return this.#key === undefined;
  }

  /** Ends what is open upstream, until the next `follow`. */
  pause(): void {
    this.#watching?.end();
    this.#watching = undefined;
    this.#key = undefined;
  }

  /** Ends it for good. */
  end(): void {
    this.#ended = true;
    this.pause();
  }
}

/** One way to watch an upstream. */
type Target =
  | { readonly era: 'modern'; readonly filter: ListenFilter; readonly protocolVersion: string }
  | { readonly era: 'legacy' };

/** The ways to watch an upstream, the better one first; none when it announces no changes. */
function targetsOf({ legacy, modern }: ProbedClients): Target[] {
  const targets: Target[] = [];
  if (modern) {
    const filter: ListenFilter = {
      ...(announces(modern, 'tools') && { toolsListChanged: true }),
      ...(announces(modern, 'prompts') && { promptsListChanged: true }),
      ...(announces(modern, 'resources') && { resourcesListChanged: true }),
    };
    const { protocolVersion } = modern;
    if (Object.keys(filter).length > 0) targets.push({ era: 'modern', filter, protocolVersion });
  }
  if (legacy && (announces(legacy, 'tools') || announces(legacy, 'prompts') || announces(legacy, 'resources'))) {
    targets.push({ era: 'legacy' });
  }
  return targets;
}

function announces({ serverCapabilities }: Pick<UpstreamClient, 'serverCapabilities'>, list: string): boolean {
  const capability = serverCapabilities[list];
  return isJsonObject(capability) && capability.listChanged === true;
}

/** The watch over an upstream from one `follow` to its end. */
class ActiveWatch implements ListenSink, SessionStreamSink {
  readonly #options: WatchOptions;
  /** The ways that are left to try. */
  readonly #targets: Target[];
  readonly #ended = new AbortController();
  readonly #delay: ReconnectDelay;
  readonly #heard = Promise.withResolvers<void>();
  readonly #refusals: Refusals;
  /** True when there is no way left to try. */
  refused = false;
  #timer: NodeJS.Timeout | undefined = undefined;
  #stream: ListenSubscription | SessionStream | undefined = undefined;
  #session: LegacyClient | undefined = undefined;
  /** Notices may have been missed by the time that the stream is there. */
  #missed = false;
  /** Sessions that were lost since a stream was there. */
  #unheard = 0;

  constructor(options: WatchOptions, targets: readonly Target[]) {
    this.#options = options;
    this.#refusals = new Refusals((answer) => this.#deliver(answer));
    this.#targets = [...targets];
    this.#delay = new ReconnectDelay(options.delays);
    this.#next();
  }

  /** Resolves when notices would be heard or never will be, or after this long: what comes to be heard then is a change. */
  async ready(ms: number): Promise<void> {
    let heard = false;
    await withTimeout(
      ms,
      this.#heard.promise.then(() => {
        heard = true;
      }),
    );
    if (!heard) this.#missed = true;
  }

  end(): void {
    this.#ended.abort();
    clearTimeout(this.#timer);
    this.#stream?.close();
    // Nobody waits for the upstream to forget a session.
    void this.#session?.close();
    this.#session = undefined;
    this.#heard.resolve();
  }

  onAcknowledged(granted: ListenFilter, gap: boolean): void {
    const nothing = Object.keys(granted).length === 0;
    if (nothing && this.#targets.some(({ era }) => era === 'legacy')) this.#next();
    else this.#open(gap);
  }

  onNotification(_text: string, { method }: JsonObject): boolean {
    if (LIST_CHANGED_METHODS.has(method)) this.#options.changed();
    return true;
  }

  onRefused(error: UpstreamError, final: boolean): void {
    this.#options.log.debug('upstream cannot be watched', { reason: error.message, final });
    if (final) this.#next();
    else this.#fail();
  }

  onOpen(gap: boolean): void {
    this.#unheard = 0;
    this.#delay.reset();
    this.#open(gap);
  }

  onMessage(text: string, value: JsonObject): boolean {
    if ('id' in value && typeof value.method === 'string') this.#refusals.refuse(text, value.method);
    else this.onNotification(text, value);
    return true;
  }

  onSessionLost(): void {
    // Some upstreams have no stream and say 404 for it.
    if (++this.#unheard >= MAX_UNHEARD) return this.onUnavailable();
    void this.#session?.close();
    this.#session = undefined;
    this.#fail();
    void this.#openSession();
  }

  onUnavailable(): void {
    const { log, transport } = this.#options;
    log.debug('upstream offers no notification stream', { upstream: transport.address });
    void this.#session?.close();
    this.#session = undefined;
    this.#next();
  }

  /** Takes the next way to watch; when there is none, nothing will be heard. */
  #next(): void {
    this.#stream?.close();
    this.#stream = undefined;
    const target = this.#targets.shift();
    if (target === undefined) {
      this.refused = true;
      this.#heard.resolve();
    } else if (target.era === 'legacy') {
      void this.#openSession();
    } else {
      const { transport, clientInfo, nextId, delays = {} } = this.#options;
      const { filter, protocolVersion } = target;
      const asked = { transport, clientInfo, capabilities: NO_CAPABILITIES, nextId, filter, protocolVersion };
      this.#stream = new ListenSubscription({ ...asked, sink: this, delays });
    }
  }

  #open(gap: boolean): void {
    const missed = gap || this.#missed;
    this.#missed = false;
    this.#heard.resolve();
    if (missed) this.#options.changed();
  }

  /** It takes another attempt, for which nobody waits. */
  #fail(): void {
    this.#missed = true;
    this.#heard.resolve();
  }

  /** Opens a session, and a stream on it; as often as it takes. */
  async #openSession(): Promise<void> {
    const { transport, clientInfo, delays } = this.#options;
    const { signal } = this.#ended;
    try {
      const session = await openLegacy({ transport, clientInfo, capabilities: NO_CAPABILITIES, signal });
      if (signal.aborted) return void session.close();
      this.#session = session;
      this.#stream = new SessionStream(transport, headersOf(session), this, delays);
    } catch {
      if (signal.aborted) return;
      this.#fail();
      this.#timer = setTimeout(() => void this.#openSession(), this.#delay.next()).unref();
    }
  }

  async #deliver(answer: string): Promise<void> {
    if (this.#session) await postMessage(this.#options.transport, headersOf(this.#session), answer);
  }
}

/** What every request in our session carries. */
function headersOf({ protocolVersion, sessionId }: LegacyClient): string[] {
  const session = sessionId === undefined ? [] : [HEADER_SESSION_ID, sessionId];
  return [HEADER_HOPS, '1', HEADER_PROTOCOL_VERSION, protocolVersion, ...session];
}
