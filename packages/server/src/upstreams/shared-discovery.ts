import { Emitter } from '@sluice/protocol/emitter';
import { type ClientCapabilities, capabilityKey } from '@sluice/protocol/mcp/capabilities';
import { z } from 'zod';
import type { Follower, SharedLog } from '../registry/store/postgres/shared-log.ts';
import type { StoredChange } from '../registry/store/record-log.ts';
import type { Commit, RecordedChange, SharedRecord } from '../registry/store/store.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { ForwardHealth } from './forward-connection.ts';

/** Which replica discovers and checks each forward. */
const LEASES = 'forward_leases';
/** What that replica has found. */
const STATES = 'forward_states';
/** Capabilities that clients of any replica have declared. */
const CAPABILITIES = 'client_capabilities';
/** Record among the capabilities: there are clients of the legacy era. */
const LEGACY_CLIENTS = 'legacy';

/** Interval at which forwards are taken over whose replica is no longer live. */
const CLAIM_MS = 3_000;

const stateSchema = z.object({
  kind: z.enum(['up', 'down']),
  message: z.string().optional(),
});

/** Options of {@link SharedDiscovery}. */
export interface SharedDiscoveryOptions {
  readonly shared: SharedLog;
  /** Names of the registered forwards. */
  readonly forwards: () => Iterable<string>;
  readonly log: TargetLogger;
}

/**
 * Division of discovery and health checks among replicas (docs/replicas.md): each forward is discovered by the replica that has
 * its lease, which is valid while that replica is live. All use its results. Leases are records of the log, so that a
 * discovery that was overtaken finds out when it is committed.
 */
export class SharedDiscovery implements Follower {
  readonly sections = [LEASES, STATES, CAPABILITIES];
  /** The forwards that this replica discovers may be others. */
  readonly leasesChanged = new Emitter();
  /** Another replica has found another state of the forward with this name. */
  readonly stateChanged = new Emitter<string>();
  /** A client of another replica has declared these capabilities. */
  readonly capabilitiesDeclared = new Emitter<ClientCapabilities>();
  /** There are clients of the legacy era at another replica. */
  readonly legacyClientsDeclared = new Emitter();
  readonly #options: SharedDiscoveryOptions;
  #records = emptyRecords();
  #timer: NodeJS.Timeout | undefined;
  #claiming: Promise<void> | undefined;

  constructor(options: SharedDiscoveryOptions) {
    this.#options = options;
  }

  async open(): Promise<void> {
    await this.#options.shared.add(this);
  }

  /** Takes over forwards that no live replica has, now and regularly. */
  async start(): Promise<void> {
    await this.#claim();
    this.#options.shared.members.left.subscribe(() => void this.#claim());
    this.#timer = setInterval(() => void this.#claim(true), CLAIM_MS).unref();
    for (const key of this.#records[CAPABILITIES].keys()) this.#declared(key);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Whether this replica discovers the forward. */
  isHeld(forward: string): boolean {
    const { members } = this.#options.shared;
    return this.#records[LEASES].get(forward) === members.id && members.isLive;
  }

  /** Number of registered forwards whose lease a replica has; the leases of others remain. */
  forwardsOf(replica: string): number {
    const leases = this.#records[LEASES];
    return Iterator.from(this.#options.forwards()).reduce(
      (count, name) => count + (leases.get(name) === replica ? 1 : 0),
      0,
    );
  }

  /** Takes the lease of a forward from whichever replica has it. */
  async take(forward: string): Promise<void> {
    if (this.isHeld(forward)) return;
    await this.#put(LEASES, forward, this.#options.shared.members.id);
  }

  /** What the replica that discovers the forward has found. */
  state(forward: string): ForwardHealth {
    const json = this.#records[STATES].get(forward);
    const state = json === undefined ? undefined : stateSchema.safeParse(JSON.parse(json)).data;
    if (!state) return { kind: 'pending' };
    return state.kind === 'up'
      ? { kind: 'up', message: state.message }
      : { kind: 'down', message: state.message ?? '' };
  }

  /** Shares the state of a forward that this replica discovers. */
  publish(forward: string, state: { readonly kind: 'up' | 'down'; readonly message: string | undefined }): void {
    this.#share(STATES, forward, JSON.stringify(state));
  }

  /** Asks the other replicas to discover their forwards with these capabilities as well. */
  declare(capabilities: ClientCapabilities): void {
    this.#share(CAPABILITIES, capabilityKey(capabilities), JSON.stringify(capabilities));
  }

  /** Tells the other replicas that there are clients of the legacy era. */
  declareLegacyClients(): void {
    this.#share(CAPABILITIES, LEGACY_CLIENTS, '{}');
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    let hasNewLeases = false;
    for (const { section, id, json } of changes) {
      const records = this.#records[section as keyof Records];
      if (json === null) records.delete(id);
      else records.set(id, section === LEASES ? JSON.parse(json) : json);
      if (section === LEASES) hasNewLeases = true;
      else if (section === STATES) this.stateChanged.emit(id);
      else if (json !== null) this.#declared(id);
    }
    if (hasNewLeases) this.leasesChanged.emit();
  }

  async reload(records: ReadonlyMap<string, readonly SharedRecord[]>): Promise<void> {
    this.#records = emptyRecords();
    for (const [section, stored] of records) {
      await this.apply(stored.map(({ id, json }) => ({ section, id, json })));
    }
  }

  #declared(key: string): void {
    const json = this.#records[CAPABILITIES].get(key);
    if (json === undefined) return;
    if (key === LEGACY_CLIENTS) this.legacyClientsDeclared.emit();
    else this.capabilitiesDeclared.emit(JSON.parse(json));
  }

  /** Stores a record in the background; without the database it stays local, as all other discoveries do. */
  #share(section: typeof STATES | typeof CAPABILITIES, id: string, json: string): void {
    if (this.#records[section].get(id) === json) return;
    this.#put(section, id, json).catch(() => undefined);
  }

  /** One at a time. `balances`: whether to take over forwards from replicas that have more than their share. */
  #claim(balances = false): Promise<void> {
    this.#claiming ??= this.#claimNow(balances)
      .catch(() => undefined)
      .finally(() => {
        this.#claiming = undefined;
        // Also after this replica was cut off: its leases are valid again.
        this.leasesChanged.emit();
      });
    return this.#claiming;
  }

  async #claimNow(balances: boolean): Promise<void> {
    const { shared, forwards, log } = this.#options;
    const { members } = shared;
    const live = (await members.list()).filter(({ isLive }) => isLive).map(({ id }) => id);
    if (!live.includes(members.id)) return;
    const due = () => leasesToTake(members.id, live, [...forwards()], this.#records[LEASES], balances);
    if (due().length === 0) return;
    await this.#commit(() => due().map((name) => [LEASES, name, members.id] as const));
    log.debug('took over the discovery of forwards', { forwards: this.forwardsOf(members.id) });
  }

  async #put(section: keyof Records, id: string, value: string): Promise<void> {
    await this.#commit(() => [[section, id, value]]);
  }

  /** Commits records; `make` is called again if other replicas have changed some meanwhile. */
  async #commit(make: () => readonly (readonly [section: keyof Records, id: string, value: string])[]): Promise<void> {
    const base = JSON.stringify([...this.#records[LEASES]]);
    const commit = (): Commit => {
      const values = make();
      const changes = values.map(
        ([section, id, value]): RecordedChange => ({
          op: 'put',
          section,
          id,
          json: section === LEASES ? JSON.stringify(value) : value,
        }),
      );
      const publish = () => {
        for (const [section, id, value] of values) this.#records[section].set(id, value);
        if (values.some(([section]) => section === LEASES)) this.leasesChanged.emit();
      };
      return { changes, publish };
    };
    await this.#options.shared.update(commit, () => JSON.stringify([...this.#records[LEASES]]) !== base);
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

type Records = Readonly<Record<typeof LEASES | typeof STATES | typeof CAPABILITIES, Map<string, string>>>;

function emptyRecords(): Records {
  return { [LEASES]: new Map(), [STATES]: new Map(), [CAPABILITIES]: new Map() };
}
