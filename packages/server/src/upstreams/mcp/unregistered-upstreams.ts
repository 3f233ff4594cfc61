import type { Era } from '@sluice/protocol/mcp/constants';
import { withTimeout } from '@sluice/protocol/timing';
import { EraCache } from './era-detection.ts';
import type { RpcClientOptions } from './rpc-client.ts';
import { Upstream, type UpstreamHttp } from './upstream.ts';

/** Ignores the outcome of calls: these upstreams have no controller. */
const NO_OBSERVER = { onCallFailed() {}, onCallSucceeded() {}, onListsChanged() {} };

/** Time for which a call waits for the probe of its upstream, which continues in the background. */
const WAIT_MS = 2_000;
/** Time until the next probe after a failed one. */
const PROBE_RETRY_MS = 60_000;

interface UnregisteredUpstream {
  readonly upstream: Upstream;
  readonly eras: EraCache;
  lastUsedAt: number;
  /** The probe of its eras in progress. */
  probe: Promise<void> | undefined;
  /** No probe before this, in milliseconds of `performance.now()`. */
  retryAt: number;
}

/** Upstreams at addresses of manually registered tools for which there is no forward. */
export class UnregisteredUpstreams {
  readonly #upstreams = new Map<string, UnregisteredUpstream>();
  readonly #clientInfo: RpcClientOptions['clientInfo'];
  readonly #hasLegacyClients: () => boolean;
  readonly #http: UpstreamHttp | undefined;

  /** `clientInfo` is the gateway's own; `hasLegacyClients`: whether there has been a legacy client. */
  constructor(clientInfo: RpcClientOptions['clientInfo'], hasLegacyClients: () => boolean, http?: UpstreamHttp) {
    this.#http = http;
    this.#clientInfo = clientInfo;
    this.#hasLegacyClients = hasLegacyClients;
  }

  /** Returns the upstream at an http or https address, created on first use. */
  get(address: string): Upstream {
    return this.#find(address).upstream;
  }

  /**
   * Probes the eras of the upstream at an address, since no discovery has: a call in an era that it does not support would
   * fail. Undefined if they are known, which is nearly always; else a promise that never rejects.
   */
  ensureEraKnown(address: string): Promise<void> | undefined {
    const found = this.#find(address);
    const isKnown = found.eras.nextProbeInMs > 0 && (found.eras.legacyProbed || !this.#hasLegacyClients());
    if (isKnown || performance.now() < found.retryAt) return undefined;
    found.probe ??= this.#probe(found);
    // Eras known until an hour ago are used while they are probed again.
    return found.upstream.eras && found.eras.nextProbeInMs === 0 ? undefined : withTimeout(WAIT_MS, found.probe);
  }

  /** Closes idle sessions, and removes upstreams without sessions that were not used for this long. */
  closeIdle(idleMs: number, now: number): void {
    for (const [address, { upstream, lastUsedAt }] of this.#upstreams) {
      upstream.sessions.closeIdle(idleMs, now);
      if (!upstream.sessions.isIdle || now - lastUsedAt < idleMs) continue;
      this.#upstreams.delete(address);
      upstream.close().catch(() => undefined);
    }
  }

  *[Symbol.iterator](): Generator<Upstream> {
    for (const { upstream } of this.#upstreams.values()) yield upstream;
  }

  #find(address: string): UnregisteredUpstream {
    let known = this.#upstreams.get(address);
    if (!known) {
      const upstream = new Upstream(address, NO_OBSERVER, { ...(this.#http && { http: this.#http }) });
      const options = { transport: upstream.transport, capabilities: {}, clientInfo: this.#clientInfo };
      const eras = new EraCache(options, { hasLegacyClients: this.#hasLegacyClients });
      known = { upstream, eras, lastUsedAt: 0, probe: undefined, retryAt: 0 };
      this.#upstreams.set(address, known);
    }
    known.lastUsedAt = performance.now();
    return known;
  }

  async #probe(found: UnregisteredUpstream): Promise<void> {
    try {
      const { legacy, modern } = await found.eras.probe();
      const eras = new Set<Era>();
      if (legacy) eras.add('legacy');
      if (modern) eras.add('modern');
      found.upstream.setEras(eras);
      for (const client of [legacy, modern]) client?.close().catch(() => undefined);
    } catch {
      // The waiting call fails in the same way and reports it, or succeeds nevertheless.
      found.retryAt = performance.now() + PROBE_RETRY_MS;
    } finally {
      found.probe = undefined;
    }
  }
}
