import { type IncomingHttpHeaders, METHODS } from 'node:http';
import { type Credentials, NO_CREDENTIALS } from '../../identity/authenticator.ts';
import { splitCookies } from '../../identity/own-cookies.ts';
import { MAX_PRINCIPAL_BYTES, PEER_HEADER_PREFIX } from '../../identity/peer.ts';
import { comparableName, HOP_BY_HOP, TOKEN } from '../header-lines.ts';
import {
  lineEnd,
  MAX_HEAD_BYTES,
  MalformedMessage,
  type MessageFormat,
  MessageParser,
  type MessageSink,
  parseContentLength,
  parseFields,
} from '../message-parser.ts';

/** Head of a request. Requests with the same head share it. */
export interface RequestHead {
  readonly method: string;
  /** Request target as sent. */
  readonly url: string;
  readonly httpVersion: '1.0' | '1.1';
  /** Values by lower-case name; of several lines as node:http joins them. */
  readonly headers: IncomingHttpHeaders;
  /** Names and values, alternating, in their original case. */
  readonly rawHeaders: string[];
  /** What was taken out of both. */
  readonly credentials: Credentials;
  /** Length of the body in bytes; -1 if the head has none. */
  readonly contentLength: number;
  readonly chunked: boolean;
  /** True if the client allows another request on the connection. */
  readonly persistent: boolean;
  /** The client waits for an interim response before it sends the body. */
  readonly expectsContinue: boolean;
  /** Why two parsers could interpret the request differently. What follows it on its connection cannot be interpreted. */
  readonly ambiguity: string | undefined;
}

/** Options of {@link createRequestParser}. */
export interface RequestParserOptions {
  /** Whether requests are passed on to other servers: any method, `OPTIONS *`, and a target with the host of the request. */
  readonly passesOn?: boolean | undefined;
  /** Whether clients are other replicas, with headers that these add; from others, headers with such names are dropped. */
  readonly isForReplicas?: boolean | undefined;
  /**
   * Names of headers that prove who makes a request, in lower case and without `_`. Their lines are taken out of the headers, so
   * that nothing can pass them on; so are the cookies of a sign-in, if there is any such header. Read for each head: another set
   * counts from the next one on. See {@link checkCredentialHeaders}.
   */
  readonly credentialHeaders?: ReadonlySet<string> | undefined;
}

/** Each method is one text for all requests, which is compared faster than one from a request. */
const KNOWN_METHODS: ReadonlyMap<string, string> = new Map(METHODS.map((name) => [name, name]));
/** A method that only other servers know. Logs and traces name it. */
const OTHER_METHOD = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/;
const INVALID_TARGET = /[^\x21-\x7e]/;
const CR = 13;
const ZERO = 48;
/** Limit of the number of header lines, that of node:http. */
const MAX_LINES = 2_000;

/** The head of a client's request, and what a replica adds to it: the principal, the listener and the address of the client. */
const MAX_REPLICA_HEAD_BYTES = MAX_HEAD_BYTES + MAX_PRINCIPAL_BYTES + 4 * 1024;

/** Headers of which only the first line counts, as in node:http. */
const SINGLE: ReadonlySet<string> = new Set([
  'age',
  'authorization',
  'content-length',
  'content-type',
  'etag',
  'expires',
  'from',
  'host',
  'if-modified-since',
  'if-unmodified-since',
  'last-modified',
  'location',
  'max-forwards',
  'proxy-authorization',
  'referer',
  'retry-after',
  'server',
  'user-agent',
]);

const NONE: ReadonlySet<string> = new Set();

/** Headers that the parser and the checks of a request read; without them, a request would mean something else. */
const NO_CREDENTIAL: ReadonlySet<string> = new Set([...HOP_BY_HOP, 'host', 'origin', 'content-length', 'expect']);

/** Throws TypeError for names of credential headers that no line can have, or whose lines are needed otherwise. */
export function checkCredentialHeaders({ credentialHeaders = NONE }: RequestParserOptions): void {
  for (const name of credentialHeaders) {
    if (
      !TOKEN.test(name) ||
      name !== comparableName(name) ||
      name.startsWith(PEER_HEADER_PREFIX) ||
      NO_CREDENTIAL.has(name)
    )
      throw new TypeError(`header ${JSON.stringify(name)} cannot be a credential`);
  }
}

/**
 * Creates the parser of the requests on one connection. It is stricter than that of node:http, which also accepts bytes that
 * RFC 9112 does not allow; both interpret what they accept in the same way (request-parser.fuzz.test.ts).
 */
export function createRequestParser(
  sink: MessageSink<RequestHead>,
  options: RequestParserOptions = {},
): MessageParser<RequestHead> {
  let taken: RequestParserOptions['credentialHeaders'];
  const format = {
    ...REQUEST_FORMAT,
    parseHead: (text: string) => {
      taken = options.credentialHeaders;
      return parseHead(text, options);
    },
    isCurrent: () => taken === options.credentialHeaders,
  };
  return new MessageParser(format, sink, options.isForReplicas ? MAX_REPLICA_HEAD_BYTES : MAX_HEAD_BYTES);
}

const REQUEST_FORMAT: Omit<MessageFormat<RequestHead>, 'parseHead' | 'isCurrent'> = {
  kind: 'request',
  // Some clients send one after the body of a request, which its length does not include (RFC 9112 2.2).
  emptyLine: 'before',
  checkStart(text) {
    // At least TLS and other binary protocols do not have to wait for a timeout.
    if (!/^[A-Z]/.test(text)) throw new MalformedMessage('invalid method');
  },
  framing({ ambiguity, method, chunked, contentLength }) {
    if (ambiguity !== undefined || method === 'CONNECT') return 0;
    return chunked ? 'chunked' : Math.max(contentLength, 0);
  },
};

function parseHead(text: string, options: RequestParserOptions): RequestHead {
  const { passesOn = false, isForReplicas, credentialHeaders } = options;
  const methodEnd = text.indexOf(' ');
  const given = text.slice(0, methodEnd);
  const method = KNOWN_METHODS.get(given) ?? given;
  if (!KNOWN_METHODS.has(method) && !(passesOn && OTHER_METHOD.test(method)))
    throw new MalformedMessage('invalid method');
  const urlEnd = text.indexOf(' ', methodEnd + 1);
  const target = text.slice(methodEnd + 1, urlEnd);
  if (target === '' || INVALID_TARGET.test(target)) throw new MalformedMessage('invalid request target');
  const minor = text.charCodeAt(urlEnd + 8) - ZERO;
  if (!text.startsWith('HTTP/1.', urlEnd + 1) || (minor !== 0 && minor !== 1) || text.charCodeAt(urlEnd + 9) !== CR) {
    throw new MalformedMessage('invalid version');
  }
  const rawHeaders = parseFields(text, lineEnd(text, urlEnd + 9) + 2);

  if (rawHeaders.length > 2 * MAX_LINES)
    throw new MalformedMessage(`too many header lines: the limit is ${MAX_LINES}, which is fixed`, 'too-large');
  const headers: Record<string, string | string[] | undefined> = {};
  let contentLength = -1;
  let hosts = 0;
  let encodings = 0;
  let closes = false;
  let keepsAlive = minor === 1;
  /** The lines that stay, once one was taken out. */
  let kept: string[] | undefined;
  let credentials: Map<string, string[]> | undefined;
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const rawName = rawHeaders[index] ?? '';
    const name = rawName.toLowerCase();
    let value = rawHeaders[index + 1] ?? '';
    if (!isForReplicas && name.startsWith(PEER_HEADER_PREFIX)) {
      kept ??= rawHeaders.slice(0, index);
      continue;
    }
    if (credentialHeaders !== undefined) {
      if (credentialHeaders.has(comparableName(name))) {
        kept ??= rawHeaders.slice(0, index);
        credentials ??= new Map();
        credentials.getOrInsertComputed(name, () => []).push(value);
        continue;
      }
      const cookies = name === 'cookie' ? splitCookies(value) : undefined;
      if (cookies) {
        kept ??= rawHeaders.slice(0, index);
        credentials ??= new Map();
        credentials.getOrInsertComputed(name, () => []).push(...cookies.own);
        if (cookies.others === undefined) continue;
        value = cookies.others;
      }
    }
    kept?.push(rawName, value);
    addHeader(headers, name, value);
    switch (name) {
      case 'host':
        hosts++;
        break;
      case 'content-length':
        if (contentLength >= 0) throw new MalformedMessage('several Content-Lengths');
        contentLength = parseContentLength(value);
        break;
      case 'transfer-encoding':
        encodings++;
        // Other parsers do not treat a tab as whitespace here and see no chunks.
        if (/\ntransfer-encoding:[^\r]*\t/i.test(text)) throw new MalformedMessage('tab in Transfer-Encoding');
        break;
      case 'connection':
        if (/(?:^|,)[\t ]*close[\t ]*(?:,|$)/i.test(value)) closes = true;
        else if (/(?:^|,)[\t ]*keep-alive[\t ]*(?:,|$)/i.test(value)) keepsAlive = true;
        break;
    }
  }
  if (encodings > 0 && contentLength >= 0) throw new MalformedMessage('both Content-Length and Transfer-Encoding');
  const httpVersion = minor === 1 ? '1.1' : '1.0';
  const url = passesOn && !target.startsWith('/') ? originForm(target, headers.host) : target;
  const isAsterisk = passesOn && method === 'OPTIONS' && url === '*';
  const expect = minor === 1 ? headers.expect : undefined;
  return {
    method,
    url,
    httpVersion,
    headers,
    rawHeaders: kept ?? rawHeaders,
    credentials: credentials ?? NO_CREDENTIALS,
    contentLength,
    chunked: encodings > 0,
    persistent: keepsAlive && !closes,
    expectsContinue: typeof expect === 'string' && /(?:^|\W)100-continue(?:$|\W)/i.test(expect),
    ambiguity: ambiguityOf({ headers, httpVersion, url: isAsterisk ? '/' : url }, hosts),
  };
}

/**
 * Returns why two HTTP parsers could interpret a request differently; undefined if they cannot. Accepted are bodies with one
 * `Content-Length` or one `Transfer-Encoding: chunked` (RFC 9112 6.1 to 6.3). A body with another transfer coding would be
 * forwarded without the header that names it, which is hop-by-hop.
 */
function ambiguityOf(
  { headers, httpVersion, url }: Pick<RequestHead, 'headers' | 'httpVersion' | 'url'>,
  hosts: number,
): string | undefined {
  if (hosts === 0 && httpVersion === '1.1') return 'a Host header is required';
  // Two gateways in a row might use different ones.
  if (hosts > 1) return 'duplicate Host header';
  // A host in the target would compete with `Host`, which is checked; `*` is not a resource.
  if (!url.startsWith('/')) return 'invalid request target: expected a path that begins with a slash';
  if (url.includes('#')) return 'invalid request target: encode # as %23';
  const { 'transfer-encoding': encoding } = headers;
  if (encoding === undefined) return undefined;
  if (encoding.toLowerCase() !== 'chunked') return 'unsupported Transfer-Encoding: expected "chunked"';
  return httpVersion === '1.1' ? undefined : 'Transfer-Encoding requires HTTP/1.1';
}

/** Returns path and query of an absolute target with this host (RFC 9112 3.2.2); every other target as it is. */
function originForm(target: string, host: IncomingHttpHeaders[string]): string {
  const [, authority, path = ''] = /^https?:\/\/([^/?#]*)(.*)$/i.exec(target) ?? [];
  if (authority === undefined || authority.toLowerCase() !== String(host).toLowerCase()) return target;
  return path.startsWith('/') ? path : `/${path}`;
}

/** Adds a header line in the way of node:http. */
function addHeader(headers: Record<string, string | string[] | undefined>, name: string, value: string): void {
  // Would be the prototype of the object.
  if (name === '__proto__') return;
  const earlier = Object.hasOwn(headers, name) ? headers[name] : undefined;
  if (name === 'set-cookie') headers[name] = [...(earlier ?? []), value];
  else if (earlier === undefined) headers[name] = value;
  else if (!SINGLE.has(name)) headers[name] = `${earlier}${name === 'cookie' ? '; ' : ', '}${value}`;
}
