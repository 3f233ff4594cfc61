import { STATUS_CODES } from 'node:http';
import { detach } from '@sluice/protocol/text';
import { HeaderLines, INVALID_VALUE } from '../header-lines.ts';

/** Properties of a response that its head depends on. */
export interface HeadOptions {
  readonly status: number;
  /** Reason phrase; empty for the usual one. */
  readonly reason: string;
  /** The client and the service allow another request on the connection. */
  readonly keepsAlive: boolean;
  readonly sendsDate: boolean;
  /** False for a response to HEAD and for a status without a body. */
  readonly hasBody: boolean;
  /** Version of the request. */
  readonly httpVersion: string;
}

/** A head as it is sent, and what follows it. */
export interface EncodedHead {
  /** Characters of latin1. */
  readonly text: string;
  /** Bytes of the body; -1 if only its end shows them. */
  readonly length: number;
  /** A body without a length is chunked; in HTTP/1.0, it ends with the connection. */
  readonly chunked: boolean;
  readonly keepsAlive: boolean;
}

/** Headers that frame the message or control the connection. */
const RESERVED: ReadonlySet<string> = new Set(['transfer-encoding', 'connection', 'keep-alive', 'upgrade', 'trailer']);

/** Heads up to this length are compared with the next ones. */
const MAX_CACHED_LENGTH = 2 * 1024;

/** A head without the lines about length, date and connection, and what it was made of. */
interface PartialHead {
  readonly status: number;
  readonly reason: string;
  readonly headers: readonly string[];
  readonly text: string;
  readonly hasDate: boolean;
}

/** Encodes the heads of the responses of one server. */
export class HeadEncoder {
  readonly #keepAlive: string;
  readonly #lines = new HeaderLines(meaningOf);
  /** Part of the last head, with which most begin. */
  #last: PartialHead = { status: 0, reason: '', headers: [], text: '', hasDate: false };
  #second = 0;
  #date = '';

  /** `keepAliveMs`: idle time after which the server closes a connection. */
  constructor(keepAliveMs: number) {
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n`;
  }

  /** `headers` are names and values, alternating. Throws TypeError, without the value, for those that are invalid. */
  encode(headers: readonly string[], options: HeadOptions): EncodedHead {
    const { status, reason, hasBody } = options;
    let partial = this.#last;
    let isLast = partial.status === status && partial.reason === reason;
    let others = 0;
    let length = -1;
    let lengthLines = '';
    for (let index = 0; index < headers.length; index += 2) {
      const name = headers[index] ?? '';
      const value = headers[index + 1];
      if (isLength(name)) {
        const line = this.#lines.line(name, value);
        lengthLines += line.text;
        length = Number(line.meaning);
      } else {
        isLast &&= partial.headers[others] === name && partial.headers[others + 1] === value;
        others += 2;
      }
    }
    if (!isLast || others !== partial.headers.length) partial = this.#encodePartial(headers, status, reason);
    let text = partial.text + lengthLines;
    if (options.sendsDate && !partial.hasDate) text += this.#dateLine();
    const isKnown = length >= 0 || options.httpVersion !== '1.0';
    const keepsAlive = options.keepsAlive && isKnown;
    const chunked = hasBody && length < 0 && isKnown;
    text += keepsAlive ? this.#keepAlive : 'Connection: close\r\n';
    text += chunked ? 'Transfer-Encoding: chunked\r\n\r\n' : '\r\n';
    return { text, length: hasBody ? length : 0, chunked, keepsAlive };
  }

  /** Returns the status line and all header lines but those about length, date and connection. */
  #encodePartial(headers: readonly string[], status: number, reason: string): PartialHead {
    if (INVALID_VALUE.test(reason)) throw new TypeError('invalid reason phrase');
    let text = `HTTP/1.1 ${status} ${reason === '' ? (STATUS_CODES[status] ?? 'unknown') : reason}\r\n`;
    let hasDate = false;
    const { misses } = this.#lines;
    const copied: string[] = [];
    for (let index = 0; index < headers.length; index += 2) {
      const name = headers[index] ?? '';
      if (isLength(name)) continue;
      const line = this.#lines.line(name, headers[index + 1]);
      text += line.text;
      copied.push(line.name, line.value);
      if (line.meaning === 'date') hasDate = true;
    }
    const partial = { status, reason, headers: copied, text, hasDate };
    // A head with a new line hardly occurs again. Cached lines do not retain the heads that they are from.
    if (text.length <= MAX_CACHED_LENGTH && this.#lines.misses === misses) {
      this.#last = { ...partial, reason: detach(reason), text: detach(text) };
    }
    return partial;
  }

  #dateLine(): string {
    const second = Math.floor(Date.now() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#date = `Date: ${new Date(second * 1000).toUTCString()}\r\n`;
    }
    return this.#date;
  }
}

function isLength(name: string): boolean {
  return name === 'Content-Length' || (name.length === 14 && name.toLowerCase() === 'content-length');
}

/** Returns the length of the body, or that the line is the date. */
function meaningOf(name: string, value: string): number | 'date' | undefined {
  if (RESERVED.has(name)) throw new TypeError(`header ${name} is set by the server`);
  if (name === 'date') return 'date';
  if (name !== 'content-length') return undefined;
  if (!/^\d{1,15}$/.test(value)) throw new TypeError(`invalid value of header ${name}`);
  return Number(value);
}
