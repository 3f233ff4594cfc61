import { type ClientCapabilities, catalogKey, NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import type { TimeSlicer } from '@sluice/protocol/time-slicer';
import type { ListedItem } from '../../registry/catalogs.ts';
import type { Steps } from '../../registry/steps.ts';
import { CATALOG_LIMITS, type CatalogLimits } from './catalog/catalog-size.ts';
import { CatalogTexts, type FindStoredText } from './catalog/catalog-texts.ts';
import { type Catalog, type DiscoveryOptions, discover } from './discovery.ts';
import type { ListReads } from './list-reads.ts';
import type { RpcClient, RpcClientOptions } from './rpc-client.ts';

/** Options of a {@link CatalogReader}. */
export interface CatalogReaderOptions extends Omit<RpcClientOptions, 'capabilities'> {
  readonly signal: AbortSignal;
  /** Default: {@link CATALOG_LIMITS}. */
  readonly limits?: CatalogLimits | undefined;
  readonly slicer: TimeSlicer;
  /** Finds texts that the registry has of the upstream at the time of the call. */
  readonly storedTexts: () => FindStoredText;
  readonly reads?: ListReads;
}

/** Catalogs of an upstream, one per era and set of client capabilities. Equal lists are one array. */
export interface CatalogReading {
  readonly catalogs: readonly Catalog[];
  readonly texts: CatalogTexts;
  /** Whether nothing differs from the reading before. */
  readonly isUnchanged: boolean;
}

interface CatalogPart extends Pick<Catalog, 'era' | 'capabilities'> {
  /** Opened with these capabilities, if there is one. */
  readonly client?: RpcClient | undefined;
}

const LISTS = ['tools', 'resources', 'templates', 'prompts'] as const;
/** Items that are compared in one step. */
const PER_STEP = 8_192;

/** Reads the catalogs of one upstream. */
export class CatalogReader {
  readonly #options: CatalogReaderOptions;
  #last: CatalogReading | undefined = undefined;

  constructor(options: CatalogReaderOptions) {
    this.#options = options;
  }

  /**
   * Reads the catalogs of all sets of capabilities in the eras of the opened clients, which read the one for the empty set.
   * Rejects if one of them fails.
   */
  async readAll(opened: readonly RpcClient[], profiles: Iterable<ClientCapabilities>): Promise<CatalogReading> {
    const sets = [...profiles];
    const { transport, limits = CATALOG_LIMITS, slicer, storedTexts } = this.#options;
    const stored = this.#last ? undefined : storedTexts();
    const texts = new CatalogTexts(transport.address, limits, this.#last?.texts, stored);
    const parts = opened.flatMap((client) =>
      sets.map((capabilities): CatalogPart => {
        return { era: client.era, capabilities, client: capabilities === NO_CAPABILITIES ? client : undefined };
      }),
    );
    const catalogs = await slicer.run(shareLists(await this.#read(parts, texts)));
    const isUnchanged = await slicer.run(areSameCatalogs(this.#last?.catalogs ?? [], catalogs));
    return { catalogs, texts: texts.complete(), isUnchanged };
  }

  /**
   * Reads the catalogs of sets that the last accepted reading lacks, and drops those of sets that are no longer used.
   * Undefined if there is nothing to change. Rejects if one of them fails.
   */
  async readMissing(profiles: Iterable<ClientCapabilities>): Promise<CatalogReading | undefined> {
    const last = this.#last;
    if (!last) return undefined;
    const sets = [...profiles];
    const eras = [...new Set(last.catalogs.map(({ era }) => era))];
    const wanted = eras.flatMap((era) =>
      sets.map((capabilities) => ({ era, capabilities, key: catalogKey(era, capabilities) })),
    );
    const known = new Set(last.catalogs.map(({ key }) => key));
    const missing = wanted.filter(({ key }) => !known.has(key));
    if (missing.length === 0) return undefined;
    const added = await this.#read(missing, last.texts);
    const used = new Set(wanted.map(({ key }) => key));
    const kept = last.catalogs.filter(({ key }) => used.has(key));
    const catalogs = await this.#options.slicer.run(shareLists([...kept, ...added]));
    return { catalogs, texts: last.texts, isUnchanged: false };
  }

  /** Makes a reading, which is in the registry now, the one that `readMissing` adds to. */
  accept(reading: CatalogReading): void {
    this.#last = reading;
  }

  async #read(parts: readonly CatalogPart[], texts: CatalogTexts): Promise<Catalog[]> {
    const abortRuns = new AbortController();
    const { limits = CATALOG_LIMITS, ...options } = this.#options;
    const signal = AbortSignal.any([options.signal, abortRuns.signal]);
    const runs = parts.map(({ era, capabilities, client }) => {
      const run: DiscoveryOptions = { ...options, signal, capabilities, limits, texts };
      return discover(run, era, client);
    });
    return await Promise.all(runs).catch(async (error: unknown) => {
      // One failure fails the whole run.
      abortRuns.abort();
      await Promise.allSettled(runs);
      throw error;
    });
  }
}

/** Replaces equal lists by one array: those of most sets are equal, and are then stored, compared and merged as one. */
function* shareLists(catalogs: readonly Catalog[]): Steps<Catalog[]> {
  const shared: Catalog[] = [];
  for (const catalog of catalogs) {
    const lists: Partial<Record<(typeof LISTS)[number], readonly ListedItem[]>> = {};
    for (const list of LISTS) {
      for (const other of shared) {
        if (yield* isSameList(other[list], catalog[list])) {
          lists[list] = other[list];
          break;
        }
      }
    }
    shared.push({ ...catalog, ...lists });
  }
  return shared;
}

function* isSameList(a: readonly ListedItem[], b: readonly ListedItem[]): Steps<boolean> {
  if (a.length !== b.length) return false;
  if (a === b) return true;
  for (let at = 0; at < a.length; at++) {
    // The catalogs of one discovery share their items.
    if (a[at] !== b[at]) return false;
    if (at % PER_STEP === PER_STEP - 1) yield;
  }
  return true;
}

/** Whether two readings have the same catalogs, whose equal items are one object. */
function* areSameCatalogs(before: readonly Catalog[], after: readonly Catalog[]): Steps<boolean> {
  if (before.length !== after.length) return false;
  for (const [at, catalog] of after.entries()) {
    const other = before[at];
    if (!other || describe(other) !== describe(catalog)) return false;
    for (const list of LISTS) if (!(yield* isSameList(other[list], catalog[list]))) return false;
  }
  return true;
}

/** Text of a catalog without its lists, for comparison. */
function describe({ key, identity, cache, notes }: Catalog): string {
  return JSON.stringify([key, identity, cache, notes]);
}
