import { isDeepStrictEqual } from 'node:util';
import type { ForwardChange, ForwardTest, ServerInfo } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { type ClientCapabilities, capabilityKey } from '@sluice/protocol/mcp/capabilities';
import type { Era } from '@sluice/protocol/mcp/constants';
import { withTimeout } from '@sluice/protocol/timing';
import type { Secrets } from '../../http/secrets/secrets.ts';
import type { Forward } from '../../registry/entries.ts';
import { OperationError } from '../../registry/operation-error.ts';
import { addForward, type ForwardInput, removeForwardInSteps } from '../../registry/operations-topology.ts';
import type { ChangeOrigin, Committed, LongMutation, Registry } from '../../registry/registry.ts';
import type { Snapshot } from '../../registry/snapshot.ts';
import type { DiscoveryMarks } from '../../registry/store/discovery-marks.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { CapabilityProfiles } from './capability-profiles.ts';
import type { CatalogLimits } from './catalog/catalog-size.ts';
import type { ClientDiscoveryLimits, DiscoveryCause } from './client-discoveries.ts';
import { DISCOVERY_WAIT_MS, FirstDiscoveries } from './first-discoveries.ts';
import { ForwardController } from './forward-controller.ts';
import { ForwardHistory } from './forward-history.ts';
import { type ForwardTestTarget, testForward } from './forward-test/forward-test.ts';
import type { RpcClientOptions } from './rpc-client.ts';
import { readServerInfo } from './server-info.ts';
import type { SharedUpstreamSessions } from './sessions/shared-sessions.ts';
import type { SharedDiscovery } from './shared-discovery.ts';
import type { AnnouncedList } from './streams/list-change-watcher.ts';
import { UnregisteredUpstreams } from './unregistered-upstreams.ts';
import { secretOrigins, type Upstream, type UpstreamHealth, type UpstreamHttp } from './upstream.ts';

/** State of a forward in the management API, in addition to its record (decisions 2.4). */
export interface ForwardStatus {
  readonly available: boolean;
  readonly statusMessage?: string;
  readonly serverInfo?: ServerInfo;
}

/** The change is stored, but not who discovers it: whichever replica takes over what nobody has. */
const FOLLOW = (): void => undefined;

export interface ForwardsOptions {
  readonly registry: Registry;
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

/** Time for which registration waits for discovery, which continues in the background (decisions 4.3). */
const ADD_TIMEOUT_MS = 30_000;
/** Time to close upstream sessions even with a shorter grace period. */
const MIN_CLOSE_MS = 1_000;
/** Idle time after which upstream sessions are closed, and interval of the checks. */
const IDLE_TIMEOUT_MS = 5 * 60_000;
const IDLE_CHECK_MS = 60_000;
/** Time for which the first legacy client waits for modern upstreams to be probed for its era. */
const LEGACY_WAIT_MS = 2_000;

/** The registered upstream MCP servers. Each has a controller of its own, independent of the others. */
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
  /** True once there was a legacy client. */
  #hasLegacyClients = false;
  #legacyDiscovery: Promise<void> | undefined = undefined;
  #closing: Promise<void> | undefined = undefined;
  readonly #idleTimer: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  #isStarted = false;

  constructor(options: ForwardsOptions) {
    this.#options = options;
    const { registry, discoveryWaitMs = DISCOVERY_WAIT_MS } = options;
    this.firstDiscoveries = new FirstDiscoveries(
      discoveryWaitMs,
      (name) => registry.current.forwards.get(name)?.namespace,
    );
    this.#unregistered = new UnregisteredUpstreams(options.clientInfo, () => this.#hasLegacyClients, options.http);
    this.#profiles = new CapabilityProfiles(() => this.#discoverProfiles(), options.clientDiscoveryLimits);
    if (options.sharing) this.#followReplicas(options.sharing);
    options.sharedSessions?.closed.subscribe(({ address, owner, sessionId }) => {
      for (const { transport, sessions } of this.upstreams()) {
        if (transport.address === address) sessions.drop(owner, sessionId);
      }
    });
    this.#idleTimer = setInterval(() => this.#closeIdle(), IDLE_CHECK_MS).unref();
    this.#unsubscribe = options.registry.committed.subscribe(({ origins }) => {
      if (origins.length === 0) this.#followRegistry();
    });
  }

  /** Creates the controllers of the stored forwards, before the first request that needs their upstreams. */
  open(): void {
    const { forwards } = this.#options.registry.current;
    this.onRemoved([...this.#controllers.keys()].filter((name) => !forwards.has(name)));
    for (const forward of forwards.values()) {
      for (const { capabilities } of forward.catalogs) this.#profiles.restore(capabilities);
      // A forward registered a moment ago is being discovered already, and a client waits for that.
      if (!this.#hasController(forward)) this.#startController(forward);
    }
  }

  /**
   * Starts the controllers of all forwards in the registry; discovery runs in the background. Forwards whose discovery was in
   * progress when the previous process died may be the cause: each is discovered alone, after all others (decisions 10.4).
   */
  start(): void {
    this.#isStarted = true;
    this.open();
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
      controller.holdUntil(previous);
      previous = controller.discover(true).catch(() => undefined);
    }
  }

  /**
   * Stores a forward, then waits up to 30 seconds for its discovery. A forward whose upstream fails or is slow stays
   * registered. Returns the forward as discovered, or as stored if it was removed meanwhile. Throws
   * {@link OperationError} if the name is taken or headers cannot be used.
   */
  async add(input: ForwardInput, origin: ChangeOrigin): Promise<Committed<Forward>> {
    requireUsableHeaders(this.#options.secrets, input);
    let discovery: Promise<unknown> | undefined;
    const { value, unconfirmed } = await this.#options.registry.commit(
      (draft) => addForward(draft, input),
      origin,
      (added) => {
        discovery = this.#discoverFirst(added);
      },
    );
    await discovery;
    return { value: this.#currentState(value), unconfirmed };
  }

  /**
   * Changes a forward. After a change of its address, its headers or what it exposes, waits up to 30 seconds for its
   * discovery; the last catalog, without what is hidden now, remains until that has succeeded (decisions 10.1). Returns the
   * forward as discovered. Rejects as `mutation` throws, and with {@link OperationError} if new headers cannot be used.
   */
  async change(name: string, mutation: LongMutation<Forward>, origin: ChangeOrigin): Promise<Committed<Forward>> {
    const { registry, secrets } = this.#options;
    let discovery: Promise<unknown> | undefined;
    const { value, unconfirmed } = await registry.commitInSteps(
      function* (draft) {
        const before = draft.forwards.get(name);
        const after = yield* mutation(draft);
        const isReached = before !== undefined && connectionOf(before) === connectionOf(after);
        if (!isReached) requireUsableHeaders(secrets, after);
        return { isReached, hasSameRules: isDeepStrictEqual(before?.expose, after.expose), after };
      },
      origin,
      ({ isReached, hasSameRules, after }) => {
        if (!isReached || !hasSameRules) discovery = this.#discoverFirst(after, isReached);
      },
    );
    await discovery;
    return { value: discovery ? this.#currentState(value.after) : value.after, unconfirmed };
  }

  /** Discovers a forward that was added or changed, for at most 30 s. `isReached`: whether its controller can be used. Never rejects. */
  async #discoverFirst(forward: Forward, isReached = false): Promise<void> {
    // The next start of the service discovers it.
    if (this.#closing) return;
    await this.#options.sharing?.take(forward.name).catch(FOLLOW);
    const controller = isReached ? this.#controllers.get(forward.name) : undefined;
    const discovery = controller ? controller.discover(true) : this.#startController(forward).discover();
    await withTimeout(
      ADD_TIMEOUT_MS,
      discovery.catch(() => undefined),
    );
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

  /** Removes a forward and its entries; in-flight calls finish. Throws {@link OperationError} for an unknown name. */
  remove(name: string, origin: ChangeOrigin): Promise<Committed<unknown>> {
    const { registry } = this.#options;
    return registry.commitInSteps(
      (draft) => removeForwardInSteps(draft, name),
      origin,
      () => this.onRemoved([name]),
    );
  }

  /** Stops the controllers of forwards that were removed, such as with their namespace. */
  onRemoved(names: readonly string[]): void {
    for (const name of names) {
      this.#stopController(name);
      this.#history.delete(name);
    }
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
    requireUsableHeaders(secrets, target);
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
    this.#unsubscribe();
    this.firstDiscoveries.close();
    const controllers = [...this.#controllers.values()];
    const upstreams = [...this.upstreams()];
    const closing = [...this.#unregistered].map((upstream) => upstream.close());
    const closed = Promise.allSettled([...closing, ...controllers.map((controller) => controller.close())]);
    await withTimeout(Math.max(graceMs, MIN_CLOSE_MS), closed);
    await Promise.all(upstreams.map((upstream) => upstream.destroy()));
    await this.#options.discoveryMarks?.close();
  }

  /** Follows what other replicas have decided or found. */
  #followReplicas(sharing: SharedDiscovery): void {
    sharing.leasesChanged.subscribe(() => {
      for (const controller of this.#controllers.values()) controller.follow();
    });
    sharing.stateChanged.subscribe((forward) => {
      const controller = this.#controllers.get(forward);
      controller?.follow();
      if (controller?.upstream.health.kind === 'down') this.#onDiscovered(forward, false);
    });
    sharing.capabilitiesDeclared.subscribe((capabilities) => {
      this.#profiles.restore(capabilities);
      for (const controller of this.#controllers.values()) {
        if (!controller.isFollower) void controller.onProfileAdded();
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
      controller.isFollower
        ? registryHas(registry, () => isDiscoveredWith(registry.current.forwards.get(controller.forward.name), keys))
        : controller.onProfileAdded(),
    );
    await Promise.all(discovering);
  }

  /** Starts and stops controllers after commits of other replicas. */
  #followRegistry(): void {
    if (!this.#isStarted || this.#closing) return;
    const { forwards } = this.#options.registry.current;
    this.onRemoved([...this.#controllers.keys()].filter((name) => !forwards.has(name)));
    for (const forward of forwards.values()) {
      if (this.#hasController(forward)) {
        this.#controllers.get(forward.name)?.follow();
        if (this.firstDiscoveries.unknown.has(forward.name) && forward.catalogs.length > 0) {
          this.#onDiscovered(forward.name, true);
        }
        continue;
      }
      // Failures are in its status and in the log.
      this.#startController(forward)
        .discover()
        .catch(() => undefined);
    }
  }

  /** Whether there is a controller for a forward as it is now. */
  #hasController(forward: Forward): boolean {
    const known = this.#controllers.get(forward.name)?.forward;
    return known?.registrationId === forward.registrationId && connectionOf(known) === connectionOf(forward);
  }

  /** Closes idle sessions, and removes unregistered upstreams that were not called for long. */
  #closeIdle(now: number = performance.now()): void {
    for (const { upstream } of this.#controllers.values()) upstream.sessions.closeIdle(IDLE_TIMEOUT_MS, now);
    this.#unregistered.closeIdle(IDLE_TIMEOUT_MS, now);
  }

  /** The forward as it is now, or as it was if it has been removed. */
  #currentState(forward: Forward): Forward {
    const now = this.#options.registry.current.forwards.get(forward.name);
    return now?.registrationId === forward.registrationId ? now : forward;
  }

  #startController(forward: Forward): ForwardController {
    this.#stopController(forward.name);
    const controller = new ForwardController(forward, {
      ...this.#options,
      capabilityProfiles: () => this.#profiles.capabilities(),
      hasLegacyClients: () => this.#hasLegacyClients,
    });
    controller.changed.subscribe((change) => {
      const { kind } = change;
      this.#history.record(forward.name, change);
      this.changed.emit({ forward: forward.name, change });
      if (kind === 'discovered' || kind === 'discovery_failed') this.#onDiscovered(forward.name, kind === 'discovered');
    });
    this.#controllers.set(forward.name, controller);
    if (forward.catalogs.length === 0) {
      const isDown = controller.isFollower && this.#options.sharing?.state(forward.name).kind === 'down';
      this.firstDiscoveries.add(forward.name, !isDown);
    }
    if (!this.#byAddress.has(forward.address)) this.#byAddress.set(forward.address, controller);
    return controller;
  }

  #onDiscovered(name: string, isSuccess: boolean): void {
    if (this.firstDiscoveries.unknown.has(name)) this.firstDiscoveries.end(name, isSuccess);
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

/** Resolves when the condition is true; callers stop waiting by themselves. */
function registryHas(registry: Registry, condition: () => boolean): Promise<void> {
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
    const timer = setTimeout(done, ADD_TIMEOUT_MS).unref();
  });
}

/** Text of what requests to a forward depend on, for comparison. */
function connectionOf({ address, headers = {}, proxy, compression }: Forward): string {
  return JSON.stringify([address, Object.entries(headers).sort(), proxy, compression]);
}

/** Rejects headers whose secrets must not be sent to the address, or to the proxy; OperationError BAD_REQUEST. */
export function requireUsableHeaders(secrets: Secrets, forward: Pick<Forward, 'address' | 'headers' | 'proxy'>): void {
  const origins = secretOrigins(forward);
  for (const [name, value] of Object.entries(forward.headers ?? {})) {
    const problem = origins.map((origin) => secrets.problem(value, origin)).find((found) => found !== undefined);
    if (problem !== undefined) throw new OperationError('BAD_REQUEST', `invalid forward: headers.${name} ${problem}`);
  }
}

function statusMessage(health: UpstreamHealth): string | undefined {
  return health.kind === 'pending' ? 'discovery pending' : health.message;
}
