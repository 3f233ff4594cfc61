import { isUtf8 } from 'node:buffer';
import type { ResponseHeaders, TransportSettings } from './client.ts';
import { displayAddress, quoted, UpstreamError } from './errors.ts';
import { connectTimeLeft, type Http1Call } from './http1-call.ts';

/** Redirects of one request that are followed. */
const MAX_REDIRECTS = 10;
/** Time for which requests are sent to the target of a redirect. */
const REMEMBERED_MS = 3_600_000;

/** Returns whether a response is a redirect: any 3xx but 304, which has no target. */
export function isRedirect(status: number): boolean {
  return status >= 300 && status < 400 && status !== 304;
}

/** The transport whose redirects are followed. */
interface RedirectedTransport {
  readonly address: string;
  readonly target: { readonly url: URL };
  readonly settings: TransportSettings;
}

/** The redirects of the requests to one address: they are followed, and some are remembered. */
export class Redirects {
  /** Target of requests without a path: that of the latest redirect that was remembered. */
  path: string | undefined = undefined;
  readonly #transport: RedirectedTransport;
  /** Sends the request of a call again, to another path. */
  readonly #resend: (call: Http1Call, path: string) => void;
  #timer: NodeJS.Timeout | undefined = undefined;
  #isClosed = false;

  constructor(transport: RedirectedTransport, resend: (call: Http1Call, path: string) => void) {
    this.#transport = transport;
    this.#resend = resend;
  }

  /**
   * Follows a redirect of a call whose connection is closed. It counts towards the time for connecting: the request has not
   * reached the upstream that handles it.
   */
  follow(call: Http1Call, status: number, { location }: ResponseHeaders): void {
    const { address, settings } = this.#transport;
    const to = this.#targetOf(call, status, location);
    if (to instanceof Error) return call.fail(to);
    const { connectTimeoutMs } = settings;
    if (connectTimeLeft(call, connectTimeoutMs, performance.now()) <= 0) {
      const what = `redirected for more than ${connectTimeoutMs / 1000} s`;
      return call.fail(new UpstreamError('refused', address, what, { remedy: 'register the target address' }));
    }
    settings.onRedirect?.(status, to);
    call.redirects++;
    this.#resend(call, to.pathname + to.search);
  }

  /** Sends requests to the target of this one, which was redirected and has succeeded. */
  remember({ request }: Http1Call): void {
    if (this.#isClosed || request instanceof Error) return;
    clearTimeout(this.#timer);
    this.path = request.path;
    this.#timer = setTimeout(() => this.forget(), REMEMBERED_MS).unref();
  }

  /** Sends requests to the original address again. */
  forget(): void {
    clearTimeout(this.#timer);
    this.path = undefined;
  }

  close(): void {
    this.#isClosed = true;
    this.forget();
  }

  /** Only 307 and 308 keep the method and the body, and only on the same origin, since requests carry credentials. */
  #targetOf(call: Http1Call, status: number, location: ResponseHeaders[string]): URL | UpstreamError {
    const { request, redirects } = call;
    if (request instanceof Error) return request;
    const { address, target: upstream } = this.#transport;
    const { url } = upstream;
    const target = parseLocation(location, new URL(request.path, url));
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
    if (request.streamed) return fail('its body cannot be sent again');
    if (redirects >= MAX_REDIRECTS)
      return fail(`more than ${MAX_REDIRECTS} redirects are not followed: register the address where they should end`);
    return target;
  }
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
