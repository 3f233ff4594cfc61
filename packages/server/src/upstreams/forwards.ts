import type { ForwardChange, ForwardTest, ServerInfo } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { withTimeout } from '@sluice/protocol/timing';
import { changedKeys } from '../registry/changes.ts';
import type { Forward } from '../registry/entries.ts';
import { OperationError } from '../registry/operation-error.ts';
import type { RegistryCommit } from '../registry/registry.ts';
import type { UpstreamConnection } from './connection.ts';
import { DISCOVERY_WAIT_MS, FirstDiscoveries } from './first-discoveries.ts';
import { ForwardController, type ForwardControllerOptions } from './forward-controller.ts';
import type { ForwardValidator } from './forward-validator.ts';
import type { ForwardKinds } from './kinds.ts';
import { Upstreams } from './mcp/upstreams.ts';
import { ProfileDiscovery, type ProfileDiscoveryOptions } from './profile-discovery.ts';
import { readServerInfo } from './server-info.ts';
import type { SharedDiscovery } from './shared-discovery.ts';
import type { ForwardTarget, UpstreamDeps } from './upstream-kind.ts';

/** State of a forward in the management API, in addition to its record. */
export interface ForwardStatus {
  readonly available: boolean;
  readonly statusMessage?: string;
  readonly serverInfo?: ServerInfo;
}

export interface ForwardsOptions
  extends Omit<UpstreamDeps, 'hasLegacyClients'>,
    Omit<ForwardControllerOptions, 'capabilityProfiles'>,
    ProfileDiscoveryOptions {
  readonly kinds: ForwardKinds;
  readonly validator: ForwardValidator;
  /** Default: `DISCOVERY_WAIT_MS`. */
  readonly discoveryWaitMs?: number;
}

/** A forward and what has changed. */
export interface ChangedForward {
  readonly forward: string;
  readonly change: ForwardChange;
}

/** Time for which a request waits for a discovery, which continues in the background. */
const SETTLE_TIMEOUT_MS = 30_000;
/** Time to close connections even with a shorter grace period. */
const MIN_CLOSE_MS = 1_000;
/**
 * The registered forwards. Each has a controller of its own, independent of the others, which starts, changes and stops with the
 * forward in the registry, from any source.
 */
export class Forwards {
  /** The availability of a forward has changed, or a discovery has ended. */
  readonly changed = new Emitter<ChangedForward>();
  /** Forwards that requests wait for. */
  readonly firstDiscoveries: FirstDiscoveries;
  /** Those with MCP sessions. */
  readonly upstreams: Upstreams;
  /** Discovers them for clients. */
  readonly profiles: ProfileDiscovery;
  readonly #options: ForwardsOptions;
  readonly #kinds: ForwardKinds;
  readonly #deps: UpstreamDeps;
  readonly #controllers = new Map<string, ForwardController>();
  /** The discoveries that commits have started, by forward. */
  readonly #settling = new Map<string, Promise<void>>();
  #closing: Promise<void> | undefined = undefined;
  #unsubscribe: (() => void) | undefined = undefined;

  constructor(options: ForwardsOptions) {
    this.#options = options;
    const { registry, discoveryWaitMs = DISCOVERY_WAIT_MS } = options;
    this.#kinds = options.kinds;
    this.profiles = new ProfileDiscovery(options, () => this.#controllers.values());
    this.#deps = { ...options, hasLegacyClients: () => this.profiles.hasLegacyClients };
    this.upstreams = new Upstreams(this.#deps);
    this.firstDiscoveries = new FirstDiscoveries(
      discoveryWaitMs,
      (name) => registry.current.forwards.get(name)?.namespace,
    );
    if (options.sharing) this.#watchReplicas(options.sharing);
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
      for (const { capabilities } of forward.catalogs) this.profiles.sets.restore(capabilities);
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

  status(name: string): ForwardStatus {
    const health = this.#controllers.get(name)?.availability.health ?? { kind: 'pending' };
    const message = health.kind === 'pending' ? 'discovery pending' : health.message;
    const serverInfo = readServerInfo(this.#options.registry.current.forwards.get(name)?.catalogs ?? []);
    return {
      available: health.kind === 'up',
      ...(message !== undefined && { statusMessage: message }),
      ...(serverInfo && { serverInfo }),
    };
  }

  /**
   * Tests a forward step by step, without executing anything. Throws {@link OperationError} for one that cannot be used or tested.
   */
  test(target: ForwardTarget): Promise<ForwardTest> {
    this.#options.validator.requireUsable(target);
    const test = this.#kinds.of(target).test?.(target, this.#deps);
    if (!test) throw new OperationError('BAD_REQUEST', 'forwards with an address of this scheme have no test');
    return test;
  }

  /** What executes requests to a forward whose upstream is no MCP server; undefined for all others. */
  connection(forward: string): UpstreamConnection | undefined {
    return this.#controllers.get(forward)?.connection.calls;
  }

  /** Closes all sessions; in-flight calls have `graceMs` to finish and are aborted then. */
  close(graceMs = 0): Promise<void> {
    this.#closing ??= this.#close(graceMs);
    return this.#closing;
  }

  async #close(graceMs: number): Promise<void> {
    this.#unsubscribe?.();
    this.firstDiscoveries.close();
    const ms = Math.max(graceMs, MIN_CLOSE_MS);
    const closing = [...this.#controllers.values()].map((controller) => controller.close(ms));
    await Promise.all([...closing, this.upstreams.close(ms)]);
    await this.#options.discoveryMarks?.close();
  }

  /** Subscribes to what other replicas have decided or found. */
  #watchReplicas(sharing: SharedDiscovery): void {
    sharing.leases.changed.subscribe(({ id: forward }) => this.#controllers.get(forward)?.updateStandby());
    sharing.claimed.subscribe(() => {
      for (const controller of this.#controllers.values()) controller.updateStandby();
    });
    sharing.states.changed.subscribe(({ id: forward, isForeign }) => {
      if (!isForeign) return;
      const controller = this.#controllers.get(forward);
      controller?.updateStandby();
      if (controller?.availability.health.kind === 'down') this.firstDiscoveries.end(forward, false);
    });
  }

  #onCommitted({ before, after, origins }: RegistryCommit): void {
    // Commits of other replicas have no origins.
    const isLocal = origins.length > 0;
    for (const name of changedKeys(before.forwards, after.forwards)) {
      const forward = after.forwards.get(name);
      const isNew = this.#reconcile(name, isLocal);
      if (!forward || !this.#kinds.needsDiscovery(before.forwards.get(name), forward)) continue;
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
    if (isRegistered && this.#kinds.connectionKey(controller.forward) === this.#kinds.connectionKey(forward)) {
      controller.updateStandby();
      if (controller.isStandby && forward.catalogs.length > 0) this.firstDiscoveries.end(name, true);
      return false;
    }
    this.#stopController(name);
    if (forward) this.#startController(forward, isLocal);
    return forward !== undefined;
  }

  /** Discovers a forward after a commit, or leaves that to the replica that has made the commit. Never rejects. */
  async #discover({ name, registrationId }: Forward, isNew: boolean, isLocal: boolean): Promise<void> {
    // Another commit may have removed it.
    const isRegistered = this.#controllers.get(name)?.forward.registrationId === registrationId;
    // Without the lease, whichever replica takes over what nobody has discovers it.
    if (isLocal && isRegistered) await this.#options.sharing?.take(name).catch(() => undefined);
    if (this.#closing) return;
    // Another commit may have replaced the controller meanwhile. Failures are in its status and in the log.
    await this.#controllers
      .get(name)
      ?.discover(!isNew)
      .catch(() => undefined);
  }

  /** `isLocal`: whether this replica has committed the forward, and is about to discover it. */
  #startController(forward: Forward, isLocal = false): void {
    const connection = this.#kinds.of(forward).open(forward, this.#deps);
    const controller = new ForwardController(forward, connection, {
      ...this.#options,
      capabilityProfiles: () => this.profiles.sets.capabilities(),
    });
    controller.availability.changed.subscribe((change) => {
      const { kind } = change;
      this.changed.emit({ forward: forward.name, change });
      if (kind === 'discovered') this.firstDiscoveries.end(forward.name, true);
      else if (kind === 'discovery_failed') this.firstDiscoveries.end(forward.name, false);
    });
    this.#controllers.set(forward.name, controller);
    if (forward.catalogs.length === 0) {
      const isDown = controller.isStandby && this.#options.sharing?.states.of(forward.name).kind === 'down';
      this.firstDiscoveries.add(forward.name, isLocal || !isDown);
    }
    if (connection.mcpUpstream) this.upstreams.add(forward.name, forward.address, connection.mcpUpstream);
  }

  #stopController(name: string): void {
    this.firstDiscoveries.end(name, true);
    const controller = this.#controllers.get(name);
    if (!controller) return;
    this.#controllers.delete(name);
    this.upstreams.remove(name);
    controller.close().catch(() => undefined);
  }
}
