import { STATUS_CODES } from 'node:http';

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

/** A field name: a token (RFC 9110 5.6.2). */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const INVALID_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
/** Headers that frame the message or control the connection. */
const RESERVED: ReadonlySet<string> = new Set(['transfer-encoding', 'connection', 'keep-alive', 'upgrade', 'trailer']);
/** Limit of the lines that are kept: upstreams choose the names. */
const MAX_LINES = 256;

type Kind = 'length' | 'date' | 'other';

/** The last line with a name. */
interface Line {
  readonly kind: Kind;
  value: string;
  text: string;
}

/** Encodes the heads of the responses of one server. */
export class HeadEncoder {
  readonly #keepAlive: string;
  /** Most responses have the same lines except for their length: they are checked and put together once. */
  readonly #lines = new Map<string, Line>();
  #second = 0;
  #date = '';

  /** `keepAliveMs`: idle time after which the server closes a connection. */
  constructor(keepAliveMs: number) {
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n`;
  }

  /** `headers` are names and values, alternating. Throws TypeError, without the value, for those that are invalid. */
  encode(headers: readonly string[], options: HeadOptions): EncodedHead {
    const { status, reason, hasBody } = options;
    if (INVALID_VALUE.test(reason)) throw new TypeError('invalid reason phrase');
    let text = `HTTP/1.1 ${status} ${reason === '' ? (STATUS_CODES[status] ?? 'unknown') : reason}\r\n`;
    let length = -1;
    let { sendsDate } = options;
    for (let index = 0; index < headers.length; index += 2) {
      const line = this.#line(headers[index] ?? '', headers[index + 1]);
      text += line.text;
      if (line.kind === 'length') length = Number(line.value);
      else if (line.kind === 'date') sendsDate = false;
    }
    if (sendsDate) text += this.#dateLine();
    const isKnown = length >= 0 || options.httpVersion !== '1.0';
    const keepsAlive = options.keepsAlive && isKnown;
    const chunked = hasBody && length < 0 && isKnown;
    text += keepsAlive ? this.#keepAlive : 'Connection: close\r\n';
    text += chunked ? 'Transfer-Encoding: chunked\r\n\r\n' : '\r\n';
    return { text, length: hasBody ? length : 0, chunked, keepsAlive };
  }

  #line(name: string, value: string | undefined): Line {
    const known = this.#lines.get(name);
    if (known !== undefined && known.value === value) return known;
    const kind = known?.kind ?? kindOf(name);
    if (value === undefined || INVALID_VALUE.test(value) || (kind === 'length' && !/^\d{1,15}$/.test(value))) {
      throw new TypeError(`invalid value of header ${name}`);
    }
    const text = `${name}: ${value}\r\n`;
    if (known !== undefined) {
      known.value = value;
      known.text = text;
      return known;
    }
    const line = { kind, value, text };
    if (this.#lines.size < MAX_LINES) this.#lines.set(name, line);
    return line;
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

/** Checks a name and returns its kind. */
function kindOf(name: string): Kind {
  if (!TOKEN.test(name)) throw new TypeError('invalid header name');
  const lower = name.toLowerCase();
  if (RESERVED.has(lower)) throw new TypeError(`header ${name} is set by the server`);
  return lower === 'content-length' ? 'length' : lower === 'date' ? 'date' : 'other';
}
