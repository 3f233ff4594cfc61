import { PROXIED_PREFIXES } from '@sluice/contract';
import { serverOf, type UpstreamTransport } from '../http/client/client.ts';
import { Egress } from '../http/client/egress.ts';
import type { UpstreamError } from '../http/client/errors.ts';
import { drainRequestBody } from '../http/collect-body.ts';
import type { HttpExchange } from '../http/exchange.ts';
import { forwardedHost, forwardedScheme } from '../http/host-rule.ts';
import type { PlainOutcome } from '../http/outcome.ts';
import { ProxiedExchange, upstreamRequestHeaders, withAuthorization } from '../http/proxy.ts';
import type { ServerRequest } from '../http/server/request.ts';
import { ResponseWriter } from '../mcp/response.ts';
import { plainError } from './responses.ts';

/** Message for a path that {@link hasDotSegments}. */
export const DOT_SEGMENTS = 'invalid path: segments "." and ".." are not allowed';

/**
 * True for a path that a server may normalize to another one: with a segment `.` or `..`, also percent-encoded, delimited
 * by a backslash or followed by path parameters, which some servers remove first.
 */
export function hasDotSegments(path: string): boolean {
  // Fast path: hardly any path has such a dot.
  if (!/[/\\.]\.|%2e|%2f\.|%5c\./i.test(path)) return false;
  const decoded = path.replace(/%2e/gi, '.').replace(/%2f|%5c|\\/gi, '/');
  return decoded.split('/').some((segment) => /^\.{1,2}(?:;|$)/.test(segment));
}

/** The only path below the proxied prefixes that is served here, for GET, HEAD and OPTIONS. */
const NATIVE_PATH = /^\/api\/v1\/management\/statistics\/?$/;

const NOT_SET = 'no legacy backend: SERVICE_CLASSIC_URL is not set';
const FORWARDING: ReadonlySet<string> = new Set(['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host']);

/** True for a request that is proxied to the legacy backend. */
export function isLegacyPath(method: string, path: string): boolean {
  if ((method === 'GET' || method === 'HEAD' || method === 'OPTIONS') && NATIVE_PATH.test(path)) return false;
  return PROXIED_PREFIXES.some((prefix) => path.startsWith(prefix));
}

/** Options of {@link LegacyBackendProxy}. */
export interface LegacyBackendOptions {
  /** Called when the backend sent no response or an incomplete one. */
  readonly onFailure?: (error: UpstreamError) => void;
  /** Milliseconds to the first byte of a response (default 30,000); no limit after that. */
  readonly firstByteTimeoutMs?: number;
  /** Connections to the backend. */
  readonly egress?: Egress;
  /** Whether its documents get an origin of their own, read for each request: they share that of the console, which signs in. */
  readonly isSandboxed?: () => boolean;
}

/** Proxies requests and responses of the legacy backend unchanged. */
export class LegacyBackendProxy {
  /** `host:port` of the backend, if there is one. */
  readonly server: string | undefined;
  readonly #transport: UpstreamTransport | undefined;
  readonly #basePath: string = '';
  readonly #onFailure: ((error: UpstreamError) => void) | undefined;
  readonly #isSandboxed: (() => boolean) | undefined;

  /** `url`: SERVICE_CLASSIC_URL without a trailing slash; undefined for no backend. */
  constructor(url: string | undefined, options: LegacyBackendOptions = {}) {
    const { firstByteTimeoutMs = 30_000, onFailure, egress = new Egress() } = options;
    if (url !== undefined) {
      this.#transport = egress.open(url, { firstByteTimeoutMs, redirects: 'pass', codings: 'pass' });
      this.server = serverOf(new URL(url));
      this.#basePath = new URL(url).pathname.replace(/\/$/, '');
    }
    this.#onFailure = onFailure;
    this.#isSandboxed = options.isSandboxed;
  }

  /**
   * Serves a request whose body is unread. `ownHeaders`: own response headers, alternating names and values. Returns false
   * when the request was not sent to the backend.
   */
  serve(
    { request, response, authenticated }: Pick<HttpExchange, 'request' | 'response' | 'authenticated'>,
    ownHeaders: readonly string[],
  ): boolean {
    const transport = this.#transport;
    const { url } = request;
    const respond = ({ status, headers, body }: PlainOutcome): false => {
      drainRequestBody(request);
      new ResponseWriter(response, ownHeaders, 'null').sendPlain(status, headers, body);
      return false;
    };
    // The path was matched as it is written; the backend must not normalize it to another one.
    if (hasDotSegments(url.split('?', 1)[0] ?? '')) return respond(plainError('BAD_REQUEST', DOT_SEGMENTS));
    if (!transport) return respond(plainError('UNAVAILABLE', NOT_SET));
    const plan = {
      transport,
      path: `${this.#basePath}${url}`,
      headers: [
        ...upstreamRequestHeaders(withAuthorization(request.head, authenticated), FORWARDING),
        ...forwarding(request),
      ],
      responseHeaders: ownHeaders,
      ...(this.#isSandboxed?.() && { editResponse: (_status: number, headers: string[]) => withSandbox(headers) }),
      failureResponse: () => plainError('BAD_GATEWAY', 'legacy backend unreachable; check SERVICE_CLASSIC_URL'),
      onFailure: this.#onFailure,
    };
    new ProxiedExchange(plan, request, response).start();
    return true;
  }

  /** Ends requests in flight. */
  async close(): Promise<void> {
    await this.#transport?.destroy();
  }
}

/**
 * Policy of a response of another server: opened as a document, whatever its type, it runs no script and has an origin of its own,
 * not that of the console. A list of types would have to follow the browsers, which run scripts in XML, SVG and XSLT too. The console
 * loads modules and stylesheets as before: a policy applies to documents and workers.
 */
export const SANDBOX = 'sandbox';

/** Adds {@link SANDBOX} to the headers of a response: of several policies with a sandbox, the last one decides about it. */
export function withSandbox(headers: readonly string[]): string[] {
  return [...headers, 'Content-Security-Policy', SANDBOX];
}

/** Forwarding headers, appended to those of proxies in front. */
function forwarding({ headers, socket }: ServerRequest): string[] {
  const { 'x-forwarded-for': before } = headers;
  const addresses = [before, socket.remoteAddress].filter((address) => address !== undefined).join(', ');
  const added = ['X-Forwarded-For', addresses, 'X-Forwarded-Proto', forwardedScheme(headers) ?? 'http'];
  const requestedHost = forwardedHost(headers) ?? headers.host;
  return requestedHost === undefined ? added : [...added, 'X-Forwarded-Host', requestedHost];
}
