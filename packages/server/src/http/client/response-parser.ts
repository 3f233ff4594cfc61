import {
  type Framing,
  lineEnd,
  MalformedMessage,
  type MessageFormat,
  parseContentLength,
  parseFields,
} from '../message-parser.ts';
import type { RawHeaders, ResponseHeaders } from './client.ts';

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
const SPACE = 32;

/** Characters of an invalid status line in the message. */
const SHOWN_CHARACTERS = 60;

function invalidStatusLine(text: string): MalformedMessage {
  const [line = ''] = text.slice(0, SHOWN_CHARACTERS).split(/[\r\n]/, 1);
  const found = /^[ -~]+$/.test(line) ? `"${line}"` : 'with binary data';
  return new MalformedMessage(`invalid status line ${found}`);
}

/**
 * Parses a head, decoded as latin1, from the status line to the empty line. Where RFC 9112 leaves a choice, whatever two
 * parsers could interpret differently is rejected. Throws {@link MalformedMessage}.
 */
function parseHead(text: string): ResponseHead {
  const minor = text.charCodeAt(7) - 48;
  const status = statusCode(text);
  if (!text.startsWith('HTTP/1.') || (minor !== 0 && minor !== 1) || text.charCodeAt(8) !== SPACE || status < 100) {
    throw invalidStatusLine(text);
  }
  const afterStatus = text.charCodeAt(12);
  if (afterStatus !== SPACE && afterStatus !== CR) throw new MalformedMessage('invalid status code');
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
        if (contentLength >= 0) throw new MalformedMessage('invalid Content-Length');
        contentLength = parseContentLength(value);
        break;
      case 'transfer-encoding':
        if (chunked || value.toLowerCase() !== 'chunked') {
          throw new MalformedMessage('unsupported Transfer-Encoding');
        }
        // Other parsers do not treat a tab as whitespace here and see no chunks (found by the fuzz test).
        if (/\ntransfer-encoding:[^\r]*\t/i.test(text)) throw new MalformedMessage('tab in Transfer-Encoding');
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
  if (chunked && contentLength >= 0) throw new MalformedMessage('both Content-Length and Transfer-Encoding');
  if (chunked && minor === 0) throw new MalformedMessage('Transfer-Encoding in HTTP/1.0');
  return { status, reason, headers, raw, contentLength, chunked, persistent, keepAliveMs };
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

/** Nearly every response has one of these. In a set, which is asked faster for a part of a head than that is compared. */
const USUAL_TYPES: ReadonlySet<string> = new Set(['application/json', 'text/event-stream']);

/** Returns the media type of a response without parameters, in lower case; empty if there is none. */
export function mediaType(headers: ResponseHeaders): string {
  const value = headers['content-type'];
  if (typeof value !== 'string') return '';
  return USUAL_TYPES.has(value) ? value : (value.split(';', 1)[0] ?? '').trim().toLowerCase();
}

const PROTOCOL = 'HTTP/1.';

/** Format of the responses on one connection, with what it depends on and what follows from it. */
export class ResponseFormat implements MessageFormat<ResponseHead> {
  readonly kind = 'response';
  /**
   * Some servers send one after a body, which its length does not include, and it may arrive after the next request was sent. An
   * empty line cannot be part of another response; the connection is not used again nevertheless.
   */
  readonly emptyLine = 'between';
  /** Set before a response to HEAD, which has no body. */
  headOnly = false;
  /** Whether the connection can be reused after the last response. */
  persistent = false;
  /** Idle timeout that the last response announced, in milliseconds. */
  keepAliveMs: number | undefined = undefined;

  parseHead(text: string): ResponseHead {
    return parseHead(text);
  }

  checkStart(text: string): void {
    if (!PROTOCOL.startsWith(text.slice(0, PROTOCOL.length))) throw invalidStatusLine(text);
  }

  framing({ status, contentLength, chunked, persistent, keepAliveMs }: ResponseHead, isLate: boolean): Framing {
    if (status < 200) {
      if (status === 101) throw new MalformedMessage('unexpected protocol upgrade');
      if (chunked || contentLength >= 0) throw new MalformedMessage('interim response with a body');
      if (!persistent) throw new MalformedMessage('interim response closes the connection');
      return 'interim';
    }
    this.persistent = persistent && !isLate;
    this.keepAliveMs = keepAliveMs;
    if (status === 204 || status === 304 || this.headOnly) {
      // A body that is sent nevertheless must not be parsed as the next response.
      if (chunked || contentLength > 0) this.persistent = false;
      return 0;
    }
    if (chunked) return 'chunked';
    if (contentLength >= 0) return contentLength;
    this.persistent = false;
    return 'until-close';
  }
}
