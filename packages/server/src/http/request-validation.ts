import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/** True for a request that names two hosts: two gateways in a row might each take another one for the one that counts. */
export function hasDuplicateHost({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): boolean {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
  }
  return hosts > 1;
}

/**
 * Why two readers of a request could disagree about where its body ends, although Node's parser has made up its mind;
 * undefined where they cannot. What it lets pass is one `Content-Length` or one `Transfer-Encoding: chunked` (RFC 9112 6.1
 * to 6.3). A body in another coding would be passed on without the word for it, since that ends with the connection.
 */
export function ambiguousFraming({
  headers,
  httpVersion,
}: Pick<IncomingMessage, 'headers' | 'httpVersion'>): string | undefined {
  const { 'content-length': length, 'transfer-encoding': encoding } = headers;
  if (encoding !== undefined) {
    if (encoding.toLowerCase() !== 'chunked') return 'the only Transfer-Encoding that is taken is "chunked"';
    if (httpVersion !== '1.1') return 'a request of HTTP/1.0 cannot have a Transfer-Encoding';
  }
  if (length !== undefined && !Number.isSafeInteger(Number(length)))
    return 'its Content-Length is too large for any body';
  return undefined;
}

/**
 * Finds the requests of one server that are refused with 400, since two readers of their heads could take them for
 * different requests: the same ones on every listener.
 */
export class AmbiguousRequestGuard {
  /** Connections that end, because it is not clear what came on them. */
  readonly #refused = new WeakSet<Socket>();

  /**
   * Why the request is refused; undefined where its head has one meaning. The caller ends the connection with the answer;
   * Node goes on reading what has come already, which may be part of the request: all of that is refused too.
   */
  reasonFor(request: IncomingMessage): string | undefined {
    const { socket } = request;
    if (this.#refused.has(socket)) return 'it follows a request that was refused';
    const reason = unclearHead(request);
    if (reason !== undefined) this.#refused.add(socket);
    return reason;
  }
}

function unclearHead(request: IncomingMessage): string | undefined {
  const { headers, httpVersion, url = '/' } = request;
  if (headers.host === undefined && httpVersion === '1.1') return 'a Host header is required';
  if (hasDuplicateHost(request)) return 'the header Host is there twice; send it once';
  // A host in the target would stand against `Host`, which is what is judged; `*` is no path that anything could answer.
  if (!url.startsWith('/')) return 'the target of a request begins with a slash';
  if (url.includes('#')) return 'the target of a request has no fragment; encode # as %23';
  return ambiguousFraming(request);
}
