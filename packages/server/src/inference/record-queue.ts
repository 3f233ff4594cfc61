/** Records in the order in which they were put in; they leave in that order too. What has left costs nothing. */
export class RecordQueue<T> {
  #items: (T | undefined)[] = [];
  #start = 0;

  get length(): number {
    return this.#items.length - this.#start;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Takes the oldest out. */
  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#start];
    this.#items[this.#start++] = undefined;
    // Moving the rest each time would cost as much as there is; this way it is once per record.
    if (this.#start * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#start);
      this.#start = 0;
    }
    return item;
  }

  /** The newest `count`, oldest first. */
  newest(count: number): T[] {
    return this.#items
      .slice(Math.max(this.#start, this.#items.length - count))
      .filter((item): item is T => item !== undefined);
  }
}
