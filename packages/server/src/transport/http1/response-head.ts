import type { RawHeaders, ResponseHeaders } from '../transport.ts';
import { MalformedResponse } from './malformed-response.ts';

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
