import type { Action } from './action-world.ts';

/** Jobs by action, taken in turns, so that an action with many of them does not keep others waiting. */
export class ActionQueues<Job extends { readonly action: Action }> {
  /** In the order of whose turn it is. */
  readonly #queues = new Map<string, Job[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** How many wait of one action. */
  sizeOf(checksum: string): number {
    return this.#queues.get(checksum)?.length ?? 0;
  }

  add(job: Job): void {
    const { checksum } = job.action;
    const queue = this.#queues.get(checksum);
    if (queue) queue.push(job);
    else this.#queues.set(checksum, [job]);
    this.#size++;
  }

  /** The next job of an action that may have one now. */
  take(may: (checksum: string) => boolean): Job | undefined {
    for (const [checksum, queue] of this.#queues) {
      if (!may(checksum)) continue;
      const job = queue.shift();
      this.#queues.delete(checksum);
      if (queue.length > 0) this.#queues.set(checksum, queue);
      if (job) this.#size--;
      return job;
    }
    return undefined;
  }

  /** All that are left. */
  drain(): Job[] {
    const jobs = [...this.#queues.values()].flat();
    this.#queues.clear();
    this.#size = 0;
    return jobs;
  }
}
