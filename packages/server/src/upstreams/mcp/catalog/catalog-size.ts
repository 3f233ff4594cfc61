import { UpstreamError } from '../../../http/client/errors.ts';
import type { ListedItem } from '../../../registry/catalogs.ts';
import type { ServedList } from '../../../registry/served-schemas.ts';

/** Limits of the catalogs of one forward (decisions 10.4). Beyond them a discovery fails, and the last good catalog stays. */
export interface CatalogLimits {
  /** `SERVICE_MAX_CATALOG_ENTRIES`. */
  readonly entries: number;
  /** `SERVICE_MAX_CATALOG_BYTES`. */
  readonly bytes: number;
}

/** The defaults. */
export const CATALOG_LIMITS: CatalogLimits = { entries: 100_000, bytes: 64 * 1024 * 1024 };

/**
 * Counts entries and bytes against limits: those that an upstream sends for one catalog, usable or not, and those that the
 * catalogs of one forward consist of.
 */
export class CatalogSize {
  readonly #address: string;
  readonly #limits: CatalogLimits;
  #entries = 0;
  #bytes = 0;

  constructor(address: string, limits: CatalogLimits) {
    this.#address = address;
    this.#limits = limits;
  }

  /** Throws an {@link UpstreamError} `too-large` beyond the limits. */
  add(entries: number, bytes: number): void {
    this.#entries += entries;
    this.#bytes += bytes;
    const limits = this.#limits;
    if (this.#entries > limits.entries) {
      const what = `lists more than ${limits.entries} entries`;
      throw new UpstreamError('too-large', this.#address, `${what}, the limit SERVICE_MAX_CATALOG_ENTRIES`);
    }
    if (this.#bytes > limits.bytes) {
      const what = `has lists of more than ${limits.bytes} bytes`;
      throw new UpstreamError('too-large', this.#address, `${what}, the limit SERVICE_MAX_CATALOG_BYTES`);
    }
  }
}

/**
 * The distinct texts of the catalogs that one discovery reads. An upstream usually lists the same entries for all client
 * capabilities: each text is stored and counted once.
 */
export class CatalogTexts {
  readonly #size: CatalogSize;
  readonly #items: Readonly<Record<ServedList, Map<string, ListedItem[]>>> = {
    tools: new Map(),
    resources: new Map(),
    templates: new Map(),
    prompts: new Map(),
  };

  constructor(address: string, limits: CatalogLimits) {
    this.#size = new CatalogSize(address, limits);
  }

  /**
   * Returns the stored form of an entry. `json` must not be a slice of a longer text, which it would retain. Throws an
   * {@link UpstreamError} `too-large` beyond the limits.
   */
  store(list: ServedList, key: string, json: string): ListedItem {
    const items = this.#items[list].get(key);
    const known = items?.find((item) => item.json === json);
    if (known) return known;
    this.#size.add(items ? 0 : 1, Buffer.byteLength(json));
    const item = { key, json };
    if (items) items.push(item);
    else this.#items[list].set(key, [item]);
    return item;
  }
}
