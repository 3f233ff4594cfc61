import { UpstreamError } from '../../../http/client/errors.ts';
import type { ServedList } from '../../../registry/served-schemas.ts';
import { detached } from '../../../registry/stored.ts';

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
  readonly #texts: Readonly<Record<ServedList, Map<string, string[]>>> = {
    tools: new Map(),
    resources: new Map(),
    templates: new Map(),
    prompts: new Map(),
  };

  constructor(address: string, limits: CatalogLimits) {
    this.#size = new CatalogSize(address, limits);
  }

  /** Returns the stored text of an entry. Throws an {@link UpstreamError} `too-large` beyond the limits. */
  store(list: ServedList, key: string, json: string): string {
    const texts = this.#texts[list].get(key);
    const known = texts?.find((text) => text === json);
    if (known !== undefined) return known;
    this.#size.add(texts ? 0 : 1, Buffer.byteLength(json));
    const text = detached(json);
    if (texts) texts.push(text);
    else this.#texts[list].set(detached(key), [text]);
    return text;
  }
}
