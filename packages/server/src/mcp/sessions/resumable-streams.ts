import { parseJson } from '@sluice/protocol/json/parse';
import { encodeEvent } from '@sluice/protocol/mcp/event-stream';
import type { TokenSealer } from '@sluice/protocol/seal';
import type { ResponseLike } from '../../http/context.ts';

/** What a stream tells whoever keeps it for resumption. */
export interface StreamKeeper {
  /** Kept text grew or shrank by so many characters. */
  grown(characters: number): void;
  /** Nobody reads it any more, or it was read to its end; it may be taken up again for some time. */
  left(stream: ClientStream): void;
  /** Somebody reads it again. */
  returned(stream: ClientStream): void;
}

/**
 * Kept for a client that comes back. What is older gives way: a stream that nobody reads must not hold its upstream up
 * (mcp 1, "its answer is kept for resumption within the event store's limits").
 */
const MAX_EVENTS = 256;
const MAX_STREAM_CHARACTERS = 256 * 1024;

/** How long a connection that is no longer wanted may take to go out with what it holds, in milliseconds. */
const LINGER_MS = 2_000;

/**
 * One event stream of a legacy session, apart from the connection that carries it: the client may lose the connection
 * and go on reading on another one, from the event that it saw last (2025-11-25, "Resumability and Redelivery").
 */
export class ClientStream {
  /** Names the stream in its event ids. */
  readonly token: string;
  /** Whose it is. */
  readonly session: string;
  /** True once the last event was sent. */
  ended = false;
  /** True once a connection has carried it to its end. */
  readToEnd = false;
  /** True when it was sent something since a connection carried it last. */
  unread = false;
  /** Called once when it cannot be taken up again. */
  onGone: (() => void) | undefined = undefined;
  /** When nobody was reading any more, in milliseconds of `performance.now()`; undefined while somebody does. */
  leftAt: number | undefined = undefined;
  readonly #keeper: StreamKeeper;
  #target: ResponseLike | undefined = undefined;
  /** The latest events; the last of them has the number `#sent`. */
  #kept: string[] = [];
  #characters = 0;
  #sent = 0;
  #drained: (() => void)[] = [];
  #gone = false;
  /** True while the connection takes no more. */
  #full = false;

  constructor(token: string, session: string, keeper: StreamKeeper) {
    this.token = token;
    this.session = session;
    this.#keeper = keeper;
  }

  /** True while a connection carries it. */
  get attached(): boolean {
    return this.#target !== undefined;
  }

  /** True when the client has been told an event id, so that it can come back. */
  get resumable(): boolean {
    return this.#sent > 0;
  }

  /**
   * Sends on this connection from now on, whose head is written; first what was sent after event number `after`. What
   * is not kept any more is not sent again. A connection that carried the stream before is ended.
   */
  attach(target: ResponseLike, after: number = this.#sent): void {
    const former = this.#target;
    this.#target = target;
    this.leftAt = undefined;
    this.unread = false;
    this.#keeper.returned(this);
    // One that is not read would keep what it holds, and the next one would hold it again.
    if (former && this.#full) former.destroy();
    else if (former) {
      former.end();
      cutLater(former);
    }
    this.#full = false;
    target.on('close', () => this.#closed(target));
    target.on('drain', () => {
      this.#full = false;
      this.#flow();
    });
    const first = this.#sent - this.#kept.length + 1;
    for (let number = Math.max(first, after + 1); number <= this.#sent; number++) {
      this.#write(target, number, this.#kept[number - first] ?? '');
    }
    if (this.ended) this.#finish();
    // Whoever waited for the former connection's buffer need not wait for it any more.
    else this.#flow();
  }

  /** Tells the client an id to come back with, before there is a message (2025-11-25, "priming"). */
  prime(retryMs?: number): void {
    this.#keep('');
    if (this.#target) this.#write(this.#target, this.#sent, '', retryMs);
  }

  /** One message. False when the client reads too slowly: wait for `onDrain`. */
  send(data: string): boolean {
    this.#keep(data);
    if (this.#target === undefined) this.unread = true;
    return this.#target === undefined || this.#write(this.#target, this.#sent, data);
  }

  /** The last message, and the end; without one where there is no answer any more. */
  end(data?: string): void {
    if (this.ended) return;
    if (data !== undefined) this.send(data);
    this.ended = true;
    this.#finish();
  }

  /** Ends it without a last message, and before long its connection too, whether the client reads or not. */
  close(): void {
    const target = this.#target;
    this.end();
    if (target) cutLater(target);
  }

  /** Ends the connection and not the stream: the client is to come back in `retryMs`. */
  poll(retryMs: number): void {
    this.prime(retryMs);
    const target = this.#target;
    if (!target) return;
    target.end();
    this.#closed(target);
  }

  /** A comment: keeps connections alive that carry nothing for long. */
  keepAlive(): void {
    this.#target?.write(':\n\n');
  }

  /** Calls back once when buffered data has gone out, or nobody reads any more. */
  onDrain(listener: () => void): void {
    this.#drained.push(listener);
  }

  /** Has all who wait for its reader go on. */
  stopWaiting(): void {
    this.#flow();
  }

  /** Lets go of what is kept. */
  forget(): void {
    const characters = this.#characters;
    this.#kept = [];
    this.#characters = 0;
    this.#keeper.grown(-characters);
  }

  /** It cannot be taken up again, and keeps nothing from now on. */
  giveUp(): void {
    this.#gone = true;
    this.forget();
    this.onGone?.();
  }

  #write(target: ResponseLike, number: number, data: string, retry?: number): boolean {
    const id = `${this.token}.${number}`;
    const prime = retry === undefined ? { id, data } : { id, retry, data };
    const flows = target.write(encodeEvent(data === '' ? prime : { event: 'message', id, data }));
    if (!flows) this.#full = true;
    return flows;
  }

  #keep(data: string): void {
    this.#sent++;
    if (this.#gone) return;
    this.#kept.push(data);
    let grown = data.length;
    while (
      this.#kept.length > MAX_EVENTS ||
      (this.#characters + grown > MAX_STREAM_CHARACTERS && this.#kept.length > 1)
    ) {
      grown -= this.#kept.shift()?.length ?? 0;
    }
    this.#characters += grown;
    this.#keeper.grown(grown);
  }

  #finish(): void {
    const target = this.#target;
    this.#target = undefined;
    this.readToEnd = target !== undefined;
    target?.end();
    this.#leave();
    this.#flow();
  }

  #closed(target: ResponseLike): void {
    if (this.#target !== target) return;
    this.#target = undefined;
    this.#leave();
    this.#flow();
  }

  #leave(): void {
    this.leftAt ??= performance.now();
    this.#keeper.left(this);
  }

  #flow(): void {
    const waiting = this.#drained;
    this.#drained = [];
    for (const listener of waiting) listener();
  }
}

/** Has an ended connection cut whose client does not read what is left on it. */
function cutLater(target: ResponseLike): void {
  setTimeout(() => target.destroy(), LINGER_MS).unref();
}

/** What an event id that a client comes back with stands for. */
export type Resumption =
  /** A stream that is still here; the client has seen it up to event number `after`. */
  | { readonly kind: 'stream'; readonly stream: ClientStream; readonly after: number }
  /**
   * A stream that this process does not have: it was another's, before a restart, or is not kept any more. `idText`: the
   * request that it was to answer; undefined for none.
   */
  | { readonly kind: 'lost'; readonly idText: string | undefined; readonly restarted: boolean }
  /** No event id of this session's. */
  | { readonly kind: 'foreign' };

/** How long a stream can be taken up again: one that was read to its end, and one that was not. */
const READ_MS = 10_000;
const UNREAD_MS = 5 * 60_000;
const SWEEP_MS = 5_000;
/** All that is kept, in characters; what was left first gives way. A stream costs so many besides its events. */
const MAX_STORED_CHARACTERS = 64 * 1024 * 1024;
const STREAM_CHARACTERS = 1_000;
/** A request id is part of every event id of its stream. */
const MAX_ID = 128;
const MAX_EVENT_ID = 1024;

/**
 * The streams of legacy sessions that can be resumed, and for a while those that are over (mcp 1 and 3). Event ids are
 * sealed: they name process, session, stream and request, so that a client gets only what was meant for it, and is told
 * the truth about a stream that has gone with its process.
 */
export class EventStore implements StreamKeeper {
  readonly #sealer: TokenSealer;
  readonly #replica: string;
  readonly #streams = new Map<string, ClientStream>();
  /** Those that nobody reads, in the order in which they were left. */
  readonly #unread = new Set<ClientStream>();
  readonly #timer: NodeJS.Timeout;
  #characters = 0;
  #opened = 0;

  /** `replica` names this process. */
  constructor(sealer: TokenSealer, replica: string) {
    this.#sealer = sealer;
    this.#replica = replica;
    this.#timer = setInterval(() => this.sweep(performance.now()), SWEEP_MS).unref();
  }

  /** Streams that can be resumed now, for tests and figures. */
  get size(): number {
    return this.#streams.size;
  }

  /**
   * A new stream of a session, for the answer to a request or, without `idText`, for notifications. Undefined for a
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
    this.grown(STREAM_CHARACTERS);
    return stream;
  }

  /** What the event id stands for in this session. */
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

  /** Forgets a stream: it cannot be taken up again. */
  drop(stream: ClientStream): void {
    if (!this.#streams.delete(stream.token)) return;
    this.#unread.delete(stream);
    this.grown(-STREAM_CHARACTERS);
    stream.giveUp();
  }

  /** Forgets the streams of a session that has ended. One that is still being read goes on to its end. */
  dropSession(session: string): void {
    for (const stream of this.#unread) {
      if (stream.session === session) this.drop(stream);
    }
  }

  grown(characters: number): void {
    this.#characters += characters;
    if (characters <= 0 || this.#characters <= MAX_STORED_CHARACTERS) return;
    for (const stream of this.#unread) {
      if (this.#characters <= MAX_STORED_CHARACTERS) return;
      this.drop(stream);
    }
    // What is being read can do without what has gone out already. Down to well below, since this looks at every stream.
    for (const stream of this.#streams.values()) {
      if (this.#characters <= MAX_STORED_CHARACTERS / 2) return;
      stream.forget();
    }
  }

  left(stream: ClientStream): void {
    // One that was dropped may still be sent to its end, by whoever makes it.
    if (!this.#streams.has(stream.token)) return;
    if (stream.resumable) this.#unread.add(stream);
    else this.drop(stream);
  }

  returned(stream: ClientStream): void {
    this.#unread.delete(stream);
  }

  /** Forgets what nobody came back for in time. */
  sweep(now: number): void {
    for (const stream of this.#unread) {
      if (stream.leftAt === undefined) continue;
      if (now - stream.leftAt > (stream.readToEnd ? READ_MS : UNREAD_MS)) this.drop(stream);
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
