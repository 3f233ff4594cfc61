import type { JsonObject } from '@sluice/protocol/json/parse';
import { type Era, HEADER_PROTOCOL_VERSION, LATEST_MODERN } from '@sluice/protocol/mcp/constants';
import { serverOf, type UpstreamTransport } from '../../http/client/client.ts';
import { createTransport } from '../../http/client/pool.ts';
import type { UpstreamError } from '../../http/client/errors.ts';
import { type LegacyClient, openLegacy } from './client.ts';
import { MESSAGE_HEADERS } from './rpc-request.ts';

/** What requests to an upstream are sent over: in the legacy era a session, in the modern era just the headers. */
export interface UpstreamSession {
  readonly era: Era;
  /** Names and values, alternating, that say whose requests these are: version and session. */
  readonly identity: readonly string[];
  /** The same, and what every POST of a message needs. */
  readonly headers: readonly string[];
  /** Undefined in the modern era, and where a legacy upstream keeps no sessions. */
  readonly sessionId: string | undefined;
  /** Whose it is. */
  readonly owner: string;
  /** What opened the session and ends it; undefined in the modern era. */
  readonly client: LegacyClient | undefined;
  /** Requests under way: a session is never ended below them. */
  active: number;
  /** Notifications of the client under way on it. */
  notifying: number;
  /** When it was last used, in milliseconds of `performance.now()`. */
  usedAt: number;
  /** Told when no request is under way any more, by who waits to end the session. */
  onIdle: (() => void) | undefined;
  /** What runs between a client's session and this one beside calls. */
  channel: SessionNotificationBridge | undefined;
  /** A call has it for itself, from before its request is sent until it is over. */
  taken: boolean;
  /** The level of log messages that the upstream was last told on it; undefined when none. */
  logLevel: string | undefined;
}

/** What is open on a link besides calls. */
export interface SessionNotificationBridge {
  /** True while the session must not be ended for being idle. */
  readonly pinned: boolean;
  /** The upstream may have had news while nobody listened to it. */
  missed(): void;
  /** Goes on with what a call has held up. */
  resume?(): void;
  /** The upstream has no such session any more: whoever needs it sees to what takes its place. */
  lost?(): void;
  /** The link is given up. */
  close(): void;
}

/** On whose behalf a legacy session is opened upstream (mcp 4). Equal keys share one session. */
export interface LinkOwner {
  readonly key: string;
  readonly protocolVersion: string;
  readonly capabilities: JsonObject;
  readonly clientInfo: JsonObject;
  /** Further headers that opening the session needs: those that the operator lets through. */
  readonly headers: readonly string[];
  /** Called once with the new link, before anything is sent on it; never rejects. */
  readonly opened?: (link: UpstreamSession, client: LegacyClient) => Promise<void>;
}

/**
 * The links to one upstream. Each legacy client session has a session of its own there, since upstreams keep state per
 * session; clients without a session share one with others who are equal in every respect that the upstream can see.
 */
export class UpstreamSessionPool {
  readonly #transport: UpstreamTransport;
  readonly #open = new Map<string, UpstreamSession | Promise<UpstreamSession>>();
  /** Sessions that were forgotten and are being ended. */
  readonly #ending = new Set<Promise<void>>();
  readonly #modern: UpstreamSession;
  #lastId = 0;

  constructor(transport: UpstreamTransport) {
    this.#transport = transport;
    const identity = [HEADER_PROTOCOL_VERSION, LATEST_MODERN];
    this.#modern = {
      era: 'modern',
      identity,
      headers: [...MESSAGE_HEADERS, ...identity],
      sessionId: undefined,
      owner: '',
      client: undefined,
      active: 0,
      notifying: 0,
      usedAt: 0,
      onIdle: undefined,
      channel: undefined,
      taken: false,
      logLevel: undefined,
    };
  }

  /** The link for modern requests: there is nothing to open. */
  get modern(): UpstreamSession {
    return this.#modern;
  }

  /** A request id that no request of ours to this upstream has had. */
  nextId(): number {
    return ++this.#lastId;
  }

  /** The session of the owner with this key, or its opening; undefined when there is none. */
  get(key: string): UpstreamSession | Promise<UpstreamSession> | undefined {
    return this.#open.get(key);
  }

  /** Opens a session for an owner who has none. Rejects with {@link UpstreamError}. */
  open(owner: LinkOwner): Promise<UpstreamSession> {
    const opening = this.#initialize(owner);
    this.#open.set(owner.key, opening);
    opening.then(
      (link) => {
        if (this.#open.get(owner.key) === opening) this.#open.set(owner.key, link);
      },
      () => {
        if (this.#open.get(owner.key) === opening) this.#open.delete(owner.key);
      },
    );
    return opening;
  }

  /** To be told of every request that ends. */
  release(link: UpstreamSession, now: number): void {
    link.active--;
    link.usedAt = now;
    link.taken = false;
    if (link.active === 0) link.onIdle?.();
  }

  /**
   * Forgets a session that the upstream no longer knows, as it says; the next use opens another. An upstream that means
   * something else by it is not left with the session: it is ended there, once nothing is under way in it.
   */
  forget(link: UpstreamSession): void {
    link.channel?.close();
    // Whoever took it from here before ends it.
    if (this.#open.get(link.owner) !== link) return;
    this.#open.delete(link.owner);
    const ending = end(link).finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  /** Forgets all sessions: the upstream speaks the legacy era no longer. */
  forgetAll(): void {
    for (const link of this.#open.values()) {
      if (link instanceof Promise) continue;
      link.channel?.lost?.();
      this.forget(link);
    }
  }

  /** Ends the sessions that were not used for this long. */
  closeIdle(idleMs: number, now: number = performance.now()): void {
    for (const [owner, link] of this.#open) {
      if (
        link instanceof Promise ||
        link.active > 0 ||
        link.taken ||
        link.channel?.pinned ||
        now - link.usedAt < idleMs
      )
        continue;
      void this.close(owner);
    }
  }

  /** Ends the session of one owner, as when its client ended its own; requests under way finish first. */
  async close(owner: string): Promise<void> {
    const opening = this.#open.get(owner);
    if (opening === undefined) return;
    this.#open.delete(owner);
    const link = await opening;
    link.channel?.close();
    await end(link);
  }

  /** True when nothing is open and nothing is under way. */
  get idle(): boolean {
    return this.#open.size === 0 && this.#ending.size === 0 && this.#modern.active === 0;
  }

  /** Ends all sessions. Never rejects. */
  async closeAll(): Promise<void> {
    await Promise.allSettled([...[...this.#open.keys()].map((owner) => this.close(owner)), ...this.#ending]);
  }

  async #initialize(owner: LinkOwner): Promise<UpstreamSession> {
    const { protocolVersion, capabilities, clientInfo, headers } = owner;
    const client = await openLegacy({
      transport: this.#transport,
      protocolVersion,
      capabilities,
      clientInfo,
      headers,
      // Calls are sent in the same session, in which no id may be there twice.
      nextId: () => this.nextId(),
    });
    const identity = client.sessionHeaders;
    const link: UpstreamSession = {
      era: 'legacy',
      identity,
      headers: [...MESSAGE_HEADERS, ...identity],
      sessionId: client.sessionId,
      owner: owner.key,
      client,
      active: 0,
      notifying: 0,
      usedAt: performance.now(),
      onIdle: undefined,
      channel: undefined,
      taken: false,
      logLevel: undefined,
    };
    await owner.opened?.(link, client);
    return link;
  }
}

/** Ends a session upstream once no request is under way in it. */
async function end(link: UpstreamSession): Promise<void> {
  if (link.active > 0) {
    await new Promise<void>((resolve) => {
      link.onIdle = resolve;
    });
  }
  await link.client?.close();
}

/** Told of what calls find out about an upstream. */
export interface UpstreamObserver {
  /** A call failed; the upstream may be down. */
  failed(error: UpstreamError): void;
  /** A call got an answer. Told of every one: must cost nothing. */
  succeeded(): void;
  /** It said that what it offers has changed. */
  changed(): void;
}

/** One upstream MCP server as calls see it: its connections, its sessions, the eras it speaks. */
export class Upstream {
  readonly transport: UpstreamTransport;
  /** Scheme, host and port of its address. */
  readonly origin: string;
  /** `host:port`. */
  readonly server: string;
  /** The forward that brought it; undefined for one that only hand-made tools name. */
  readonly forward: string | undefined;
  readonly links: UpstreamSessionPool;
  #eras: ReadonlySet<Era> | undefined = undefined;
  readonly #observer: UpstreamObserver;
  readonly #ended = new AbortController();

  /** `address` is an http or https URL. Nothing is sent yet. */
  constructor(address: string, observer: UpstreamObserver, forward?: string) {
    this.forward = forward;
    this.transport = createTransport(address);
    const url = new URL(address);
    this.origin = url.origin;
    this.server = serverOf(url);
    this.links = new UpstreamSessionPool(this.transport);
    this.#observer = observer;
  }

  /** Aborted when it is given up: calls under way may finish, what would never end by itself is to be ended. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** The eras it is known to speak; undefined until something is known. */
  get eras(): ReadonlySet<Era> | undefined {
    return this.#eras;
  }

  /** To be told what it speaks. When it has left the legacy era, its sessions there are given up. */
  speaks(eras: ReadonlySet<Era>): void {
    this.#eras = eras;
    if (this.modernOnly) this.links.forgetAll();
  }

  /** True when it is known that a legacy client has nothing to speak with it in its own era. */
  get modernOnly(): boolean {
    return this.eras?.has('legacy') === false;
  }

  /** To be told by every call that got an answer. */
  succeeded(): void {
    this.#observer.succeeded();
  }

  /** To be told by every call that failed. */
  failed(error: UpstreamError): void {
    this.#observer.failed(error);
  }

  /** To be told when it says that what it offers has changed. */
  changed(): void {
    this.#observer.changed();
  }

  /** Ends the sessions upstream and lets calls under way finish. */
  async close(): Promise<void> {
    this.#ended.abort();
    await this.links.closeAll();
    await this.transport.close();
  }

  /** Ends everything at once. */
  destroy(): Promise<void> {
    return this.transport.destroy();
  }
}
