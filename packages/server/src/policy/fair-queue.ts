/** Round-robin queue: every key with pending jobs gets a turn before any key gets its next one. */
export class FairQueue<Job> {
  /** Pending jobs by key, next turn first; keys without jobs are removed. */
  readonly #pending = new Map<string, Job[]>();
  #lastKey = '';
  #size = 0;

  /** Number of pending jobs. */
  get size(): number {
    return this.#size;
  }

  /** Number of pending jobs of a key. */
  sizeOf(key: string): number {
    return this.#pending.get(key)?.length ?? 0;
  }

  add(key: string, job: Job): void {
    this.#pending.getOrInsertComputed(key, () => []).push(job);
    this.#size++;
  }

  /** Removes and returns the next job of the eligible keys; undefined if there is none. */
  next(isEligible: (key: string) => boolean = () => true): Job | undefined {
    const remaining = this.#pending.get(this.#lastKey);
    if (remaining !== undefined) {
      // Keys that were added during the last turn precede its key.
      this.#pending.delete(this.#lastKey);
      this.#pending.set(this.#lastKey, remaining);
    }
    for (const [key, jobs] of this.#pending) {
      if (!isEligible(key)) continue;
      if (jobs.length === 1) this.#pending.delete(key);
      this.#lastKey = key;
      this.#size--;
      return jobs.shift();
    }
    return undefined;
  }

  /** Removes a pending job; false if it is not in the queue. */
  remove(key: string, job: Job): boolean {
    const jobs = this.#pending.get(key) ?? [];
    const index = jobs.indexOf(job);
    if (index < 0) return false;
    jobs.splice(index, 1);
    if (jobs.length === 0) this.#pending.delete(key);
    this.#size--;
    return true;
  }
}
