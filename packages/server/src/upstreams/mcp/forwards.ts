import type { ServerInfo } from '@sluice/contract';
import { members, memberText } from '@sluice/protocol/json/scan';
import { META_SERVER_INFO } from '@sluice/protocol/mcp/constants';
import type { ClientProfile } from '../../mcp/client-profile.ts';
import type { Forward, KnownCatalogue } from '../../registry/entries.ts';
import { RegistryError } from '../../registry/operations.ts';
import { addForward, type ForwardInput, removeForward } from '../../registry/operations-topology.ts';
import type { Registry } from '../../registry/registry.ts';
import type { Snapshot } from '../../registry/snapshot.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { CapabilityProfiles } from './capability-variants.ts';
import type { ClientOptions } from './client.ts';
import { ForwardController, type ForwardHealth } from './forward-controller.ts';
import { UnregisteredUpstreams } from './unregistered-upstreams.ts';
import type { Upstream } from './upstream.ts';
import { withTimeout } from './with-timeout.ts';

/**
 * What an upstream says of itself, as forwards show it (decisions 2.4): of several eras the first; undefined before the
 * first discovery.
 */
export function serverInfoOf(catalogues: readonly KnownCatalogue[]): ServerInfo | undefined {
  const [first] = catalogues;
  if (!first?.identity.startsWith('{')) return undefined;
  const { identity } = first;
  // Only what is shown is read: the rest of the text may be of any size and depth.
  const server = objectIn(identity, 'serverInfo') ?? objectIn(memberText(identity, '_meta') ?? '{}', META_SERVER_INFO);
  const capabilities = keysOf(memberText(identity, 'capabilities') ?? '{}');
  const extensions = keysOf(memberText(memberText(identity, 'capabilities') ?? '{}', 'extensions') ?? '{}');
  return {
    serverName: textIn(server, 'name') ?? '',
    version: textIn(server, 'version') ?? '',
    ...optional('description', textIn(server, 'description')),
    ...optional('websiteUrl', textIn(server, 'websiteUrl')),
    capabilities: capabilities.filter((name) => name !== 'extensions' && name !== 'experimental'),
    extensions,
    ...optional('instructions', textIn(identity, 'instructions')),
  };
}

/** The text of a member that is an object. */
function objectIn(json: string, key: string): string | undefined {
  const text = memberText(json, key);
  return text?.startsWith('{') ? text : undefined;
}

/** The value of a member that is a string. */
function textIn(json: string | undefined, key: string): string | undefined {
  const text = json === undefined ? undefined : memberText(json, key);
  return text?.startsWith('"') ? String(JSON.parse(text)) : undefined;
}

function keysOf(json: string): string[] {
  return [...members(json)].map(({ key }) => key);
}

function optional<Key extends string>(key: Key, value: string | undefined): { [K in Key]?: string } {
  const members: { [K in Key]?: string } = {};
  if (value !== undefined) members[key] = value;
  return members;
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
  /** Who we are, towards upstreams. */
  readonly clientInfo: ClientOptions['clientInfo'];
  readonly healthCheckIntervalMs: number;
}

/** Registering waits so long for discovery; it goes on in the background (decisions 4.3). */
const ADD_TIMEOUT_MS = 30_000;
/** What ending the sessions upstream may take in any case. */
const MIN_CLOSE_MS = 1_000;
/** What was not used upstream for this long is ended, and how often that is looked at. */
const IDLE_MS = 5 * 60_000;
const TIDY_MS = 60_000;
/** The first legacy client waits so long for modern upstreams to be asked whether they speak its era. */
const LEGACY_WAIT_MS = 2_000;

/** The registered upstream MCP servers at work: each is looked after by a supervisor, apart from all others. */
export class Forwards {
  readonly #options: ForwardsOptions;
  readonly #supervisors = new Map<string, ForwardController>();
  /** Of several forwards of one address, the first. */
  readonly #byAddress = new Map<string, ForwardController>();
  readonly #addressed: UnregisteredUpstreams;
  readonly #variants: CapabilityProfiles;
  /** True once a legacy client was there. */
  #legacyWanted = false;
  #askingLegacy: Promise<void> | undefined = undefined;
  #closing: Promise<void> | undefined = undefined;
  readonly #tidying: NodeJS.Timeout;

  constructor(options: ForwardsOptions) {
    this.#options = options;
    this.#addressed = new UnregisteredUpstreams(options.clientInfo, () => this.#legacyWanted);
    this.#variants = new CapabilityProfiles(() =>
      Promise.all([...this.#supervisors.values()].map((supervisor) => supervisor.variantAdded())),
    );
    this.#tidying = setInterval(() => this.#tidy(), TIDY_MS).unref();
  }

  /** Begins to look after all forwards of the registry, all at once and in the background. */
  start(): void {
    for (const forward of this.#options.registry.current.forwards.values()) {
      // Sets that clients had declared before a restart are asked for again.
      for (const { capabilities } of forward.catalogues) this.#variants.restore(capabilities);
      // One that was registered a moment ago is being discovered, and somebody waits for that.
      if (!this.#supervisors.has(forward.name)) this.#supervise(forward);
    }
    for (const supervisor of this.#supervisors.values()) supervisor.discover(true).catch(() => undefined);
  }

  /**
   * Registers a forward: stores it, then discovers it for at most 30 seconds. An upstream that fails or is slow is
   * registered all the same; one that was removed meanwhile is answered as it was stored. Throws {@link RegistryError}
   * when the name is taken.
   */
  async add(input: ForwardInput): Promise<Forward> {
    const stored = await this.#options.registry.commit((draft) => addForward(draft, input));
    // The next start looks after it.
    if (this.#closing) return stored;
    const discovery = this.#supervise(stored).discover();
    await withTimeout(
      ADD_TIMEOUT_MS,
      discovery.catch(() => undefined),
    );
    const now = this.#options.registry.current.forwards.get(input.name);
    return now?.source === stored.source ? now : stored;
  }

  /**
   * Reads a forward anew. Throws {@link RegistryError} for an unknown name, and for a forward that is removed meanwhile,
   * and `UpstreamError` when the upstream cannot be read; the last good catalogue stays.
   */
  async refresh(name: string): Promise<void> {
    const supervisor = this.#supervisors.get(name);
    const [discovery] = await Promise.allSettled([supervisor?.discover()]);
    if (!supervisor || this.#supervisors.get(name) !== supervisor) {
      throw new RegistryError('NOT_FOUND', `forward not found: ${name}`);
    }
    if (discovery.status === 'rejected') throw discovery.reason;
  }

  /** Removes a forward and what it discovered; calls under way finish. Throws {@link RegistryError} for an unknown name. */
  async remove(name: string): Promise<void> {
    await this.#options.registry.commit((draft) => removeForward(draft, name));
    this.removed([name]);
  }

  /** To be told of forwards that went away with their namespace. */
  removed(names: readonly string[]): void {
    for (const name of names) {
      const supervisor = this.#supervisors.get(name);
      if (!supervisor) continue;
      this.#supervisors.delete(name);
      this.#giveUpAddress(supervisor);
      supervisor.end().catch(() => undefined);
    }
  }

  /** How a forward is doing. */
  status(name: string): ForwardStatus {
    const health = this.#supervisors.get(name)?.health ?? { kind: 'pending' };
    const message = messageOf(health);
    const serverInfo = serverInfoOf(this.#options.registry.current.forwards.get(name)?.catalogues ?? []);
    return {
      available: health.kind === 'up',
      ...(message !== undefined && { statusMessage: message }),
      ...(serverInfo && { serverInfo }),
    };
  }

  /** The upstream behind a forward. */
  upstream(forward: string): Upstream | undefined {
    return this.#supervisors.get(forward)?.upstream;
  }

  /** The upstream at an address that a hand-made tool names; one that a forward has is that forward's. */
  upstreamAt(address: string): Upstream {
    return this.#byAddress.get(address)?.upstream ?? this.#addressed.at(address);
  }

  /**
   * Makes sure that it is known which eras the upstream at a hand-made tool's address speaks. Undefined when it is, which
   * is nearly always, and for a forward's, which discovery asks; else a promise that never rejects.
   */
  asking(address: string): Promise<void> | undefined {
    return this.#byAddress.has(address) ? undefined : this.#addressed.asking(address);
  }

  /**
   * Makes sure that the forwards were asked with this client's capabilities. Undefined when they were, which is nearly
   * always; else a promise of the registry as it is after that, or after as long as a client is made to wait.
   */
  admit(profile: ClientProfile): Promise<Snapshot> | undefined {
    const asking =
      this.#variants.admit(profile.capabilityKey, profile.capabilities) ??
      (profile.era === 'legacy' ? this.#askingLegacy : undefined);
    return asking?.then(() => this.#options.registry.current);
  }

  /**
   * To be told of every legacy client; the first one has the modern upstreams asked whether they speak its era too. Until
   * then they are spared that.
   */
  legacySeen(): void {
    if (this.#legacyWanted) return;
    this.#legacyWanted = true;
    const asked = [...this.#supervisors.values()].map((supervisor) => supervisor.legacyWanted());
    this.#askingLegacy = withTimeout(LEGACY_WAIT_MS, Promise.all(asked)).then(() => {
      this.#askingLegacy = undefined;
    });
  }

  /** Ends the sessions that were opened upstream for a client's session. */
  endSession(session: string): void {
    for (const { links } of this.upstreams()) links.close(session).catch(() => undefined);
  }

  /** All upstreams there are: those of the forwards, and those that hand-made tools name. */
  *upstreams(): Generator<Upstream> {
    for (const { upstream } of this.#supervisors.values()) yield upstream;
    yield* this.#addressed;
  }

  /** Stops everything: sessions are ended, calls under way get so long to finish, and what is left then is cut off. */
  close(graceMs = 0): Promise<void> {
    this.#closing ??= this.#close(graceMs);
    return this.#closing;
  }

  async #close(graceMs: number): Promise<void> {
    clearInterval(this.#tidying);
    const supervisors = [...this.#supervisors.values()];
    const upstreams = [...this.upstreams()];
    const ends = [...this.#addressed].map((upstream) => upstream.close());
    const ended = Promise.allSettled([...ends, ...supervisors.map((supervisor) => supervisor.end())]);
    await withTimeout(Math.max(graceMs, MIN_CLOSE_MS), ended);
    await Promise.all(upstreams.map((upstream) => upstream.destroy()));
  }

  /** Ends the sessions that nobody uses, and forgets the addresses that no tool has been called at for long. */
  #tidy(now: number = performance.now()): void {
    for (const { upstream } of this.#supervisors.values()) upstream.links.closeIdle(IDLE_MS, now);
    this.#addressed.closeIdle(IDLE_MS, now);
  }

  #supervise(forward: Forward): ForwardController {
    this.removed([forward.name]);
    const variants = () => this.#variants.capabilities();
    const legacyWanted = () => this.#legacyWanted;
    const supervisor = new ForwardController(forward, { ...this.#options, variants, legacyWanted });
    this.#supervisors.set(forward.name, supervisor);
    if (!this.#byAddress.has(forward.address)) this.#byAddress.set(forward.address, supervisor);
    return supervisor;
  }

  /** Another forward of the same address takes over what hand-made tools call there. */
  #giveUpAddress({ forward: { address }, upstream }: ForwardController): void {
    if (this.#byAddress.get(address)?.upstream !== upstream) return;
    this.#byAddress.delete(address);
    const next = [...this.#supervisors.values()].find(({ forward }) => forward.address === address);
    if (next) this.#byAddress.set(address, next);
  }
}

function messageOf(health: ForwardHealth): string | undefined {
  return health.kind === 'pending' ? 'discovery pending' : health.message;
}
