import type { ServerInfo } from '@sluice/contract';
import type { ClientProfile } from '../mcp/client-profile.ts';
import type { Draft } from '../registry/draft.ts';
import type { Forward, Labels } from '../registry/entries.ts';
import type { Namespace } from '../registry/names.ts';
import { RegistryError } from '../registry/operations/error.ts';
import type { Registry } from '../registry/registry.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { type ClientCapabilities, capabilityKey, FULL_CAPABILITIES, NO_CAPABILITIES } from '../mcp/capabilities.ts';
import { serverInfoOf } from './server-info.ts';
import { Supervisor } from './supervisor.ts';
import { Upstream } from './upstream.ts';

/** A forward as it is registered. */
export interface ForwardInput {
  readonly name: string;
  readonly address: string;
  readonly namespace: Namespace;
  readonly labels: Labels;
  /** Empty for none. */
  readonly prefix: string;
}

/** What the management API shows of a forward besides its record (decisions 2.4). */
export interface ForwardStatus {
  readonly available: boolean;
  readonly statusMessage?: string;
  readonly serverInfo?: ServerInfo;
}

export interface ForwardsOptions {
  readonly registry: Registry;
  readonly log: TargetLogger;
  readonly healthCheckIntervalMs: number;
}

/** Registering waits so long for discovery; it goes on in the background (decisions 4.3). */
const ADD_TIMEOUT_MS = 30_000;
/** A client whose capabilities nobody has had before waits so long for the forwards to be asked with them. */
const ADMIT_TIMEOUT_MS = 2_000;
/** What ending the sessions upstream may take in any case. */
const MIN_CLOSE_MS = 1_000;
/** What was not used upstream for this long is ended, and how often that is looked at. */
const IDLE_MS = 5 * 60_000;
const TIDY_MS = 60_000;
/** Capability sets that forwards are asked with. Clients choose what they declare, so there must be an end to it. */
const MAX_VARIANTS = 16;
const MAX_VARIANT_LENGTH = 4096;

/** The registered upstream MCP servers at work: each is looked after by a supervisor, apart from all others. */
export class Forwards {
  readonly #options: ForwardsOptions;
  readonly #supervisors = new Map<string, Supervisor>();
  /** Upstreams that hand-made tools name by address. */
  readonly #addressed = new Map<string, Upstream>();
  readonly #variants = new Map<string, ClientCapabilities>();
  readonly #tidying: NodeJS.Timeout;

  constructor(options: ForwardsOptions) {
    this.#options = options;
    for (const capabilities of [NO_CAPABILITIES, FULL_CAPABILITIES]) {
      this.#variants.set(capabilityKey(capabilities), capabilities);
    }
    this.#tidying = setInterval(() => this.#tidy(), TIDY_MS).unref();
  }

  /** Begins to look after all forwards of the registry, all at once and in the background. */
  start(): void {
    for (const forward of this.#options.registry.current.forwards.values()) {
      // Sets that clients had declared before a restart are asked for again.
      for (const { capabilities } of forward.catalogues) this.#addVariant(capabilityKey(capabilities), capabilities);
      this.#supervise(forward);
    }
    for (const supervisor of this.#supervisors.values()) supervisor.discover().catch(() => undefined);
  }

  /**
   * Registers a forward: stores it, then discovers it for at most 30 seconds. An upstream that fails or is slow is
   * registered all the same. Throws {@link RegistryError} when the name is taken.
   */
  async add(input: ForwardInput): Promise<Forward> {
    const stored = await this.#options.registry.commit((draft) => {
      if (draft.forwards.has(input.name)) throw new RegistryError('CONFLICT', `forward already exists: ${input.name}`);
      return putForward(draft, input);
    });
    const discovery = this.#supervise(stored).discover();
    await within(
      ADD_TIMEOUT_MS,
      discovery.catch(() => undefined),
    );
    return this.#options.registry.current.forwards.get(input.name) ?? stored;
  }

  /**
   * Makes the registry hold this forward as the bootstrap file has it: an equal one stays as it is, one that differs is
   * replaced (decisions 1.3). Discovery is left to {@link start}.
   */
  async bootstrap(input: ForwardInput): Promise<void> {
    await this.#options.registry.commit((draft) => {
      const known = draft.forwards.get(input.name);
      if (known && sameForward(known, input)) return;
      if (known) draft.removeForward(input.name);
      putForward(draft, input);
    });
  }

  /**
   * Reads a forward anew. Throws {@link RegistryError} for an unknown name and `UpstreamError` when the upstream cannot
   * be read; the last good catalogue stays.
   */
  async refresh(name: string): Promise<void> {
    const supervisor = this.#supervisors.get(name);
    if (!supervisor) throw new RegistryError('NOT_FOUND', `forward not found: ${name}`);
    await supervisor.discover();
  }

  /** Removes a forward and what it discovered; calls under way finish. Throws {@link RegistryError} for an unknown name. */
  async remove(name: string): Promise<void> {
    await this.#options.registry.commit((draft) => {
      if (!draft.forwards.has(name)) throw new RegistryError('NOT_FOUND', `forward not found: ${name}`);
      draft.removeForward(name);
    });
    this.removed([name]);
  }

  /** To be told of forwards that went away with their namespace. */
  removed(names: readonly string[]): void {
    for (const name of names) {
      const supervisor = this.#supervisors.get(name);
      this.#supervisors.delete(name);
      supervisor?.end().catch(() => undefined);
    }
  }

  /** How a forward is doing. */
  status(name: string): ForwardStatus {
    const health = this.#supervisors.get(name)?.health;
    const serverInfo = serverInfoOf(this.#options.registry.current.forwards.get(name)?.catalogues ?? []);
    return {
      available: health?.available ?? false,
      ...(health?.message !== undefined && { statusMessage: health.message }),
      ...(serverInfo && { serverInfo }),
    };
  }

  /** The upstream behind a forward. */
  upstream(forward: string): Upstream | undefined {
    return this.#supervisors.get(forward)?.upstream;
  }

  /** The upstream at an address that a hand-made tool names; one that a forward has is that forward's. */
  upstreamAt(address: string): Upstream {
    for (const forward of this.#options.registry.current.forwards.values()) {
      const upstream = forward.address === address ? this.upstream(forward.name) : undefined;
      if (upstream) return upstream;
    }
    let upstream = this.#addressed.get(address);
    if (!upstream) {
      upstream = new Upstream(address, { failed() {}, recovered() {} });
      this.#addressed.set(address, upstream);
    }
    upstream.usedAt = performance.now();
    return upstream;
  }

  /**
   * Makes sure that the forwards were asked with this client's capabilities. Undefined when they were, which is nearly
   * always; else a promise of the registry as it is after that, or after as long as a client is made to wait.
   */
  admit(profile: ClientProfile): Promise<Snapshot> | undefined {
    if (!this.#addVariant(profile.capabilityKey, profile.capabilities)) return undefined;
    const runs = [...this.#supervisors.values()]
      .filter(({ health }) => health.available)
      .map((supervisor) => supervisor.discover(true).catch(() => undefined));
    return within(ADMIT_TIMEOUT_MS, Promise.all(runs)).then(() => this.#options.registry.current);
  }

  /** Ends the sessions that were opened upstream for a client's session. */
  endSession(session: string): void {
    const upstreams = [...this.#supervisors.values()].map(({ upstream }) => upstream);
    for (const { links } of [...upstreams, ...this.#addressed.values()]) links.close(session).catch(() => undefined);
  }

  /** Stops everything: sessions are ended, calls under way get so long to finish, and what is left then is cut off. */
  async close(graceMs = 0): Promise<void> {
    clearInterval(this.#tidying);
    const supervisors = [...this.#supervisors.values()];
    const upstreams = [...this.#addressed.values(), ...supervisors.map(({ upstream }) => upstream)];
    const ends = [...this.#addressed.values()].map((upstream) => upstream.close());
    const ended = Promise.allSettled([...ends, ...supervisors.map((supervisor) => supervisor.end())]);
    await within(Math.max(graceMs, MIN_CLOSE_MS), ended);
    await Promise.all(upstreams.map((upstream) => upstream.destroy()));
  }

  /** Ends the sessions that nobody uses, and forgets the addresses that no tool has been called at for long. */
  #tidy(now: number = performance.now()): void {
    for (const { upstream } of this.#supervisors.values()) upstream.links.closeIdle(IDLE_MS, now);
    for (const [address, upstream] of this.#addressed) {
      upstream.links.closeIdle(IDLE_MS, now);
      if (!upstream.links.idle || now - upstream.usedAt < IDLE_MS) continue;
      this.#addressed.delete(address);
      upstream.close().catch(() => undefined);
    }
  }

  #supervise(forward: Forward): Supervisor {
    this.removed([forward.name]);
    const { registry, log, healthCheckIntervalMs } = this.#options;
    const variants = () => this.#variants.values();
    const supervisor = new Supervisor(forward, { registry, log, variants, healthCheckIntervalMs });
    this.#supervisors.set(forward.name, supervisor);
    return supervisor;
  }

  #addVariant(key: string, capabilities: ClientCapabilities): boolean {
    if (this.#variants.has(key) || this.#variants.size >= MAX_VARIANTS || key.length > MAX_VARIANT_LENGTH) return false;
    this.#variants.set(key, capabilities);
    return true;
  }
}

function putForward(draft: Draft, input: ForwardInput): Forward {
  const forward: Forward = { ...input, source: draft.nextSource(), catalogues: [] };
  draft.putForward(forward);
  return forward;
}

function sameForward(known: Forward, input: ForwardInput): boolean {
  const relevant = ({ address, namespace, prefix, labels }: ForwardInput): string =>
    JSON.stringify([address, namespace, prefix, Object.entries(labels).sort()]);
  return relevant(known) === relevant(input);
}

/** Waits for the promise, but no longer than this; it goes on all the same. */
async function within(ms: number, promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([promise, late]);
  clearTimeout(timer);
}
