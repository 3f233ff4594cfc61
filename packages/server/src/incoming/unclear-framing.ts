import type { IncomingMessage } from 'node:http';

/**
 * Why two readers of a request could disagree about where its body ends, although Node's parser has made up its mind;
 * undefined where they cannot. What it lets pass is one `Content-Length` or one `Transfer-Encoding: chunked` (RFC 9112 6.1
 * to 6.3). A body in another coding would be passed on without the word for it, since that ends with the connection.
 */
export function unclearFraming({
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
