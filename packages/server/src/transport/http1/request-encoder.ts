import type { UpstreamRequest } from '../transport.ts';

/** A method or field name: a token (RFC 9110 5.6.2). */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
const NO_TARGET = /[^\x21-\x7e]/;
/** Methods of which a body is expected: without one they say that it is empty (RFC 9110 8.6). */
const WITH_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);
/** Fields that decide where a message ends and what becomes of its connection: they are made here or not at all. */
const RESERVED: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'upgrade',
  'expect',
  'te',
  'trailer',
]);
/** Names that were found good are remembered; the bound is for callers that make up new ones. */
const MAX_KNOWN_NAMES = 256;

/** Turns requests to one address into the bytes that go on the wire. */
export class RequestEncoder {
  readonly #path: string;
  readonly #fixed: string;
  readonly #knownNames = new Set<string>();

  constructor(url: URL) {
    this.#path = url.pathname + url.search;
    this.#fixed = ` HTTP/1.1\r\nhost: ${url.host}\r\nconnection: keep-alive\r\n`;
  }

  /**
   * The whole request, to be written at once: a string when each of its characters is one byte (latin1), which is the
   * cheapest to write, else a buffer. Of a body that is streamed, only the head before it. TypeError, without the
   * value, when the method, a header or the path cannot be sent.
   */
  encode({ method, path = this.#path, headers, body }: UpstreamRequest): string | Buffer {
    if (method !== 'POST') checkMethod(method);
    if (!path.startsWith('/') || NO_TARGET.test(path)) throw new TypeError('its path is none');
    let head = `${method} ${path}${this.#fixed}`;
    for (let index = 0; index < headers.length; index += 2) {
      const name = headers[index] ?? '';
      const value = headers[index + 1];
      if (!this.#knownNames.has(name)) this.#checkName(name);
      if (value === undefined || NO_VALUE.test(value)) throw new TypeError(`header ${name} has no valid value`);
      head += `${name}: ${value}\r\n`;
    }
    if (body === undefined) return WITH_BODY.has(method) ? `${head}content-length: 0\r\n\r\n` : `${head}\r\n`;
    if (typeof body !== 'string' && !Buffer.isBuffer(body)) return head + streamedFraming(body.length);
    const length = Buffer.byteLength(body);
    head += `content-length: ${length}\r\n\r\n`;
    if (typeof body !== 'string') return Buffer.concat([Buffer.from(head, 'latin1'), body]);
    if (length === body.length) return head + body;
    const bytes = Buffer.allocUnsafe(head.length + length);
    bytes.write(body, bytes.write(head, 'latin1'), 'utf8');
    return bytes;
  }

  #checkName(name: string): void {
    if (!TOKEN.test(name)) throw new TypeError('a header name is none');
    if (RESERVED.has(name.toLowerCase())) throw new TypeError(`header ${name} is made by the client itself`);
    if (this.#knownNames.size < MAX_KNOWN_NAMES) this.#knownNames.add(name);
  }
}

function checkMethod(method: string): void {
  if (!TOKEN.test(method)) throw new TypeError('its method is none');
  // Its answer would be a tunnel.
  if (method === 'CONNECT') throw new TypeError('the method CONNECT is not for it');
}

/** The last lines of a head before a body that is sent while it comes in. */
function streamedFraming(length: number | undefined): string {
  if (length === undefined) return 'transfer-encoding: chunked\r\n\r\n';
  if (!Number.isSafeInteger(length) || length < 0) throw new TypeError('the length of its body is none');
  return `content-length: ${length}\r\n\r\n`;
}
