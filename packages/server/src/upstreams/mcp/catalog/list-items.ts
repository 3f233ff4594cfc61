import { isJsonObject } from '@sluice/protocol/json/parse';
import type { Era } from '@sluice/protocol/mcp/constants';
import { readParamHeaders } from '@sluice/protocol/mcp/param-headers';
import { singleLine } from '@sluice/protocol/text';
import { quoted } from '../../../http/client/errors.ts';
import type { ListedItem } from '../../../registry/catalogs.ts';
import { findViolation, type ServedList } from '../../../registry/served-schemas.ts';
import type { CatalogTexts } from './catalog-size.ts';

/** A list of an upstream, requested if it declares `capability`. */
export interface ListSpec {
  readonly into: ServedList;
  readonly capability: 'tools' | 'resources' | 'prompts';
  readonly method: string;
  /** Member of the result with the list. */
  readonly member: string;
  /** Member of an item that identifies it. */
  readonly key: string;
}

/** Entries that a note names, and characters of each name. */
const MAX_NAMED = 20;
const MAX_NAME_LENGTH = 64;

/**
 * Collects the usable items of one list. Items without a key and repeated ones are skipped and counted (decisions 4.3). Items
 * for which clients would reject the whole list are left out, counted and named (decisions 10.1).
 */
export class ListItems {
  readonly accepted: ListedItem[] = [];
  readonly #list: ListSpec;
  readonly #era: Era;
  readonly #texts: CatalogTexts;
  readonly #keys = new Set<string>();
  #unnamed = 0;
  #repeated = 0;
  #unusable = 0;
  readonly #named: string[] = [];

  constructor(list: ListSpec, era: Era, texts: CatalogTexts) {
    this.#list = list;
    this.#era = era;
    this.#texts = texts;
  }

  /** Adds an item: its parsed value, and its exact text. Throws an `UpstreamError` if the catalog is too large. */
  add(value: unknown, json: string): void {
    const key = isJsonObject(value) ? value[this.#list.key] : undefined;
    if (!isJsonObject(value) || typeof key !== 'string' || key === '') {
      this.#unnamed++;
      return;
    }
    if (this.#keys.has(key)) {
      this.#repeated++;
      return;
    }
    const problem = this.#problemOf(value);
    if (problem !== undefined) {
      if (++this.#unusable <= MAX_NAMED) this.#named.push(`${singleLine(key, MAX_NAME_LENGTH)} (${quoted(problem)})`);
      return;
    }
    this.#keys.add(key);
    this.accepted.push({ key, json: this.#texts.store(this.#list.into, key, json) });
  }

  /** What was not accepted, for the forward's `statusMessage`. */
  notes(): string[] {
    const { method, key } = this.#list;
    const notes: string[] = [];
    if (this.#unnamed > 0) notes.push(`${method}: ${formatCount(this.#unnamed)} without ${key} skipped`);
    if (this.#repeated > 0) notes.push(`${method}: ${formatCount(this.#repeated)} with a repeated ${key} skipped`);
    if (this.#unusable > 0) {
      const more = this.#unusable > MAX_NAMED ? ` and ${this.#unusable - MAX_NAMED} more` : '';
      notes.push(`${method}: ${formatCount(this.#unusable)} left out: ${this.#named.join(', ')}${more}`);
    }
    return notes;
  }

  #problemOf(value: Readonly<Record<string, unknown>>): string | undefined {
    const violation = findViolation(this.#list.into, value);
    if (violation) return `${violation.path} ${violation.message}`;
    if (this.#list.into !== 'tools' || this.#era !== 'modern') return undefined;
    const headers = readParamHeaders(value.inputSchema);
    return headers.valid ? undefined : headers.reason;
  }
}

function formatCount(count: number): string {
  return count === 1 ? '1 entry' : `${count} entries`;
}
