import { isObject, type JsonObject } from './document.ts';

/** Maximum number of items of a collection. */
const MAX_ITEMS = 64;

/** Items of received responses, by path of their collection, as input for further requests. */
export class Pool {
  readonly #items = new Map<string, JsonObject[]>();

  /** Replaces the items with those of a list, or adds a single item. */
  record(collection: string, data: unknown): void {
    if (Array.isArray(data)) {
      const items = data.filter(isObject);
      // The oldest and the newest items.
      this.#items.set(collection, [
        ...items.slice(0, MAX_ITEMS / 2),
        ...items.slice(MAX_ITEMS / 2).slice(-MAX_ITEMS / 2),
      ]);
    } else if (isObject(data) && typeof data.name === 'string') {
      const items = this.#items.get(collection) ?? [];
      this.#items.set(collection, [...items, data].slice(-MAX_ITEMS));
    }
  }

  /** One of the collection's items, selected by the number. */
  item(collection: string, number: number): JsonObject | undefined {
    const items = this.#items.get(collection) ?? [];
    return items[number % items.length];
  }

  /** Value of a member of an item in the collection, or of any other item if it has none. */
  member(collection: string, name: string, number: number): unknown {
    const item = this.item(collection, number) ?? {};
    if (item[name] !== undefined) return item[name];
    const all = [...this.#items.values()].flat().flatMap((item) => (Object.hasOwn(item, name) ? [item[name]] : []));
    return all[number % all.length];
  }

  /** A value that may identify an item: its member of this name, or any of its strings. */
  trait(collection: string, name: string, number: number): string {
    const item = this.item(collection, number) ?? {};
    const texts = Object.values(item).filter((value) => typeof value === 'string');
    const { [name]: own = texts[number % texts.length] } = item;
    return typeof own === 'string' ? own : 'none';
  }
}
