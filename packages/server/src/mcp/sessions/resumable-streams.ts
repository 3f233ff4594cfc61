import { encodeEvent, encodeMessage } from '@sluice/protocol/mcp/event-stream';
import type { ResponseLike } from '../../http/exchange.ts';
import type { QuotaOwner } from '../../http/quota.ts';
import type { OpenBody, ResponseStream } from '../response-stream.ts';

/** Session of a stream. */
export interface StreamOwner {
  readonly id: string;
  /** Whom the stored events count for. */
  readonly holder: QuotaOwner;
}

/** Store of the streams that can be resumed. */
export interface StreamStore {
  /** The stored events grew or shrank by so many bytes. */
  onSizeChanged(stream: ClientStream, bytes: number): void;
  /** The stream is disconnected; it may be resumed for some time. */
  onDetached(stream: ClientStream): void;
  /** The stream is connected again. */
  onAttached(stream: ClientStream): void;
}

/**
 * Maximum size of the events stored for one stream. Older events are dropped: a stream that is not read must not block its
 * upstream.
 */
const MAX_EVENTS = 256;
const MAX_STREAM_BYTES = 256 * 1024;
/** The store counts whole blocks: small events mostly do not change its count. */
const BLOCK_BYTES = 1024;

/** Maximum time to flush a connection that was ended, in milliseconds. */
const LINGER_MS = 2_000;

/** A message of which parts are sent while they arrive. */
interface UnfinishedMessage {
  /** The connection on which they are sent; undefined if there was none. */
  readonly target: ResponseLike | undefined;
  /** The parts so far, and their size; empty once the stream cannot be resumed. */
  parts: Buffer[];
  bytes: number;
}

/**
 * One event stream of a legacy session, independent of its connection: a client that loses the connection can resume the
 * stream on another one, after the last event it got (2025-11-25, "Resumability and Redelivery").
 */
export class ClientStream implements ResponseStream {
  readonly isIndependent = true;
  /** Identifies the stream in its event ids. */
  readonly token: string;
  readonly owner: StreamOwner;
  /** Token of the stream that this one replaces: one of a process that has ended. */
  replacedToken: string | undefined = undefined;
  /** True once the last event was sent. */
  hasEnded = false;
  /** True once the last event was sent on a connection. */
  isFullyRead = false;
  /** True if messages were sent since the last connection closed. */
  hasUnread = false;
  /** Called once when the stream cannot be resumed any more. */
  onDropped: (() => void) | undefined = undefined;
  /** True once the events of an ended stream were removed: only that it has ended is still known. */
  isCleared = false;
  /** Time at which the last connection closed, in milliseconds of `performance.now()`; undefined while there is one. */
  detachedAt: number | undefined = undefined;
  readonly #store: StreamStore;
  #target: ResponseLike | undefined = undefined;
  /** The latest events; the last of them has the number `#sent`. */
  #events: (string | Buffer)[] = [];
  /** Their size, and the blocks that it needs. */
  #bytes = 0;
  #blocks = 0;
  #sent = 0;
  /** The last message, while parts of it are sent on a connection. */
  #last: UnfinishedMessage | undefined = undefined;
  #drainListeners: (() => void)[] = [];
  #dropped = false;
  #reportedDrop = false;
  /** True while the connection's buffer is full. */
  #full = false;

  constructor(token: string, owner: StreamOwner, store: StreamStore) {
    this.token = token;
    this.owner = owner;
    this.#store = store;
  }

  get isAttached(): boolean {
    return this.#target !== undefined;
  }

  /** True if the client was sent an event id to resume from. */
  get isResumable(): boolean {
    return this.#sent > 0;
  }

  /** True if the stream has ended and its last event has this number, or a lower one. */
  isCompleteAfter(number: number): boolean {
    return this.hasEnded && number >= this.#sent;
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
      setTimeout(() => previous.destroy(), LINGER_MS).unref();
    }
    this.#full = false;
    target.on('close', () => this.#onConnectionClosed(target));
    target.on('drain', () => {
      if (this.#target !== target) return;
      this.#full = false;
      this.releaseSenders();
    });
    const first = this.#sent - this.#events.length + 1;
    for (let number = Math.max(first, after + 1); number <= this.#sent; number++) {
      this.#write(target, number, this.#events[number - first] ?? '');
    }
    if (this.hasEnded) this.#finish();
    // Senders no longer wait for the previous connection's buffer.
    else this.releaseSenders();
  }

  /** Sends an event id to resume from before the first message (2025-11-25, "priming"). */
  sendInitialEventId(retryMs?: number): void {
    this.#storeEvent('');
    if (this.#target) this.#write(this.#target, this.#sent, '', retryMs);
  }

  cork(isCorked: boolean): void {
    if (isCorked) this.#target?.cork();
    else this.#target?.uncork();
  }

  /** `data`: bytes without line breaks if it is large. */
  send(data: string | Buffer): boolean {
    this.#storeEvent(data);
    if (this.#target === undefined) this.hasUnread = true;
    return this.#target === undefined || this.#write(this.#target, this.#sent, data);
  }

  /** The parts stay in memory: a client that loses its connection gets the whole message on the next one, as its id comes last. */
  beginLast(): OpenBody {
    const target = this.#target;
    const last: UnfinishedMessage = { target, parts: [], bytes: 0 };
    this.#last = last;
    target?.write('event: message\ndata: ');
    return { write: (parts) => this.#writePart(last, parts), end: () => this.#endLast(last) };
  }

  /** The stream may be stored for a while after this; it must not retain the call and its connections. */
  end(data?: string | Buffer): void {
    this.onDropped = undefined;
    this.#end(data);
  }

  #end(data?: string | Buffer): void {
    if (this.hasEnded) return;
    if (this.#last) this.#dropLast(this.#last);
    if (data !== undefined) this.send(data);
    this.hasEnded = true;
    this.#finish();
  }

  /** Ends the stream without a last message, and destroys its connection if the client does not read the rest in time. */
  close(): void {
    const target = this.#target;
    this.#end();
    if (target) setTimeout(() => target.destroy(), LINGER_MS).unref();
  }

  /** Memory of the stored events in bytes: whole blocks. */
  get bytes(): number {
    return this.#blocks * BLOCK_BYTES;
  }

  disconnect(retryMs: number): void {
    if (this.#dropped) return;
    this.sendInitialEventId(retryMs);
    if (this.#target) this.release(this.#target);
  }

  /** Ends this connection, if it is still that of the stream. */
  release(target: ResponseLike): void {
    if (this.#target !== target) return;
    if (this.#full) target.destroy();
    else target.end();
    this.#onConnectionClosed(target);
  }

  keepAlive(): void {
    if (this.#full || !this.#target || this.#last?.target === this.#target) return;
    this.#full = !this.#target.write(':\n\n');
  }

  onDrain(listener: () => void): void {
    this.#drainListeners.push(listener);
  }

  releaseSenders(): void {
    const waiting = this.#drainListeners;
    this.#drainListeners = [];
    for (const listener of waiting) listener();
  }

  /** Makes the stream not resumable: its events are removed, and none are stored from now on. A connection continues. */
  drop(): void {
    this.#dropped = true;
    this.#removeEvents();
    this.#reportDrop();
  }

  /** Removes the events of a stream that has ended. */
  clear(): void {
    if (this.isCleared) return;
    this.isCleared = true;
    const bytes = this.bytes;
    this.#removeEvents();
    this.#store.onSizeChanged(this, -bytes);
  }

  #removeEvents(): void {
    this.#events = [];
    if (this.#last) [this.#last.parts, this.#last.bytes] = [[], 0];
    this.#bytes = 0;
    this.#blocks = 0;
  }

  #write(target: ResponseLike, number: number, data: string | Buffer, retry?: number): boolean {
    const id = `${this.token}.${number}`;
    let end = '\n\n';
    if (typeof data === 'string') end = data === '' ? encodeEvent({ id, retry, data }) : encodeMessage(data, id);
    else {
      target.write(`id: ${id}\nevent: message\ndata: `);
      target.write(data);
    }
    const keepsUp = target.write(end);
    if (!keepsUp) this.#full = true;
    return keepsUp;
  }

  #writePart(last: UnfinishedMessage, parts: readonly Buffer[]): boolean {
    if (this.#last !== last) return true;
    const grown = parts.reduce((bytes, part) => bytes + part.length, 0);
    if (!this.#dropped) {
      last.parts.push(...parts);
      last.bytes += grown;
      this.#grow(grown);
    }
    const { target } = last;
    if (!target || this.#target !== target) return true;
    let keepsUp = true;
    for (const part of parts) keepsUp = target.write(part);
    if (!keepsUp) this.#full = true;
    return keepsUp;
  }

  #endLast(last: UnfinishedMessage): void {
    if (this.#last !== last) return;
    this.#last = undefined;
    const { target } = last;
    this.#bytes -= last.bytes;
    const data = Buffer.concat(last.parts);
    if (!target || this.#target !== target) return this.end(data);
    this.#storeEvent(data);
    target.write(`\nid: ${this.token}.${this.#sent}\n\n`);
    this.end();
  }

  #dropLast(last: UnfinishedMessage): void {
    this.#last = undefined;
    this.#grow(-last.bytes);
    const { target } = last;
    if (!target || this.#target !== target) return;
    target.destroy();
    this.#onConnectionClosed(target);
  }

  #storeEvent(data: string | Buffer): void {
    this.#sent++;
    if (this.#dropped) return;
    this.#events.push(data);
    let grown = Buffer.byteLength(data);
    while (this.#events.length > MAX_EVENTS || (this.#bytes + grown > MAX_STREAM_BYTES && this.#events.length > 1)) {
      grown -= Buffer.byteLength(this.#events.shift() ?? '');
    }
    this.#grow(grown);
  }

  /** The stored messages grew by so many bytes, or shrank. */
  #grow(bytes: number): void {
    this.#bytes += bytes;
    const blocks = Math.ceil(this.#bytes / BLOCK_BYTES);
    const more = blocks - this.#blocks;
    if (more === 0) return;
    this.#blocks = blocks;
    this.#store.onSizeChanged(this, more * BLOCK_BYTES);
  }

  #finish(): void {
    const target = this.#target;
    this.#target = undefined;
    this.isFullyRead = target !== undefined;
    target?.end();
    this.#detach();
    this.releaseSenders();
  }

  #onConnectionClosed(target: ResponseLike): void {
    if (this.#target !== target) return;
    this.#target = undefined;
    this.#detach();
    this.releaseSenders();
  }

  #detach(): void {
    this.detachedAt ??= performance.now();
    this.#store.onDetached(this);
    this.#reportDrop();
  }

  /** A dropped stream is lost for its client only when its connection closes. */
  #reportDrop(): void {
    if (!this.#dropped || this.#reportedDrop || this.#target) return;
    this.#reportedDrop = true;
    this.onDropped?.();
  }
}
