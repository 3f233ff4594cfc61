import type { mcpEntries } from '@sluice/contract';
import type { Era } from '@sluice/protocol/mcp/constants';
import { type CatalogLimits, CatalogSize } from './catalog-size.ts';

/** List whose entries have one schema. */
export type ServedList = keyof typeof mcpEntries;

/** An item of a list. Without a key it has none; with a problem it is not usable. */
export interface CheckedItem {
  readonly key: string | undefined;
  /** Its exact text, which is no slice of a longer one. */
  readonly json: string;
  readonly problem?: string | undefined;
}

/** Returns the stored string that is equal to the text of an object; undefined if there is none. */
export type FindStoredText = (list: ServedList, key: string, json: string) => string | undefined;

type Items = Readonly<Record<ServedList, Map<string, CheckedItem>>>;

/**
 * The distinct items of the catalogs that one discovery reads. An upstream usually lists the same for all client capabilities,
 * and at the next discovery: each text is parsed, checked, stored and counted once.
 */
export class CatalogTexts {
  readonly #size: CatalogSize;
  /** By exact text. What is usable depends on the era. */
  readonly #items: Readonly<Record<Era, Items>> = {
    legacy: perList(() => new Map()),
    modern: perList(() => new Map()),
  };
  readonly #keys = perList(() => new Set<string>());
  /** Those of the last discovery, until this one has ended. */
  #previous: CatalogTexts | undefined;
  /** Those of the registry, likewise. */
  #findStored: FindStoredText | undefined;

  /** `findStored`: for the first discovery after a restart, which would else store all texts a second time. */
  constructor(address: string, limits: CatalogLimits, previous?: CatalogTexts, findStored?: FindStoredText) {
    this.#size = new CatalogSize(address, limits);
    this.#previous = previous;
    this.#findStored = findStored;
  }

  /** Returns the item with this text, checked by `check` if it is new. Throws an `UpstreamError` beyond the limits. */
  item(list: ServedList, era: Era, json: string, check: (json: string) => CheckedItem): CheckedItem {
    const known = this.find(list, era, json);
    if (known) return known;
    const item = this.#previous?.find(list, era, json) ?? this.#withStoredText(list, check(json));
    return this.#add(list, era, item);
  }

  /** The item with this text, if there is one. */
  find(list: ServedList, era: Era, json: string): CheckedItem | undefined {
    return this.#items[era][list].get(json);
  }

  /** The discovery has ended. */
  complete(): this {
    this.#previous = undefined;
    this.#findStored = undefined;
    return this;
  }

  #withStoredText(list: ServedList, item: CheckedItem): CheckedItem {
    const { key, json, problem } = item;
    const stored = key === undefined ? undefined : this.#findStored?.(list, key, json);
    return stored === undefined ? item : { key, json: stored, problem };
  }

  #add(list: ServedList, era: Era, item: CheckedItem): CheckedItem {
    const { key, json, problem } = item;
    // Usually the same in both eras.
    const other = this.#items[era === 'legacy' ? 'modern' : 'legacy'][list].get(json);
    const keys = this.#keys[list];
    const isNew = key !== undefined && problem === undefined && !keys.has(key);
    if (!other) this.#size.add(isNew ? 1 : 0, Buffer.byteLength(json));
    if (isNew) keys.add(key);
    const stored = other && other.problem === problem ? other : item;
    this.#items[era][list].set(stored.json, stored);
    return stored;
  }
}

/** Returns a value for each list. */
export function perList<T>(create: () => T): Record<ServedList, T> {
  return { tools: create(), resources: create(), templates: create(), prompts: create() };
}
