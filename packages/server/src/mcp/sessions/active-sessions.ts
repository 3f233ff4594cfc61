import type { ResponseMessage } from '@sluice/protocol/mcp/message';
import type { QuotaOwner } from '../../http/quota.ts';
import type { Steps } from '../../registry/steps.ts';
import type { DownstreamChannel, PendingServerRequest, StreamListener } from '../../upstreams/downstream.ts';
import type { EventStore } from './event-store.ts';
import type { ClientStream, StreamOwner } from './resumable-streams.ts';

/** Maximum number of open notification streams of one client; one more closes the oldest. */
const MAX_STREAMS = 8;

/**
 * Open resources of a legacy session in this process: its notification streams and its pending server requests. Exists
 * only while there are any.
 */
export class ActiveSession implements DownstreamChannel {
  readonly id: string;
  readonly holder: QuotaOwner;
  readonly #events: EventStore;
  readonly #onUnused: (session: ActiveSession) => void;
  readonly #nextId: () => string;
  /** Oldest first. A stream without a connection stays while it can be resumed. */
  #streams: ClientStream[] = [];
  readonly #listeners = new Set<StreamListener>();
  readonly #serverRequests = new Map<string, PendingServerRequest>();

  constructor(
    { id, holder }: StreamOwner,
    events: EventStore,
    nextId: () => string,
    onUnused: (session: ActiveSession) => void,
  ) {
    this.id = id;
    this.holder = holder;
    this.#events = events;
    this.#nextId = nextId;
    this.#onUnused = onUnused;
  }

  get isListening(): boolean {
    return this.#streams.length > 0;
  }

  /** True while a notification stream has a connection. */
  get isConnected(): boolean {
    return this.#streams.some(({ isAttached }) => isAttached);
  }

  /**
   * Returns whether messages went to a stream without a connection since the last call: a client gets them only by resuming
   * that stream.
   */
  takeUnread(): boolean {
    const unread = this.#streams.filter(({ hasUnread }) => hasUnread);
    for (const stream of unread) stream.hasUnread = false;
    return unread.length > 0;
  }

  /**
   * Opens a notification stream; `onGone` is called when it cannot be resumed any more. Messages go to the newest stream
   * only, since each may be sent only once (2025-11-25).
   */
  openStream(onDropped: () => void): ClientStream {
    // Senders that wait for the reader of an older stream continue with this one.
    for (const older of this.#streams) older.releaseSenders();
    const stream = this.#events.open(this);
    const remove = () => {
      onDropped();
      this.#dropStream(stream);
    };
    stream.onDropped = remove;
    this.#streams.push(stream);
    const [oldest] = this.#streams;
    if (oldest && this.#streams.length > MAX_STREAMS) this.closeStream(oldest);
    if (this.#streams.length === 1) for (const listener of this.#listeners) listener.onListeningChanged(true);
    return stream;
  }

  /** Ends a notification stream for good: it cannot be resumed. */
  closeStream(stream: ClientStream): void {
    stream.close();
    this.#events.drop(stream);
  }

  send(text: string): boolean {
    return this.#currentStream()?.send(text) ?? true;
  }

  onDrain(listener: () => void): void {
    const stream = this.#currentStream();
    if (stream) stream.onDrain(listener);
    else listener();
  }

  addServerRequest<Request extends PendingServerRequest>(make: (idText: string) => Request): Request {
    const request = make(this.#nextId());
    this.#serverRequests.set(request.idText, request);
    return request;
  }

  removeServerRequest(request: PendingServerRequest): void {
    this.#serverRequests.delete(request.idText);
    this.#closeIfUnused();
  }

  /**
   * Delivers the response of the client to the upstream: resolves once the upstream accepted it, rejects with
   * `UpstreamError`. Undefined if no server request with this id is pending.
   */
  deliverResponse(response: ResponseMessage): Promise<void> | undefined {
    const request = this.#serverRequests.get(response.idText);
    if (!request) return undefined;
    this.removeServerRequest(request);
    return request.onResponse(response);
  }

  /** Returns the pending server request with this progress token. */
  serverRequest(tokenText: string): PendingServerRequest | undefined {
    return this.#serverRequests.get(tokenText);
  }

  addListener(listener: StreamListener): void {
    this.#listeners.add(listener);
  }

  removeListener(listener: StreamListener): void {
    this.#listeners.delete(listener);
    this.#closeIfUnused();
  }

  /** The session was ended: closes its streams and abandons its server requests. */
  end(): void {
    for (const request of this.#serverRequests.values()) {
      this.removeServerRequest(request);
      request.onAbandoned();
    }
    for (const stream of [...this.#streams]) this.closeStream(stream);
  }

  #currentStream(): ClientStream | undefined {
    return this.#streams.findLast((stream) => stream.isAttached) ?? this.#streams.at(-1);
  }

  #dropStream(stream: ClientStream): void {
    this.#streams = this.#streams.filter((other) => other !== stream);
    if (this.#streams.length > 0) return;
    for (const listener of this.#listeners) listener.onListeningChanged(false);
    this.#closeIfUnused();
  }

  #closeIfUnused(): void {
    if (this.#streams.length + this.#listeners.size + this.#serverRequests.size === 0) this.#onUnused(this);
  }
}

/** Legacy sessions with open streams or server requests in this process. */
export class ActiveSessions {
  readonly #events: EventStore;
  readonly #replica: string;
  readonly #sessions = new Map<string, ActiveSession>();
  #lastRequest = 0;

  /** `replica` identifies this process in the ids of server requests, so that another replica can route a response to it. */
  constructor(events: EventStore, replica: string) {
    this.#events = events;
    this.#replica = replica;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Returns the active session of this one; creates it if there is none. */
  ensure(owner: StreamOwner): ActiveSession {
    return this.#sessions.getOrInsertComputed(owner.id, () => {
      const nextId = () => JSON.stringify(`${this.#replica}.${++this.#lastRequest}`);
      return new ActiveSession(owner, this.#events, nextId, (unused) => this.#remove(unused));
    });
  }

  /** Returns the active session with this id; undefined if there is none. */
  find(id: string): ActiveSession | undefined {
    return this.#sessions.get(id);
  }

  /** Ends the sessions of these owners. */
  *endWhere(test: (holder: QuotaOwner) => boolean): Steps<void> {
    for (const session of [...this.#sessions.values()].filter(({ holder }) => test(holder))) {
      session.end();
      yield;
    }
  }

  #remove(session: ActiveSession): void {
    if (this.#sessions.get(session.id) === session) this.#sessions.delete(session.id);
  }
}
