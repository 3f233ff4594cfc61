import { type ClientCapabilities, capabilityKey } from '@sluice/protocol/mcp/capabilities';
import type { Era } from '@sluice/protocol/mcp/constants';
import { withTimeout } from '@sluice/protocol/timing';
import type { Forward } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import { CapabilityProfiles } from './capability-profiles.ts';
import type { ClientDiscoveryLimits, DiscoveryCause } from './client-discoveries.ts';
import type { AnnouncedList } from './forward-connection.ts';
import type { ForwardController } from './forward-controller.ts';
import type { SharedDiscovery } from './shared-discovery.ts';

/** Options of {@link ProfileDiscovery}. */
export interface ProfileDiscoveryOptions {
  readonly registry: Registry;
  /** Undefined for a single replica. */
  readonly sharing?: SharedDiscovery | undefined;
  /** Default: `CLIENT_DISCOVERY_LIMITS`. */
  readonly clientDiscoveryLimits?: ClientDiscoveryLimits | undefined;
}

/** Era and capabilities of a client. */
export interface DeclaredCapabilities {
  readonly era: Era;
  readonly capabilities: ClientCapabilities;
  /** Canonical form of the capabilities. */
  readonly capabilityKey: string;
}

/** Time for which the discovery of another replica is awaited. */
const REPLICA_WAIT_MS = 30_000;
/** Time for which the first legacy client waits for modern upstreams to be probed for its era. */
const LEGACY_WAIT_MS = 2_000;

/**
 * Discovers the forwards for clients: with the capabilities that these declare, in the legacy era once there are legacy clients,
 * and again where a request may miss something new.
 */
export class ProfileDiscovery {
  readonly #options: ProfileDiscoveryOptions;
  readonly #controllers: () => Iterable<ForwardController>;
  /** The sets of capabilities to discover with. */
  readonly sets: CapabilityProfiles;
  /** True once there was a legacy client. */
  hasLegacyClients = false;
  #legacyDiscovery: Promise<void> | undefined = undefined;

  constructor(options: ProfileDiscoveryOptions, controllers: () => Iterable<ForwardController>) {
    const { sharing, clientDiscoveryLimits } = options;
    this.#options = options;
    this.#controllers = controllers;
    this.sets = new CapabilityProfiles(() => this.#discover(), clientDiscoveryLimits);
    sharing?.capabilities.watch((capabilities) => {
      if (capabilities) {
        this.sets.restore(capabilities);
        for (const controller of controllers()) if (!controller.isStandby) void controller.onProfileAdded();
      } else if (!this.hasLegacyClients) this.#probeLegacy();
    });
  }

  /**
   * Makes sure that the forwards are discovered with a client's capabilities. Undefined if they are, which is nearly
   * always, or if a limit is reached; else a promise of the registry's state after that discovery, or after the time that a
   * client waits for it.
   */
  ensureDiscoveredFor(profile: DeclaredCapabilities, cause: DiscoveryCause): Promise<Snapshot> | undefined {
    const discovery =
      this.sets.ensureDiscovered(profile.capabilityKey, profile.capabilities, cause) ??
      (profile.era === 'legacy' ? this.#legacyDiscovery : undefined);
    return discovery?.then(() => this.#options.registry.current);
  }

  /**
   * Called for every legacy client; the first one causes modern upstreams to be probed for the legacy era too, which
   * they are spared until then.
   */
  onLegacyClient(): void {
    if (this.hasLegacyClients) return;
    this.#options.sharing?.capabilities.declareLegacyClients();
    this.#probeLegacy();
  }

  /**
   * Reads the lists of forwards of a namespace again that do not announce changes of this one, or of any: something that the
   * namespace lacks may be new. Undefined if there are none; else a promise that never rejects.
   */
  reread(namespace: string, list: AnnouncedList | undefined): Promise<unknown> | undefined {
    const { forwards } = this.#options.registry.current;
    const rereads: Promise<void>[] = [];
    for (const controller of this.#controllers()) {
      if (forwards.get(controller.forward.name)?.namespace !== namespace) continue;
      const reread = controller.reread(list);
      if (reread) rereads.push(reread);
    }
    return rereads.length === 0 ? undefined : Promise.all(rereads);
  }

  #probeLegacy(): void {
    this.hasLegacyClients = true;
    const probes = Array.from(this.#controllers(), (controller) => controller.onLegacyClient());
    this.#legacyDiscovery = withTimeout(LEGACY_WAIT_MS, Promise.all(probes)).then(() => {
      this.#legacyDiscovery = undefined;
    });
  }

  /** Discovers the forwards with all sets of capabilities, or waits for the replicas that do. */
  async #discover(): Promise<void> {
    const { sharing, registry } = this.#options;
    const all = [...this.sets.capabilities()];
    if (sharing) for (const capabilities of all) sharing.capabilities.declare(capabilities);
    const keys = all.map(capabilityKey);
    const discovering = Array.from(this.#controllers(), (controller) =>
      controller.isStandby
        ? waitForRegistry(registry, () =>
            isDiscoveredWith(registry.current.forwards.get(controller.forward.name), keys),
          )
        : controller.onProfileAdded(),
    );
    await Promise.all(discovering);
  }
}

/** Whether there is a catalog for each of these sets of capabilities, or none at all. */
function isDiscoveredWith(forward: Forward | undefined, keys: readonly string[]): boolean {
  if (!forward || forward.catalogs.length === 0) return true;
  const known = new Set(forward.catalogs.map(({ capabilities }) => capabilityKey(capabilities)));
  return keys.every((key) => known.has(key));
}

/** Resolves when a commit has made the condition true, or after 30 s. */
async function waitForRegistry(registry: Registry, condition: () => boolean): Promise<void> {
  if (condition()) return;
  const met = Promise.withResolvers<void>();
  const stop = registry.committed.subscribe(() => {
    if (condition()) met.resolve();
  });
  await withTimeout(REPLICA_WAIT_MS, met.promise);
  stop();
}
