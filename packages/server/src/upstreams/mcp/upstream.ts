import type { Era } from '@sluice/protocol/mcp/constants';
import { withTimeout } from '@sluice/protocol/timing';
import { serverOf, type TransportOptions, type UpstreamTransport } from '../../http/client/client.ts';
import { Egress } from '../../http/client/egress.ts';
import type { ProxySetting } from '../../http/client/egress-proxies.ts';
import type { UpstreamError } from '../../http/client/errors.ts';
import { CredentialInjector } from '../../http/secrets/credential-injector.ts';
import type { SecretHeaders } from '../../http/secrets/secret-headers.ts';
import { USER_AGENT } from '../../telemetry/version.ts';
import type { SharedUpstreamSessions } from './sessions/shared-sessions.ts';
import { UpstreamSessionPool } from './upstream-sessions.ts';

/** Observes the outcome of calls to an upstream. */
export interface UpstreamObserver {
  /** The upstream may be down. */
  onCallFailed(error: UpstreamError): void;
  /** A call succeeded although the upstream was not known to be available. */
  onCallSucceeded(): void;
  /** The upstream announced changed lists with a notification of this method, or may have changed some; undefined: any. */
  onListsChanged(method?: unknown): void;
  /** The upstream has lost a session, as after a restart: its lists may be others. */
  onSessionLost?(): void;
  /** See {@link Upstream.allowsResource}; all uris if undefined. */
  allowsResource?(uri: string): boolean;
}

/** Transport of requests to an upstream. */
export interface UpstreamHttp {
  readonly egress?: Egress;
  /** Setting of its forward. */
  readonly proxy?: ProxySetting;
  /** Setting of its forward: whether it is asked to compress. Decoding a small response costs as much as the whole call. */
  readonly compression?: boolean | undefined;
  /** Largest decoded body of a compressed response. */
  readonly maxDecodedBytes?: number;
}

/** Properties of an upstream. */
export interface UpstreamOptions {
  /** Name of its forward; undefined for an upstream of manually registered tools only. */
  readonly forward?: string;
  /** Those of its forward. */
  readonly headers?: SecretHeaders | undefined;
  /** Sessions of other replicas, if there are any. */
  readonly shared?: SharedUpstreamSessions | undefined;
  readonly http?: UpstreamHttp;
}

/** Origins that get the headers of a forward: of its address, and of its proxy unless that gets a tunnel. */
export function secretOrigins({
  address,
  proxy,
}: {
  readonly address: string;
  readonly proxy?: ProxySetting;
}): string[] {
  const { origin, protocol } = new URL(address);
  const readsRequests = protocol === 'http:' && proxy !== undefined && proxy !== 'none';
  return readsRequests ? [origin, new URL(proxy).origin] : [origin];
}

/** Creates the transport of an upstream, with the headers of its forward. */
export function openTransport(
  address: string,
  headers: SecretHeaders | undefined,
  { egress = new Egress(), proxy, compression, maxDecodedBytes }: UpstreamHttp,
  onRedirect?: TransportOptions['onRedirect'],
): UpstreamTransport {
  const transport = egress.open(address, {
    proxy,
    defaultHeaders: ['accept-encoding', compression ? 'gzip' : 'identity', 'user-agent', USER_AGENT],
    ...(maxDecodedBytes !== undefined && { maxDecodedBytes }),
    onRedirect,
  });
  return headers ? new CredentialInjector(transport, headers) : transport;
}

const NO_ERAS: ReadonlySet<Era> = new Set();

/** One upstream MCP server: its connections, sessions, eras and health. */
export class Upstream {
  readonly transport: UpstreamTransport;
  /** Scheme, host and port of its address. */
  readonly origin: string;
  /** `host:port`. */
  readonly server: string;
  /** Name of its forward; undefined for an upstream of manually registered tools only. */
  readonly forward: string | undefined;
  readonly sessions: UpstreamSessionPool;
  #eras: ReadonlySet<Era> | undefined = undefined;
  isAvailable = false;
  /** Eras in which it declares tasks. Set by the connection of its forward. */
  taskEras: ReadonlySet<Era> = NO_ERAS;
  /** Receives the outcome of every call. */
  readonly observer: UpstreamObserver;
  readonly #closing = new AbortController();

  /** `address` is an http or https URL. Sends nothing. */
  constructor(
    address: string,
    observer: UpstreamObserver,
    { forward, headers, shared, http = {} }: UpstreamOptions = {},
  ) {
    this.forward = forward;
    const url = new URL(address);
    this.transport = openTransport(address, headers, http);
    this.origin = url.origin;
    this.server = serverOf(url);
    this.sessions = new UpstreamSessionPool(this.transport, shared, () => observer.onSessionLost?.());
    this.observer = observer;
  }

  /** Whether clients may subscribe to a uri and get its updates: not while an operator hides it. */
  allowsResource(uri: string): boolean {
    return this.observer.allowsResource?.(uri) ?? true;
  }

  /** Aborted by `close`: in-flight calls may finish, streams that would never end must be closed. */
  get closeSignal(): AbortSignal {
    return this.#closing.signal;
  }

  /** Known eras; undefined before the first discovery. */
  get eras(): ReadonlySet<Era> | undefined {
    return this.#eras;
  }

  /** The era of calls of a client: its own if the upstream supports it or its eras are unknown; else the other. */
  eraFor(era: Era): Era {
    if (this.#eras === undefined || this.#eras.has(era)) return era;
    return era === 'modern' ? 'legacy' : 'modern';
  }

  /** Sets the known eras. Without the legacy one, all sessions are discarded. */
  setEras(eras: ReadonlySet<Era>): void {
    this.#eras = eras;
    if (this.isModernOnly) this.sessions.discardAll();
  }

  /** True if the upstream is known not to support the legacy era. */
  get isModernOnly(): boolean {
    return this.#eras?.has('legacy') === false;
  }

  /** Closes all sessions and connections. Calls in flight may finish, with `graceMs` only for that long. */
  async close(graceMs?: number): Promise<void> {
    this.#closing.abort();
    const closed = this.sessions.closeAll().then(() => this.transport.close());
    if (graceMs === undefined) return await closed;
    await withTimeout(
      graceMs,
      closed.catch(() => undefined),
    );
    await this.transport.destroy();
  }
}
