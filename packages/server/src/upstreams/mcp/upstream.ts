import { Emitter } from '@sluice/protocol/emitter';
import type { Era } from '@sluice/protocol/mcp/constants';
import { withTimeout } from '@sluice/protocol/timing';
import { serverOf, type TransportOptions, type UpstreamTransport } from '../../http/client/client.ts';
import { Egress } from '../../http/client/egress.ts';
import type { ProxySetting } from '../../http/client/egress-proxies.ts';
import type { UpstreamError } from '../../http/client/errors.ts';
import { CredentialInjector } from '../../http/secrets/credential-injector.ts';
import type { SecretHeaders } from '../../http/secrets/secret-headers.ts';
import type { Forward } from '../../registry/entries.ts';
import { USER_AGENT } from '../../telemetry/version.ts';
import type { SharedUpstreamSessions } from './sessions/shared-sessions.ts';
import { UpstreamSessionPool } from './upstream-sessions.ts';

/** What calls and subscriptions reveal about an upstream. */
export type UpstreamEvent =
  /** A call did not reach it. */
  | { readonly kind: 'unreachable'; readonly error: UpstreamError }
  /** A call succeeded although it was not known to be available. */
  | { readonly kind: 'reachable' }
  /** It announced changed lists with a notification of this method, or may have changed some; undefined: any. */
  | { readonly kind: 'lists'; readonly method?: unknown }
  /** It has lost a session, as after a restart: its lists may be others. */
  | { readonly kind: 'session-lost' };

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
export function secretOrigins({ address, proxy }: Pick<Forward, 'address' | 'proxy'>): string[] {
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

/** Eras of an upstream, as far as they are known. */
class UpstreamEras {
  /** Undefined before the first discovery. */
  known: ReadonlySet<Era> | undefined = undefined;
  /** Those in which it declares tasks. Set by the connection of its forward. */
  tasks: ReadonlySet<Era> = NO_ERAS;

  /** The era of calls of a client: its own if the upstream supports it or its eras are unknown; else the other. */
  for(era: Era): Era {
    if (this.known === undefined || this.known.has(era)) return era;
    return era === 'modern' ? 'legacy' : 'modern';
  }

  /** True if the upstream is known not to support the legacy era. */
  get isModernOnly(): boolean {
    return this.known?.has('legacy') === false;
  }
}

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
  readonly eras = new UpstreamEras();
  isAvailable = false;
  readonly changed = new Emitter<UpstreamEvent>();
  readonly #closing = new AbortController();

  /** `address` is an http or https URL. Sends nothing. */
  constructor(address: string, { forward, headers, shared, http = {} }: UpstreamOptions = {}) {
    this.forward = forward;
    const url = new URL(address);
    this.transport = openTransport(address, headers, http);
    this.origin = url.origin;
    this.server = serverOf(url);
    this.sessions = new UpstreamSessionPool(this.transport, shared, () => this.changed.emit({ kind: 'session-lost' }));
  }

  /** Aborted by `close`: in-flight calls may finish, streams that would never end must be closed. */
  get closeSignal(): AbortSignal {
    return this.#closing.signal;
  }

  /** Sets the known eras. Without the legacy one, all sessions are discarded. */
  setEras(eras: ReadonlySet<Era>): void {
    this.eras.known = eras;
    if (this.eras.isModernOnly) this.sessions.discardAll();
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
