import type { ClientCapabilities } from '@sluice/protocol/mcp/capabilities';
import { Backoff } from '@sluice/protocol/timing';
import { UpstreamError } from '../http/client/errors.ts';
import { type StoredDiscovery, storeDiscoveryInSteps } from '../registry/catalogs.ts';
import type { Draft } from '../registry/draft.ts';
import type { Forward } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { Steps } from '../registry/steps.ts';
import type { DiscoveryMarks } from '../registry/store/discovery-marks.ts';
import { type DebounceOptions, DiscoveryDebouncer } from './discovery-debouncer.ts';
import { ForwardAvailability, type ForwardAvailabilityOptions } from './forward-availability.ts';
import type { AnnouncedList, Discovery, ForwardConnection, UpstreamChange } from './forward-connection.ts';

export interface ForwardControllerOptions extends ForwardAvailabilityOptions {
  readonly registry: Registry;
  /** Sets of client capabilities to discover with. Read at each run. */
  readonly capabilityProfiles: () => Iterable<ClientCapabilities>;
  /** Undefined without persistence. */
  readonly discoveryMarks?: DiscoveryMarks | undefined;
  /** Milliseconds between checks of a healthy upstream; 0 for none. */
  readonly healthCheckIntervalMs: number;
  /** For tests. */
  readonly debounce?: DebounceOptions;
}

/**
 * Control loop of one forward: discovers it, checks its health and follows its changes while it is up, and retries while it is
 * down. Each discovery updates the registry in one commit; a failure leaves the last good catalog there.
 */
export class ForwardController {
  readonly forward: Forward;
  readonly connection: ForwardConnection;
  readonly availability: ForwardAvailability;
  readonly #options: ForwardControllerOptions;
  readonly #backoff = new Backoff();
  readonly #debouncer: DiscoveryDebouncer;
  #run: Promise<void> | undefined = undefined;
  #rerun = false;
  /** Whether the next run reads the lists of all sets of capabilities, not only those of new ones. */
  #isStale = true;
  /** Whether the next run probes the eras, and whether the current one does. */
  #probeRequested = false;
  #isProbing = false;
  #previousRun: Promise<unknown> | undefined = undefined;
  /** Whether it waits, since another replica discovers the forward. */
  #isWaiting = false;
  /** Whether the connection was paused since the last run that read all lists has begun. */
  #isPaused = false;
  #coversLegacy = false;
  /** Start of the last run that read all lists, and end of its validity, in milliseconds of `performance.now()`. */
  #readAt = Number.NEGATIVE_INFINITY;
  #validUntil = Number.NEGATIVE_INFINITY;
  #rereadTimer: NodeJS.Timeout | undefined = undefined;
  #timer: NodeJS.Timeout | undefined = undefined;

  constructor(forward: Forward, connection: ForwardConnection, options: ForwardControllerOptions) {
    this.forward = forward;
    this.connection = connection;
    this.#options = options;
    this.availability = new ForwardAvailability(forward.name, connection, options);
    const onPaced = (distanceMs: number) => this.availability.onPaced(distanceMs);
    this.#debouncer = new DiscoveryDebouncer(() => this.#rediscover(), { ...options.debounce, onPaced });
    connection.onCatalogs(forward.catalogs);
    connection.changed.subscribe((change) => this.#onChanged(change));
  }

  /**
   * Probes the upstream and reads its catalogs. Callers share a run in progress, except with `fresh`, which requires a run that
   * starts now or later. Rejects with an {@link UpstreamError}.
   */
  discover(fresh = false): Promise<void> {
    if (this.#run && this.#isProbing && !fresh) return this.#run;
    this.#probeRequested = true;
    return this.#rediscover();
  }

  /** Delays the next run, which must not have started, until this promise resolves; it must not reject. */
  startAfter(previous: Promise<unknown>): void {
    this.#previousRun = previous;
  }

  /** Whether another replica discovers and checks it. */
  get isStandby(): boolean {
    const { sharing } = this.#options;
    return sharing !== undefined && !sharing.isHeld(this.forward.name);
  }

  /**
   * Called when another replica may have begun or ceased to discover the forward, or may have found something: discovers the
   * forward if no other one does, or else takes over what is known.
   */
  updateStandby(): void {
    const { sharing, registry } = this.#options;
    const { name } = this.forward;
    if (!sharing) return;
    if (!this.isStandby) {
      if (this.#isWaiting) this.#discoverInBackground();
      this.#isWaiting = false;
      return;
    }
    if (!this.#isWaiting) {
      this.#isWaiting = true;
      clearTimeout(this.#timer);
      this.#pause();
    }
    this.connection.onCatalogs(registry.current.forwards.get(name)?.catalogs ?? []);
    this.availability.health = sharing.states.of(name);
  }

  /**
   * Called for a new set of client capabilities; resolves when the upstream was discovered with it. Does not wait for an
   * upstream that is down: the next run uses all sets. Never rejects.
   */
  async onProfileAdded(): Promise<void> {
    await this.#runUnlessDown(() => this.#startRun());
  }

  /** Called for the first legacy client; resolves when the upstream was probed for its era. Never rejects. */
  async onLegacyClient(): Promise<void> {
    if (!this.#coversLegacy) await this.#runUnlessDown(() => this.discover(true));
  }

  /**
   * Reads the lists again if the upstream does not announce changes of this one (default any) and they were not read in the last
   * 5 s, before something is reported as not found. Callers share one run. Undefined if there is nothing to wait for; never
   * rejects.
   */
  reread(list?: AnnouncedList): Promise<void> | undefined {
    if (this.availability.health.kind !== 'up' || this.isStandby || !this.connection.changesSilently(list))
      return undefined;
    if (performance.now() - this.#readAt >= REREAD_MS) return this.#rediscover().catch(() => undefined);
    return this.#run?.catch(() => undefined);
  }

  /** Stops the controller. Calls in flight may finish, with `graceMs` only for that long. */
  async close(graceMs?: number): Promise<void> {
    this.availability.isClosed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#rereadTimer);
    this.#debouncer.close();
    await this.connection.close(graceMs);
  }

  #onChanged(change: UpstreamChange): void {
    if (this.availability.isClosed) return;
    if (change.kind === 'reachable') this.#discoverInBackground();
    else if (change.kind === 'unreachable') {
      if (!this.isStandby && this.availability.health.kind === 'up') this.#markDown(change.error);
    } else if (change.kind === 'session-lost') this.#rereadSoon();
    else if (change.isEcho) this.#debouncer.echo();
    else this.#debouncer.trigger();
  }

  #rereadSoon(): void {
    if (this.isStandby || this.availability.health.kind === 'down') return;
    const inMs = Math.max(this.#readAt + REREAD_MS - performance.now(), 0);
    this.#rereadTimer ??= setTimeout(() => {
      this.#rereadTimer = undefined;
      this.#rediscover().catch(() => undefined);
    }, inMs).unref();
  }

  async #runUnlessDown(run: () => Promise<void>): Promise<void> {
    if (this.availability.health.kind === 'down') this.#rerun ||= this.#run !== undefined;
    else await run().catch(() => undefined);
  }

  /** A failure is reported by the availability. */
  #discoverInBackground(): void {
    this.discover().catch(() => undefined);
  }

  /** Discovers in a run that starts now or next; known eras may be used without a probe. */
  #rediscover(): Promise<void> {
    this.#isStale = true;
    return this.#startRun();
  }

  #startRun(): Promise<void> {
    if (this.isStandby) {
      this.updateStandby();
      return Promise.resolve();
    }
    this.#isWaiting = false;
    if (this.#run) {
      this.#rerun = true;
      return this.#run;
    }
    clearTimeout(this.#timer);
    this.#run = this.#runUntilCurrent();
    return this.#run;
  }

  async #runUntilCurrent(): Promise<void> {
    const { discoveryMarks } = this.#options;
    let startedAt = performance.now();
    try {
      if (this.#previousRun) await this.#previousRun;
      this.#previousRun = undefined;
      discoveryMarks?.begin(this.forward.name);
      do {
        this.#rerun = false;
        startedAt = performance.now();
        await this.#discoverOnce(startedAt);
      } while (this.#rerun);
    } catch (error) {
      this.#isStale = true;
      this.availability.onDiscoveryFailed(elapsedMs(startedAt), messageOf(error));
      this.#markDown(error);
      throw error;
    } finally {
      discoveryMarks?.end(this.forward.name);
      // Synchronously: a caller after the last check of `#rerun` must not share this run.
      this.#run = undefined;
    }
  }

  async #discoverOnce(startedAt: number): Promise<void> {
    this.#isProbing = this.#probeRequested || startedAt >= this.#validUntil;
    this.#probeRequested = false;
    const readsAll = this.#isProbing || this.#isStale;
    this.#isStale = false;
    if (!readsAll && (await this.#discoverMissing(startedAt))) return;
    this.#isPaused = false;
    this.#debouncer.onReading();
    this.#readAt = performance.now();
    let foundChanges = false;
    try {
      const discovery = await this.connection.discover(this.#options.capabilityProfiles(), this.#isProbing);
      foundChanges = !discovery.isUnchanged;
      this.#coversLegacy = discovery.coversLegacy;
      this.#validUntil = performance.now() + discovery.validMs;
      // The registry has it, unless an operator has deleted entries: those return with a refresh.
      if (!foundChanges && !this.#isProbing) this.#markUp();
      else await this.#store(discovery, startedAt);
    } finally {
      this.#debouncer.onRead(foundChanges);
    }
  }

  /** Reads the lists for new sets of capabilities. Returns false if they cannot be read: then all are read again. */
  async #discoverMissing(startedAt: number): Promise<boolean> {
    if (!this.connection.discoverMissing) return false;
    try {
      const discovery = await this.connection.discoverMissing(this.#options.capabilityProfiles());
      if (discovery) await this.#store(discovery, startedAt);
      return true;
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      return false;
    }
  }

  async #store(discovery: Discovery, startedAt: number): Promise<void> {
    const { forward } = this;
    const { address } = this.connection;
    if (this.availability.isClosed) throw new UpstreamError('aborted', address, 'is no longer registered');
    const hasLostLease = () => this.isStandby;
    const store = function* (draft: Draft): Steps<StoredDiscovery> {
      if (hasLostLease()) throw new UpstreamError('aborted', address, 'is discovered by another replica now');
      return yield* storeDiscoveryInSteps(draft, forward, discovery);
    };
    const onVisible = (stored: StoredDiscovery) => this.#onStored(discovery, stored, startedAt);
    const origin = { actor: 'discovery', reason: `discover forward ${forward.name}` } as const;
    await this.#options.registry.commit(store, origin, onVisible);
  }

  #onStored(discovery: Discovery, stored: StoredDiscovery, startedAt: number): void {
    const { current } = this.#options.registry;
    const { name } = this.forward;
    discovery.accept();
    this.connection.onCatalogs(current.forwards.get(name)?.catalogs ?? []);
    this.availability.onDiscovered(elapsedMs(startedAt), discovery, stored, current.counts(name));
    this.#markUp();
  }

  #markUp(): void {
    this.availability.markUp();
    this.#backoff.reset();
    this.#scheduleNextCheck();
    // A call has failed during the run: nothing is watched.
    if (this.#isPaused) this.#debouncer.trigger();
  }

  #markDown(error: unknown): void {
    if (this.availability.isClosed) return;
    if (this.isStandby) return this.updateStandby();
    const retryMs = this.#backoff.next();
    this.#pause();
    this.availability.markDown(messageOf(error), retryMs);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#discoverInBackground(), retryMs);
  }

  #pause(): void {
    this.#isPaused = true;
    this.connection.pause();
  }

  /** Schedules the next health check of an upstream that is up, or its complete discovery if that is due sooner. */
  #scheduleNextCheck(): void {
    clearTimeout(this.#timer);
    if (this.availability.isClosed) return;
    const { healthCheckIntervalMs } = this.#options;
    const validMs = this.#validUntil - performance.now();
    if (healthCheckIntervalMs > 0 && healthCheckIntervalMs < validMs) {
      this.#timer = setTimeout(() => void this.#checkHealth(), healthCheckIntervalMs);
    } else if (Number.isFinite(validMs)) {
      this.#timer = setTimeout(() => this.#discoverInBackground(), validMs);
    }
  }

  async #checkHealth(): Promise<void> {
    try {
      await this.connection.checkHealth();
      // A call may have marked it down meanwhile, which has scheduled a retry.
      if (this.availability.health.kind !== 'up') return;
      if (!this.connection.changesSilently()) return this.#scheduleNextCheck();
    } catch (error) {
      return this.#markDown(error);
    }
    // A failure is reported by the availability.
    await this.#rediscover().catch(() => undefined);
  }
}

/** Time between reads of the lists that lost sessions and unknown names cause. */
const REREAD_MS = 5_000;

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function elapsedMs(startedAt: number): number {
  return Math.round(performance.now() - startedAt);
}
