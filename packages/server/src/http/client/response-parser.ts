import type { RawHeaders, ResponseHeaders } from './client.ts';
import { MalformedResponse } from './errors.ts';

/** Head of a response: status line, header fields, and the framing and connection handling that they imply. */
export interface ResponseHead {
  readonly status: number;
  /** Reason phrase, often empty. */
  readonly reason: string;
  /** Values by lower-case name, without a prototype. */
  readonly headers: ResponseHeaders;
  readonly raw: RawHeaders;
  /** Value of `Content-Length` in bytes; -1 if absent. */
  readonly contentLength: number;
  readonly chunked: boolean;
  /** True if the connection can be reused after this response. */
  readonly persistent: boolean;
  /** `Keep-Alive: timeout=` in milliseconds; undefined if absent. */
  readonly keepAliveMs: number | undefined;
}

const CR = 13;
const LF = 10;
const COLON = 58;
const SPACE = 32;
const TAB = 9;

const TOKEN = 1;
const TEXT = 2;
const BLANK = 4;
/**
 * Character classes of bytes: {@link TOKEN} of field names, {@link TEXT} of field values and reason phrases, {@link BLANK}
 * around field values (RFC 9110 5).
 */
const BYTES = Uint8Array.from({ length: 256 }, (_, byte) => {
  const token = /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(byte)) ? TOKEN : 0;
  const text = byte === TAB || (byte >= SPACE && byte !== 127) ? TEXT : 0;
  return token | text | (byte === TAB || byte === SPACE ? BLANK : 0);
});

/**
 * Parses a head, decoded as latin1, from the status line to the empty line. Where RFC 9112 leaves a choice, whatever two
 * parsers could interpret differently is rejected. Throws {@link MalformedResponse}.
 */
function parseHead(text: string): ResponseHead {
  const minor = text.charCodeAt(7) - 48;
  const status = statusCode(text);
  if (!text.startsWith('HTTP/1.') || (minor !== 0 && minor !== 1) || text.charCodeAt(8) !== SPACE || status < 100) {
    throw new MalformedResponse('invalid status line');
  }
  const afterStatus = text.charCodeAt(12);
  if (afterStatus !== SPACE && afterStatus !== CR) throw new MalformedResponse('invalid status code');
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
        if (contentLength >= 0 || !/^\d{1,15}$/.test(value)) throw new MalformedResponse('invalid Content-Length');
        contentLength = Number(value);
        break;
      case 'transfer-encoding':
        if (chunked || value.toLowerCase() !== 'chunked') {
          throw new MalformedResponse('unsupported Transfer-Encoding');
        }
        // Other parsers do not treat a tab as whitespace here and see no chunks (found by the fuzz test).
        if (/\ntransfer-encoding:[^\r]*\t/i.test(text)) throw new MalformedResponse('tab in Transfer-Encoding');
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
  if (chunked && contentLength >= 0) throw new MalformedResponse('both Content-Length and Transfer-Encoding');
  if (chunked && minor === 0) throw new MalformedResponse('Transfer-Encoding in HTTP/1.0');
  return { status, reason, headers, raw, contentLength, chunked, persistent, keepAliveMs };
}

/** Validates the trailer section of a chunked body. Throws {@link MalformedResponse}. */
function checkTrailers(text: string): void {
  const raw = parseFields(text, 0);
  for (let index = 0; index < raw.length; index += 2) {
    const name = (raw[index] ?? '').toLowerCase();
    if (name === 'content-length' || name === 'transfer-encoding') {
      throw new MalformedResponse('framing header in the trailers');
    }
  }
}

/** Returns names and values, alternating, of the field lines from `start` to the empty line that ends the text. */
function parseFields(text: string, start: number): string[] {
  const raw: string[] = [];
  let at = start;
  while (text.charCodeAt(at) !== CR) {
    const nameStart = at;
    while (((BYTES[text.charCodeAt(at)] ?? 0) & TOKEN) !== 0) at++;
    // Whitespace before the colon and folded lines are rejected.
    if (at === nameStart || text.charCodeAt(at) !== COLON) throw new MalformedResponse('invalid header name');
    const name = text.slice(nameStart, at);
    let valueStart = at + 1;
    while (((BYTES[text.charCodeAt(valueStart)] ?? 0) & BLANK) !== 0) valueStart++;
    at = lineEnd(text, valueStart);
    let valueEnd = at;
    while (valueEnd > valueStart && ((BYTES[text.charCodeAt(valueEnd - 1)] ?? 0) & BLANK) !== 0) valueEnd--;
    raw.push(name, text.slice(valueStart, valueEnd));
    at += 2;
  }
  if (at !== text.length - 2) throw new MalformedResponse('CR without LF');
  return raw;
}

/** Returns the index of the CR LF that ends the line. Throws for bytes that are not allowed before it. */
function lineEnd(text: string, start: number): number {
  let at = start;
  while (((BYTES[text.charCodeAt(at)] ?? 0) & TEXT) !== 0) at++;
  if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF) {
    throw new MalformedResponse('control character in a line');
  }
  return at;
}

/** Returns the status code; below 100 if it is invalid. */
function statusCode(text: string): number {
  let status = 0;
  for (let at = 9; at < 12; at++) {
    const digit = text.charCodeAt(at) - 48;
    if (!(digit >= 0 && digit <= 9)) return 0;
    status = status * 10 + digit;
  }
  return status;
}

/** Returns the media type of a response without parameters, in lower case; empty if there is none. */
export function mediaType(headers: ResponseHeaders): string {
  const value = headers['content-type'];
  // Nearly every response has one of these two, for which nothing is allocated.
  if (value === 'application/json' || value === 'text/event-stream') return value;
  return typeof value === 'string' ? (value.split(';', 1)[0] ?? '').trim().toLowerCase() : '';
}

/** Receives parsed responses. */
export interface ResponseSink {
  /** Head of a response; interim (1xx) responses are skipped. */
  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders, reason: string): void;
  /** Part of the body: bytes `start` to `end` of the buffer passed to `execute`, valid during the call only. */
  onBody(buffer: Buffer, start: number, end: number): void;
}

/** Part of the response that the next byte belongs to. */
type State = 'head' | 'fixed' | 'until-close' | 'size' | 'chunk' | 'chunk-cr' | 'chunk-lf' | 'trailers' | 'done';
/** Limit of a head, and of the trailers, which are discarded. */
const MAX_HEAD_BYTES = 16 * 1024;
/** Limit of a chunk-size line including its extensions. */
const MAX_SIZE_LINE_BYTES = 1024;
const PROTOCOL = 'HTTP/1.';
/** A chunk size below 2^52 and its extensions (RFC 9112 7.1.1), which are discarded. */
const SIZE_LINE =
  /^([\da-f]{1,13})(?:;[!#$%&'*+\-.^_`|~\da-z]+(?:=(?:[!#$%&'*+\-.^_`|~\da-z]+|"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t\x20-\x7e])*"))?)*\r\n$/i;

/**
 * Parser of the responses on one connection: `execute` for every chunk of input until `done`, then `reset`. Only the framing
 * is parsed byte by byte; heads are parsed when they are complete, and bodies are passed on in place.
 */
export class ResponseParser {
  /** Set by the sink in a callback to make `execute` return. */
  halted = false;
  /** Set before a response to HEAD, which has no body. */
  headOnly = false;
  /** Whether the connection can be reused after the last response. */
  persistent = false;
  /** Idle timeout that the last response announced, in milliseconds. */
  keepAliveMs: number | undefined = undefined;
  readonly #sink: ResponseSink;
  #state: State = 'head';
  /** Remaining bytes of the fixed-length body or the chunk. */
  #remaining = 0;
  /** Incomplete head, trailers or chunk-size line. */
  #partial = '';
  /** Number of bytes of the current line, and the last byte. */
  #lineBytes = 0;
  #lastByte = 0;

  constructor(sink: ResponseSink) {
    this.#sink = sink;
  }

  /** True when the response is complete. */
  get done(): boolean {
    return this.#state === 'done';
  }

  /** True after the first byte of the response; interim (1xx) responses do not count. */
  get hasBegun(): boolean {
    return this.#state !== 'head' || this.#partial !== '';
  }

  /** Prepares for the next response. */
  reset(): void {
    this.#state = 'head';
  }

  /**
   * Parses input and returns the index of the first byte that was not consumed: `end`, unless the response is complete or
   * the sink has set `halted`. Throws {@link MalformedResponse}.
   */
  execute(buffer: Buffer, start: number, end: number): number {
    let at = start;
    while (at < end && !this.halted && this.#state !== 'done') {
      switch (this.#state) {
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
          if (buffer[at] !== (this.#state === 'chunk-cr' ? CR : LF)) {
            throw new MalformedResponse('chunk longer than its size');
          }
          this.#state = this.#state === 'chunk-cr' ? 'chunk-lf' : 'size';
          at++;
          break;
      }
    }
    return at;
  }

  /** Handles the end of the input. Returns whether the response is complete. */
  finish(): boolean {
    if (this.#state === 'until-close') this.#state = 'done';
    return this.done;
  }

  /** Consumes lines up to an empty one; checks only line ends, each byte once. */
  #block(buffer: Buffer, start: number, end: number): number {
    let lineBytes = this.#lineBytes;
    let lastByte = this.#lastByte;
    for (let at = start; at < end; at++) {
      const byte = buffer[at] ?? 0;
      if (byte !== LF) {
        lineBytes++;
      } else {
        if (lastByte !== CR) throw new MalformedResponse('LF without CR');
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
    if (this.#state === 'head' && !PROTOCOL.startsWith(this.#partial.slice(0, PROTOCOL.length))) {
      throw new MalformedResponse('invalid status line');
    }
    return end;
  }

  #blockEnd(text: string): void {
    if (this.#state === 'trailers') {
      // An empty line ends the body without trailers, as nearly always.
      if (text.length > 2) checkTrailers(text);
      this.#state = 'done';
      return;
    }
    const { status, reason, headers, raw, contentLength, chunked, persistent, keepAliveMs } = parseHead(text);
    if (status < 200) {
      if (status === 101) throw new MalformedResponse('unexpected protocol upgrade');
      if (chunked || contentLength >= 0) throw new MalformedResponse('interim response with a body');
      if (!persistent) throw new MalformedResponse('interim response closes the connection');
      return;
    }
    this.persistent = persistent;
    this.keepAliveMs = keepAliveMs;
    if (status === 204 || status === 304 || this.headOnly) {
      // A body that is sent nevertheless must not be parsed as the next response.
      if (chunked || contentLength > 0) this.persistent = false;
      this.#state = 'done';
    } else if (chunked) {
      this.#state = 'size';
    } else if (contentLength >= 0) {
      this.#remaining = contentLength;
      this.#state = contentLength === 0 ? 'done' : 'fixed';
    } else {
      this.persistent = false;
      this.#state = 'until-close';
    }
    this.#sink.onHead(status, headers, raw, reason);
  }

  /** Consumes a chunk-size line. */
  #size(buffer: Buffer, start: number, end: number): number {
    let at = start;
    while (at < end && buffer[at] !== LF) at++;
    const complete = at < end;
    if (complete) at++;
    const line = this.#upTo(buffer, start, at, MAX_SIZE_LINE_BYTES);
    this.#partial = complete ? '' : line;
    if (!complete) return at;
    const size = SIZE_LINE.exec(line)?.[1];
    if (size === undefined) throw new MalformedResponse('invalid chunk size');
    this.#remaining = Number.parseInt(size, 16);
    this.#state = this.#remaining === 0 ? 'trailers' : 'chunk';
    return at;
  }

  /** Consumes bytes of a fixed-length body or a chunk. */
  #body(buffer: Buffer, start: number, end: number): number {
    this.#remaining -= end - start;
    if (this.#remaining === 0) this.#state = this.#state === 'chunk' ? 'chunk-cr' : 'done';
    this.#sink.onBody(buffer, start, end);
    return end;
  }

  #upTo(buffer: Buffer, start: number, end: number, limit: number): string {
    if (this.#partial.length + end - start > limit) {
      throw new MalformedResponse(`head, trailers or chunk-size line of more than ${limit} bytes`, 'too-large');
    }
    const text = buffer.toString('latin1', start, end);
    return this.#partial === '' ? text : this.#partial + text;
  }
}
