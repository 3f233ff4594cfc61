import type { JsonValue } from '@sluice/protocol/json/parse';

/** What a member costs whose name is the first of it in a list of members, beside that name. */
const NEW_NAME = 256;
/** What an array or an object costs, beside what is in it: in memory the empty ones take some ten times their JSON. */
const CONTAINER = 24;
/** Numbers that are no small integers may take so many bytes as JSON, however they came: `1e20` has 21. */
const LONG_NUMBER = 24;
const OTHER = 8;
/** More members than that no list of members has. */
const MOST_NAMES = 64;
/** Objects with more members are no records but lists of names: each of those costs this more. */
const FEW_NAMES = 32;
const LISTED_NAME = 32;
/** No value that is nested deeper is kept: writing it as JSON would exhaust the stack. */
const DEEPEST = 512;

/**
 * Bounds the values that are kept of the chunks of one stream (decisions 4.8): a few bytes of JSON can take many in
 * memory, and long to write. Every value is counted when it is kept, but a text or a number in the place of an earlier
 * one; texts count little, since they never grow. What there is no room for is left out, and {@link cut} says so.
 */
export class KeptValues {
  /** Whether something was left out. */
  cut = false;
  /** How deeply the values are nested, at most. */
  deepest = 0;
  #room: number;
  /** How deeply the value being counted is nested. */
  #reached = 0;

  constructor(bytes: number) {
    this.#room = bytes;
  }

  /** The list, or the first of it where there are more than `most`. */
  first(list: readonly JsonValue[], most: number): readonly JsonValue[] {
    if (list.length <= most) return list;
    this.cut = true;
    return list.slice(0, most);
  }

  /** Whether there is room for so many bytes; they are taken. */
  take(bytes: number): boolean {
    if (bytes > this.#room) {
      this.cut = true;
      return false;
    }
    this.#room -= bytes;
    return true;
  }

  /** Whether there is room for the value, and so many bytes more; it is taken. */
  takeValue(value: JsonValue, more = 0): boolean {
    this.#reached = 0;
    const taken = this.take(more + this.#costOf(value, 0));
    if (taken && this.#reached > this.deepest) this.deepest = this.#reached;
    return taken;
  }

  /** Gives a list of members this one, where there is room for it. */
  set(members: Map<string, JsonValue>, name: string, value: JsonValue): void {
    if (typeof value !== 'object' && members.has(name)) {
      members.set(name, value);
      return;
    }
    const isNew = !members.has(name);
    if (isNew && members.size >= MOST_NAMES) this.cut = true;
    else if (this.takeValue(value, isNew ? NEW_NAME + name.length : 0)) members.set(name, value);
  }

  #costOf(value: JsonValue, depth: number): number {
    if (typeof value === 'number') return (value | 0) === value ? OTHER : LONG_NUMBER;
    if (typeof value !== 'object' || value === null) return OTHER;
    if (depth >= DEEPEST) return Number.POSITIVE_INFINITY;
    if (depth >= this.#reached) this.#reached = depth + 1;
    let cost = CONTAINER;
    if (Array.isArray(value)) {
      for (const each of value) cost += this.#costOf(each, depth + 1);
      return cost;
    }
    let names = 0;
    for (const [name, each] of Object.entries(value)) {
      names++;
      cost += name.length + this.#costOf(each, depth + 1);
    }
    return names > FEW_NAMES ? cost + names * LISTED_NAME : cost;
  }
}
