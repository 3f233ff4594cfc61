import type { ForwardChange } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { type ClientCapabilities, NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import type { Era } from '@sluice/protocol/mcp/constants';
import { counted, singleLine } from '@sluice/protocol/text';
import { Backoff } from '@sluice/protocol/timing';
import type { Access } from '../../access/access.ts';
import { UpstreamError } from '../../http/client/errors.ts';
import { SecretHeaders } from '../../http/secrets/secret-headers.ts';
import type { Secrets } from '../../http/secrets/secrets.ts';
import {
  applyCatalogsInSteps,
  type DiscoveredCatalog,
  KIND_OF_LIST,
  knownCatalogs,
  storeKnownCatalogs,
} from '../../registry/catalogs.ts';
import type { Draft } from '../../registry/draft.ts';
import { type Forward, KINDS } from '../../registry/entries.ts';
import type { Registry } from '../../registry/registry.ts';
import type { Counts } from '../../registry/snapshot.ts';
import type { Steps } from '../../registry/steps.ts';
import type { DiscoveryMarks } from '../../registry/store/discovery-marks.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import type { CatalogLimits } from './catalog/catalog-size.ts';
import { CatalogReader, type CatalogReading } from './catalog-reader.ts';
import { type DebounceOptions, DiscoveryDebouncer } from './discovery-debouncer.ts';
import { EraCache, type InconclusiveProbe, type ProbeStore } from './era-detection.ts';
import { HealthCheck } from './health-check.ts';
import { ListReads } from './list-reads.ts';
import type { RpcClient, RpcClientOptions } from './rpc-client.ts';
import type { SharedUpstreamSessions } from './sessions/shared-sessions.ts';
import type { SharedDiscovery } from './shared-discovery.ts';
import {
  type AnnouncedList,
  ListChangeWatcher,
  type ListChangeWatcherOptions,
  listsOf,
} from './streams/list-change-watcher.ts';
import { taskErasOf } from './tasks/task-support.ts';
import { secretOrigins, Upstream, type UpstreamHttp, type UpstreamObserver } from './upstream.ts';

export interface ForwardControllerOptions {
  readonly registry: Registry;
  readonly access: Pick<Access, 'rules'>;
  readonly log: TargetLogger;
  readonly secrets: Secrets;
  /** Identity of the gateway towards upstreams. */
  readonly clientInfo: RpcClientOptions['clientInfo'];
  /** Sets of client capabilities to discover with. Read at each run. */
  readonly capabilityProfiles: () => Iterable<ClientCapabilities>;
  /** Whether there are legacy clients: without them, a modern upstream is not probed for legacy. Read at each run. */
  readonly hasLegacyClients: () => boolean;
  /** Default: {@link CATALOG_LIMITS}. */
  readonly catalogLimits?: CatalogLimits;
  /** Undefined for a single replica, which discovers all forwards. */
  readonly sharing?: SharedDiscovery | undefined;
  /** Sessions at upstreams that replicas share; undefined for a single one. */
  readonly sharedSessions?: SharedUpstreamSessions | undefined;
  /** Undefined without persistence. */
  readonly discoveryMarks?: DiscoveryMarks | undefined;
  /** Milliseconds between checks of a healthy upstream; 0 for none. */
  readonly healthCheckIntervalMs: number;
  /** Transport of requests to the upstream. */
  readonly http?: UpstreamHttp;
  /** Milliseconds until the first retry of an inconclusive probe (default 60000); for tests. */
  readonly inconclusiveRetryMs?: number;
  /** For tests. */
  readonly debounce?: DebounceOptions;
  /** For tests. */
  readonly watch?: Pick<ListChangeWatcherOptions, 'readyMs' | 'delays'>;
}

/**
 * Control loop of one forward: discovers it, checks its health and watches it for changes while it is up, and retries
 * while it is down. Each discovery updates the registry in one commit; a failure leaves the last good catalog there.
 */
export class ForwardController implements UpstreamObserver {
  readonly forward: Forward;
  readonly upstream: Upstream;
  /** The availability has changed, or a discovery has ended. */
  readonly changed = new Emitter<ForwardChange>();
  readonly #options: ForwardControllerOptions;
  readonly #client: Omit<RpcClientOptions, 'capabilities'>;
  readonly #closing = new AbortController();
  readonly #backoff = new Backoff(Math.random, () => performance.now());
  readonly #eras: EraCache;
  readonly #healthCheck: HealthCheck;
  readonly #watcher: ListChangeWatcher;
  readonly #debouncer: DiscoveryDebouncer;
  readonly #reads = new ListReads();
  /** What is wrong with the lists, for the status. */
  #notes: readonly string[] = [];
  /** Time between the reads of an upstream that announces changes whenever it is read; 0 for all others. */
  #distanceMs = 0;
  #run: Promise<void> | undefined = undefined;
  #rerun = false;
  /** Whether the next run reads the lists of all sets of capabilities, not only those of new ones. */
  #isStale = true;
  /** Whether the next run probes the eras, and whether the current one does. */
  #probeRequested = false;
  #isProbing = false;
  #previousRun: Promise<unknown> | undefined = undefined;
  /** Whether it waits, since another replica discovers the forward. */
  #isPaused = false;
  readonly #reader: CatalogReader;
  /** Eras that the last probe could not decide about. */
  #inconclusive: readonly InconclusiveProbe[] = [];
  /** What the forward does not expose. */
  #hidden: Counts | undefined = undefined;
  /** Lists that the upstream declares in any era. */
  #lists: ReadonlySet<AnnouncedList> = new Set();
  /** Start of the last run that read all lists, in milliseconds of `performance.now()`. */
  #readAt = Number.NEGATIVE_INFINITY;
  #rereadTimer: NodeJS.Timeout | undefined = undefined;
  #timer: NodeJS.Timeout | undefined = undefined;
  /** Era of health checks: one in which the upstream responded last. */
  #healthCheckEra: Era = 'legacy';

  constructor(forward: Forward, options: ForwardControllerOptions) {
    this.forward = forward;
    this.#options = options;
    const { clientInfo, inconclusiveRetryMs, log, secrets } = options;
    const { headers, address, name, proxy, compression } = forward;
    this.upstream = new Upstream(address, this, {
      forward: name,
      headers: headers && new SecretHeaders(headers, secretOrigins(forward), secrets, log),
      shared: options.sharedSessions,
      http: { ...options.http, proxy, compression },
    });
    this.#client = { transport: this.upstream.transport, clientInfo, signal: this.#closing.signal };
    this.#reader = new CatalogReader({
      ...this.#client,
      signal: this.#closing.signal,
      limits: options.catalogLimits,
      turns: options.registry.turns,
      reads: this.#reads,
      storedTexts: () => {
        const { current } = options.registry;
        return (list, key, json) => current.textOf(forward.name, KIND_OF_LIST[list], key, json);
      },
    });
    const isKnownLegacy = forward.catalogs.some(({ era }) => era === 'legacy');
    const hasLegacyClients = () => isKnownLegacy || options.hasLegacyClients();
    this.#eras = new EraCache(
      { ...this.#client, capabilities: NO_CAPABILITIES },
      { hasLegacyClients, store: this.#probeStore(), retryMs: inconclusiveRetryMs },
    );
    this.#healthCheck = new HealthCheck({ ...this.#client, capabilities: NO_CAPABILITIES }, () => this.onSessionLost());
    this.#watcher = new ListChangeWatcher({ upstream: this.upstream, clientInfo, log, ...options.watch });
    this.#debouncer = new DiscoveryDebouncer(() => this.#rediscover(), {
      ...options.debounce,
      onPaced: (distanceMs) => this.#onPaced(distanceMs),
    });
    if (forward.catalogs.length > 0) this.upstream.setEras(new Set(forward.catalogs.map(({ era }) => era)));
    this.upstream.taskEras = taskErasOf(forward.catalogs);
  }

  /**
   * Probes the eras of the upstream and reads its catalogs. Callers share a run in progress, except with `fresh`,
   * which requires a run that starts now or later. Rejects with an {@link UpstreamError}.
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

  /** Discovers in a run that starts now or next; known eras may be used without a probe. */
  #rediscover(): Promise<void> {
    this.#isStale = true;
    return this.#startRun();
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
      if (this.#isPaused) this.#discoverInBackground();
      this.#isPaused = false;
      return;
    }
    if (!this.#isPaused) {
      this.#isPaused = true;
      clearTimeout(this.#timer);
      this.#watcher.pause();
      void this.#healthCheck.close();
    }
    const catalogs = registry.current.forwards.get(name)?.catalogs ?? [];
    if (catalogs.length > 0) this.upstream.setEras(new Set(catalogs.map(({ era }) => era)));
    this.upstream.taskEras = taskErasOf(catalogs);
    this.upstream.health = sharing.state(name);
  }

  #startRun(): Promise<void> {
    if (this.isStandby) {
      this.updateStandby();
      return Promise.resolve();
    }
    this.#isPaused = false;
    if (this.#run) {
      this.#rerun = true;
      return this.#run;
    }
    clearTimeout(this.#timer);
    this.#run = this.#runUntilCurrent();
    return this.#run;
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
    if (!this.#eras.legacyProbed) await this.#runUnlessDown(() => this.discover(true));
  }

  async #runUnlessDown(run: () => Promise<void>): Promise<void> {
    if (this.upstream.health.kind === 'down') this.#rerun ||= this.#run !== undefined;
    else await run().catch(() => undefined);
  }

  /** Schedules a discovery, one for several notifications. */
  onListsChanged(method?: unknown): void {
    const notice = this.#reads.noticeOf(method);
    if (notice === 'change') this.#debouncer.trigger();
    else if (notice === 'echo') this.#debouncer.echo();
  }

  /** Reads the lists again soon, since the upstream may have been restarted. */
  onSessionLost(): void {
    if (this.#closing.signal.aborted || this.isStandby || this.upstream.health.kind === 'down') return;
    const inMs = Math.max(this.#readAt + REREAD_MS - performance.now(), 0);
    this.#rereadTimer ??= setTimeout(() => {
      this.#rereadTimer = undefined;
      this.#rediscover().catch(() => undefined);
    }, inMs).unref();
  }

  /**
   * Reads the lists again if the upstream does not announce changes of this one (default any) and they were not read in the last
   * 5 s, before something is reported as not found. Callers share one run. Undefined if there is nothing to wait for; never
   * rejects.
   */
  reread(list?: AnnouncedList): Promise<void> | undefined {
    if (this.upstream.health.kind !== 'up' || this.isStandby || !this.#isUnannounced(list)) return undefined;
    if (performance.now() - this.#readAt >= REREAD_MS) return this.#rediscover().catch(() => undefined);
    return this.#run?.catch(() => undefined);
  }

  /** Whether the upstream declares the list, or any, without announcing changes of it. */
  #isUnannounced(list?: AnnouncedList): boolean {
    if (list !== undefined) return this.#lists.has(list) && !this.#watcher.announces(list);
    return [...this.#lists].some((one) => !this.#watcher.announces(one));
  }

  #onPaced(distanceMs: number): void {
    this.#distanceMs = distanceMs;
    if (this.upstream.health.kind === 'up') this.#setUp();
  }

  allowsResource(uri: string): boolean {
    return this.#options.access.rules.allowsUri(this.forward.name, uri);
  }

  /** Marks an unreachable upstream as down: its entries stay, and it is retried soon. */
  onCallFailed(error: UpstreamError): void {
    if (this.isStandby) return;
    if (this.upstream.health.kind === 'up' && (error.kind === 'refused' || error.kind === 'dropped'))
      this.#markDown(error);
  }

  /** Discovers an upstream that is down, since it has responded. */
  onCallSucceeded(): void {
    if (!this.#closing.signal.aborted) this.#discoverInBackground();
  }

  /** Stops the controller; in-flight calls finish. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#timer);
    clearTimeout(this.#rereadTimer);
    this.#debouncer.close();
    this.#watcher.close();
    await Promise.all([this.#healthCheck.close(), this.upstream.close()]);
  }

  /** Stores with the forward when it may be probed. Without the store, this process knows it nevertheless. */
  #probeStore(): ProbeStore {
    const { registry } = this.#options;
    const { name, address, registrationId } = this.forward;
    let after = this.forward.modernProbeAfter;
    const stored = () => registry.current.forwards.get(name);
    return {
      get modernProbeAfter() {
        return stored()?.modernProbeAfter ?? after;
      },
      async setModernProbeAfter(time) {
        after = time;
        const store = (draft: Draft) => {
          const forward = draft.forwards.get(name);
          if (forward?.registrationId !== registrationId || forward.address !== address) return;
          draft.putForward({ ...forward, modernProbeAfter: time }, false);
        };
        const origin = { actor: 'discovery', reason: `probe forward ${name}` } as const;
        await registry.commit(store, origin).catch(() => undefined);
      },
      get isKnownModern() {
        return stored()?.catalogs.some(({ era }) => era === 'modern') ?? false;
      },
    };
  }

  #discoverInBackground(): void {
    this.discover().catch(() => {
      // Reported by `health` and the log.
    });
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
      this.#report({ kind: 'discovery_failed', duration: elapsedMs(startedAt), reason: bounded(messageOf(error)) });
      this.#markDown(error);
      throw error;
    } finally {
      discoveryMarks?.end(this.forward.name);
      // Synchronously: a caller after the last check of `#rerun` must not share this run.
      this.#run = undefined;
    }
  }

  async #discoverOnce(startedAt: number): Promise<void> {
    const { capabilityProfiles } = this.#options;
    this.#isProbing = this.#probeRequested || this.#eras.nextProbeInMs === 0;
    this.#probeRequested = false;
    const readsAll = this.#isProbing || this.#isStale || !this.#reader.hasReading;
    this.#isStale = false;
    if (!readsAll && (await this.#discoverMissing(startedAt))) return;
    let isUnchanged = true;
    this.#reads.beginRun();
    this.#debouncer.onReading();
    this.#readAt = performance.now();
    try {
      const { legacy, modern, inconclusive } = await (this.#isProbing ? this.#eras.probe() : this.#eras.open());
      this.#healthCheckEra = modern ? 'modern' : 'legacy';
      // Before the lists are read, so that no later change is missed.
      await this.#watcher.watch({ legacy, modern }, this.#isProbing);
      this.#lists = new Set([legacy, modern].flatMap((client) => (client ? listsOf(client) : [])));
      const opened: RpcClient[] = [];
      if (legacy) opened.push(legacy);
      if (modern) opened.push(modern);
      const reading = await this.#reader.readAll(opened, capabilityProfiles());
      // The registry has it, unless an operator has deleted entries: those return with a refresh.
      const isKnown = reading.isUnchanged && !this.#isProbing && inconclusive === this.#inconclusive;
      isUnchanged = reading.isUnchanged;
      this.#inconclusive = inconclusive;
      if (isKnown) this.#markUp();
      else await this.#apply(reading, startedAt);
    } finally {
      this.#reads.endRun();
      this.#debouncer.onRead(!isUnchanged);
    }
  }

  /** Reads the lists for new sets of capabilities. Returns false if they cannot be read: then all are read again. */
  async #discoverMissing(startedAt: number): Promise<boolean> {
    try {
      const reading = await this.#reader.readMissing(this.#options.capabilityProfiles());
      if (reading) await this.#apply(reading, startedAt);
      return true;
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      return false;
    }
  }

  /** Stores the catalogs of a discovery in one commit. */
  async #apply(reading: CatalogReading, startedAt: number): Promise<void> {
    const { registry } = this.#options;
    const { catalogs, isEquivalent } = reading;
    const hidden = this.#hidden;
    if (this.#closing.signal.aborted) {
      throw new UpstreamError('aborted', this.upstream.transport.address, 'is no longer registered');
    }
    // An inconclusive probe does not change the known catalogs of the era.
    const inconclusiveEras = new Set(this.#inconclusive.map(({ era }) => era));
    const { name, address, registrationId } = this.forward;
    const hasLostLease = () => this.isStandby;
    const store = function* (draft: Draft): Steps<AppliedCatalogs> {
      if (hasLostLease()) throw new UpstreamError('aborted', address, 'is discovered by another replica now');
      const forward = draft.forwards.get(name);
      // Meanwhile another forward may have been registered with the name, or its address may have changed.
      if (forward?.registrationId !== registrationId || forward.address !== address) return { known: [] };
      const known = yield* knownCatalogs(draft, forward, inconclusiveEras);
      if (!isEquivalent || known.length > 0) {
        return { known, hidden: yield* applyCatalogsInSteps(draft, forward, [...catalogs, ...known]) };
      }
      storeKnownCatalogs(draft, forward, catalogs, forward.orphanedOverrides ?? [], false);
      return { known, hidden };
    };
    const onVisible = (applied: AppliedCatalogs) => this.#onApplied(reading, applied, startedAt);
    await registry.commit(store, { actor: 'discovery', reason: `discover forward ${name}` }, onVisible);
  }

  #onApplied(reading: CatalogReading, applied: AppliedCatalogs, startedAt: number): void {
    const { registry } = this.#options;
    const { catalogs } = reading;
    const { name } = this.forward;
    this.#reader.accept(reading);
    this.#hidden = applied.hidden;
    const retainedEras = new Set(applied.known.map(({ era }) => era));
    const eras = [...new Set(catalogs.map(({ era }) => era))];
    this.upstream.setEras(new Set([...eras, ...retainedEras]));
    this.upstream.taskEras = taskErasOf(registry.current.forwards.get(name)?.catalogs ?? []);
    const notes = [
      ...new Set(catalogs.flatMap((catalog) => catalog.notes)),
      ...describeHidden(applied.hidden),
      ...this.#inconclusive.filter(({ era }) => retainedEras.has(era)).map(describeRetainedEra),
    ];
    const { tool: tools, resource: resources, prompt: prompts } = registry.current.counts(name);
    const found = { eras, tools, resources, prompts, ...(notes.length > 0 && { notes: bounded(notes.join('; ')) }) };
    this.#report({ kind: 'discovered', duration: elapsedMs(startedAt), ...found });
    this.#notes = notes;
    this.#markUp();
  }

  #report(change: Unstamped<ForwardChange>): void {
    if (this.#closing.signal.aborted) return;
    this.changed.emit({ ...change, timestamp: new Date().toISOString() });
  }

  #markUp(): void {
    if (this.upstream.health.kind !== 'up') {
      this.#options.log.info('forward available', { forward: this.forward.name });
      this.#report({ kind: 'available' });
    }
    this.#setUp();
    this.#backoff.reset();
    this.#scheduleNextCheck();
    // The watcher was paused by a call that failed during the run.
    if (this.#watcher.isPaused) this.onListsChanged();
  }

  #setUp(): void {
    const notes = this.#distanceMs === 0 ? this.#notes : [...this.#notes, describeDistance(this.#distanceMs)];
    const message = notes.length > 0 ? notes.join('; ') : undefined;
    this.upstream.health = { kind: 'up', message };
    this.#options.sharing?.publish(this.forward.name, { kind: 'up', message });
  }

  #markDown(error: unknown): void {
    if (this.#closing.signal.aborted) return;
    if (this.isStandby) return this.updateStandby();
    const reason = messageOf(error);
    const delay = this.#backoff.next();
    if (this.upstream.health.kind !== 'down') {
      this.#options.log.warn('forward unavailable', { forward: this.forward.name, reason });
      this.#report({ kind: 'unavailable', reason: bounded(reason) });
    }
    this.#watcher.pause();
    void this.#healthCheck.close();
    this.upstream.health = { kind: 'down', message: `${reason}; retrying in ${(delay / 1000).toFixed(1)} s` };
    this.#options.sharing?.publish(this.forward.name, { kind: 'down', message: bounded(reason) });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#discoverInBackground(), delay);
  }

  /** Schedules the next health check of an upstream that is up, or the probe of its eras if that is due sooner. */
  #scheduleNextCheck(): void {
    clearTimeout(this.#timer);
    if (this.#closing.signal.aborted) return;
    const { healthCheckIntervalMs } = this.#options;
    const probeInMs = this.#eras.nextProbeInMs;
    if (healthCheckIntervalMs > 0 && healthCheckIntervalMs < probeInMs) {
      this.#timer = setTimeout(() => void this.#checkHealth(), healthCheckIntervalMs);
    } else {
      this.#timer = setTimeout(() => this.#discoverInBackground(), probeInMs);
    }
  }

  async #checkHealth(): Promise<void> {
    try {
      await this.#healthCheck.run(this.#healthCheckEra);
      // A call may have marked it down meanwhile, which has scheduled a retry.
      if (this.upstream.health.kind !== 'up') return;
      if (!this.#isUnannounced()) return this.#scheduleNextCheck();
    } catch (error) {
      return this.#markDown(error);
    }
    // Reported by `health` and the log.
    await this.#rediscover().catch(() => undefined);
  }
}

/** Time between reads of the lists that lost sessions and unknown names cause. */
const REREAD_MS = 5_000;

/** A change before its time is set. */
type Unstamped<Change> = Change extends unknown ? Omit<Change, 'timestamp'> : never;

/** Longest text of a reported change, in characters: thousands of changes are stored. */
const MAX_TEXT = 500;

function bounded(text: string): string {
  return singleLine(text, MAX_TEXT - 1);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function elapsedMs(startedAt: number): number {
  return Math.round(performance.now() - startedAt);
}

/** Result of a discovery in the registry. */
interface AppliedCatalogs {
  /** Catalogs that were not discovered again. */
  readonly known: readonly DiscoveredCatalog[];
  /** Objects that the forward does not expose; undefined if it has changed meanwhile. */
  readonly hidden?: Counts;
}

/** Counts the objects that the forward does not expose: `not exposed: 3 tools, 1 prompt`. */
function describeHidden(hidden: Counts | undefined): string[] {
  const counts = KINDS.flatMap((kind) => {
    const count = hidden?.[kind] ?? 0;
    return count === 0 ? [] : [counted(count, kind)];
  });
  return counts.length === 0 ? [] : [`not exposed: ${counts.join(', ')}`];
}

function describeDistance(distanceMs: number): string {
  const seconds = Math.round(distanceMs / 1000);
  return `announces changes of its lists whenever they are read, so they are read every ${seconds} s at most`;
}

function describeRetainedEra({ era, error }: InconclusiveProbe): string {
  return `entries of the ${era} era are retained because probing it failed: ${error.message}`;
}
