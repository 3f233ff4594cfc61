import { Emitter } from '@sluice/protocol/emitter';
import { z } from 'zod';
import { Collection } from '../registry/store/collection.ts';
import type { ReplicatedLog } from '../registry/store/postgres/replicated-log.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { SharedCapabilities, SharedStates } from './discovery-records.ts';

/** Interval at which forwards are taken over whose replica is no longer live. */
const CLAIM_MS = 3_000;

/** Options of {@link SharedDiscovery}. */
export interface SharedDiscoveryOptions {
  readonly shared: ReplicatedLog;
  /** Names of the registered forwards. */
  readonly forwards: () => Iterable<string>;
  readonly log: TargetLogger;
}

/**
 * Division of discovery and health checks among replicas (docs/replicas.md): each forward is discovered by the replica that has
 * its lease, which is valid while that replica is live. All use its results. Leases are records of the log, so that a
 * discovery that was overtaken finds out when it is committed.
 */
export class SharedDiscovery {
  /** Ids of the replicas that discover the forwards, by the name of the forward. */
  readonly leases = new Collection({ name: 'forward_leases', schema: z.string() });
  /** All leases of this replica may be valid again: it may have been cut off. */
  readonly claimed = new Emitter();
  readonly states = new SharedStates();
  readonly capabilities = new SharedCapabilities();
  readonly #options: SharedDiscoveryOptions;
  #timer: NodeJS.Timeout | undefined;
  #claiming: Promise<void> | undefined;

  constructor(options: SharedDiscoveryOptions) {
    this.#options = options;
  }

  async open(): Promise<void> {
    const { shared } = this.#options;
    for (const records of [this.leases, this.states, this.capabilities]) await records.open(shared);
  }

  /** Takes over forwards that no live replica has, now and regularly. */
  async start(): Promise<void> {
    await this.#claim();
    this.#options.shared.members.left.subscribe(() => void this.#claim());
    this.#timer = setInterval(() => void this.#claim(true), CLAIM_MS).unref();
    this.capabilities.start();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Whether this replica discovers the forward. */
  isHeld(forward: string): boolean {
    const { members } = this.#options.shared;
    return this.leases.get(forward) === members.id && members.isLive;
  }

  /** Number of registered forwards whose lease a replica has; the leases of others remain. */
  forwardsOf(replica: string): number {
    return [...this.#options.forwards()].filter((name) => this.leases.get(name) === replica).length;
  }

  /** Takes the lease of a forward from whichever replica has it. */
  async take(forward: string): Promise<void> {
    if (!this.isHeld(forward)) await this.leases.put(forward, this.#options.shared.members.id);
  }

  /** One at a time. `balances`: whether to take over forwards from replicas that have more than their share. */
  #claim(balances = false): Promise<void> {
    this.#claiming ??= this.#claimNow(balances)
      .catch(() => undefined)
      .finally(() => {
        this.#claiming = undefined;
        this.claimed.emit();
      });
    return this.#claiming;
  }

  async #claimNow(balances: boolean): Promise<void> {
    const { shared, forwards, log } = this.#options;
    const { members } = shared;
    const live = (await members.list()).filter(({ isLive }) => isLive).map(({ id }) => id);
    if (!live.includes(members.id)) return;
    const leases = new Map(this.leases.entries());
    const due = leasesToTake(members.id, live, [...forwards()], leases, balances);
    if (due.length === 0) return;
    const take = (name: string) =>
      this.leases.update(name, (holder) => (holder === leases.get(name) ? members.id : undefined));
    await Promise.all(due.map(take));
    // Another replica was faster: there may be others to take.
    if (due.some((name) => this.leases.get(name) !== members.id)) return this.#claimNow(balances);
    log.debug('took over the discovery of forwards', { forwards: this.forwardsOf(members.id) });
  }
}

/**
 * The forwards that a replica takes over: its share of those that no live replica has and, with `balances`, as many of others as
 * it lacks. It never has more of them than the replica that it takes one from.
 */
export function leasesToTake(
  self: string,
  live: readonly string[],
  forwards: readonly string[],
  leases: ReadonlyMap<string, string>,
  balances: boolean,
): string[] {
  const held = new Map<string, string[]>(live.map((id) => [id, []]));
  const free = forwards.filter((name) => {
    const of = held.get(leases.get(name) ?? '');
    of?.push(name);
    return of === undefined;
  });
  const own = held.get(self)?.length ?? 0;
  const taken = free.slice(0, Math.max(0, Math.ceil(forwards.length / live.length) - own));
  if (!balances || taken.length < free.length) return taken;
  const share = Math.floor(forwards.length / live.length);
  const others = [...held].filter(([id]) => id !== self).map(([, names]) => names);
  while (own + taken.length < share) {
    others.sort((a, b) => b.length - a.length);
    const name = others[0]?.pop();
    if (name === undefined) break;
    taken.push(name);
  }
  return taken;
}
