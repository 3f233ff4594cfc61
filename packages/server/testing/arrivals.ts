/** Things that arrive in the course of a test, each taken once and in the order of arrival. */
export class Arrivals<T> {
  /** All so far, taken or not. */
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

  /** The next one that nobody has taken, as soon as it is here. */
  next(): Promise<T> {
    const item = this.all[this.#taken];
    if (item === undefined) return new Promise((resolve) => this.#waiting.push(resolve));
    this.#taken++;
    return Promise.resolve(item);
  }
}
