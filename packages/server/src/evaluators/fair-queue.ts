/** A queue in which everybody who waits has a turn before anybody has the next one. */
export class FairQueue<Job> {
  /** Whose turn is next stands first; nobody in it has nothing to do. */
  readonly #waiting = new Map<string, Job[]>();
  #last = '';

  add(whose: string, job: Job): void {
    const jobs = this.#waiting.get(whose);
    if (jobs) jobs.push(job);
    else this.#waiting.set(whose, [job]);
  }

  /** Takes the next one; undefined when there is none. */
  take(): Job | undefined {
    const rest = this.#waiting.get(this.#last);
    if (rest !== undefined) {
      // Whoever came while this one had its turn stands before it now.
      this.#waiting.delete(this.#last);
      this.#waiting.set(this.#last, rest);
    }
    for (const [whose, jobs] of this.#waiting) {
      if (jobs.length === 1) this.#waiting.delete(whose);
      this.#last = whose;
      return jobs.shift();
    }
    return undefined;
  }
}
