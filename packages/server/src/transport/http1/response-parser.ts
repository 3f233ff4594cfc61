import type { RawHeaders, ResponseHeaders } from '../transport.ts';
import { MalformedResponse } from './malformed-response.ts';
import { checkTrailers, parseHead } from './response-head.ts';

/** What a {@link ResponseParser} calls back. */
export interface ResponseSink {
  /** The head; never of an interim (1xx) response. */
  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders, reason: string): void;
  /** A piece of the body: bytes `start` to `end` of the buffer given to `execute`, readable during the call only. */
  onBody(buffer: Buffer, start: number, end: number): void;
}

/** Where in a response the next byte stands. */
type Place = 'head' | 'fixed' | 'until-close' | 'size' | 'chunk' | 'chunk-cr' | 'chunk-lf' | 'trailers' | 'done';

const CR = 13;
const LF = 10;
/** Bytes that a head may have, and likewise the trailers, which are dropped. */
const MAX_HEAD_BYTES = 16 * 1024;
/** Bytes that the line of a chunk's size may have, its extensions included. */
const MAX_SIZE_LINE_BYTES = 1024;
const PROTOCOL = 'HTTP/1.';
/** A chunk's size below 2^52 and extensions after the letter of RFC 9112 7.1.1, which are dropped. */
const SIZE_LINE =
  /^([\da-f]{1,13})(?:;[!#$%&'*+\-.^_`|~\da-z]+(?:=(?:[!#$%&'*+\-.^_`|~\da-z]+|"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t\x20-\x7e])*"))?)*\r\n$/i;

/**
 * Reads responses from one connection, one at a time: `execute` for every piece of input, which may end anywhere, until
 * `done`, then `reset`. Only the framing is looked at byte by byte; heads are read at once when they are complete, and
 * bodies are handed on in place.
 */
export class ResponseParser {
  /** Set by the sink from inside a callback: `execute` returns at once. */
  halted = false;
  /** To be set before a response is read: it answers HEAD and has no body. */
  headOnly = false;
  /** Of the response last read: whether the connection may carry another one. */
  persistent = false;
  /** Of the response last read: what its head announces, in milliseconds. */
  keepAliveMs: number | undefined = undefined;
  readonly #sink: ResponseSink;
  #place: Place = 'head';
  /** Bytes that the fixed-length body or the chunk still has. */
  #remaining = 0;
  /** Beginning of a head, of trailers or of a size line whose end has not come yet. */
  #partial = '';
  /** Bytes of the current line so far, and the last of them. */
  #lineBytes = 0;
  #lastByte = 0;

  constructor(sink: ResponseSink) {
    this.#sink = sink;
  }

  /** Whether the response is complete. */
  get done(): boolean {
    return this.#place === 'done';
  }

  /** Whether a byte of the response has come; interim (1xx) responses before it do not count. */
  get begun(): boolean {
    return this.#place !== 'head' || this.#partial !== '';
  }

  /** Expects the next response. */
  reset(): void {
    this.#place = 'head';
  }

  /**
   * Reads on and returns the index of the first byte that was not read: `end`, unless the response is complete or the
   * sink has halted. Throws {@link MalformedResponse}.
   */
  execute(buffer: Buffer, start: number, end: number): number {
    let at = start;
    while (at < end && !this.halted && this.#place !== 'done') {
      switch (this.#place) {
        case 'head':
        case 'trailers':
          at = this.#block(buffer, at, end);
          break;
        case 'size':
          at = this.#size(buffer, at, end);
          break;
        case 'fixed':
        case 'chunk':
          at = this.#body(buffer, at, Math.min(end, at + this.#remaining));
          break;
        case 'until-close':
          this.#sink.onBody(buffer, at, end);
          at = end;
          break;
        case 'chunk-cr':
        case 'chunk-lf':
          if (buffer[at] !== (this.#place === 'chunk-cr' ? CR : LF)) {
            throw new MalformedResponse('a chunk is longer than its size');
          }
          this.#place = this.#place === 'chunk-cr' ? 'chunk-lf' : 'size';
          at++;
          break;
      }
    }
    return at;
  }

  /** To be told that the upstream sends no more. Returns whether that completes the response. */
  finish(): boolean {
    if (this.#place === 'until-close') this.#place = 'done';
    return this.done;
  }

  /** Lines up to and with an empty one. Looks at their ends only, and at each byte once. */
  #block(buffer: Buffer, start: number, end: number): number {
    let lineBytes = this.#lineBytes;
    let lastByte = this.#lastByte;
    for (let at = start; at < end; at++) {
      const byte = buffer[at] ?? 0;
      if (byte !== LF) {
        lineBytes++;
      } else {
        if (lastByte !== CR) throw new MalformedResponse('a line ends in LF alone');
        if (lineBytes === 1) {
          const text = this.#upTo(buffer, start, at + 1, MAX_HEAD_BYTES);
          this.#partial = '';
          this.#lineBytes = 0;
          this.#lastByte = 0;
          this.#blockEnd(text);
          return at + 1;
        }
        lineBytes = 0;
      }
      lastByte = byte;
    }
    this.#lineBytes = lineBytes;
    this.#lastByte = lastByte;
    this.#partial = this.#upTo(buffer, start, end, MAX_HEAD_BYTES);
    if (this.#place === 'head' && !PROTOCOL.startsWith(this.#partial.slice(0, PROTOCOL.length))) {
      throw new MalformedResponse('its status line is none of HTTP/1.1');
    }
    return end;
  }

  #blockEnd(text: string): void {
    if (this.#place === 'trailers') {
      checkTrailers(text);
      this.#place = 'done';
      return;
    }
    const { status, reason, headers, raw, contentLength, chunked, persistent, keepAliveMs } = parseHead(text);
    if (status < 200) {
      if (status === 101) throw new MalformedResponse('it changes the protocol without having been asked');
      if (chunked || contentLength >= 0) throw new MalformedResponse('an interim answer announces a body');
      if (!persistent) throw new MalformedResponse('an interim answer is the last one');
      return;
    }
    this.persistent = persistent;
    this.keepAliveMs = keepAliveMs;
    if (status === 204 || status === 304 || this.headOnly) {
      // There is no body whatever the head says, but one that is sent all the same must not be the next answer.
      if (chunked || contentLength > 0) this.persistent = false;
      this.#place = 'done';
    } else if (chunked) {
      this.#place = 'size';
    } else if (contentLength >= 0) {
      this.#remaining = contentLength;
      this.#place = contentLength === 0 ? 'done' : 'fixed';
    } else {
      this.persistent = false;
      this.#place = 'until-close';
    }
    this.#sink.onHead(status, headers, raw, reason);
  }

  /** The line that begins a chunk. */
  #size(buffer: Buffer, start: number, end: number): number {
    let at = start;
    while (at < end && buffer[at] !== LF) at++;
    const complete = at < end;
    if (complete) at++;
    const line = this.#upTo(buffer, start, at, MAX_SIZE_LINE_BYTES);
    this.#partial = complete ? '' : line;
    if (!complete) return at;
    const size = SIZE_LINE.exec(line)?.[1];
    if (size === undefined) throw new MalformedResponse('a chunk has no size');
    this.#remaining = Number.parseInt(size, 16);
    this.#place = this.#remaining === 0 ? 'trailers' : 'chunk';
    return at;
  }

  /** Bytes of a fixed-length body or of a chunk, none of what follows. */
  #body(buffer: Buffer, start: number, end: number): number {
    this.#remaining -= end - start;
    if (this.#remaining === 0) this.#place = this.#place === 'chunk' ? 'chunk-cr' : 'done';
    this.#sink.onBody(buffer, start, end);
    return end;
  }

  #upTo(buffer: Buffer, start: number, end: number, limit: number): string {
    if (this.#partial.length + end - start > limit) {
      throw new MalformedResponse(`its head, its trailers or a chunk's size has more than ${limit} bytes`, 'too-large');
    }
    const text = buffer.toString('latin1', start, end);
    return this.#partial === '' ? text : this.#partial + text;
  }
}
