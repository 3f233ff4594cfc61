import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';

/** Bytes of an unread body from which on the client is not read. */
const MAX_UNREAD_BYTES = 64 * 1024;

/** Listeners of a body; all but `data` are called at most once. */
interface BodyEvents {
  readonly data: (chunk: Buffer) => void;
  readonly end: () => void;
  /** The body is complete, or the client has disconnected. */
  readonly close: () => void;
}

/**
 * The body of a request as it arrives, with the events of `IncomingMessage` once it flows. One that arrived together with its head
 * can be taken without events.
 */
export class RequestBody {
  readonly #socket: Socket;
  /** The whole request was received. */
  complete = false;
  /** The client has disconnected. */
  destroyed = false;
  /** Received and not yet read. */
  #unread: ChunkBuffer | undefined = undefined;
  #flows = false;
  #ended = false;
  #flushes = false;
  /** Most requests have no listeners. */
  #events: EventEmitter | undefined = undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Takes it if all of it has been received, and that is at most `limit` bytes; no events follow then. */
  take(limit: number): ChunkBuffer | undefined {
    const body = this.#unread;
    if (!this.complete || this.#flows || body === undefined || body.length > limit) return undefined;
    this.#unread = undefined;
    this.#ended = true;
    return body;
  }

  /** So much is unread that the client should not be read. */
  get isFull(): boolean {
    return this.#unread !== undefined && this.#unread.length >= MAX_UNREAD_BYTES;
  }

  /** Like a stream, it begins to flow when someone listens. */
  on<Event extends keyof BodyEvents>(event: Event, listener: BodyEvents[Event]): this {
    this.#events ??= new EventEmitter();
    this.#events.on(event, listener);
    if (event === 'data') this.resume();
    return this;
  }

  off<Event extends keyof BodyEvents>(event: Event, listener: BodyEvents[Event]): this {
    this.#events?.off(event, listener);
    return this;
  }

  pause(): void {
    this.#flows = false;
  }

  resume(): void {
    this.#flows = true;
    if (this.#flushes || this.#ended) return;
    this.#flushes = true;
    process.nextTick(() => {
      this.#flushes = false;
      this.#flush();
    });
  }

  /** Receives a part of the body. */
  push(chunk: Buffer): void {
    if (this.#flows && this.#unread === undefined && !this.#flushes) {
      this.#events?.emit('data', chunk);
      return;
    }
    this.#unread ??= new ChunkBuffer();
    this.#unread.push(chunk);
    if (this.isFull) this.#socket.pause();
  }

  /** The whole body was received. */
  finish(): void {
    this.complete = true;
    if (this.#flows && !this.#flushes) this.#flush();
  }

  /** The connection was closed. */
  abort(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    if (this.#ended) return;
    this.#ended = true;
    this.#unread = undefined;
    this.#events?.emit('close');
  }

  /** Discards the rest of a body that nobody reads. */
  discardUnread(): void {
    if (!this.#ended && !this.#events?.listenerCount('data')) this.resume();
  }

  #flush(): void {
    if (this.#unread) this.#emitUnread(this.#unread.chunks);
    if (!this.#flows || this.#ended) return;
    if (!this.complete) {
      this.#socket.resume();
      return;
    }
    this.#ended = true;
    this.#events?.emit('end');
    this.#events?.emit('close');
  }

  #emitUnread(chunks: readonly Buffer[]): void {
    let at = 0;
    for (; at < chunks.length && this.#flows && !this.#ended; at++) this.#events?.emit('data', chunks[at]);
    this.#unread = undefined;
    if (this.#ended || at === chunks.length) return;
    this.#unread = new ChunkBuffer();
    for (const chunk of chunks.slice(at)) this.#unread.push(chunk);
  }
}
