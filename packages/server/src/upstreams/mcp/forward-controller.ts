import { Backoff } from '@sluice/protocol/backoff';
import { type ClientCapabilities, NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import type { Era } from '@sluice/protocol/mcp/constants';
import { UpstreamError } from '../../http/client/errors.ts';
import { applyCatalogues, keptCatalogues } from '../../registry/catalogs.ts';
import type { Forward } from '../../registry/entries.ts';
import type { Registry } from '../../registry/registry.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { type ClientOptions, openLegacy, openModern, type UpstreamClient } from './client.ts';
import { type Catalogue, discover } from './discovery.ts';
import { EraCache, type InconclusiveProbe } from './era-detection.ts';
import { ListChangeWatcher, type WatchOptions } from './streams/catalog-watch.ts';
import { Upstream, type UpstreamObserver } from './upstream.ts';

/**
 * One light request that a healthy upstream answers: `server/discover` on the modern era, `ping` on the legacy one, on
 * a session of its own that is ended afterwards (decisions 4.3). An error that answers `ping` is a sign of life too.
 * Rejects with an `UpstreamError` when there was none, or when the upstream no longer speaks the era.
 */
export async function checkHealth(options: ClientOptions, era: Era): Promise<void> {
  if (era === 'modern') {
    await openModern(options);
    return;
  }
  const session = await openLegacy(options);
  try {
    await session.request('ping');
  } finally {
    void session.close();
  }
}

/** Milliseconds for {@link DiscoveryDebouncer}; for tests. */
export interface RediscoveryTimes {
  /** From the first notice to the run: an upstream often changes several things at once (default 20). */
  readonly delayMs?: number;
  /** From the beginning of one run to that of the next, on average, while notices go on and on (default 500). */
  readonly intervalMs?: number;
}

const DELAY_MS = 20;
const INTERVAL_MS = 500;
/** Runs that need not keep the interval after a time of peace: a change now and then is seen at once. */
const BURST = 3;

/**
 * Makes runs of discovery out of an upstream's notices of change, however many there are: one shortly after the first
 * notice, never two at once, exactly one more for all notices that came during a run, and two a second while there is no
 * end of them.
 */
export class DiscoveryDebouncer {
  readonly #run: () => Promise<unknown>;
  readonly #delayMs: number;
  readonly #intervalMs: number;
  #timer: NodeJS.Timeout | undefined = undefined;
  #running = false;
  #again = false;
  #ended = false;
  /** When the next run would begin if all had kept the interval, in milliseconds of `performance.now()`. */
  #dueAt = 0;

  /** `run` reads anew; how it ends changes nothing here. */
  constructor(run: () => Promise<unknown>, { delayMs = DELAY_MS, intervalMs = INTERVAL_MS }: RediscoveryTimes = {}) {
    this.#run = run;
    this.#delayMs = delayMs;
    this.#intervalMs = intervalMs;
  }

  /** To be told of every notice: costs next to nothing. */
  notice(): void {
    if (this.#running) this.#again = true;
    else if (!this.#ended) this.#timer ??= setTimeout(() => this.#begin(), this.#wait()).unref();
  }

  /** No further run begins. */
  end(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
  }

  #wait(): number {
    const ahead = (BURST - 1) * this.#intervalMs;
    return Math.max(this.#delayMs, this.#dueAt - ahead - performance.now());
  }

  #begin(): void {
    this.#timer = undefined;
    this.#running = true;
    this.#again = false;
    this.#dueAt = Math.max(this.#dueAt, performance.now()) + this.#intervalMs;
    const over = () => {
      this.#running = false;
      if (this.#again) this.notice();
    };
    this.#run().then(over, over);
  }
}

export interface SupervisorOptions {
  readonly registry: Registry;
  readonly log: TargetLogger;
  /** Who we are, towards upstreams. */
  readonly clientInfo: ClientOptions['clientInfo'];
  /** The sets of client capabilities to discover with. Read at each run. */
  readonly variants: () => Iterable<ClientCapabilities>;
  /** Whether any client speaks the legacy era: else a modern upstream is spared it. Read at each run. */
  readonly legacyWanted: () => boolean;
  /** Milliseconds between checks of a healthy upstream; 0 for none. */
  readonly healthCheckIntervalMs: number;
  /** Milliseconds before an era that could not be decided is asked for again, at first (default 60000); for tests. */
  readonly undecidedMs?: number;
  /** How soon notices of change are followed; for tests. */
  readonly rediscovery?: RediscoveryTimes;
  /** Times of the watch over the upstream; for tests. */
  readonly watch?: Pick<WatchOptions, 'readyMs' | 'delays'>;
}

/**
 * How a forward is doing (decisions 2.4): nothing known yet since the start, available, or not. `message` says what
 * discovery left out (undefined when nothing), or why the forward is down.
 */
export type ForwardHealth =
  | { readonly kind: 'pending' }
  | { readonly kind: 'up'; readonly message: string | undefined }
  | { readonly kind: 'down'; readonly message: string };

/**
 * Looks after one forward: discovers it, checks it and watches it for changes while it is well, and tries again while it
 * is not. What it finds goes into the registry in one change; what goes wrong leaves the last good catalogue there
 * (decisions 4.3).
 */
export class ForwardController implements UpstreamObserver {
  readonly forward: Forward;
  readonly upstream: Upstream;
  readonly #options: SupervisorOptions;
  readonly #client: Omit<ClientOptions, 'capabilities'>;
  readonly #ended = new AbortController();
  readonly #backoff = new Backoff(Math.random, () => performance.now());
  readonly #eras: EraCache;
  readonly #watch: ListChangeWatcher;
  readonly #rediscovery: DiscoveryDebouncer;
  #health: ForwardHealth = { kind: 'pending' };
  #run: Promise<void> | undefined = undefined;
  #again = false;
  /** The next run is to probe the eras; the one under way does. */
  #probeWanted = false;
  #probes = false;
  #timer: NodeJS.Timeout | undefined = undefined;
  /** The era that checks are made in: one that the upstream answered in last time. */
  #spoken: Era = 'legacy';

  constructor(forward: Forward, options: SupervisorOptions) {
    this.forward = forward;
    this.upstream = new Upstream(forward.address, this, forward.name);
    this.#options = options;
    const { clientInfo, undecidedMs, log } = options;
    this.#client = { transport: this.upstream.transport, clientInfo, signal: this.#ended.signal };
    const knownLegacy = forward.catalogues.some(({ era }) => era === 'legacy');
    const legacyWanted = () => knownLegacy || options.legacyWanted();
    this.#eras = new EraCache({ ...this.#client, capabilities: NO_CAPABILITIES }, legacyWanted, undecidedMs);
    const { transport, links } = this.upstream;
    const changed = () => this.changed();
    const nextId = () => links.nextId();
    this.#watch = new ListChangeWatcher({ transport, clientInfo, nextId, changed, log, ...options.watch });
    this.#rediscovery = new DiscoveryDebouncer(() => this.#readAnew(), options.rediscovery);
    if (forward.catalogues.length > 0) this.upstream.speaks(new Set(forward.catalogues.map(({ era }) => era)));
  }

  get health(): ForwardHealth {
    return this.#health;
  }

  /**
   * Finds out which eras the upstream speaks and reads everything it offers. Callers that come while a run is under way
   * share it; one with `fresh` needs what only a run that begins now can know. Rejects with an {@link UpstreamError}.
   */
  discover(fresh = false): Promise<void> {
    if (this.#run && this.#probes && !fresh) return this.#run;
    this.#probeWanted = true;
    return this.#readAnew();
  }

  /** Reads everything in a run that begins now, or next; which eras the upstream speaks may be taken for known. */
  #readAnew(): Promise<void> {
    if (this.#run) {
      this.#again = true;
      return this.#run;
    }
    clearTimeout(this.#timer);
    this.#run = this.#runs();
    return this.#run;
  }

  /**
   * To be told of a further set of client capabilities; resolves when the upstream was asked with it. One that is down
   * is not waited for: the next run will ask with all there are. Never rejects.
   */
  async variantAdded(): Promise<void> {
    if (this.#health.kind === 'down') this.#again ||= this.#run !== undefined;
    else await this.discover(true).catch(() => undefined);
  }

  /** To be told of the first legacy client; resolves when the upstream was asked for its era. Never rejects. */
  async legacyWanted(): Promise<void> {
    if (!this.#eras.askedLegacy) await this.variantAdded();
  }

  /** The upstream says that what it offers has changed: it is read anew soon, once for all notices of a moment. */
  changed(): void {
    this.#rediscovery.notice();
  }

  /** A call found the upstream out of reach: what it offers stays, and it is tried again soon. */
  failed(error: UpstreamError): void {
    if (this.#health.kind === 'up' && (error.kind === 'refused' || error.kind === 'dropped')) this.#down(error);
  }

  /** A call got through: an upstream that counted as down is back. */
  succeeded(): void {
    if (this.#health.kind !== 'up' && !this.#ended.signal.aborted) this.#inBackground();
  }

  /** Stops looking after it; calls under way finish. */
  async end(): Promise<void> {
    this.#ended.abort();
    clearTimeout(this.#timer);
    this.#rediscovery.end();
    this.#watch.end();
    await this.upstream.close();
  }

  /** Discovery that nobody waits for. */
  #inBackground(): void {
    this.discover().catch(() => {
      // The failure stands in `health` and in the log.
    });
  }

  async #runs(): Promise<void> {
    try {
      do {
        this.#again = false;
        await this.#discoverOnce();
      } while (this.#again);
    } catch (error) {
      this.#down(error);
      throw error;
    } finally {
      // At once: who comes from here on would be told of a run that does not look again.
      this.#run = undefined;
    }
  }

  async #discoverOnce(): Promise<void> {
    const { registry, variants } = this.#options;
    this.#probes = this.#probeWanted || this.#eras.dueInMs === 0;
    this.#probeWanted = false;
    const { legacy, modern, undecided } = await (this.#probes ? this.#eras.probe() : this.#eras.open());
    this.#spoken = modern ? 'modern' : 'legacy';
    // Before anything is read: what changes from here on is noticed.
    await this.#watch.follow({ legacy, modern }, this.#probes);
    const opened: UpstreamClient[] = [];
    if (legacy) opened.push(legacy);
    if (modern) opened.push(modern);
    // What was opened to find out the era goes on to read the catalogue of a client without capabilities.
    const failed = new AbortController();
    const signal = AbortSignal.any([this.#ended.signal, failed.signal]);
    const runs = opened.flatMap((client) =>
      [...variants()].map((capabilities) => {
        const first = capabilities === NO_CAPABILITIES ? client : undefined;
        return discover({ ...this.#client, signal, capabilities }, client.era, first);
      }),
    );
    const catalogues = await Promise.all(runs).catch(async (error: unknown) => {
      // One failure fails the whole run: what the others would still find is for nothing.
      failed.abort();
      await Promise.allSettled(runs);
      throw error;
    });
    if (this.#ended.signal.aborted) {
      throw new UpstreamError('aborted', this.upstream.transport.address, 'is no longer registered');
    }
    // Nothing was learnt about an undecided era, so what was known of it stays.
    const unheard = new Set(undecided.map(({ era }) => era));
    const kept = await registry.commit((draft) => {
      const forward = draft.forwards.get(this.forward.name);
      // Another forward may have been registered under the name meanwhile.
      if (forward?.source !== this.forward.source) return [];
      const known = keptCatalogues(draft, forward, unheard);
      applyCatalogues(draft, forward, [...catalogues, ...known]);
      return known;
    });
    const silent = new Set(kept.map(({ era }) => era));
    this.upstream.speaks(new Set([...opened.map(({ era }) => era), ...silent]));
    this.#up([...notesOf(catalogues), ...undecided.filter(({ era }) => silent.has(era)).map(keptNote)]);
  }

  #up(notes: readonly string[]): void {
    if (this.#health.kind !== 'up') this.#options.log.info('forward available', { forward: this.forward.name });
    this.#health = { kind: 'up', message: notes.length > 0 ? notes.join('; ') : undefined };
    this.#backoff.reset();
    this.#schedule();
    // A call that failed during the run had it paused.
    if (this.#watch.paused) this.changed();
  }

  #down(error: unknown): void {
    if (this.#ended.signal.aborted) return;
    const reason = error instanceof Error ? error.message : String(error);
    const delay = this.#backoff.next();
    if (this.#health.kind !== 'down') {
      this.#options.log.warn('forward unavailable', { forward: this.forward.name, reason });
    }
    this.#watch.pause();
    this.#health = { kind: 'down', message: `${reason}; retrying in ${(delay / 1000).toFixed(1)} s` };
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#inBackground(), delay);
  }

  /** The next look at an upstream that is well: a check of its health, or a probe of its eras when that is due. */
  #schedule(): void {
    clearTimeout(this.#timer);
    if (this.#ended.signal.aborted) return;
    const { healthCheckIntervalMs } = this.#options;
    const probeInMs = this.#eras.dueInMs;
    if (healthCheckIntervalMs > 0 && healthCheckIntervalMs < probeInMs) {
      this.#timer = setTimeout(() => void this.#check(), healthCheckIntervalMs);
    } else {
      this.#timer = setTimeout(() => this.#inBackground(), probeInMs);
    }
  }

  async #check(): Promise<void> {
    try {
      await checkHealth({ ...this.#client, capabilities: NO_CAPABILITIES }, this.#spoken);
      // Where a call found it down meanwhile, it is to be tried again as it is.
      if (this.#health.kind === 'up') this.#schedule();
    } catch (error) {
      this.#down(error);
    }
  }
}

function notesOf(catalogues: readonly Catalogue[]): Set<string> {
  return new Set(catalogues.flatMap(({ notes }) => notes));
}

function keptNote({ era, error }: InconclusiveProbe): string {
  return `what it offered in the ${era} era is kept, since it could not be asked: ${error.message}`;
}
