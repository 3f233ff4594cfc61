/** A queue in which everybody who waits has a turn before anybody has the next one. */
export class FairQueue<Job> {
  /** Whose turn is next stands first; nobody in it has nothing to do. */
  readonly #waiting = new Map<string, Job[]>();
  #last = '';
  #size = 0;

  /** How many jobs wait. */
  get size(): number {
    return this.#size;
  }

  /** How many of them are somebody's. */
  sizeOf(whose: string): number {
    return this.#waiting.get(whose)?.length ?? 0;
  }

  add(whose: string, job: Job): void {
    const jobs = this.#waiting.get(whose);
    if (jobs) jobs.push(job);
    else this.#waiting.set(whose, [job]);
    this.#size++;
  }

  /** Takes the next one of those who may have a turn now; undefined when there is none. */
  take(may: (whose: string) => boolean = () => true): Job | undefined {
    const rest = this.#waiting.get(this.#last);
    if (rest !== undefined) {
      // Whoever came while this one had its turn stands before it now.
      this.#waiting.delete(this.#last);
      this.#waiting.set(this.#last, rest);
    }
    for (const [whose, jobs] of this.#waiting) {
      if (!may(whose)) continue;
      if (jobs.length === 1) this.#waiting.delete(whose);
      this.#last = whose;
      this.#size--;
      return jobs.shift();
    }
    return undefined;
  }

  /** Takes out a job that nobody waits for any more; false when it is not there. */
  remove(whose: string, job: Job): boolean {
    const jobs = this.#waiting.get(whose) ?? [];
    const at = jobs.indexOf(job);
    if (at < 0) return false;
    jobs.splice(at, 1);
    if (jobs.length === 0) this.#waiting.delete(whose);
    this.#size--;
    return true;
  }
}
