import { VERSION } from '../config/version.ts';
import { applyCatalogues } from '../registry/catalogues.ts';
import type { Forward } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { Backoff } from './backoff.ts';
import { type ClientCapabilities, NO_CAPABILITIES } from '../mcp/capabilities.ts';
import { type Catalogue, discover } from './discovery.ts';
import { probeEras } from './era.ts';
import { checkHealth } from './health.ts';
import { Upstream, type UpstreamObserver } from './upstream.ts';
import type { UpstreamClient } from './upstream-client.ts';
import { UpstreamError } from './upstream-error.ts';

export interface SupervisorOptions {
  readonly registry: Registry;
  readonly log: TargetLogger;
  /** The sets of client capabilities to discover with. Read at each run. */
  readonly variants: () => Iterable<ClientCapabilities>;
  /** Milliseconds between checks of a healthy upstream; 0 for none. */
  readonly healthCheckIntervalMs: number;
}

/** How a forward is doing (decisions 2.4). */
export interface ForwardHealth {
  readonly available: boolean;
  /** Last failure, or what discovery left out; undefined when there is nothing to say. */
  readonly message: string | undefined;
}

/** The verdict on an upstream's eras is tested again after this long (mcp 4). */
const VERDICT_MS = 60 * 60_000;

/**
 * Looks after one forward: discovers it, checks it while it is well, and tries again while it is not. What it finds
 * goes into the registry in one change; what goes wrong leaves the last good catalogue there (decisions 4.3).
 */
export class Supervisor implements UpstreamObserver {
  readonly #forward: Forward;
  readonly upstream: Upstream;
  health: ForwardHealth = { available: false, message: 'discovery pending' };
  readonly #options: SupervisorOptions;
  readonly #ended = new AbortController();
  readonly #backoff = new Backoff(Math.random, () => performance.now());
  #run: Promise<void> | undefined = undefined;
  #again = false;
  #timer: NodeJS.Timeout | undefined = undefined;
  #verdictAt = 0;

  constructor(forward: Forward, options: SupervisorOptions) {
    this.#forward = forward;
    this.upstream = new Upstream(forward.address, this);
    this.#options = options;
    if (forward.catalogues.length > 0) this.upstream.eras = new Set(forward.catalogues.map(({ era }) => era));
  }

  /**
   * Reads everything the upstream offers. Callers that come while a run is under way share it; one with `fresh` needs
   * what only a run that begins now can know. Rejects with an {@link UpstreamError}.
   */
  discover(fresh = false): Promise<void> {
    if (this.#run) {
      this.#again ||= fresh;
      return this.#run;
    }
    clearTimeout(this.#timer);
    this.#run = this.#runs().finally(() => {
      this.#run = undefined;
    });
    return this.#run;
  }

  /** A call found the upstream out of reach: what it offers stays, and it is tried again soon. */
  failed(error: UpstreamError): void {
    if (this.health.available && (error.kind === 'refused' || error.kind === 'dropped')) this.#down(error);
  }

  /** A call got through although the upstream counts as down: it is back. */
  recovered(): void {
    if (!this.#ended.signal.aborted) this.#inBackground();
  }

  /** Stops looking after it; calls under way finish. */
  async end(): Promise<void> {
    this.#ended.abort();
    clearTimeout(this.#timer);
    await this.upstream.close();
  }

  /** Discovery that nobody waits for. */
  #inBackground(): void {
    this.discover().catch(() => {
      // The failure stands in `health` and in the log.
    });
  }

  async #runs(): Promise<void> {
    do {
      this.#again = false;
      try {
        await this.#discoverOnce();
      } catch (error) {
        this.#down(error);
        throw error;
      }
    } while (this.#again);
  }

  async #discoverOnce(): Promise<void> {
    const { registry, variants } = this.#options;
    const signal = this.#ended.signal;
    const options = { transport: this.upstream.transport, version: VERSION, capabilities: NO_CAPABILITIES, signal };
    const { legacy, modern } = await probeEras(options);
    this.#verdictAt = performance.now();
    const opened: UpstreamClient[] = [];
    if (legacy) opened.push(legacy);
    if (modern) opened.push(modern);
    // What was opened to find out the era goes on to read the catalogue of a client without capabilities.
    const runs = opened.flatMap((client) =>
      [...variants()].map((capabilities) => {
        const first = capabilities === NO_CAPABILITIES ? client : undefined;
        return discover({ ...options, capabilities }, client.era, first);
      }),
    );
    const catalogues = await Promise.all(runs);
    if (signal.aborted) throw new UpstreamError('aborted', this.upstream.transport.address, 'is no longer registered');
    await registry.commit((draft) => {
      const forward = draft.forwards.get(this.#forward.name);
      // Another forward may have been registered under the name meanwhile.
      if (forward?.source === this.#forward.source) applyCatalogues(draft, forward, catalogues);
    });
    this.upstream.eras = new Set(opened.map(({ era }) => era));
    this.#up(catalogues);
  }

  #up(catalogues: readonly Catalogue[]): void {
    const notes = new Set(catalogues.flatMap(({ notes }) => notes));
    if (!this.health.available) this.#options.log.info('forward available', { forward: this.#forward.name });
    this.health = { available: true, message: notes.size > 0 ? [...notes].join('; ') : undefined };
    this.upstream.available = true;
    this.#backoff.reset();
    this.#schedule();
  }

  #down(error: unknown): void {
    if (this.#ended.signal.aborted) return;
    const reason = error instanceof Error ? error.message : String(error);
    const delay = this.#backoff.next();
    const message = `${reason}; retrying in ${(delay / 1000).toFixed(1)} s`;
    if (this.health.available || this.health.message === 'discovery pending') {
      this.#options.log.warn('forward unavailable', { forward: this.#forward.name, reason });
    }
    this.health = { available: false, message };
    this.upstream.available = false;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#inBackground(), delay);
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    const { healthCheckIntervalMs } = this.#options;
    if (healthCheckIntervalMs > 0 && !this.#ended.signal.aborted) {
      this.#timer = setTimeout(() => void this.#check(), healthCheckIntervalMs);
    }
  }

  async #check(): Promise<void> {
    if (performance.now() - this.#verdictAt > VERDICT_MS) return this.#inBackground();
    const era = this.upstream.eras?.has('modern') ? 'modern' : 'legacy';
    const options = { transport: this.upstream.transport, version: VERSION, capabilities: NO_CAPABILITIES };
    try {
      await checkHealth({ ...options, signal: this.#ended.signal }, era);
      this.#schedule();
    } catch (error) {
      this.#down(error);
    }
  }
}
