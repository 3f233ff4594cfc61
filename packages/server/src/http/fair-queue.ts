/** There is no room for a job: no failure of the job itself, which the caller may try again later. */
export class BusyError extends Error {
  /** Estimated time until there is room, in milliseconds. */
  readonly retryAfterMs: number;

  constructor(retryAfterMs: number = MIN_RETRY_MS) {
    super('there is no room to evaluate the request');
    this.retryAfterMs = retryAfterMs;
  }
}

const MIN_RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;

/** On whose behalf a request waits in queues, and for how long it may still do so. */
export class WaitBudget {
  readonly namespace: string;
  readonly user: string;
  /** Waiting time that is left, in milliseconds. */
  remainingMs: number;

  /** `waitMs` is the limit of the waiting time in all queues together; without one it is unlimited. */
  constructor(namespace: string, user: string, waitMs: number = Number.POSITIVE_INFINITY) {
    this.namespace = namespace;
    this.user = user;
    this.remainingMs = waitMs;
  }
}

/** A job in the queue. */
interface Entry<Job> {
  readonly job: Job;
  readonly budget: WaitBudget;
  /** Namespace, user, resource. */
  readonly path: readonly string[];
  readonly onBusy: (error: BusyError) => void;
  readonly addedAt: number;
  timer: NodeJS.Timeout | undefined;
}

/**
 * Bounded queue for a number of workers, in three levels of round robin: namespaces, their users, and the resources that
 * the jobs of a user need, such as an action. At each level every key with jobs gets a turn before any key gets its next
 * one.
 *
 * A job that finds the queue full takes the place of the newest job of the largest namespace, or of the largest user of
 * its own namespace, if its own has less than an equal share.
 */
export class FairQueue<Job extends object> {
  readonly #capacity: number;
  readonly #workers: number;
  readonly #root = new Branch<Job>();
  /** Path of the job that was taken last. */
  #last: readonly string[] | undefined = undefined;
  readonly #entries = new Map<Job, Entry<Job>>();
  #meanMs = 0;

  constructor(capacity: number, workers: number) {
    this.#capacity = capacity;
    this.#workers = workers;
  }

  /** Number of pending jobs. */
  get size(): number {
    return this.#root.size;
  }

  /**
   * Adds a job. `onBusy` is called, at once or later, if there is no room for it or its waiting time is used up; the job is
   * then no longer in the queue.
   */
  add(job: Job, budget: WaitBudget, resource: string, onBusy: (error: BusyError) => void): void {
    const path = [budget.namespace, budget.user, resource];
    const entry: Entry<Job> = { job, budget, path, onBusy, addedAt: performance.now(), timer: undefined };
    // A timer may end a fraction of a millisecond early.
    if (budget.remainingMs < 1) return onBusy(this.#busy());
    if (this.size >= this.#capacity) {
      const evicted = this.#root.evictedBy(entry);
      if (!evicted) return onBusy(this.#busy());
      this.remove(evicted.job);
      evicted.onBusy(this.#busy());
    }
    if (budget.remainingMs < Number.POSITIVE_INFINITY) {
      entry.timer = setTimeout(() => this.remove(job) && onBusy(this.#busy()), budget.remainingMs).unref();
    }
    this.#entries.set(job, entry);
    this.#root.add(entry, this.#last);
  }

  /** Removes and returns the next job of the eligible resources; undefined if there is none. */
  take(isEligible: (resource: string) => boolean = () => true): Job | undefined {
    const entry = this.#root.take(isEligible);
    if (!entry) return undefined;
    this.#forget(entry);
    this.#last = entry.path;
    return entry.job;
  }

  /** Removes a pending job; false if it is not in the queue. */
  remove(job: Job): boolean {
    const entry = this.#entries.get(job);
    if (!entry) return false;
    this.#root.remove(entry);
    this.#forget(entry);
    return true;
  }

  /** Records how long a worker took for a job, for the estimate of {@link BusyError.retryAfterMs}. */
  served(ms: number): void {
    this.#meanMs += (ms - this.#meanMs) / 8;
  }

  #forget({ job, budget, addedAt, timer }: Entry<Job>): void {
    this.#entries.delete(job);
    clearTimeout(timer);
    budget.remainingMs -= performance.now() - addedAt;
  }

  #busy(): BusyError {
    const drainedInMs = Math.ceil((this.size * this.#meanMs) / this.#workers);
    return new BusyError(Math.min(Math.max(drainedInMs, MIN_RETRY_MS), MAX_RETRY_MS));
  }
}

/** Runs a limited number of jobs at a time; the others wait in a {@link FairQueue}. */
export class FairLimiter {
  readonly #limit: number;
  /** Functions that start the waiting jobs. */
  readonly #queue: FairQueue<() => void>;
  #active = 0;

  constructor(capacity: number, limit: number) {
    this.#limit = limit;
    this.#queue = new FairQueue(capacity, limit);
  }

  /**
   * Runs a job when it is its turn. Rejects with {@link BusyError} if there is no room, and with the reason of the signal once that
   * aborts: a waiting job does not run then, and the result of a running one is ignored.
   */
  run<T>(job: () => Promise<T>, budget: WaitBudget, resource: string, signal: AbortSignal | undefined): Promise<T> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const start = () => {
      const startedAt = performance.now();
      const onEnd = () => this.#onEnd(performance.now() - startedAt);
      this.#active++;
      void Promise.try(job).then(resolve, reject).finally(onEnd);
    };
    const onAbort = () => {
      this.#queue.remove(start);
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#queue.add(start, budget, resource, reject);
    this.#startNext();
    return promise.finally(() => signal?.removeEventListener('abort', onAbort));
  }

  /** Starts all waiting jobs. */
  drain(): void {
    for (let start = this.#queue.take(); start; start = this.#queue.take()) start();
  }

  #startNext(): void {
    if (this.#active < this.#limit) this.#queue.take()?.();
  }

  #onEnd(ms: number): void {
    this.#queue.served(ms);
    this.#active--;
    this.#startNext();
  }
}

/** Levels of the path at which keys share the capacity: namespace and user. */
const SHARING_LEVELS = 2;

/** Node of the tree of pending jobs: the jobs of a key at one level of the path. */
class Branch<Job> {
  size = 0;
  /** Next turn first; branches without jobs are removed. */
  readonly #branches = new Map<string, Branch<Job>>();
  /** Jobs of a leaf, oldest first. */
  readonly #entries: Entry<Job>[] = [];
  /** Key that had the last turn. */
  #lastKey: string;

  constructor(lastKey = '') {
    this.#lastKey = lastKey;
  }

  /** `last` is the path of the job that was taken last: a branch that had become empty remembers whose turn it was. */
  add(entry: Entry<Job>, last: readonly string[] | undefined, level = 0): void {
    this.size++;
    const key = entry.path[level];
    if (key === undefined) {
      this.#entries.push(entry);
      return;
    }
    const lastInBranch = last?.[level] === key ? last : undefined;
    this.#branches
      .getOrInsertComputed(key, () => new Branch<Job>(lastInBranch?.[level + 1]))
      .add(entry, lastInBranch, level + 1);
  }

  take(isEligible: (resource: string) => boolean, ownKey = ''): Entry<Job> | undefined {
    if (this.#entries.length > 0) {
      if (!isEligible(ownKey)) return undefined;
      this.size--;
      return this.#entries.shift();
    }
    const last = this.#branches.get(this.#lastKey);
    if (last !== undefined) {
      // Keys added during the last turn come before the key that had it.
      this.#branches.delete(this.#lastKey);
      this.#branches.set(this.#lastKey, last);
    }
    for (const [key, branch] of this.#branches) {
      const entry = branch.take(isEligible, key);
      if (!entry) continue;
      if (branch.size === 0) this.#branches.delete(key);
      this.#lastKey = key;
      this.size--;
      return entry;
    }
    return undefined;
  }

  /** Removes an entry that is in the branch. */
  remove(entry: Entry<Job>, level = 0): void {
    this.size--;
    const key = entry.path[level];
    if (key === undefined) {
      this.#entries.splice(this.#entries.indexOf(entry), 1);
      return;
    }
    const branch = this.#branches.get(key);
    branch?.remove(entry, level + 1);
    if (branch?.size === 0) this.#branches.delete(key);
  }

  /** Returns the entry whose place a new entry takes in a full queue; undefined if the new one has its share already. */
  evictedBy(entry: Entry<Job>, level = 0): Entry<Job> | undefined {
    if (level === SHARING_LEVELS) return undefined;
    const own = this.#branches.get(entry.path[level] ?? '');
    const holders = this.#branches.size + (own ? 0 : 1);
    if ((own?.size ?? 0) * holders < this.size) return this.#newestOfLargest();
    return own?.evictedBy(entry, level + 1);
  }

  #newestOfLargest(): Entry<Job> | undefined {
    let largest: Branch<Job> | undefined;
    for (const branch of this.#branches.values()) if (branch.size > (largest?.size ?? 0)) largest = branch;
    return largest ? largest.#newestOfLargest() : this.#entries.at(-1);
  }
}
