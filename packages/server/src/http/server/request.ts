import { EventEmitter } from 'node:events';
import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import type { RequestHead } from './request-parser.ts';

/** Bytes of an unread body from which on the client is not read. */
const MAX_UNREAD_BYTES = 64 * 1024;

/**
 * A request and its body, with the events of `IncomingMessage`: `data` and `end` once it flows, `error` if the client
 * disconnects before the end, `close`. A body that arrived together with its head can be taken without events.
 */
export class ServerRequest {
  readonly method: string;
  /** Path and query; without the prefix of the public URL, once that was removed. */
  url: string;
  readonly headers: IncomingHttpHeaders;
  /** Names and values, alternating, in their original case. */
  readonly rawHeaders: readonly string[];
  readonly head: RequestHead;
  /** The socket of its connection. */
  readonly socket: Socket;
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

  constructor(head: RequestHead, socket: Socket) {
    this.method = head.method;
    this.url = head.url;
    this.headers = head.headers;
    this.rawHeaders = head.rawHeaders;
    this.head = head;
    this.socket = socket;
  }

  /** Takes the body if all of it has been received and has at most `limit` bytes; no events follow then. */
  takeBody(limit: number): ChunkBuffer | undefined {
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

  // Like a stream, it begins to flow when someone listens.
  on(event: 'data', listener: (chunk: Buffer) => void): this;
  on(event: 'error', listener: (error: Error) => void): this;
  on(event: 'end' | 'close', listener: () => void): this;
  on(event: string, listener: (...values: never[]) => void): this {
    this.#events ??= new EventEmitter();
    this.#events.on(event, listener as (...values: unknown[]) => void);
    if (event === 'data') this.resume();
    return this;
  }

  once(event: 'end' | 'close', listener: () => void): this {
    this.#events ??= new EventEmitter();
    this.#events.once(event, listener);
    return this;
  }

  off(event: 'data', listener: (chunk: Buffer) => void): this;
  off(event: 'end' | 'close', listener: () => void): this;
  off(event: string, listener: (...values: never[]) => void): this {
    this.#events?.off(event, listener as (...values: unknown[]) => void);
    return this;
  }

  removeAllListeners(event: 'data' | 'end'): this {
    this.#events?.removeAllListeners(event);
    return this;
  }

  pause(): this {
    this.#flows = false;
    return this;
  }

  resume(): this {
    this.#flows = true;
    if (this.#flushes || this.#ended) return this;
    this.#flushes = true;
    process.nextTick(() => {
      this.#flushes = false;
      this.#flush();
    });
    return this;
  }

  /** Closes the connection. */
  destroy(): this {
    this.socket.destroy();
    return this;
  }

  /** Receives a part of the body. */
  push(chunk: Buffer): void {
    if (this.#flows && this.#unread === undefined && !this.#flushes) {
      this.#events?.emit('data', chunk);
      return;
    }
    this.#unread ??= new ChunkBuffer();
    this.#unread.push(chunk);
    if (this.isFull) this.socket.pause();
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
    if (!this.complete && this.#hasListener('error')) {
      this.#events?.emit('error', Object.assign(new Error('aborted'), { code: 'ECONNRESET' }));
    }
    this.#events?.emit('close');
  }

  /** Discards the rest of a body that nobody reads. */
  discardUnread(): void {
    if (!this.#ended && !this.#hasListener('data')) this.resume();
  }

  #hasListener(event: string): boolean {
    return this.#events !== undefined && this.#events.listenerCount(event) > 0;
  }

  #flush(): void {
    if (this.#unread) this.#emitUnread(this.#unread.chunks);
    if (!this.#flows || this.#ended) return;
    if (!this.complete) {
      this.socket.resume();
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
