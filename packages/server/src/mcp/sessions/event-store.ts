import { parseJson } from '@sluice/protocol/json/parse';
import type { TokenSealer } from '@sluice/protocol/seal';
import { Quota, type QuotaOwner } from '../../http/quota.ts';
import type { Steps } from '../../registry/steps.ts';
import { ClientStream, type StreamOwner, type StreamStore } from './resumable-streams.ts';

/** Target of a `Last-Event-ID`. */
export type Resumption =
  /** A stream that is stored; the client has seen it up to event number `after`. */
  | { readonly kind: 'stream'; readonly stream: ClientStream; readonly after: number }
  /** A stream that has ended, of which the client has seen everything. */
  | { readonly kind: 'complete' }
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
/**
 * Time for which a fully read stream is known to have ended: clients reconnect to one without a result, at the latest
 * after the longest delay that they are sent (60 s).
 */
const ENDED_TIMEOUT_MS = 90_000;
const SWEEP_MS = 5_000;
/** Default of SERVICE_MAX_RESUMABLE_BYTES. */
export const MAX_RESUMABLE_BYTES = 64 * 1024 * 1024;
/** Size of a stream without events. */
const STREAM_BYTES = 1_000;
/** Maximum lengths: a request id is part of every event id of its stream. */
const MAX_ID = 128;
const MAX_EVENT_ID = 1024;

/**
 * Streams of legacy sessions that can be resumed, including for some time those that have ended. Event ids are sealed: they
 * contain process, session, stream and request, so that a client gets only its own messages and learns that a stream belonged to
 * a previous process.
 */
export class EventStore implements StreamStore {
  readonly #sealer: TokenSealer;
  readonly #replica: string;
  readonly #streams = new Map<string, ClientStream>();
  /** Streams that replace one of a process that has ended, by the token of that. */
  readonly #continued = new Map<string, ClientStream>();
  /** Disconnected streams, longest disconnected first. */
  readonly #detached = new Set<ClientStream>();
  /** Their sizes, in the order in which they were last connected. */
  readonly #sizes: Quota<ClientStream>;
  readonly #timer: NodeJS.Timeout;
  #opened = 0;

  /** `replica` identifies this process. `maxBytes`: maximum size of all stored streams. */
  constructor(sealer: TokenSealer, replica: string, maxBytes: number = MAX_RESUMABLE_BYTES) {
    this.#sealer = sealer;
    this.#replica = replica;
    this.#sizes = new Quota(maxBytes);
    this.#timer = setInterval(() => this.sweep(performance.now()), SWEEP_MS).unref();
  }

  get size(): number {
    return this.#streams.size;
  }

  /**
   * Opens a stream of a session, for the response to a request or, without `idText`, for notifications. Undefined for a
   * request whose id does not fit into event ids: its stream cannot be resumed.
   */
  open(owner: StreamOwner): ClientStream;
  open(owner: StreamOwner, idText: string): ClientStream | undefined;
  open(owner: StreamOwner, idText?: string): ClientStream | undefined {
    return idText !== undefined && idText.length > MAX_ID ? undefined : this.#create(owner, idText);
  }

  #create({ id, holder }: StreamOwner, idText?: string, replacedToken?: string): ClientStream {
    const sealed = [this.#replica, id, ++this.#opened, idText ?? null];
    const token = this.#sealer.seal('eventId', JSON.stringify(sealed));
    const stream = new ClientStream(token, { id, holder }, this);
    this.#streams.set(token, stream);
    stream.replacedToken = replacedToken;
    if (replacedToken !== undefined) this.#continued.set(replacedToken, stream);
    // May drop it at once.
    this.#makeRoom(stream, STREAM_BYTES);
    if (this.#streams.has(token)) this.#sizes.set(stream, holder, STREAM_BYTES);
    return stream;
  }

  /** Opens a stream in place of one of a process that has ended, which the client resumes with this event id. */
  continue(owner: StreamOwner, idText: string, eventId: string): ClientStream {
    return this.#create(owner, idText, eventId.slice(0, eventId.lastIndexOf('.')));
  }

  /** The process that stores, or stored, the stream of an event id of this session; undefined for other texts. */
  replicaOf(session: string, eventId: string): string | undefined {
    const sealed = this.#open(session, eventId);
    return typeof sealed?.[0] === 'string' ? sealed[0] : undefined;
  }

  /** Looks up an event id of this session. */
  find(session: string, eventId: string): Resumption {
    const after = Number(eventId.slice(eventId.lastIndexOf('.') + 1));
    const sealed = Number.isSafeInteger(after) ? this.#open(session, eventId) : undefined;
    if (!sealed) return { kind: 'foreign' };
    const token = eventId.slice(0, eventId.lastIndexOf('.'));
    const stream = this.#streams.get(token);
    if (stream?.isCompleteAfter(after)) return { kind: 'complete' };
    if (stream && !stream.isCleared) return { kind: 'stream', stream, after };
    const continued = this.#continued.get(token);
    if (continued) return { kind: 'stream', stream: continued, after: 0 };
    const [replica, , , request] = sealed;
    const idText = typeof request === 'string' ? request : undefined;
    return { kind: 'lost', idText, restarted: replica !== this.#replica };
  }

  /** The content of an event id of this session. */
  #open(session: string, eventId: string): unknown[] | undefined {
    const dot = eventId.lastIndexOf('.');
    if (dot === -1 || eventId.length > MAX_EVENT_ID) return undefined;
    const text = this.#sealer.open('eventId', eventId.slice(0, dot));
    const sealed: unknown = text === undefined ? undefined : parseJson(text);
    return Array.isArray(sealed) && sealed[1] === session ? sealed : undefined;
  }

  /** Removes a stream: it cannot be resumed any more. */
  drop(stream: ClientStream): void {
    if (!this.#streams.delete(stream.token)) return;
    if (stream.replacedToken !== undefined) this.#continued.delete(stream.replacedToken);
    this.#detached.delete(stream);
    this.#sizes.delete(stream);
    stream.drop();
  }

  /** Removes the streams of an ended session, except those that are still being read. */
  dropSession(session: string): void {
    for (const stream of this.#detached) {
      if (stream.owner.id === session) this.drop(stream);
    }
  }

  /** Removes the streams of these owners: none can be resumed. */
  *dropWhere(test: (holder: QuotaOwner) => boolean): Steps<void> {
    for (const stream of [...this.#streams.values()].filter(({ owner }) => test(owner.holder))) {
      this.drop(stream);
      yield;
    }
  }

  onSizeChanged(stream: ClientStream, bytes: number): void {
    if (bytes > 0) this.#makeRoom(stream, bytes);
    // It may have been dropped for that.
    if (this.#sizes.has(stream)) this.#sizes.set(stream, stream.owner.holder, STREAM_BYTES + stream.bytes);
  }

  onDetached(stream: ClientStream): void {
    // A dropped stream may still be sent to its end.
    if (!this.#streams.has(stream.token)) return;
    if (stream.isResumable) this.#detached.add(stream);
    else this.drop(stream);
  }

  onAttached(stream: ClientStream): void {
    this.#detached.delete(stream);
    if (!this.#sizes.delete(stream)) return;
    this.#sizes.set(stream, stream.owner.holder, STREAM_BYTES + stream.bytes);
  }

  sweep(now: number): void {
    for (const stream of this.#detached) {
      if (stream.detachedAt === undefined) continue;
      const age = now - stream.detachedAt;
      if (age > (stream.isFullyRead ? ENDED_TIMEOUT_MS : BUFFER_TIMEOUT_MS)) this.drop(stream);
      else if (stream.isFullyRead && age > READ_TIMEOUT_MS) stream.clear();
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /**
   * Drops the oldest streams of the same owner until it may have more, this one last: the latest response is the one that its
   * client waits for. A dropped stream cannot be resumed, but continues on its connection.
   */
  #makeRoom(stream: ClientStream, more: number): void {
    const { holder } = stream.owner;
    while (!this.#sizes.allows(holder, more)) {
      const oldest = this.#sizes.items(holder).find((other) => other !== stream) ?? stream;
      this.drop(oldest);
      if (oldest === stream) return;
    }
  }
}
