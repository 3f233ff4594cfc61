/** Lets many do something at a time, or one alone. */
export class Gate {
  #last: Promise<unknown> = Promise.resolve();
  readonly #inside = new Set<Promise<unknown>>();

  /** Runs the task beside others, once whoever is alone has finished. */
  async shared<T>(task: () => Promise<T>): Promise<T> {
    await this.#last;
    const running = task();
    const settled = running.catch(() => undefined);
    this.#inside.add(settled);
    try {
      return await running;
    } finally {
      this.#inside.delete(settled);
    }
  }

  /** Runs the task while nobody else runs one. */
  alone<T>(task: () => Promise<T>): Promise<T> {
    const running = this.#last.then(() => Promise.all(this.#inside)).then(task);
    this.#last = running.catch(() => undefined);
    return running;
  }
}
