import type { RawHeaders, ResponseHeaders } from './client.ts';
import { MalformedResponse } from './errors.ts';

/** The head of one response: status line and header fields, and what they say about the body and the connection. */
export interface ResponseHead {
  readonly status: number;
  /** Text behind the status, mostly empty or a phrase that nobody reads. */
  readonly reason: string;
  /** Values by lower-case name; the object has no prototype. */
  readonly headers: ResponseHeaders;
  readonly raw: RawHeaders;
  /** Value of `Content-Length` in bytes; -1 when there is none. */
  readonly contentLength: number;
  readonly chunked: boolean;
  /** Whether the connection may carry another request after this response. */
  readonly persistent: boolean;
  /** What `Keep-Alive: timeout=` announces, in milliseconds; undefined when nothing is announced. */
  readonly keepAliveMs: number | undefined;
}

const CR = 13;
const LF = 10;
const COLON = 58;
const SPACE = 32;
const TAB = 9;

const TOKEN = 1;
const TEXT = 2;
/** What a byte may be part of: {@link TOKEN} a field name, {@link TEXT} a field value or reason phrase (RFC 9110 5). */
const BYTES = Uint8Array.from({ length: 256 }, (_, byte) => {
  const token = /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(byte)) ? TOKEN : 0;
  return byte === TAB || (byte >= SPACE && byte !== 127) ? token | TEXT : token;
});

/**
 * Reads a head: its bytes as latin1, from the status line up to and with the empty line. Stricter than RFC 9112 has to
 * be where it leaves a choice: whatever two readers could take differently is refused. Throws
 * {@link MalformedResponse}.
 */
export function parseHead(text: string): ResponseHead {
  const minor = text.charCodeAt(7) - 48;
  const status = statusCode(text);
  if (!text.startsWith('HTTP/1.') || (minor !== 0 && minor !== 1) || text.charCodeAt(8) !== SPACE || status < 100) {
    throw new MalformedResponse('its status line is none of HTTP/1.1');
  }
  const afterStatus = text.charCodeAt(12);
  if (afterStatus !== SPACE && afterStatus !== CR) throw new MalformedResponse('its status is not three digits');
  const statusEnd = lineEnd(text, 12);
  const reason = text.slice(13, statusEnd);
  const raw = parseFields(text, statusEnd + 2);

  const headers: Record<string, string | string[] | undefined> = Object.create(null);
  let contentLength = -1;
  let chunked = false;
  let persistent = minor === 1;
  let keepAliveMs: number | undefined;
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = (raw[index] ?? '').toLowerCase();
    const value = raw[index + 1] ?? '';
    const earlier = headers[name];
    if (earlier === undefined) headers[name] = value;
    else if (typeof earlier === 'string') headers[name] = [earlier, value];
    else earlier.push(value);
    switch (name) {
      case 'content-length':
        if (contentLength >= 0 || !/^\d{1,15}$/.test(value)) throw new MalformedResponse('its length is no one number');
        contentLength = Number(value);
        break;
      case 'transfer-encoding':
        if (chunked || value.toLowerCase() !== 'chunked') {
          throw new MalformedResponse('its transfer encoding is not chunked, once and alone');
        }
        // Other readers do not take a tab beside the word for blank and see no chunks (found by the fuzz test).
        if (/\ntransfer-encoding:[^\r]*\t/i.test(text)) throw new MalformedResponse('a tab is in its encoding');
        chunked = true;
        break;
      case 'connection':
        if (/(?:^|,)[\t ]*close[\t ]*(?:,|$)/i.test(value)) persistent = false;
        break;
      case 'keep-alive': {
        const seconds = /(?:^|[,;\s])timeout="?(\d+)/i.exec(value)?.[1];
        if (seconds !== undefined) keepAliveMs = Number(seconds) * 1_000;
        break;
      }
    }
  }
  if (chunked && contentLength >= 0) throw new MalformedResponse('it has both a length and a transfer encoding');
  if (chunked && minor === 0) throw new MalformedResponse('HTTP/1.0 has no transfer encoding');
  return { status, reason, headers, raw, contentLength, chunked, persistent, keepAliveMs };
}

/** Reads the trailer section of a chunked body like a head without status line. Throws {@link MalformedResponse}. */
export function checkTrailers(text: string): void {
  if (text.length === 2) return;
  const raw = parseFields(text, 0);
  for (let index = 0; index < raw.length; index += 2) {
    const name = (raw[index] ?? '').toLowerCase();
    if (name === 'content-length' || name === 'transfer-encoding') {
      throw new MalformedResponse('its trailers speak about the length of the body');
    }
  }
}

/** Names and values, alternating, of the field lines from `at` up to the empty line that ends the text. */
function parseFields(text: string, start: number): string[] {
  const raw: string[] = [];
  let at = start;
  while (text.charCodeAt(at) !== CR) {
    const nameStart = at;
    while (((BYTES[text.charCodeAt(at)] ?? 0) & TOKEN) !== 0) at++;
    // No white space before the colon, and none at the start of a line: folded lines are not read.
    if (at === nameStart || text.charCodeAt(at) !== COLON) throw new MalformedResponse('a header name is none');
    const name = text.slice(nameStart, at);
    let valueStart = at + 1;
    while (isBlank(text.charCodeAt(valueStart))) valueStart++;
    at = lineEnd(text, valueStart);
    let valueEnd = at;
    while (valueEnd > valueStart && isBlank(text.charCodeAt(valueEnd - 1))) valueEnd--;
    raw.push(name, text.slice(valueStart, valueEnd));
    at += 2;
  }
  if (at !== text.length - 2) throw new MalformedResponse('a line ends in CR alone');
  return raw;
}

/** Where the CR LF stands that ends the line; what is before it must be text. */
function lineEnd(text: string, start: number): number {
  let at = start;
  while (((BYTES[text.charCodeAt(at)] ?? 0) & TEXT) !== 0) at++;
  if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF) {
    throw new MalformedResponse('a line holds control characters');
  }
  return at;
}

/** The three digits of the status line; below 100 when they are not that. */
function statusCode(text: string): number {
  let status = 0;
  for (let at = 9; at < 12; at++) {
    const digit = text.charCodeAt(at) - 48;
    if (!(digit >= 0 && digit <= 9)) return 0;
    status = status * 10 + digit;
  }
  return status;
}

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB;
}

/** What a {@link ResponseParser} calls back. */
export interface ResponseSink {
  /** The head; never of an interim (1xx) response. */
  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders, reason: string): void;
  /** A piece of the body: bytes `start` to `end` of the buffer given to `execute`, readable during the call only. */
  onBody(buffer: Buffer, start: number, end: number): void;
}

/** Where in a response the next byte stands. */
type Place = 'head' | 'fixed' | 'until-close' | 'size' | 'chunk' | 'chunk-cr' | 'chunk-lf' | 'trailers' | 'done';
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
