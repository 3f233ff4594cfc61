/** Queue of items that arrive during a test, consumed one by one in order of arrival. */
export class Arrivals<T> {
  /** All items so far, consumed or not. */
  readonly all: T[] = [];
  #taken = 0;
  #waiting: ((item: T) => void)[] = [];

  add(item: T): void {
    this.all.push(item);
    const next = this.#waiting.shift();
    if (!next) return;
    this.#taken++;
    next(item);
  }

  /** The next item that was not consumed, once it has arrived. */
  next(): Promise<T> {
    const item = this.all[this.#taken];
    if (item === undefined) return new Promise((resolve) => this.#waiting.push(resolve));
    this.#taken++;
    return Promise.resolve(item);
  }
}
