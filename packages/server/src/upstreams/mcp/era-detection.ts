import { setTimeout as delay } from 'node:timers/promises';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { type Era, LEGACY_VERSIONS, MODERN_ERROR_CODES, MODERN_VERSIONS } from '@sluice/protocol/mcp/constants';
import { quoted, UpstreamError } from '../../http/client/errors.ts';
import { type ClientOptions, type LegacyClient, type ModernClient, openLegacy, openModern } from './client.ts';
import { isInconclusive } from './rpc-request.ts';

/**
 * Which eras an upstream address speaks: a set, since servers may speak both (mcp 4). At least one is there, with the
 * client that proved it, so that discovery can go on with it.
 */
export interface Probe {
  /** To be used or closed: it holds a session of the upstream. */
  readonly legacy: LegacyClient | undefined;
  /** False when the legacy era was not asked for, since modern was proved and nobody needed more. */
  readonly askedLegacy: boolean;
  readonly modern: ModernClient | undefined;
  /** Eras that could be neither proved nor ruled out; worth another probe sooner than usual. */
  readonly undecided: readonly InconclusiveProbe[];
}

/** An era about which an attempt said nothing, and how that attempt failed. */
export interface InconclusiveProbe {
  readonly era: Era;
  readonly error: UpstreamError;
}

/** When one era is proved, how long the other may still take: servers may stay silent on what they do not know. */
const GRACE_MS = 3_000;

/** How long modern may take to be proved before legacy is asked for too. */
const HEAD_START_MS = 1_000;

/**
 * Asks an address for both eras, independently of each other: a server may speak both. Modern is proved by a DiscoverResult or by one of the errors
 * that only modern servers send, never by -32601; legacy by an InitializeResult. 401, 403, 429, 5xx and failures of the
 * network decide nothing.
 *
 * Rejects with an {@link UpstreamError} when nothing can be spoken with it: the one that kept an era from being decided,
 * else `invalid`, also for a modern server of whose versions none is known here.
 *
 * `legacy` false: only modern clients are there so far. Then a modern server is spared the opening of a legacy session,
 * which not every one of them takes kindly; one that does not prove to be modern is asked for legacy all the same.
 * `graceMs` is for tests.
 */
export async function probeEras(options: ClientOptions, legacy = true, graceMs: number = GRACE_MS): Promise<Probe> {
  const { address } = options.transport;
  const late = { legacy: new AbortController(), modern: new AbortController() };
  const within = (era: Era): ClientOptions => {
    const { signal } = late[era];
    return { ...options, signal: options.signal === undefined ? signal : AbortSignal.any([options.signal, signal]) };
  };
  let grace: NodeJS.Timeout | undefined;
  const hurry = (other: Era) => {
    grace ??= setTimeout(() => {
      const what = `did not answer in the ${other} era within ${graceMs / 1000} s of answering in the other`;
      late[other].abort(new UpstreamError('timeout', address, what));
    }, graceMs);
  };
  const asking = attempt(openModern(within('modern')), () => hurry('legacy'));
  const modernAlone = !legacy && (await isProved(asking));
  const opening = modernAlone ? undefined : attempt(openLegacy(within('legacy')), () => hurry('modern'));
  const [old, modern] = await Promise.all([opening ?? NOT_ASKED, asking]).finally(() => clearTimeout(grace));

  const undecided: InconclusiveProbe[] = [];
  if (old.error !== undefined && !decides(old.error)) undecided.push({ era: 'legacy', error: old.error });
  if (modern.error !== undefined && !decides(modern.error)) undecided.push({ era: 'modern', error: modern.error });
  if (old.client === undefined && modern.client === undefined) {
    throw undecided[0]?.error ?? unusable(address, old.error, modern.error);
  }
  return { legacy: old.client, modern: modern.client, askedLegacy: !modernAlone, undecided };
}

/** True when the attempt has brought a client in its head start. */
async function isProved(asking: Promise<Attempt<ModernClient>>): Promise<boolean> {
  const late = delay(HEAD_START_MS, undefined, { ref: false });
  return (await Promise.race([asking, late]))?.client !== undefined;
}

const NOT_ASKED: Attempt<LegacyClient> = {};

interface Attempt<Client> {
  readonly client?: Client;
  readonly error?: UpstreamError;
}

async function attempt<Client>(opening: Promise<Client>, proved: () => void): Promise<Attempt<Client>> {
  try {
    const client = await opening;
    proved();
    return { client };
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
    if (provesModern(error)) proved();
    return { error };
  }
}

/** True when an era is ruled out (or proved) by this failure; false when it says nothing about the era. */
function decides({ kind, status = 0 }: UpstreamError): boolean {
  if (kind === 'http') return !isInconclusive(status);
  return kind === 'rpc' || kind === 'invalid';
}

function provesModern({ code }: UpstreamError): boolean {
  return code !== undefined && MODERN_ERROR_CODES.has(code);
}

/** Why there is nothing to be spoken with an upstream that has been asked for both eras. */
function unusable(address: string, legacy?: UpstreamError, modern?: UpstreamError): UpstreamError {
  const proof = [modern, legacy].find((error) => error !== undefined && provesModern(error));
  const said = (error: UpstreamError | undefined) => error?.message.replace(`upstream ${address} `, 'it ') ?? '';
  if (!proof) {
    const both = [...new Set([said(legacy), said(modern)])].join('; ');
    // The likeliest mistake: the address of the server without the path of its endpoint.
    const hint = legacy?.status === 404 && modern?.status === 404 ? '; is its path right? It often is /mcp' : '';
    const what = `speaks neither era of MCP: ${both}${hint}`;
    return new UpstreamError('invalid', address, what, { cause: legacy });
  }
  const versions = versionsIn(proof.data);
  const known = versions.some((version) => MODERN_VERSIONS.includes(version) || LEGACY_VERSIONS.includes(version));
  const what =
    versions.length > 0 && !known
      ? `speaks only versions of MCP that are not known here: ${quoted(versions.join(', '))}`
      : `speaks the modern era of MCP but cannot be asked: ${said(proof)}`;
  return new UpstreamError('invalid', address, what, { cause: proof });
}

/** The versions that an error names as supported; empty when it names none. */
function versionsIn(data: unknown): string[] {
  const supported = isJsonObject(data) ? data.supported : undefined;
  return Array.isArray(supported) ? supported.filter((version) => typeof version === 'string') : [];
}

/** The verdict on an upstream's eras is tested again after this long (mcp 4). */
const VERDICT_MS = 60 * 60_000;
/** One that left an era undecided sooner: at first after this long, then after twice as long each time. */
const UNDECIDED_MS = 60_000;

/** What is known of the eras that one upstream speaks, and for how long. */
export class EraCache {
  readonly #options: ClientOptions;
  readonly #legacyWanted: () => boolean;
  readonly #firstUndecidedMs: number;
  #verdict:
    | { readonly eras: readonly Era[]; readonly undecided: readonly InconclusiveProbe[]; readonly askedLegacy: boolean }
    | undefined = undefined;
  /** When the eras are to be probed again, in milliseconds of `performance.now()`. */
  #probeAt = 0;
  #undecidedMs: number;

  /** `legacyWanted`: whether a modern upstream is to be asked for the legacy era too. `undecidedMs` is for tests. */
  constructor(options: ClientOptions, legacyWanted: () => boolean, undecidedMs: number = UNDECIDED_MS) {
    this.#options = options;
    this.#legacyWanted = legacyWanted;
    this.#firstUndecidedMs = undecidedMs;
    this.#undecidedMs = undecidedMs;
  }

  /** True once the upstream was asked for the legacy era. */
  get askedLegacy(): boolean {
    return this.#verdict?.askedLegacy ?? false;
  }

  /** Milliseconds until the eras are to be probed again; 0 when that is due. */
  get dueInMs(): number {
    return this.#verdict ? Math.max(this.#probeAt - performance.now(), 0) : 0;
  }

  /** Opens a client in each era that the upstream speaks, which is found out anew. Rejects like {@link probeEras}. */
  async probe(): Promise<Probe> {
    const probe = await probeEras(this.#options, this.#legacyWanted());
    const { legacy, modern, undecided, askedLegacy } = probe;
    const eras: Era[] = [];
    if (legacy) eras.push('legacy');
    if (modern) eras.push('modern');
    this.#verdict = { eras, undecided, askedLegacy };
    this.#probeNext(undecided.length === 0);
    return probe;
  }

  /**
   * The same without asking for what was ruled out, which some upstreams answer with silence; unless a known era is
   * spoken no longer, or not now.
   */
  async open(): Promise<Probe> {
    if (!this.#verdict || (!this.#verdict.askedLegacy && this.#legacyWanted())) return this.probe();
    const { eras, undecided, askedLegacy } = this.#verdict;
    const opening = [
      eras.includes('legacy') ? openLegacy(this.#options) : undefined,
      eras.includes('modern') ? openModern(this.#options) : undefined,
    ] as const;
    try {
      const [legacy, modern] = await Promise.all(opening);
      return { legacy, modern, undecided, askedLegacy };
    } catch {
      for (const client of opening) client?.then((opened) => opened.close()).catch(() => undefined);
      return this.probe();
    }
  }

  #probeNext(decided: boolean): void {
    const now = performance.now();
    if (decided) {
      this.#undecidedMs = this.#firstUndecidedMs;
      this.#probeAt = now + VERDICT_MS;
    } else {
      this.#probeAt = now + this.#undecidedMs;
      this.#undecidedMs = Math.min(this.#undecidedMs * 2, VERDICT_MS);
    }
  }
}
