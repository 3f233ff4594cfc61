import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { type BoundedValues, RecordedText } from '../bounded-values.ts';

/** Members of an object that arrives in pieces: values, and texts that are concatenated. */
export class AssembledMembers {
  readonly #values: BoundedValues;
  readonly #members = new Map<string, JsonValue>();
  readonly #texts = new Map<string, RecordedText>();

  constructor(values: BoundedValues) {
    this.#values = values;
  }

  has(name: string): boolean {
    return this.#members.has(name) || this.#texts.has(name);
  }

  get(name: string): JsonValue | undefined {
    return this.#members.get(name);
  }

  /** Sets a member. Null means that there is no value yet: it replaces no earlier one. */
  set(name: string, value: JsonValue): void {
    if (value !== null || !this.has(name)) this.#values.set(this.#members, name, value);
  }

  /** Sets all members, except those named. */
  setAll(members: JsonObject, except: ReadonlySet<string> = NONE): void {
    for (const name in members) {
      const value = members[name];
      if (value !== undefined && !except.has(name)) this.set(name, value);
    }
  }

  /** Appends to a text. */
  append(name: string, text: JsonValue | undefined): void {
    if (typeof text !== 'string') return;
    let known = this.#texts.get(name);
    if (known === undefined) {
      if (this.#texts.size >= MAX_TEXTS || !this.#values.reserve(TEXT_COST)) return;
      known = new RecordedText(this.#values);
      this.#texts.set(name, known);
    }
    known.add(text);
  }

  /** Appends elements to a list. */
  extend(name: string, elements: readonly JsonValue[]): void {
    const list = this.#members.get(name);
    if (!Array.isArray(list)) this.set(name, [...elements]);
    else if (this.#values.reserveValue([...elements])) for (const each of elements) list.push(each);
  }

  /** A text so far. */
  text(name: string): string | undefined {
    return this.#texts.get(name)?.toString();
  }

  /** Removes a text and returns it. */
  takeText(name: string): string | undefined {
    const text = this.text(name);
    this.#texts.delete(name);
    return text;
  }

  /** The object; a text replaces the value of the same name, with which it began. */
  take(): JsonObject {
    const members = Object.fromEntries(this.#members);
    for (const [name, text] of this.#texts) {
      const began = members[name];
      members[name] = `${typeof began === 'string' ? began : ''}${text}`;
    }
    return members;
  }
}

const NONE: ReadonlySet<string> = new Set();
const MAX_TEXTS = 16;
const TEXT_COST = 256;

/** Cost of an item, in addition to its contents. */
const ITEM_COST = 1024;

/** A list whose items arrive in pieces, by their position. */
export class AssembledList<Item> {
  readonly #values: BoundedValues;
  readonly #max: number;
  readonly #create: () => Item;
  readonly #items = new Map<number, Item>();

  /** At most `max` items. */
  constructor(values: BoundedValues, max: number, create: () => Item) {
    this.#values = values;
    this.#max = max;
    this.#create = create;
  }

  /** Returns the item at this position, and creates it; undefined beyond the limit. */
  at(position: JsonValue | undefined): Item | undefined {
    const index = typeof position === 'number' ? position : 0;
    const known = this.#items.get(index);
    if (known !== undefined) return known;
    if (this.#items.size >= this.#max) this.#values.isTruncated = true;
    if (this.#items.size >= this.#max || !this.#values.reserve(ITEM_COST)) return undefined;
    const created = this.#create();
    this.#items.set(index, created);
    return created;
  }

  get size(): number {
    return this.#items.size;
  }

  /** The items in their order. */
  entries(): [number, Item][] {
    return [...this.#items].sort(([a], [b]) => a - b);
  }

  /** The items in their order. */
  items(): Item[] {
    return this.entries().map(([, item]) => item);
  }
}

/** A member that is an object. */
export function objectIn(value: JsonObject, name: string): JsonObject | undefined {
  const member = value[name];
  return isJsonObject(member) ? member : undefined;
}
