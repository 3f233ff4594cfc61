/** A lock with shared and exclusive tasks. */
export class SharedLock {
  #last: Promise<unknown> = Promise.resolve();
  readonly #running = new Set<Promise<unknown>>();

  /** Runs the task concurrently with other shared tasks, after the pending exclusive ones. */
  async shared<T>(task: () => Promise<T>): Promise<T> {
    await this.#last;
    const running = task();
    const released = running.catch(() => undefined);
    this.#running.add(released);
    try {
      return await running;
    } finally {
      this.#running.delete(released);
    }
  }

  /** Runs the task while no other task runs. */
  exclusive<T>(task: () => Promise<T>): Promise<T> {
    const running = this.#last.then(() => Promise.all(this.#running)).then(task);
    this.#last = running.catch(() => undefined);
    return running;
  }
}
