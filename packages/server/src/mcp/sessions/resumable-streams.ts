import { parseJson } from '@sluice/protocol/json/parse';
import { encodeEvent } from '@sluice/protocol/mcp/event-stream';
import type { TokenSealer } from '@sluice/protocol/seal';
import type { ResponseLike } from '../../http/context.ts';

/** Store of the streams that can be resumed. */
export interface StreamStore {
  /** The stored events grew or shrank by so many characters. */
  onSizeChanged(characters: number): void;
  /** The stream is disconnected; it may be resumed for some time. */
  onDetached(stream: ClientStream): void;
  /** The stream is connected again. */
  onAttached(stream: ClientStream): void;
}

/**
 * Maximum size of the events stored for one stream. Older events are dropped: a stream that is not read must not block its
 * upstream (mcp 1, "its answer is kept for resumption within the event store's limits").
 */
const MAX_EVENTS = 256;
const MAX_STREAM_CHARACTERS = 256 * 1024;

/** Maximum time to flush a connection that was ended, in milliseconds. */
const LINGER_MS = 2_000;

/**
 * One event stream of a legacy session, independent of its connection: a client that loses the connection can resume the
 * stream on another one, after the last event it got (2025-11-25, "Resumability and Redelivery").
 */
export class ClientStream {
  /** Identifies the stream in its event ids. */
  readonly token: string;
  /** Id of the session. */
  readonly session: string;
  /** True once the last event was sent. */
  hasEnded = false;
  /** True once the last event was sent on a connection. */
  isFullyRead = false;
  /** True if messages were sent since the last connection closed. */
  hasUnread = false;
  /** Called once when the stream cannot be resumed any more. */
  onDropped: (() => void) | undefined = undefined;
  /** Time at which the last connection closed, in milliseconds of `performance.now()`; undefined while there is one. */
  detachedAt: number | undefined = undefined;
  readonly #store: StreamStore;
  #target: ResponseLike | undefined = undefined;
  /** The latest events; the last of them has the number `#sent`. */
  #events: (string | Buffer)[] = [];
  #characters = 0;
  #sent = 0;
  #drainListeners: (() => void)[] = [];
  #dropped = false;
  /** True while the connection's buffer is full. */
  #full = false;

  constructor(token: string, session: string, store: StreamStore) {
    this.token = token;
    this.session = session;
    this.#store = store;
  }

  /** True while the stream has a connection. */
  get isAttached(): boolean {
    return this.#target !== undefined;
  }

  /** True if the client was sent an event id to resume from. */
  get isResumable(): boolean {
    return this.#sent > 0;
  }

  /**
   * Continues the stream on this connection, whose head was written, with the stored events after number `after`. Ends the
   * previous connection.
   */
  attach(target: ResponseLike, after: number = this.#sent): void {
    const previous = this.#target;
    this.#target = target;
    this.detachedAt = undefined;
    this.hasUnread = false;
    this.#store.onAttached(this);
    // An unread connection would retain its buffer, whose contents the next one sends again.
    if (previous && this.#full) previous.destroy();
    else if (previous) {
      previous.end();
      destroyLater(previous);
    }
    this.#full = false;
    target.on('close', () => this.#onConnectionClosed(target));
    target.on('drain', () => {
      this.#full = false;
      this.#notifyDrained();
    });
    const first = this.#sent - this.#events.length + 1;
    for (let number = Math.max(first, after + 1); number <= this.#sent; number++) {
      this.#write(target, number, this.#events[number - first] ?? '');
    }
    if (this.hasEnded) this.#finish();
    // Senders no longer wait for the previous connection's buffer.
    else this.#notifyDrained();
  }

  /** Sends an event id to resume from before the first message (2025-11-25, "priming"). */
  prime(retryMs?: number): void {
    this.#storeEvent('');
    if (this.#target) this.#write(this.#target, this.#sent, '', retryMs);
  }

  /** Sends a message, as bytes without line breaks if it is large. False if the client reads too slowly: wait for `onDrain`. */
  send(data: string | Buffer): boolean {
    this.#storeEvent(data);
    if (this.#target === undefined) this.hasUnread = true;
    return this.#target === undefined || this.#write(this.#target, this.#sent, data);
  }

  /** Ends the stream, with its last message if there is one. */
  end(data?: string | Buffer): void {
    if (this.hasEnded) return;
    if (data !== undefined) this.send(data);
    this.hasEnded = true;
    this.#finish();
  }

  /** Ends the stream without a last message, and destroys its connection if the client does not read the rest in time. */
  close(): void {
    const target = this.#target;
    this.end();
    if (target) destroyLater(target);
  }

  /** Ends the connection but not the stream: the client is to reconnect in `retryMs`. */
  disconnect(retryMs: number): void {
    this.prime(retryMs);
    const target = this.#target;
    if (!target) return;
    target.end();
    this.#onConnectionClosed(target);
  }

  /** Sends a comment, so that the connection is not idle. */
  keepAlive(): void {
    this.#target?.write(':\n\n');
  }

  /** Calls back once when buffered data was sent, or the connection closed. */
  onDrain(listener: () => void): void {
    this.#drainListeners.push(listener);
  }

  /** Calls the drain listeners now. */
  releaseSenders(): void {
    this.#notifyDrained();
  }

  /** Removes the stored events. */
  clear(): void {
    const characters = this.#characters;
    this.#events = [];
    this.#characters = 0;
    this.#store.onSizeChanged(-characters);
  }

  /** Makes the stream not resumable: no events are stored from now on. */
  drop(): void {
    this.#dropped = true;
    this.clear();
    this.onDropped?.();
  }

  #write(target: ResponseLike, number: number, data: string | Buffer, retry?: number): boolean {
    const id = `${this.token}.${number}`;
    if (typeof data !== 'string') return this.#writeBytes(target, id, data);
    const prime = retry === undefined ? { id, data } : { id, retry, data };
    const keepsUp = target.write(encodeEvent(data === '' ? prime : { event: 'message', id, data }));
    if (!keepsUp) this.#full = true;
    return keepsUp;
  }

  #writeBytes(target: ResponseLike, id: string, data: Buffer): boolean {
    target.write(`id: ${id}\nevent: message\ndata: `);
    target.write(data);
    const keepsUp = target.write('\n\n');
    if (!keepsUp) this.#full = true;
    return keepsUp;
  }

  #storeEvent(data: string | Buffer): void {
    this.#sent++;
    if (this.#dropped) return;
    this.#events.push(data);
    let grown = data.length;
    while (
      this.#events.length > MAX_EVENTS ||
      (this.#characters + grown > MAX_STREAM_CHARACTERS && this.#events.length > 1)
    ) {
      grown -= this.#events.shift()?.length ?? 0;
    }
    this.#characters += grown;
    this.#store.onSizeChanged(grown);
  }

  #finish(): void {
    const target = this.#target;
    this.#target = undefined;
    this.isFullyRead = target !== undefined;
    target?.end();
    this.#detach();
    this.#notifyDrained();
  }

  #onConnectionClosed(target: ResponseLike): void {
    if (this.#target !== target) return;
    this.#target = undefined;
    this.#detach();
    this.#notifyDrained();
  }

  #detach(): void {
    this.detachedAt ??= performance.now();
    this.#store.onDetached(this);
  }

  #notifyDrained(): void {
    const waiting = this.#drainListeners;
    this.#drainListeners = [];
    for (const listener of waiting) listener();
  }
}

/** Destroys an ended connection whose client does not read the rest in time. */
function destroyLater(target: ResponseLike): void {
  setTimeout(() => target.destroy(), LINGER_MS).unref();
}

/** Target of a `Last-Event-ID`. */
export type Resumption =
  /** A stream that is stored; the client has seen it up to event number `after`. */
  | { readonly kind: 'stream'; readonly stream: ClientStream; readonly after: number }
  /**
   * A stream that is not stored: it belonged to a previous process or has expired. `idText`: id of the request that it
   * was the response to; undefined for a notification stream.
   */
  | { readonly kind: 'lost'; readonly idText: string | undefined; readonly restarted: boolean }
  /** Not an event id of this session. */
  | { readonly kind: 'foreign' };

/** Time for which a fully read stream, and an unresumed one, can be resumed. */
const READ_TIMEOUT_MS = 10_000;
const BUFFER_TIMEOUT_MS = 5 * 60_000;
const SWEEP_MS = 5_000;
/**
 * Maximum size of all stored streams, in characters: the longest disconnected ones are dropped first. Each stream
 * counts extra.
 */
const MAX_STORED_CHARACTERS = 64 * 1024 * 1024;
const STREAM_CHARACTERS = 1_000;
/** Maximum lengths: a request id is part of every event id of its stream. */
const MAX_ID = 128;
const MAX_EVENT_ID = 1024;

/**
 * Streams of legacy sessions that can be resumed, including for some time those that have ended (mcp 1 and 3). Event
 * ids are sealed: they contain process, session, stream and request, so that a client gets only its own messages and
 * learns that a stream belonged to a previous process.
 */
export class EventStore implements StreamStore {
  readonly #sealer: TokenSealer;
  readonly #replica: string;
  readonly #streams = new Map<string, ClientStream>();
  /** Disconnected streams, longest disconnected first. */
  readonly #detached = new Set<ClientStream>();
  readonly #timer: NodeJS.Timeout;
  #characters = 0;
  #opened = 0;

  /** `replica` identifies this process. */
  constructor(sealer: TokenSealer, replica: string) {
    this.#sealer = sealer;
    this.#replica = replica;
    this.#timer = setInterval(() => this.sweep(performance.now()), SWEEP_MS).unref();
  }

  /** Number of stored streams. */
  get size(): number {
    return this.#streams.size;
  }

  /**
   * Opens a stream of a session, for the response to a request or, without `idText`, for notifications. Undefined for a
   * request whose id does not fit into event ids: its stream cannot be resumed.
   */
  open(session: string): ClientStream;
  open(session: string, idText: string): ClientStream | undefined;
  open(session: string, idText?: string): ClientStream | undefined {
    if (idText !== undefined && idText.length > MAX_ID) return undefined;
    const sealed = [this.#replica, session, ++this.#opened, idText ?? null];
    const token = this.#sealer.seal('eventId', JSON.stringify(sealed));
    const stream = new ClientStream(token, session, this);
    this.#streams.set(token, stream);
    this.onSizeChanged(STREAM_CHARACTERS);
    return stream;
  }

  /** Looks up an event id of this session. */
  find(session: string, eventId: string): Resumption {
    const dot = eventId.lastIndexOf('.');
    const after = Number(eventId.slice(dot + 1));
    if (dot === -1 || eventId.length > MAX_EVENT_ID || !Number.isSafeInteger(after)) return { kind: 'foreign' };
    const text = this.#sealer.open('eventId', eventId.slice(0, dot));
    const sealed: unknown = text === undefined ? undefined : parseJson(text);
    if (!Array.isArray(sealed) || sealed[1] !== session) return { kind: 'foreign' };
    const stream = this.#streams.get(eventId.slice(0, dot));
    if (stream) return { kind: 'stream', stream, after };
    const [replica, , , request] = sealed;
    const idText = typeof request === 'string' ? request : undefined;
    return { kind: 'lost', idText, restarted: replica !== this.#replica };
  }

  /** Removes a stream: it cannot be resumed any more. */
  drop(stream: ClientStream): void {
    if (!this.#streams.delete(stream.token)) return;
    this.#detached.delete(stream);
    this.onSizeChanged(-STREAM_CHARACTERS);
    stream.drop();
  }

  /** Removes the streams of an ended session, except those that are still being read. */
  dropSession(session: string): void {
    for (const stream of this.#detached) {
      if (stream.session === session) this.drop(stream);
    }
  }

  onSizeChanged(characters: number): void {
    this.#characters += characters;
    if (characters <= 0 || this.#characters <= MAX_STORED_CHARACTERS) return;
    for (const stream of this.#detached) {
      if (this.#characters <= MAX_STORED_CHARACTERS) return;
      this.drop(stream);
    }
    // Streams with a connection lose their sent events. Down to half of the limit, since this iterates over all streams.
    for (const stream of this.#streams.values()) {
      if (this.#characters <= MAX_STORED_CHARACTERS / 2) return;
      stream.clear();
    }
  }

  onDetached(stream: ClientStream): void {
    // A dropped stream may still be sent to its end.
    if (!this.#streams.has(stream.token)) return;
    if (stream.isResumable) this.#detached.add(stream);
    else this.drop(stream);
  }

  onAttached(stream: ClientStream): void {
    this.#detached.delete(stream);
  }

  /** Removes expired streams. */
  sweep(now: number): void {
    for (const stream of this.#detached) {
      if (stream.detachedAt === undefined) continue;
      if (now - stream.detachedAt > (stream.isFullyRead ? READ_TIMEOUT_MS : BUFFER_TIMEOUT_MS)) this.drop(stream);
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
