import { parseJson } from '../json/parse.ts';
import { ClientStream, type StreamKeeper } from './client-stream.ts';
import type { Sealer } from './seal.ts';

/** What an event id that a client comes back with stands for. */
export type Resumption =
  /** A stream that is still here; the client has seen it up to event number `after`. */
  | { readonly kind: 'stream'; readonly stream: ClientStream; readonly after: number }
  /** A stream that this process does not have. `idText`: the request that it was to answer; undefined for none. */
  | { readonly kind: 'lost'; readonly idText: string | undefined }
  /** No event id of this session's. */
  | { readonly kind: 'foreign' };

/** How long a stream can be taken up again: one that was read to its end, and one that was not. */
const READ_MS = 10_000;
const UNREAD_MS = 5 * 60_000;
const SWEEP_MS = 5_000;
/** All that is kept, in characters; what was left first gives way. */
const MAX_CHARACTERS = 64 * 1024 * 1024;
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
    const stream = new ClientStream(token, this);
    this.#streams.set(token, stream);
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
    const request: unknown = sealed[3];
    return { kind: 'lost', idText: typeof request === 'string' ? request : undefined };
  }

  /** Forgets a stream: it cannot be taken up again. */
  drop(stream: ClientStream): void {
    if (this.#streams.delete(stream.token)) stream.giveUp();
  }

  grown(characters: number): void {
    this.#characters += characters;
    if (this.#characters <= MAX_CHARACTERS) return;
    // Down to well below, so that this is not done for every event.
    for (const stream of [...this.#streams.values()].sort(byLeaving)) {
      if (this.#characters <= MAX_CHARACTERS / 2) return;
      if (stream.ended) this.drop(stream);
      else stream.forget();
    }
  }

  left(stream: ClientStream): void {
    if (!stream.resumable) this.drop(stream);
  }

  /** Forgets what nobody came back for in time. */
  sweep(now: number): void {
    for (const stream of this.#streams.values()) {
      if (stream.leftAt === undefined) continue;
      if (now - stream.leftAt > (stream.readToEnd ? READ_MS : UNREAD_MS)) this.drop(stream);
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

function byLeaving(a: ClientStream, b: ClientStream): number {
  return (a.leftAt ?? Number.POSITIVE_INFINITY) - (b.leftAt ?? Number.POSITIVE_INFINITY);
}
