import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/** Returns whether a request has several Host headers: two gateways in a row might use different ones. */
function hasDuplicateHost({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): boolean {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
  }
  return hosts > 1;
}

/**
 * Returns why two HTTP parsers could disagree about the end of the request body; undefined if they cannot. Accepted are one
 * `Content-Length` or one `Transfer-Encoding: chunked` (RFC 9112 6.1 to 6.3). A body with another transfer coding would be
 * forwarded without the header that names it, which is hop-by-hop.
 */
function ambiguousFraming({
  headers,
  httpVersion,
}: Pick<IncomingMessage, 'headers' | 'httpVersion'>): string | undefined {
  const { 'content-length': length, 'transfer-encoding': encoding } = headers;
  if (encoding !== undefined) {
    if (encoding.toLowerCase() !== 'chunked') return 'unsupported Transfer-Encoding: expected "chunked"';
    if (httpVersion !== '1.1') return 'Transfer-Encoding requires HTTP/1.1';
  }
  if (length !== undefined && !Number.isSafeInteger(Number(length))) return 'invalid Content-Length';
  return undefined;
}

/** Rejects requests that two HTTP parsers could interpret differently (request smuggling). One instance per server. */
export class AmbiguousRequestGuard {
  /** Connections on which a request was rejected. */
  readonly #rejected = new WeakSet<Socket>();

  /**
   * Returns why the request is rejected; undefined if its head is unambiguous. The caller closes the connection after the
   * response; requests that Node parses from data already received on it are rejected too.
   */
  reasonFor(request: IncomingMessage): string | undefined {
    const { socket } = request;
    if (this.#rejected.has(socket)) return 'connection closed after a rejected request';
    const reason = ambiguity(request);
    if (reason !== undefined) this.#rejected.add(socket);
    return reason;
  }
}

function ambiguity(request: IncomingMessage): string | undefined {
  const { headers, httpVersion, url = '/' } = request;
  if (headers.host === undefined && httpVersion === '1.1') return 'a Host header is required';
  if (hasDuplicateHost(request)) return 'duplicate Host header';
  // A host in the target would compete with `Host`, which is checked; no resource responds to `*`.
  if (!url.startsWith('/')) return 'invalid request target: expected a path that begins with a slash';
  if (url.includes('#')) return 'invalid request target: encode # as %23';
  return ambiguousFraming(request);
}
