import { withTimeout } from '@sluice/protocol/timing';
import type { UpstreamDeps } from '../upstream-kind.ts';
import { EraCache } from './era-detection.ts';
import { Upstream } from './upstream.ts';

/** Time for which a call waits for the probe of its upstream, which continues in the background. */
const WAIT_MS = 2_000;
/** Time until the next probe after a failed one. */
const PROBE_RETRY_MS = 60_000;
/** Idle time after which sessions and unregistered upstreams are closed, and interval of the checks. */
const IDLE_TIMEOUT_MS = 5 * 60_000;
const IDLE_CHECK_MS = 60_000;

interface UnregisteredUpstream {
  readonly upstream: Upstream;
  readonly eras: EraCache;
  lastUsedAt: number;
  /** The probe of its eras in progress. */
  probe: Promise<void> | undefined;
  /** No probe before this, in milliseconds of `performance.now()`. */
  retryAt: number;
}

/** The upstreams with MCP sessions: those of forwards, and those at addresses of manually registered tools without a forward. */
export class Upstreams {
  readonly #deps: Pick<UpstreamDeps, 'clientInfo' | 'hasLegacyClients' | 'http' | 'sharedSessions'>;
  /** Those of the forwards with the name of the forward, in the order of their registration. */
  readonly #registered = new Map<string, { readonly address: string; readonly upstream: Upstream }>();
  /** Of several forwards with one address, the first. */
  readonly #byAddress = new Map<string, Upstream>();
  readonly #unregistered = new Map<string, UnregisteredUpstream>();
  readonly #idleTimer: NodeJS.Timeout;

  constructor(deps: Pick<UpstreamDeps, 'clientInfo' | 'hasLegacyClients' | 'http' | 'sharedSessions'>) {
    this.#deps = deps;
    this.#idleTimer = setInterval(() => this.closeIdle(), IDLE_CHECK_MS).unref();
  }

  add(forward: string, address: string, upstream: Upstream): void {
    this.#registered.set(forward, { address, upstream });
    if (!this.#byAddress.has(address)) this.#byAddress.set(address, upstream);
  }

  /** Removes the upstream of a forward, which the caller closes. */
  remove(forward: string): void {
    const removed = this.#registered.get(forward);
    if (!removed) return;
    const { address, upstream } = removed;
    this.#registered.delete(forward);
    if (this.#byAddress.get(address) !== upstream) return;
    this.#byAddress.delete(address);
    const next = [...this.#registered.values()].find((other) => other.address === address);
    if (next) this.#byAddress.set(address, next.upstream);
  }

  /** The upstream of a forward. */
  of(forward: string): Upstream | undefined {
    return this.#registered.get(forward)?.upstream;
  }

  /** The upstream at the http or https address of a manually registered tool: that of a forward, or one created on first use. */
  at(address: string): Upstream {
    return this.#byAddress.get(address) ?? this.#find(address).upstream;
  }

  /**
   * Probes the eras of the upstream at the address of a manually registered tool, unless it is that of a forward, since no
   * discovery has: a call in an era that it does not support would fail. Undefined if they are known, which is nearly always; else
   * a promise that never rejects.
   */
  ensureEraKnown(address: string): Promise<void> | undefined {
    if (this.#byAddress.has(address)) return undefined;
    const found = this.#find(address);
    const isKnown = found.eras.nextProbeInMs > 0 && (found.eras.legacyProbed || !this.#deps.hasLegacyClients());
    if (isKnown || performance.now() < found.retryAt) return undefined;
    found.probe ??= this.#probe(found);
    // Eras known until an hour ago are used while they are probed again.
    return found.upstream.eras.known && found.eras.nextProbeInMs === 0 ? undefined : withTimeout(WAIT_MS, found.probe);
  }

  /** Closes idle sessions, and removes unregistered upstreams without sessions that were not called for long. */
  closeIdle(now: number = performance.now()): void {
    for (const { upstream } of this.#registered.values()) upstream.sessions.closeIdle(IDLE_TIMEOUT_MS, now);
    for (const [address, { upstream, lastUsedAt }] of this.#unregistered) {
      if (!upstream.sessions.closeIdle(IDLE_TIMEOUT_MS, now) || now - lastUsedAt < IDLE_TIMEOUT_MS) continue;
      this.#unregistered.delete(address);
      upstream.close().catch(() => undefined);
    }
  }

  *[Symbol.iterator](): Generator<Upstream> {
    for (const { upstream } of this.#registered.values()) yield upstream;
    for (const { upstream } of this.#unregistered.values()) yield upstream;
  }

  /** Closes the unregistered ones: calls in flight have `graceMs` to finish. */
  async close(graceMs: number): Promise<void> {
    clearInterval(this.#idleTimer);
    await Promise.all([...this.#unregistered.values()].map(({ upstream }) => upstream.close(graceMs)));
  }

  #find(address: string): UnregisteredUpstream {
    let known = this.#unregistered.get(address);
    if (!known) {
      const { clientInfo, hasLegacyClients, http } = this.#deps;
      const upstream = new Upstream(address, { ...(http && { http }) });
      const options = { transport: upstream.transport, capabilities: {}, clientInfo };
      const eras = new EraCache(options, { hasLegacyClients });
      known = { upstream, eras, lastUsedAt: 0, probe: undefined, retryAt: 0 };
      this.#unregistered.set(address, known);
    }
    known.lastUsedAt = performance.now();
    return known;
  }

  async #probe(found: UnregisteredUpstream): Promise<void> {
    try {
      const { eras, legacy, modern } = await found.eras.probe();
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
