import type { IncomingMessage, ServerResponse } from 'node:http';
import { serverOf, type UpstreamTransport } from '../http/client/client.ts';
import { createTransport } from '../http/client/pool.ts';
import type { UpstreamError } from '../http/client/errors.ts';
import type { PlainOutcome } from '../http/context.ts';
import { Exchange, requestHeaders } from '../http/proxy.ts';
import { drainRequestBody } from '../http/request-body.ts';
import { ResponseWriter } from '../mcp/response.ts';

/**
 * True for a path that a server may take for another one than it says: with a segment `.` or `..`, also one that is
 * encoded, is set off by a backslash or has parameters behind it, which some servers take off first.
 */
export function hasDotSegments(path: string): boolean {
  // Nearly no path has a dot that could be one.
  if (!/[/\\.]\.|%2e|%2f\.|%5c\./i.test(path)) return false;
  const decoded = path.replace(/%2e/gi, '.').replace(/%2f|%5c|\\/gi, '/');
  return decoded.split('/').some((segment) => /^\.{1,2}(?:;|$)/.test(segment));
}

/** What begins so is the legacy backend's (specification, "Paths proxied to the legacy backend"; decisions 4.6). */
const PREFIXES: readonly string[] = [
  '/api/v1/service-catalog',
  '/api/v1/service-template',
  '/api/v1/data-store',
  '/api/v1/capabilities',
  '/api/v1/chat',
  '/api/v1/management/info',
  '/api/v1/management/statistics',
  '/api/v2/code-execution',
  '/api/v2/tool-calls',
];
/** The one path below them that is answered here, when it is read or asked what may be done with it. */
const NATIVE = /^\/api\/v1\/management\/statistics\/?$/;

const NOT_SET = 'there is no legacy backend: SERVICE_CLASSIC_URL is not set';
const DOTS = 'the path has a segment "." or ".."; send the path that is meant';
const FORWARDING: ReadonlySet<string> = new Set(['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host']);

/** True for a request that is the legacy backend's to answer. */
export function isClassic(method: string, path: string): boolean {
  if ((method === 'GET' || method === 'HEAD' || method === 'OPTIONS') && NATIVE.test(path)) return false;
  return PREFIXES.some((prefix) => path.startsWith(prefix));
}

/** How a request is answered that gets no answer from the backend. */
export type RefuseClassic = (code: 'BAD_REQUEST' | 'UNAVAILABLE' | 'BAD_GATEWAY', message: string) => PlainOutcome;

/** How the proxy works. */
export interface ClassicOptions {
  /** Is told why the backend gave no answer, or only a part of one. */
  readonly onFailure?: (error: UpstreamError) => void;
  /** Milliseconds to the first byte of an answer (default 30,000, decisions 8); there is no limit afterwards. */
  readonly firstByteTimeoutMs?: number;
}

/** Passes requests on to the legacy backend, and its answers back, as they come (decisions 4.6). */
export class LegacyBackendProxy {
  /** `host:port` of the backend; undefined where there is none. */
  readonly server: string | undefined;
  readonly #transport: UpstreamTransport | undefined;
  readonly #basePath: string;
  readonly #refuse: RefuseClassic;
  readonly #onFailure: ((error: UpstreamError) => void) | undefined;

  /** `url`: SERVICE_CLASSIC_URL, without a slash at its end; undefined where there is no backend. */
  constructor(url: string | undefined, refuse: RefuseClassic, options: ClassicOptions = {}) {
    const { firstByteTimeoutMs = 30_000, onFailure } = options;
    this.#transport = url === undefined ? undefined : createTransport(url, { firstByteTimeoutMs, redirects: 'pass' });
    this.server = url === undefined ? undefined : serverOf(new URL(url));
    this.#basePath = url === undefined ? '' : new URL(url).pathname.replace(/\/$/, '');
    this.#refuse = refuse;
    this.#onFailure = onFailure;
  }

  /**
   * Answers the request, whose body nobody has read. `answerHeaders`: names and values of ours, alternating. False: it is
   * not sent to the backend.
   */
  serve(request: IncomingMessage, response: ServerResponse, answerHeaders: readonly string[]): boolean {
    const transport = this.#transport;
    const { url = '/' } = request;
    const answer = ({ status, headers, body }: PlainOutcome): false => {
      drainRequestBody(request, response);
      new ResponseWriter(response, answerHeaders, 'null').plain(status, headers, body);
      return false;
    };
    // By what the path says it is the backend's; the backend is not to find that it means another.
    if (hasDotSegments(url.split('?', 1)[0] ?? '')) return answer(this.#refuse('BAD_REQUEST', DOTS));
    if (!transport) return answer(this.#refuse('UNAVAILABLE', NOT_SET));
    const plan = {
      transport,
      path: `${this.#basePath}${url}`,
      headers: [...requestHeaders(request.rawHeaders, FORWARDING), ...forwarding(request)],
      body: undefined,
      answerHeaders,
      failed: () => this.#refuse('BAD_GATEWAY', 'the legacy backend does not answer; see SERVICE_CLASSIC_URL'),
      ...(this.#onFailure && { onFailure: this.#onFailure }),
      watch: undefined,
    };
    new Exchange(plan, request, response).run();
    return true;
  }

  /** Ends what is under way. */
  async close(): Promise<void> {
    await this.#transport?.destroy();
  }
}

/** Who asks, and where: what proxies before us have said goes on. */
function forwarding({ headers, socket }: IncomingMessage): string[] {
  const { 'x-forwarded-for': before, 'x-forwarded-proto': proto = 'http', 'x-forwarded-host': host } = headers;
  const addresses = [before, socket.remoteAddress].filter((address) => address !== undefined).join(', ');
  const added = ['X-Forwarded-For', addresses, 'X-Forwarded-Proto', String(proto)];
  const asked = host ?? headers.host;
  return asked === undefined ? added : [...added, 'X-Forwarded-Host', String(asked)];
}
