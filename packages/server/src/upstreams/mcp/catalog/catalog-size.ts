import { UpstreamError } from '../../../http/client/errors.ts';

/** Limits of the catalogs of one forward. Beyond them a discovery fails, and the last good catalog stays. */
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
