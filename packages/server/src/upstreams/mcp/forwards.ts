import type { ForwardChange, ForwardTest, ServerInfo } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { type ClientCapabilities, capabilityKey } from '@sluice/protocol/mcp/capabilities';
import type { Era } from '@sluice/protocol/mcp/constants';
import { withTimeout } from '@sluice/protocol/timing';
import type { Access } from '../../access/access.ts';
import type { Secrets } from '../../http/secrets/secrets.ts';
import { changedKeys } from '../../registry/changes.ts';
import type { Forward } from '../../registry/entries.ts';
import { OperationError } from '../../registry/operation-error.ts';
import type { Registry, RegistryCommit } from '../../registry/registry.ts';
import type { Snapshot } from '../../registry/snapshot.ts';
import type { DiscoveryMarks } from '../../registry/store/discovery-marks.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { CapabilityProfiles } from './capability-profiles.ts';
import type { CatalogLimits } from './catalog/catalog-size.ts';
import type { ClientDiscoveryLimits, DiscoveryCause } from './client-discoveries.ts';
import { DISCOVERY_WAIT_MS, FirstDiscoveries } from './first-discoveries.ts';
import { ForwardController } from './forward-controller.ts';
import { ForwardHistory } from './forward-history.ts';
import { connectionOf, type ForwardTarget, needsDiscovery, rejectUnusableHeaders } from './forward-target.ts';
import { type ForwardTestTarget, testForward } from './forward-test/forward-test.ts';
import type { RpcClientOptions } from './rpc-client.ts';
import { readServerInfo } from './server-info.ts';
import type { SharedUpstreamSessions } from './sessions/shared-sessions.ts';
import type { SharedDiscovery } from './shared-discovery.ts';
import type { AnnouncedList } from './streams/list-change-watcher.ts';
import { UnregisteredUpstreams } from './unregistered-upstreams.ts';
import type { Upstream, UpstreamHealth, UpstreamHttp } from './upstream.ts';

/** State of a forward in the management API, in addition to its record. */
export interface ForwardStatus {
  readonly available: boolean;
  readonly statusMessage?: string;
  readonly serverInfo?: ServerInfo;
}

export interface ForwardsOptions {
  readonly registry: Registry;
  readonly access: Pick<Access, 'rules'>;
  readonly log: TargetLogger;
  readonly secrets: Secrets;
  /** Identity of the gateway towards upstreams. */
  readonly clientInfo: RpcClientOptions['clientInfo'];
  readonly healthCheckIntervalMs: number;
  /** Default: `CATALOG_LIMITS`. */
  readonly catalogLimits?: CatalogLimits;
  /** Undefined for a single replica. */
  readonly sharing?: SharedDiscovery | undefined;
  /** Sessions at upstreams that replicas share; undefined for a single one. */
  readonly sharedSessions?: SharedUpstreamSessions | undefined;
  /** Undefined without persistence. */
  readonly discoveryMarks?: DiscoveryMarks | undefined;
  /** Default: `CLIENT_DISCOVERY_LIMITS`. */
  readonly clientDiscoveryLimits?: ClientDiscoveryLimits;
  /** Default: `DISCOVERY_WAIT_MS`. */
  readonly discoveryWaitMs?: number;
  /** Transport of requests to upstreams. */
  readonly http?: UpstreamHttp;
}

/** A forward and what has changed. */
export interface ChangedForward {
  readonly forward: string;
  readonly change: ForwardChange;
}

/** Era and capabilities of a client. */
export interface DeclaredCapabilities {
  readonly era: Era;
  readonly capabilities: ClientCapabilities;
  /** Canonical form of the capabilities. */
  readonly capabilityKey: string;
}

/** Time for which a request waits for a discovery, which continues in the background. */
const SETTLE_TIMEOUT_MS = 30_000;
/** Time to close upstream sessions even with a shorter grace period. */
const MIN_CLOSE_MS = 1_000;
/** Idle time after which upstream sessions are closed, and interval of the checks. */
const IDLE_TIMEOUT_MS = 5 * 60_000;
const IDLE_CHECK_MS = 60_000;
/** Time for which the first legacy client waits for modern upstreams to be probed for its era. */
const LEGACY_WAIT_MS = 2_000;

/**
 * The registered upstream MCP servers. Each has a controller of its own, independent of the others, which starts, changes and
 * stops with the forward in the registry, whoever changes that.
 */
export class Forwards {
  /** The availability of a forward has changed, or a discovery has ended. */
  readonly changed = new Emitter<ChangedForward>();
  /** Forwards that requests wait for. */
  readonly firstDiscoveries: FirstDiscoveries;
  readonly #options: ForwardsOptions;
  readonly #controllers = new Map<string, ForwardController>();
  /** Of several forwards with one address, the first. */
  readonly #byAddress = new Map<string, ForwardController>();
  readonly #unregistered: UnregisteredUpstreams;
  readonly #profiles: CapabilityProfiles;
  readonly #history = new ForwardHistory();
  /** The discoveries that commits have started, by forward. */
  readonly #settling = new Map<string, Promise<void>>();
  /** True once there was a legacy client. */
  #hasLegacyClients = false;
  #legacyDiscovery: Promise<void> | undefined = undefined;
  #closing: Promise<void> | undefined = undefined;
  readonly #idleTimer: NodeJS.Timeout;
  #unsubscribe: (() => void) | undefined = undefined;

  constructor(options: ForwardsOptions) {
    this.#options = options;
    const { registry, discoveryWaitMs = DISCOVERY_WAIT_MS } = options;
    this.firstDiscoveries = new FirstDiscoveries(
      discoveryWaitMs,
      (name) => registry.current.forwards.get(name)?.namespace,
    );
    this.#unregistered = new UnregisteredUpstreams(options.clientInfo, () => this.#hasLegacyClients, options.http);
    this.#profiles = new CapabilityProfiles(() => this.#discoverProfiles(), options.clientDiscoveryLimits);
    if (options.sharing) this.#watchReplicas(options.sharing);
    options.sharedSessions?.closed.subscribe(({ address, owner, sessionId }) => {
      for (const { transport, sessions } of this.upstreams()) {
        if (transport.address === address) sessions.drop(owner, sessionId);
      }
    });
    this.#idleTimer = setInterval(() => this.#closeIdle(), IDLE_CHECK_MS).unref();
  }

  /**
   * Creates the controllers of the stored forwards, before the first request that needs their upstreams. From then on they change
   * with the registry.
   */
  open(): void {
    const { committed, current } = this.#options.registry;
    // Parts that have subscribed before can still reach the upstreams of what a commit removes.
    this.#unsubscribe = committed.subscribe((commit) => this.#onCommitted(commit));
    for (const forward of current.forwards.values()) {
      for (const { capabilities } of forward.catalogs) this.#profiles.restore(capabilities);
      this.#startController(forward);
    }
  }

  /**
   * Discovers the stored forwards in the background. Those whose discovery was in progress when the previous process died may be
   * the cause: each is discovered alone, after all others.
   */
  start(): void {
    const { discoveryMarks, log } = this.#options;
    const interrupted = new Set(discoveryMarks?.interrupted);
    const others = [...this.#controllers.values()].filter(({ forward }) => !interrupted.has(forward.name));
    for (const { forward } of others) this.firstDiscoveries.begin(forward.name);
    let previous: Promise<unknown> = Promise.allSettled(others.map((controller) => controller.discover(true)));
    for (const name of interrupted) {
      const controller = this.#controllers.get(name);
      if (!controller) {
        discoveryMarks?.end(name);
        continue;
      }
      log.warn('discovery was interrupted by the end of the previous process; it is repeated after all others', {
        forward: name,
      });
      // It may never end.
      this.firstDiscoveries.end(name, controller.forward.catalogs.length > 0);
      controller.startAfter(previous);
      previous = controller.discover(true).catch(() => undefined);
    }
  }

  /**
   * Resolves when the discoveries that commits have started for this forward have ended or failed, or have taken 30 s. It includes
   * those of a commit whose promise has resolved. Never rejects.
   */
  async settled(name: string): Promise<void> {
    await this.#settling.get(name);
  }

  /**
   * Throws {@link OperationError} if headers of a forward cannot be used. Those of a registered one may have become unusable: with
   * its state `before` a change, only what the change sends elsewhere is rejected.
   */
  requireUsableHeaders(forward: ForwardTarget, before?: Forward): void {
    if (before && connectionOf(before) === connectionOf(forward)) return;
    rejectUnusableHeaders(this.#options.secrets, forward);
  }

  /**
   * Discovers a forward again. Throws {@link OperationError} for an unknown name and for a forward removed meanwhile,
   * `UpstreamError` if discovery fails; the last good catalog stays.
   */
  async refresh(name: string): Promise<void> {
    const controller = this.#controllers.get(name);
    if (controller) await this.#options.sharing?.take(name);
    const [discovery] = await Promise.allSettled([controller?.discover()]);
    if (!controller || this.#controllers.get(name) !== controller) {
      throw new OperationError('NOT_FOUND', `forward not found: ${name}`);
    }
    if (discovery.status === 'rejected') throw discovery.reason;
  }

  /** Changes of a forward's availability and its discoveries since the start of the process, newest first. */
  history(name: string): ForwardChange[] {
    return this.#history.of(name);
  }

  /** State of a forward. */
  status(name: string): ForwardStatus {
    const health = this.#controllers.get(name)?.upstream.health ?? { kind: 'pending' };
    const message = statusMessage(health);
    const serverInfo = readServerInfo(this.#options.registry.current.forwards.get(name)?.catalogs ?? []);
    return {
      available: health.kind === 'up',
      ...(message !== undefined && { statusMessage: message }),
      ...(serverInfo && { serverInfo }),
    };
  }

  /**
   * Tests the connection to an upstream step by step, without executing anything. Throws {@link OperationError} for headers that
   * cannot be used.
   */
  async test(target: ForwardTestTarget): Promise<ForwardTest> {
    const { registry, secrets, log, clientInfo, http, catalogLimits } = this.#options;
    this.requireUsableHeaders(target);
    const { turns } = registry;
    return testForward(target, { secrets, log, clientInfo, http, turns, limits: catalogLimits });
  }

  /** Upstream of a forward. */
  upstream(forward: string): Upstream | undefined {
    return this.#controllers.get(forward)?.upstream;
  }

  /** Upstream at the address of a manually registered tool: that of a forward with the address, if there is one. */
  upstreamAt(address: string): Upstream {
    return this.#byAddress.get(address)?.upstream ?? this.#unregistered.get(address);
  }

  /**
   * Makes sure that the eras of the upstream at the address of a manually registered tool are known. Undefined if they
   * are, which is nearly always, and for a forward's, which discovery probes; else a promise that never rejects.
   */
  ensureEraKnown(address: string): Promise<void> | undefined {
    return this.#byAddress.has(address) ? undefined : this.#unregistered.ensureEraKnown(address);
  }

  /**
   * Makes sure that the forwards are discovered with a client's capabilities. Undefined if they are, which is nearly
   * always, or if a limit is reached; else a promise of the registry's state after that discovery, or after the time that a
   * client waits for it.
   */
  ensureDiscoveredFor(profile: DeclaredCapabilities, cause: DiscoveryCause): Promise<Snapshot> | undefined {
    const discovery =
      this.#profiles.ensureDiscovered(profile.capabilityKey, profile.capabilities, cause) ??
      (profile.era === 'legacy' ? this.#legacyDiscovery : undefined);
    return discovery?.then(() => this.#options.registry.current);
  }

  /**
   * Reads the lists of forwards of a namespace again that do not announce changes of this one, or of any: something that the
   * namespace lacks may be new. Undefined if there are none; else a promise that never rejects.
   */
  reread(namespace: string, list: AnnouncedList | undefined): Promise<unknown> | undefined {
    const { forwards } = this.#options.registry.current;
    const rereads: Promise<void>[] = [];
    for (const [name, controller] of this.#controllers) {
      if (forwards.get(name)?.namespace !== namespace) continue;
      const reread = controller.reread(list);
      if (reread) rereads.push(reread);
    }
    return rereads.length === 0 ? undefined : Promise.all(rereads);
  }

  /**
   * Called for every legacy client; the first one causes modern upstreams to be probed for the legacy era too, which
   * they are spared until then.
   */
  onLegacyClient(): void {
    if (this.#hasLegacyClients) return;
    this.#options.sharing?.declareLegacyClients();
    this.#probeLegacy();
  }

  #probeLegacy(): void {
    this.#hasLegacyClients = true;
    const probes = [...this.#controllers.values()].map((controller) => controller.onLegacyClient());
    this.#legacyDiscovery = withTimeout(LEGACY_WAIT_MS, Promise.all(probes)).then(() => {
      this.#legacyDiscovery = undefined;
    });
  }

  /** Closes the upstream sessions of a client session. */
  closeSession(session: string): void {
    for (const { sessions } of this.upstreams()) sessions.close(session).catch(() => undefined);
  }

  /** All upstreams: those of the forwards, and those of manually registered tools. */
  *upstreams(): Generator<Upstream> {
    for (const { upstream } of this.#controllers.values()) yield upstream;
    yield* this.#unregistered;
  }

  /** Closes all sessions; in-flight calls have `graceMs` to finish and are aborted then. */
  close(graceMs = 0): Promise<void> {
    this.#closing ??= this.#close(graceMs);
    return this.#closing;
  }

  async #close(graceMs: number): Promise<void> {
    clearInterval(this.#idleTimer);
    this.#unsubscribe?.();
    this.firstDiscoveries.close();
    const controllers = [...this.#controllers.values()];
    const upstreams = [...this.upstreams()];
    const closing = [...this.#unregistered].map((upstream) => upstream.close());
    const closed = Promise.allSettled([...closing, ...controllers.map((controller) => controller.close())]);
    await withTimeout(Math.max(graceMs, MIN_CLOSE_MS), closed);
    await Promise.all(upstreams.map((upstream) => upstream.destroy()));
    await this.#options.discoveryMarks?.close();
  }

  /** Subscribes to what other replicas have decided or found. */
  #watchReplicas(sharing: SharedDiscovery): void {
    sharing.leasesChanged.subscribe(() => {
      for (const controller of this.#controllers.values()) controller.updateStandby();
    });
    sharing.stateChanged.subscribe((forward) => {
      const controller = this.#controllers.get(forward);
      controller?.updateStandby();
      if (controller?.upstream.health.kind === 'down') this.firstDiscoveries.end(forward, false);
    });
    sharing.capabilitiesDeclared.subscribe((capabilities) => {
      this.#profiles.restore(capabilities);
      for (const controller of this.#controllers.values()) {
        if (!controller.isStandby) void controller.onProfileAdded();
      }
    });
    sharing.legacyClientsDeclared.subscribe(() => {
      if (!this.#hasLegacyClients) this.#probeLegacy();
    });
  }

  /** Discovers the forwards with all sets of capabilities, or waits for the replicas that do. */
  async #discoverProfiles(): Promise<void> {
    const { sharing, registry } = this.#options;
    const all = [...this.#profiles.capabilities()];
    if (sharing) for (const capabilities of all) sharing.declare(capabilities);
    const keys = all.map(capabilityKey);
    const discovering = [...this.#controllers.values()].map((controller) =>
      controller.isStandby
        ? waitForRegistry(registry, () =>
            isDiscoveredWith(registry.current.forwards.get(controller.forward.name), keys),
          )
        : controller.onProfileAdded(),
    );
    await Promise.all(discovering);
  }

  #onCommitted({ before, after, origins }: RegistryCommit): void {
    // Commits of other replicas have no origins.
    const isLocal = origins.length > 0;
    for (const name of changedKeys(before.forwards, after.forwards)) {
      const forward = after.forwards.get(name);
      const isNew = this.#reconcile(name, isLocal);
      if (!forward || !needsDiscovery(before.forwards.get(name), forward)) continue;
      const discoveries = Promise.all([this.#settling.get(name), this.#discover(forward, isNew, isLocal)]);
      const settling = withTimeout(SETTLE_TIMEOUT_MS, discoveries).then(() => {
        if (this.#settling.get(name) === settling) this.#settling.delete(name);
      });
      this.#settling.set(name, settling);
    }
  }

  /**
   * Stops, starts or replaces the controller of a forward at once, according to the latest commit, so that nothing is sent to where
   * the forward was. Returns whether it has started one.
   */
  #reconcile(name: string, isLocal: boolean): boolean {
    const forward = this.#options.registry.current.forwards.get(name);
    const controller = this.#controllers.get(name);
    const isRegistered = forward !== undefined && controller?.forward.registrationId === forward.registrationId;
    if (isRegistered && connectionOf(controller.forward) === connectionOf(forward)) {
      controller.updateStandby();
      if (controller.isStandby && forward.catalogs.length > 0) this.firstDiscoveries.end(name, true);
      return false;
    }
    this.#stopController(name);
    if (!isRegistered) this.#history.delete(name);
    if (forward) this.#startController(forward, isLocal);
    return forward !== undefined;
  }

  /** Discovers a forward after a commit, or leaves that to the replica that has made the commit. Never rejects. */
  async #discover({ name, registrationId }: Forward, isNew: boolean, isLocal: boolean): Promise<void> {
    // Another commit may have removed it.
    const isRegistered = this.#controllers.get(name)?.forward.registrationId === registrationId;
    if (isLocal && isRegistered) await this.#options.sharing?.take(name).catch(ignoreLeaseFailure);
    if (this.#closing) return;
    // Another commit may have replaced the controller meanwhile. Failures are in its status and in the log.
    await this.#controllers
      .get(name)
      ?.discover(!isNew)
      .catch(() => undefined);
  }

  /** Closes idle sessions, and removes unregistered upstreams that were not called for long. */
  #closeIdle(now: number = performance.now()): void {
    for (const { upstream } of this.#controllers.values()) upstream.sessions.closeIdle(IDLE_TIMEOUT_MS, now);
    this.#unregistered.closeIdle(IDLE_TIMEOUT_MS, now);
  }

  /** `isLocal`: whether this replica has committed the forward, and is about to discover it. */
  #startController(forward: Forward, isLocal = false): void {
    const controller = new ForwardController(forward, {
      ...this.#options,
      capabilityProfiles: () => this.#profiles.capabilities(),
      hasLegacyClients: () => this.#hasLegacyClients,
    });
    controller.changed.subscribe((change) => {
      const { kind } = change;
      this.#history.record(forward.name, change);
      this.changed.emit({ forward: forward.name, change });
      if (kind === 'discovered') this.firstDiscoveries.end(forward.name, true);
      else if (kind === 'discovery_failed') this.firstDiscoveries.end(forward.name, false);
    });
    this.#controllers.set(forward.name, controller);
    if (forward.catalogs.length === 0) {
      const isDown = controller.isStandby && this.#options.sharing?.state(forward.name).kind === 'down';
      this.firstDiscoveries.add(forward.name, isLocal || !isDown);
    }
    if (!this.#byAddress.has(forward.address)) this.#byAddress.set(forward.address, controller);
  }

  #stopController(name: string): void {
    this.firstDiscoveries.remove(name);
    const controller = this.#controllers.get(name);
    if (!controller) return;
    this.#controllers.delete(name);
    this.#releaseAddress(controller);
    controller.close().catch(() => undefined);
  }

  /** Assigns the address to another forward, if there is one. */
  #releaseAddress({ forward: { address }, upstream }: ForwardController): void {
    if (this.#byAddress.get(address)?.upstream !== upstream) return;
    this.#byAddress.delete(address);
    const next = [...this.#controllers.values()].find(({ forward }) => forward.address === address);
    if (next) this.#byAddress.set(address, next);
  }
}

/** Whether there is a catalog for each of these sets of capabilities, or none at all. */
function isDiscoveredWith(forward: Forward | undefined, keys: readonly string[]): boolean {
  if (!forward || forward.catalogs.length === 0) return true;
  const known = new Set(forward.catalogs.map(({ capabilities }) => capabilityKey(capabilities)));
  return keys.every((key) => known.has(key));
}

/** Resolves when a commit has made the condition true, or after 30 s. */
function waitForRegistry(registry: Registry, condition: () => boolean): Promise<void> {
  if (condition()) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      stop();
      resolve();
    };
    const stop = registry.committed.subscribe(() => {
      if (condition()) done();
    });
    const timer = setTimeout(done, SETTLE_TIMEOUT_MS).unref();
  });
}

/** The change is stored, but not who discovers it: whichever replica takes over what nobody has. */
function ignoreLeaseFailure(): void {}

function statusMessage(health: UpstreamHealth): string | undefined {
  return health.kind === 'pending' ? 'discovery pending' : health.message;
}
