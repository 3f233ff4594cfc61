import { parseJson } from '@sluice/protocol/json/parse';
import type { Sealer } from '@sluice/protocol/seal';
import { ClientStream, type StreamKeeper } from './client-stream.ts';

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
  readonly #sealer: Sealer;
  readonly #replica: string;
  readonly #streams = new Map<string, ClientStream>();
  /** Those that nobody reads, in the order in which they were left. */
  readonly #unread = new Set<ClientStream>();
  readonly #timer: NodeJS.Timeout;
  #characters = 0;
  #opened = 0;

  /** `replica` names this process. */
  constructor(sealer: Sealer, replica: string) {
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
