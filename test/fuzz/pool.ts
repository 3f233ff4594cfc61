import { isObject, type JsonObject } from './document.ts';

/** So many items of a collection are remembered. */
const MOST = 64;

/** What the answers have told of, by the path of the collection that it is in: what further requests are made of. */
export class Pool {
  readonly #items = new Map<string, JsonObject[]>();

  /** Takes what a list says for all that there is, and one item for a further one. */
  learn(collection: string, data: unknown): void {
    if (Array.isArray(data)) {
      const items = data.filter(isObject);
      // The first were perhaps there before; the last are those made last.
      this.#items.set(collection, [...items.slice(0, MOST / 2), ...items.slice(MOST / 2).slice(-MOST / 2)]);
    } else if (isObject(data) && typeof data.name === 'string') {
      const items = this.#items.get(collection) ?? [];
      this.#items.set(collection, [...items, data].slice(-MOST));
    }
  }

  /** One of the collection's items: the same for the same number, while nothing is learnt. */
  item(collection: string, number: number): JsonObject | undefined {
    const items = this.#items.get(collection) ?? [];
    return items[number % items.length];
  }

  /** What an item of the collection has under a member's name; where it has none, any other's. */
  member(collection: string, name: string, number: number): unknown {
    const item = this.item(collection, number) ?? {};
    if (item[name] !== undefined) return item[name];
    const all = [...this.#items.values()].flat().flatMap((item) => (Object.hasOwn(item, name) ? [item[name]] : []));
    return all[number % all.length];
  }

  /** What may tell an item apart: its member of this name, or, where it has none, any of its texts. */
  trait(collection: string, name: string, number: number): string {
    const item = this.item(collection, number) ?? {};
    const texts = Object.values(item).filter((value) => typeof value === 'string');
    const { [name]: own = texts[number % texts.length] } = item;
    return typeof own === 'string' ? own : 'none';
  }
}
