import { setTimeout as delay } from 'node:timers/promises';
import { isJsonObject } from '@sluice/protocol/json/parse';
import type { Era } from '@sluice/protocol/mcp/constants';
import { UpstreamError } from '../../http/client/errors.ts';
import { noEraError, provesModern, withAuthorizationServers } from './failed-probe.ts';
import { type LegacyClient, type ModernClient, openLegacy, openModern, type RpcClientOptions } from './rpc-client.ts';
import { isInconclusive } from './rpc-request.ts';

/**
 * Eras that an upstream supports: a set, since servers may support both. At least one is proved, by the open client that
 * discovery can continue with.
 */
export interface EraProbe {
  readonly eras: ReadonlySet<Era>;
  /** To be used or closed: the upstream has a session for it. */
  readonly legacy: LegacyClient | undefined;
  /** False if the legacy era was not probed because the modern one was proved and no client needs legacy. */
  readonly legacyProbed: boolean;
  readonly modern: ModernClient | undefined;
  /** Eras neither proved nor ruled out, to be probed again sooner than usual. */
  readonly inconclusive: readonly InconclusiveProbe[];
}

/** An era whose probe proved nothing, and the error of the attempt. */
export interface InconclusiveProbe {
  readonly era: Era;
  readonly error: UpstreamError;
}

const ERAS = ['legacy', 'modern'] as const;

/** Time for the second era after the first is proved: servers may not respond to unknown requests. */
const GRACE_MS = 3_000;

/** Time for the modern probe before legacy is probed too. */
const HEAD_START_MS = 1_000;

/** Outcome of the attempts to open a client in each era; the legacy one is undefined if it was not made. */
interface Attempts {
  readonly legacy: Attempt<LegacyClient> | undefined;
  readonly modern: Attempt<ModernClient>;
}

/**
 * Attempts both eras, independently. `legacy` false means that all clients so far are modern: a modern server is then spared a
 * legacy session, which some servers handle badly; one that does not prove to be modern is probed for legacy nevertheless, and so
 * is one that announces no changes of its lists in the modern era, which it may do in the other.
 */
async function attemptBoth(options: RpcClientOptions, legacy: boolean, graceMs: number): Promise<Attempts> {
  const { address } = options.transport;
  const expired = { legacy: new AbortController(), modern: new AbortController() };
  const limited = (era: Era): RpcClientOptions => {
    const { signal } = expired[era];
    return { ...options, signal: options.signal === undefined ? signal : AbortSignal.any([options.signal, signal]) };
  };
  let grace: NodeJS.Timeout | undefined;
  const startGrace = (other: Era) => {
    grace ??= setTimeout(() => {
      const what = `did not answer in the ${other} era within ${graceMs / 1000} s of answering in the other`;
      expired[other].abort(new UpstreamError('timeout', address, what, { remedy: 'see the log of the upstream' }));
    }, graceMs);
  };
  const openingModern = attempt(openModern(limited('modern')), () => startGrace('legacy'));
  const isProbed = legacy || !(await isProvedEarly(openingModern));
  const openingLegacy = isProbed ? attempt(openLegacy(limited('legacy')), () => startGrace('modern')) : undefined;
  const [old, modern] = await Promise.all([openingLegacy, openingModern]).finally(() => clearTimeout(grace));
  return { legacy: old, modern };
}

/** The result of the attempts. Rejects like {@link EraCache.probe}. */
async function evaluate(options: RpcClientOptions, attempts: Attempts): Promise<EraProbe> {
  const { legacy: old = {}, modern } = attempts;
  const errors = { legacy: old.error, modern: modern.error };
  const inconclusive = ERAS.flatMap((era) => {
    const error = errors[era];
    return error && !isConclusive(error) ? { era, error } : [];
  });
  if (old.client === undefined && modern.client === undefined) {
    if (inconclusive[0]) throw await withAuthorizationServers(inconclusive[0].error, options);
    throw await noEraError(options, errors);
  }
  const clients = { legacy: old.client, modern: modern.client };
  const eras = new Set(ERAS.filter((era) => clients[era] !== undefined));
  return { eras, ...clients, legacyProbed: attempts.legacy !== undefined, inconclusive };
}

/** True if the attempt opens a client within its head start, of an upstream that can be watched in the modern era. */
async function isProvedEarly(opening: Promise<Attempt<ModernClient>>): Promise<boolean> {
  const late = delay(HEAD_START_MS, undefined, { ref: false });
  const client = (await Promise.race([opening, late]))?.client;
  return client !== undefined && announcesChanges(client);
}

/** Whether an upstream with lists announces changes of any. */
function announcesChanges({ serverCapabilities }: ModernClient): boolean {
  const lists = ['tools', 'prompts', 'resources'].map((list) => serverCapabilities[list]).filter(isJsonObject);
  return lists.length === 0 || lists.some(({ listChanged }) => listChanged === true);
}

interface Attempt<Client> {
  readonly client?: Client;
  readonly error?: UpstreamError;
}

async function attempt<Client>(opening: Promise<Client>, onProved = () => {}): Promise<Attempt<Client>> {
  try {
    const client = await opening;
    onProved();
    return { client };
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
    if (provesModern(error)) onProved();
    return { error };
  }
}

/** True if the failure rules an era out or proves it. */
function isConclusive({ kind, status = 0 }: UpstreamError): boolean {
  if (kind === 'http') return !isInconclusive(status);
  return kind === 'rpc' || kind === 'invalid';
}

/** Time after which known eras of an upstream are probed again. */
const PROBE_INTERVAL_MS = 60 * 60_000;
/** Time until the first retry of an inconclusive probe, doubled each time. */
const INCONCLUSIVE_RETRY_MS = 60_000;
/** Time without a probe for the modern era after one that has broken the connection. */
const BROKEN_PROBE_MS = 24 * 60 * 60_000;

/** Stores what the next process has to know about probes, so that it does not break the upstream again. */
export interface ProbeStore {
  /** See `Forward.modernProbeAfter`. */
  readonly modernProbeAfter: number | undefined;
  /** Must not reject. */
  setModernProbeAfter(time: number | undefined): Promise<void>;
  /** Whether the upstream has proved the modern era before. */
  readonly isKnownModern: boolean;
}

/** Options of an {@link EraCache}. */
export interface EraCacheOptions {
  /** Whether a modern upstream is to be probed for legacy too. Read at each probe. */
  readonly hasLegacyClients: () => boolean;
  /** Default: in memory only. */
  readonly store?: ProbeStore;
  /** For tests. */
  readonly retryMs?: number | undefined;
  readonly graceMs?: number;
}

/**
 * Eras of one upstream, as last probed.
 *
 * Some servers end their process, or stop listening, on any first message but `initialize`. After a probe for the modern era
 * that has broken the connection, `initialize` is therefore sent first, alone: if it succeeds, the modern era is not probed for
 * a day; if it is rejected, the modern era is all that is left to try. If the upstream was modern before, the broken connection
 * may have been an accident: the modern era is probed once more after `initialize`.
 */
export class EraCache {
  readonly #options: RpcClientOptions;
  readonly #hasLegacyClients: () => boolean;
  readonly #store: ProbeStore | undefined;
  /** See `Forward.modernProbeAfter`: what was stored last, which may have failed. */
  #modernProbeAfter: number | undefined = undefined;
  readonly #firstRetryMs: number;
  readonly #graceMs: number;
  #known: Pick<EraProbe, 'eras' | 'inconclusive' | 'legacyProbed'> | undefined = undefined;
  /** When the next probe is due, in milliseconds of `performance.now()`. */
  #probeAt = 0;
  #retryMs: number;
  /** Consecutive modern probes that have broken the connection. */
  #broken = 0;
  /** When the modern era may be probed although it has broken the connection: milliseconds of `performance.now()`. */
  #modernRetryAt = 0;

  constructor(
    options: RpcClientOptions,
    { hasLegacyClients, store, retryMs = INCONCLUSIVE_RETRY_MS, graceMs = GRACE_MS }: EraCacheOptions,
  ) {
    this.#options = options;
    this.#hasLegacyClients = hasLegacyClients;
    this.#store = store;
    this.#firstRetryMs = retryMs;
    this.#graceMs = graceMs;
    this.#retryMs = retryMs;
  }

  /** True once the upstream was probed for the legacy era. */
  get legacyProbed(): boolean {
    return this.#known?.legacyProbed ?? false;
  }

  /** Milliseconds until the next probe; 0 if it is due. */
  get nextProbeInMs(): number {
    return this.#known ? Math.max(this.#probeAt - performance.now(), 0) : 0;
  }

  /**
   * Probes the upstream and opens a client in each era that it supports. Modern is proved by a DiscoverResult or by an error that
   * only modern servers send, never by -32601; legacy by an InitializeResult. 401, 403, 429, 5xx and network failures are
   * inconclusive.
   *
   * Rejects with an {@link UpstreamError} if no era can be used: the inconclusive one, else `invalid`, also for a modern server
   * without a known version.
   */
  async probe(): Promise<EraProbe> {
    const attempts = await this.#attempt();
    await this.#onModernProbed(attempts.modern);
    const probe = await evaluate(this.#options, attempts);
    const { eras, inconclusive, legacyProbed } = probe;
    this.#known = { eras, inconclusive, legacyProbed };
    this.#scheduleProbe(inconclusive.length === 0);
    return probe;
  }

  /**
   * Opens a client in each known era, without probing those that were ruled out, which some upstreams leave unanswered.
   * Probes if nothing is known yet or a known era fails.
   */
  async open(): Promise<EraProbe> {
    if (!this.#known || (!this.#known.legacyProbed && this.#hasLegacyClients())) return this.probe();
    const { eras, inconclusive, legacyProbed } = this.#known;
    const opening = [
      eras.has('legacy') ? openLegacy(this.#options) : undefined,
      eras.has('modern') ? openModern(this.#options) : undefined,
    ] as const;
    try {
      const [legacy, modern] = await Promise.all(opening);
      return { eras, legacy, modern, inconclusive, legacyProbed };
    } catch {
      for (const client of opening) client?.then((opened) => opened.close()).catch(() => undefined);
      return this.probe();
    }
  }

  async #attempt(): Promise<Attempts> {
    // The clock may have been wrong when it was stored.
    const after = this.#store?.modernProbeAfter ?? this.#modernProbeAfter ?? 0;
    const untilModernMs = Math.min(after - Date.now(), BROKEN_PROBE_MS);
    const isDeferred = untilModernMs > 0;
    if (!isDeferred && this.#broken === 0) return attemptBoth(this.#options, this.#hasLegacyClients(), this.#graceMs);
    const legacy = await attempt(openLegacy(this.#options));
    const isRejected = legacy.error !== undefined && isConclusive(legacy.error);
    if (legacy.client ? isDeferred : !isRejected) return { legacy, modern: {} };
    if (performance.now() >= this.#modernRetryAt) return { legacy, modern: await attempt(openModern(this.#options)) };
    const what = 'rejects initialize, and has ended the connection when it received server/discover';
    const remedy = 'see the log of the upstream';
    return {
      legacy,
      modern: { error: new UpstreamError('dropped', this.#options.transport.address, what, { remedy }) },
    };
  }

  /** Records whether a probe for the modern era has broken the connection. */
  async #onModernProbed({ client, error }: Attempt<ModernClient>): Promise<void> {
    if (client) {
      this.#broken = 0;
      this.#modernProbeAfter = undefined;
      if (this.#store?.modernProbeAfter !== undefined) await this.#store.setModernProbeAfter(undefined);
    } else if (error?.kind === 'dropped' && error.status === undefined) {
      const now = performance.now();
      if (now < this.#modernRetryAt) return;
      const isKnownModern = this.#store?.isKnownModern ?? this.#known?.eras.has('modern');
      const isAccident = isKnownModern && this.#broken === 0;
      // At once the first time: of a modern server, the connection may have broken for another reason.
      const retryMs = this.#broken === 0 ? 0 : this.#firstRetryMs * 2 ** (this.#broken - 1);
      this.#modernRetryAt = now + Math.min(retryMs, PROBE_INTERVAL_MS);
      this.#broken++;
      if (isAccident) return;
      this.#modernProbeAfter = Date.now() + BROKEN_PROBE_MS;
      await this.#store?.setModernProbeAfter(this.#modernProbeAfter);
    }
  }

  #scheduleProbe(isConclusive: boolean): void {
    const now = performance.now();
    if (isConclusive) {
      this.#retryMs = this.#firstRetryMs;
      this.#probeAt = now + PROBE_INTERVAL_MS;
    } else {
      this.#probeAt = now + this.#retryMs;
      this.#retryMs = Math.min(this.#retryMs * 2, PROBE_INTERVAL_MS);
    }
  }
}
