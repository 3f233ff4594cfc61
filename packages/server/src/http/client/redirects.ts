import { isUtf8 } from 'node:buffer';
import type { ResponseHeaders } from './client.ts';
import { displayAddress, quoted, UpstreamError } from './errors.ts';
import type { Http1Call } from './http1-call.ts';

/** Redirects of one request that are followed. */
const MAX_REDIRECTS = 10;

/** Returns whether a response is a redirect: any 3xx but 304, which has no target. */
export function isRedirect(status: number): boolean {
  return status >= 300 && status < 400 && status !== 304;
}

/**
 * Returns the URL to which a redirect of a call is followed: only 307 and 308 keep the method and the body, and only on the same
 * origin, since requests carry credentials. Otherwise returns the error.
 */
export function followedRedirect(
  { address, url }: { readonly address: string; readonly url: URL },
  { path, redirects, streamed }: Pick<Http1Call, 'path' | 'redirects' | 'streamed'>,
  { status, location }: { readonly status: number; readonly location: ResponseHeaders[string] },
): URL | UpstreamError {
  const target = parseLocation(location, new URL(path, url));
  const where = target === null ? 'without a valid location' : `to ${quoted(displayAddress(target))}`;
  const fail = (remedy: string) =>
    new UpstreamError('redirect', address, `redirects ${where} (HTTP ${status})`, { status, remedy });
  if (target === null) return fail('have the server send a valid Location');
  if (target.username !== '' || target.password !== '') {
    return fail('a target with a user name or password is not followed: register the target address');
  }
  if (target.origin !== url.origin) return fail('another origin is not followed: register the target address');
  if (status !== 307 && status !== 308) {
    return fail(
      `HTTP ${status} does not keep the method: register the target address, or have the server send 307 or 308`,
    );
  }
  if (streamed) return fail('its body cannot be sent again');
  if (redirects >= MAX_REDIRECTS)
    return fail(`more than ${MAX_REDIRECTS} redirects are not followed: register the address where they should end`);
  return target;
}

/**
 * Returns the URL of the `Location` header; null if it is missing, invalid or ambiguous. Characters beyond ASCII, which no URI has
 * and some servers send, are those of UTF-8, as for browsers.
 */
function parseLocation(location: ResponseHeaders[string], base: URL): URL | null {
  // Some proxies repeat the line.
  const [text, ...others] = Array.isArray(location) ? new Set(location) : [location];
  if (text === undefined || others.length > 0) return null;
  const bytes = Buffer.from(text, 'latin1');
  return URL.parse(isUtf8(bytes) ? bytes.toString() : text, base);
}
