import { Emitter } from '@sluice/protocol/emitter';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { type Era, HEADER_PROTOCOL_VERSION, HEADER_SESSION_ID, LATEST_MODERN } from '@sluice/protocol/mcp/constants';
import { withTimeout } from '@sluice/protocol/timing';
import type { UpstreamTransport } from '../../http/client/client.ts';
import { type LegacyClient, openLegacy, type RpcClientOptions, resumeLegacy } from './rpc-client.ts';
import { MESSAGE_HEADERS } from './rpc-request.ts';
import { SessionLogLevel } from './session-log-level.ts';
import type { SessionVerdict } from './session-loss.ts';
import type { SharedSession, SharedUpstreamSessions } from './sessions/shared-sessions.ts';

/** What a session is in use for. It is not closed before its requests and its tasks have ended. */
class SessionUse {
  /** In-flight requests. */
  inFlight = 0;
  /** Tasks that have not ended: the upstream would lose them with the session. */
  tasks = 0;
  /** In-flight notifications of the client. */
  notifications = 0;
  /** Leased to one call, from before its request is sent until it ends. */
  isLeased = false;
  /** When the last request ended, in milliseconds of `performance.now()`. */
  lastAt: number = performance.now();
  readonly #idle = new Emitter();

  endRequest(now: number): void {
    this.inFlight--;
    this.lastAt = now;
    this.isLeased = false;
    if (!this.isOpen) this.#idle.emit();
  }

  endTask(): void {
    this.tasks--;
    if (!this.isOpen) this.#idle.emit();
  }

  /** True while there are requests or tasks. */
  get isOpen(): boolean {
    return this.inFlight > 0 || this.tasks > 0;
  }

  /** Resolves when the last request and the last task have ended. */
  async ended(): Promise<void> {
    if (this.isOpen) await new Promise<void>((resolve) => this.#idle.subscribe(resolve));
  }
}

/** Session with an upstream; in the modern era only the headers of its requests. */
export class UpstreamSession {
  readonly era: Era;
  /** Headers that identify the session, names and values alternating: version and session id. */
  readonly identityHeaders: readonly string[];
  /** Identity headers and those of every POST of a message. */
  readonly headers: readonly string[];
  /** Undefined in the modern era, and for legacy upstreams without sessions. */
  readonly sessionId: string | undefined;
  /** Key of its {@link SessionOwner}. */
  readonly owner: string;
  /** Undefined in the modern era. */
  readonly client: LegacyClient | undefined;
  readonly use = new SessionUse();
  /** Connects it with a client session besides calls. */
  bridge: SessionNotificationBridge | undefined = undefined;
  /** Whether it is leased to one call at a time. */
  isExclusive = false;
  readonly logLevel: SessionLogLevel;
  /** Whether other replicas use it too. */
  isShared = false;

  constructor(
    { era, identityHeaders, sessionId }: Pick<UpstreamSession, 'era' | 'identityHeaders' | 'sessionId'>,
    owner = '',
    client?: LegacyClient,
  ) {
    this.era = era;
    this.identityHeaders = identityHeaders;
    this.headers = [...MESSAGE_HEADERS, ...identityHeaders];
    this.sessionId = sessionId;
    this.owner = owner;
    this.client = client;
    this.logLevel = new SessionLogLevel(client);
  }

  get protocolVersion(): string {
    return this.identityHeaders[1] ?? '';
  }
}

/** Relays notifications and server requests between a client session and an upstream session, besides calls. */
export interface SessionNotificationBridge {
  /** Whether the client may not know of the upstream any more. */
  readonly isHidden?: boolean;
  /** True while the session must not be closed as idle. */
  readonly pinned: boolean;
  /** The client may have missed notifications of the upstream. */
  onMissed?(): void;
  /** Continues with messages buffered during a call. */
  resume?(): void;
  /** Other resources may be hidden from clients. */
  onResourcesChanged?(): void;
  /** The upstream has lost the session; a replacement is needed. */
  onSessionLost?(): void;
  /** The session is closed. */
  close(): void;
}

/** Client that a legacy session is opened for. Equal keys share a session. */
export interface SessionOwner {
  readonly key: string;
  readonly protocolVersion: string;
  readonly capabilities: JsonObject;
  readonly clientInfo: JsonObject;
  /** Further headers for opening the session: those that the operator allows. */
  readonly headers: readonly string[];
  /** Whether all replicas use one session for it. */
  readonly isShared?: boolean;
  /** Whether its sessions are leased to one call at a time, and have no state in between. */
  readonly isExclusive?: boolean;
  /** Called once with the new session, before anything is sent in it; never rejects. */
  readonly onOpened?: (session: UpstreamSession, client: LegacyClient) => Promise<void>;
}

/** Minimum time between two checks of a session that the upstream knows. */
const CHECK_INTERVAL_MS = 5_000;
/** Time for the response to each request of a check: calls wait for it. */
const CHECK_TIMEOUT_MS = 2_000;

/** Time for which a call waits until its new session is shared with other replicas. */
const SHARING_MS = 1_000;

/**
 * Sessions with one upstream. Each legacy client session has its own, since upstreams keep state per session; clients
 * without a session share one with others that look identical to the upstream.
 */
export class UpstreamSessionPool {
  readonly #transport: UpstreamTransport;
  readonly #shared: SharedUpstreamSessions | undefined;
  readonly #onSessionLost: () => void;
  readonly #sessions = new Map<string, UpstreamSession | Promise<UpstreamSession>>();
  /** Discarded sessions that are being closed. */
  readonly #closing = new Map<UpstreamSession, Promise<void>>();
  /** Checks in progress, which never reject, and when the last one ended, in milliseconds of `performance.now()`. */
  readonly #checking = new Map<UpstreamSession, Promise<void>>();
  readonly #checkedAt = new WeakMap<UpstreamSession, number>();
  readonly #unsubscribe: (() => void) | undefined;
  /** Pseudo-session for modern requests, which need none. */
  readonly modern: UpstreamSession;

  /** `shared`: the sessions of other replicas, if there are any. `onSessionLost` is called for each session that is lost. */
  constructor(
    transport: UpstreamTransport,
    shared?: SharedUpstreamSessions,
    onSessionLost: () => void = () => undefined,
  ) {
    this.#transport = transport;
    this.#shared = shared;
    this.#onSessionLost = onSessionLost;
    const identityHeaders = [HEADER_PROTOCOL_VERSION, LATEST_MODERN];
    this.modern = new UpstreamSession({ era: 'modern', identityHeaders, sessionId: undefined });
    this.#unsubscribe = shared?.closed.subscribe(({ address, owner, sessionId }) => {
      if (address === transport.address) this.#drop(owner, sessionId);
    });
  }

  /** Session of the owner with this key, or a promise while it opens. */
  get(key: string): UpstreamSession | Promise<UpstreamSession> | undefined {
    return this.#sessions.get(key);
  }

  /** Session for the next request of an owner; a promise while it is opened or checked. Rejects with {@link UpstreamError}. */
  use(key: string, open: () => Promise<UpstreamSession>): UpstreamSession | Promise<UpstreamSession> {
    const session = this.#sessions.get(key);
    if (!session) return open();
    const checking = session instanceof Promise ? undefined : this.#checking.get(session);
    return !checking ? session : checking.then(() => this.#sessions.get(key) ?? open());
  }

  /** Opens a session for an owner without one. Rejects with {@link UpstreamError}. */
  open(owner: SessionOwner): Promise<UpstreamSession> {
    const opening = this.#initialize(owner);
    this.#sessions.set(owner.key, opening);
    opening.then(
      (session) => {
        if (this.#sessions.get(owner.key) === opening) this.#sessions.set(owner.key, session);
      },
      () => {
        if (this.#sessions.get(owner.key) === opening) this.#sessions.delete(owner.key);
      },
    );
    return opening;
  }

  /** Called when a request ends. */
  release(session: UpstreamSession, now: number): void {
    if (session.isShared) this.#shared?.touch(this.#transport.address, session.owner);
    session.use.endRequest(now);
  }

  /**
   * Discards a session; the next use opens another. It is closed upstream when its in-flight requests have ended. `isLost`: the
   * upstream does not know it any more.
   */
  discard(session: UpstreamSession, isLost = false): void {
    session.bridge?.close();
    // Closed elsewhere if it is no longer in the pool.
    if (this.#sessions.get(session.owner) === session) {
      this.#sessions.delete(session.owner);
      if (session.isShared) this.#shared?.forget(this.#transport.address, session.owner, session.sessionId);
      const closed = closeWhenIdle(session).finally(() => this.#closing.delete(session));
      this.#closing.set(session, closed);
    }
    if (isLost) this.#onSessionLost();
  }

  /**
   * Replaces a session that the upstream has lost, according to the response to a request in it. If that is uncertain, a `ping`
   * decides, and the next request waits for it: a session that is known may have state.
   */
  check(session: UpstreamSession, verdict: SessionVerdict): void {
    const { client, owner } = session;
    if (verdict === 'known' || client?.sessionId === undefined || this.#sessions.get(owner) !== session) return;
    if (verdict !== 'uncertain') return this.#replace(session);
    // One that is leased to a call at a time has no state in between.
    if (session.isExclusive) return this.discard(session);
    const checkedAt = this.#checkedAt.get(session) ?? Number.NEGATIVE_INFINITY;
    if (this.#checking.has(session) || performance.now() - checkedAt < CHECK_INTERVAL_MS) return;
    const checking = client.isLost(CHECK_TIMEOUT_MS).then((isLost) => {
      this.#checking.delete(session);
      this.#checkedAt.set(session, performance.now());
      // It may have been replaced or closed meanwhile.
      if (isLost && this.#sessions.get(owner) === session) this.#replace(session);
    });
    this.#checking.set(session, checking);
  }

  #replace(session: UpstreamSession): void {
    session.bridge?.onSessionLost?.();
    this.discard(session, true);
  }

  /** Discards all sessions: the upstream no longer supports the legacy era. */
  discardAll(): void {
    for (const session of this.#sessions.values()) {
      if (session instanceof Promise) continue;
      session.bridge?.onSessionLost?.();
      this.discard(session);
    }
  }

  /** Calls back with each session and its owner, for one that is being opened once it is open. */
  forEach(callback: (session: UpstreamSession, owner: string) => void): void {
    for (const [owner, session] of this.#sessions) {
      if (session instanceof Promise) session.then((opened) => callback(opened, owner)).catch(() => undefined);
      else callback(session, owner);
    }
  }

  /** Closes the sessions that were not used for this long. Returns whether no session is open and no request in flight. */
  closeIdle(idleMs: number, now: number = performance.now()): boolean {
    for (const [owner, session] of this.#sessions) {
      if (
        session instanceof Promise ||
        session.use.isOpen ||
        session.use.isLeased ||
        session.bridge?.pinned ||
        now - session.use.lastAt < idleMs ||
        this.#isUsedElsewhere(session, idleMs)
      )
        continue;
      void this.close(owner);
    }
    return this.#sessions.size === 0 && this.#closing.size === 0 && this.modern.use.inFlight === 0;
  }

  /** Closes the session of one owner once its in-flight requests and its tasks have ended. */
  async close(owner: string): Promise<void> {
    const { address } = this.#transport;
    const opening = this.#sessions.get(owner);
    this.#sessions.delete(owner);
    const session = await opening;
    session?.bridge?.close();
    if (session) await closeWhenIdle(session);
    const shared = this.#shared?.find(address, owner);
    if (!shared || (session && !session.isShared)) return;
    this.#shared?.forget(address, owner, shared.sessionId);
    if (!session) await resumeLegacy(this.#optionsOf({ headers: [] }), shared).close();
  }

  /** Another replica has closed the session of this owner. */
  #drop(owner: string, sessionId: string): void {
    const session = this.#sessions.get(owner);
    if (!session || session instanceof Promise || session.sessionId !== sessionId) return;
    session.bridge?.close();
    this.#sessions.delete(owner);
  }

  #isUsedElsewhere({ isShared, owner }: UpstreamSession, idleMs: number): boolean {
    const shared = isShared ? this.#shared?.find(this.#transport.address, owner) : undefined;
    return shared !== undefined && Date.now() - shared.usedAt < idleMs;
  }

  /** Closes all sessions except those of other replicas, and those with tasks, which the next process continues. Never rejects. */
  async closeAll(): Promise<void> {
    this.#unsubscribe?.();
    const closing = [...this.#sessions].map(async ([owner, opening]) => {
      const session = await opening;
      if (!session.isShared && session.use.tasks === 0) return this.close(owner);
      session.bridge?.close();
      this.#sessions.delete(owner);
    });
    const others = [...this.#closing].flatMap(([{ use }, closed]) => (use.tasks === 0 ? [closed] : []));
    await Promise.allSettled([...closing, ...others]);
  }

  async #initialize(owner: SessionOwner): Promise<UpstreamSession> {
    const client = owner.isShared && this.#shared ? await this.#openShared(owner, this.#shared) : undefined;
    const own = client ?? (await openLegacy(this.#optionsOf(owner)));
    const { sessionHeaders: identityHeaders, sessionId } = own;
    const session = new UpstreamSession({ era: 'legacy', identityHeaders, sessionId }, owner.key, own);
    session.isShared = client !== undefined;
    session.isExclusive = owner.isExclusive === true;
    await owner.onOpened?.(session, own);
    return session;
  }

  /** Uses the session that another replica has opened for the owner, or opens one for all. Undefined without session ids. */
  async #openShared(owner: SessionOwner, shared: SharedUpstreamSessions): Promise<LegacyClient | undefined> {
    const { address } = this.#transport;
    const options = this.#optionsOf(owner);
    const known = shared.find(address, owner.key);
    if (known) return resumeLegacy(options, known);
    const client = await openLegacy(options);
    const { sessionId, protocolVersion, identity } = client;
    if (sessionId === undefined) return client;
    const session = { sessionId, protocolVersion, identity };
    let stored: SharedSession | undefined;
    const storing = shared.store(address, owner.key, session).then((other) => {
      stored = other;
    });
    // Without the database, the session serves this replica only.
    await withTimeout(SHARING_MS, storing).catch(() => undefined);
    if (!stored || stored.sessionId === sessionId) return client;
    void client.close();
    return resumeLegacy(options, stored);
  }

  #optionsOf(owner: Pick<SessionOwner, 'headers'> & Partial<SessionOwner>): RpcClientOptions {
    const { protocolVersion, capabilities = {}, clientInfo = {}, headers } = owner;
    return { transport: this.#transport, protocolVersion, capabilities, clientInfo, headers };
  }
}

/**
 * Creates the pseudo-session for a session that another process has opened: no pool has it, and it is not closed upstream.
 */
export function adoptSession(protocolVersion: string, sessionId: string | undefined): UpstreamSession {
  const id = sessionId === undefined ? [] : [HEADER_SESSION_ID, sessionId];
  const identityHeaders = [HEADER_PROTOCOL_VERSION, protocolVersion, ...id];
  return new UpstreamSession({ era: 'legacy', identityHeaders, sessionId });
}

/** Closes a session upstream once its in-flight requests and its tasks have ended. */
async function closeWhenIdle(session: UpstreamSession): Promise<void> {
  await session.use.ended();
  await session.client?.close();
}
