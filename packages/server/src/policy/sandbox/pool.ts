import { availableParallelism } from 'node:os';
import { FairQueue, WaitBudget } from '../../http/fair-queue.ts';
import type { HostCounts } from '../../telemetry/metrics/service-metrics.ts';
import {
  type Action,
  ActionFailure,
  ActionNotStartedError,
  type ActionRun,
  type EvaluationContext,
  HostExitedError,
  type HostFunctions,
} from './action.ts';
import { readSandboxScripts, type SandboxScripts } from './sandbox-process.ts';
import { HOST_LIMITS, type HostLimits, SandboxWorker } from './sandbox-worker.ts';

/** Runs that wait for a host; each keeps its request in memory. */
const MAX_QUEUED = 10_000;

/**
 * A host with more memory is killed. Memory and heap limits bound an action; this covers all other memory, so
 * that no host process reaches 256 MiB.
 */
export const MAX_RESIDENT_BYTES = 232 * 1024 * 1024;
/** An idle host with more memory is recycled. */
const RECYCLE_RSS_BYTES = 176 * 1024 * 1024;
/** Milliseconds between two checks of the memory of a host with a run. */
export const MEMORY_CHECK_MS = 10;

/** Delay before the next spare is started, after the last one was used. */
const SPARE_DELAY_MS = 50;
/** Delay before a host is replaced in advance, after an unused one exited on its own. */
const REPLACEMENT_DELAY_MS = 1_000;

/** Options of `SandboxPool`. */
export interface SandboxPoolOptions {
  /** Host processes that run actions, besides one spare (default: number of cores, 2 to 8). */
  readonly size?: number;
  readonly limits?: HostLimits;
}

interface Job {
  readonly action: Action;
  readonly context: EvaluationContext;
  readonly functions: HostFunctions;
  readonly signal: AbortSignal | undefined;
  readonly budget: WaitBudget;
  /** The first host exited before the run had any effect. */
  isRetry: boolean;
  resolve(run: ActionRun): void;
  reject(failure: unknown): void;
}

/**
 * Pool of host processes that run actions, with a warm spare that replaces a killed one (docs/architecture.md
 * "Policy"). Nothing derived from a component is evaluated in this process.
 */
export class SandboxPool {
  readonly #size: number;
  readonly #limits: HostLimits;
  /** Read at the start of the first host: a service without evaluators has none. */
  #scripts: SandboxScripts | undefined;
  /** Fair between namespaces, users and actions, so that none with many runs delays others. */
  readonly #queue: FairQueue<Job>;
  /** Number of runs in progress by action. */
  readonly #running = new Map<string, number>();
  /** Actions whose last run terminated a host: they get one host at a time, so that they do not delay others. */
  readonly #isolated = new Set<string>();

  /** Hosts of the pool, without the spare. */
  readonly #hosts = new Set<SandboxWorker>();
  readonly #idle = new Set<SandboxWorker>();
  /** Hosts with a run. */
  readonly #serving = new Set<SandboxWorker>();
  /** Exits of all hosts, including removed ones. */
  readonly #exits = new Set<Promise<void>>();
  #spare: SandboxWorker | undefined;

  /** Active actions; undefined until they are known; hosts are not stopped until then. */
  #actions: readonly Action[] | undefined;
  /** Active actions that a host has preloaded last. */
  readonly #preloaded = new WeakMap<SandboxWorker, readonly Action[]>();
  /** Host that was idle and is preloading. */
  #preloading: SandboxWorker | undefined;
  /** Actions that failed to load. */
  readonly #unloadable = new Set<string>();

  /** Hosts that became idle since the last memory check. */
  readonly #released = new Set<SandboxWorker>();
  #startedCount = 0;
  #endedCount = 0;
  #memoryTimer: NodeJS.Timeout | undefined;
  #warmTimer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor({
    size = Math.min(Math.max(availableParallelism(), 2), 8),
    limits = HOST_LIMITS,
  }: SandboxPoolOptions = {}) {
    this.#size = size;
    this.#limits = limits;
    this.#queue = new FairQueue(MAX_QUEUED, size);
  }

  /** Process ids of all hosts. */
  get pids(): readonly number[] {
    const hosts = this.#spare ? [...this.#hosts, this.#spare] : [...this.#hosts];
    return hosts.map(({ pid }) => pid).filter((pid) => pid !== undefined);
  }

  /** Numbers of hosts by state, and since the start of the service. */
  get counts(): HostCounts {
    const idle = this.#idle.size;
    return {
      running: this.#hosts.size - idle,
      idle,
      spare: this.#spare ? 1 : 0,
      waiting: this.#queue.size,
      started: this.#startedCount,
      ended: this.#endedCount,
    };
  }

  /** Sets the active actions, which hosts preload. Without any, idle hosts are stopped. */
  setActions(actions: readonly Action[]): void {
    this.#actions = actions;
    const checksums = new Set(actions.map(({ checksum }) => checksum));
    for (const checksum of this.#isolated) if (!checksums.has(checksum)) this.#isolated.delete(checksum);
    this.#unloadable.clear();
    if (actions.length > 0) this.#warm();
    else this.#shrink();
  }

  /**
   * Throws `ActionFailure`, and `BusyError` if there is no room for the run or it has waited too long. Aborting `signal`
   * cancels a run that has not begun; a run in progress continues, because canceling it would terminate its host process.
   * `turn` is the place of the request in the queue.
   */
  run(
    action: Action,
    context: EvaluationContext,
    functions: HostFunctions,
    signal?: AbortSignal,
    budget: WaitBudget = new WaitBudget('', ''),
  ): Promise<ActionRun> {
    if (this.#isClosed) return Promise.reject(new ActionNotStartedError('service is shutting down'));
    if (signal?.aborted) return Promise.reject(canceled());
    const { promise, resolve, reject } = Promise.withResolvers<ActionRun>();
    const job: Job = { action, context, functions, signal, budget, isRetry: false, resolve, reject };
    signal?.addEventListener('abort', () => this.#queue.remove(job) && reject(canceled()), { once: true });
    this.#queue.add(job, budget, action.checksum, reject);
    this.#dispatch();
    return promise;
  }

  /** Kills all hosts and fails all runs. Resolves when the processes have exited. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#warmTimer);
    clearInterval(this.#memoryTimer);
    const reason = new ActionNotStartedError('service is shutting down');
    for (let job = this.#queue.take(); job; job = this.#queue.take()) job.reject(reason);
    for (const host of this.#hosts) host.kill(reason);
    this.#spare?.kill(reason);
    await Promise.all(this.#exits);
  }

  /** Assigns pending jobs to hosts. */
  #dispatch(): void {
    while (!this.#isClosed && this.#queue.size > 0 && (this.#idle.size > 0 || this.#hosts.size < this.#size)) {
      const job = this.#queue.take((checksum) => !this.#isolated.has(checksum) || !this.#running.has(checksum));
      if (!job) return;
      void this.#serve(job, this.#acquire(job));
    }
  }

  /** Host for a job: one that has the action loaded, else one with space for it, else a new one. */
  #acquire({ action, isRetry }: Job): SandboxWorker {
    // Whatever ended the first host may have ended all of them, of which this process may not know yet.
    if (isRetry) return this.#add(() => this.#start());
    let candidate: SandboxWorker | undefined;
    for (const host of this.#idle) {
      if (host.has(action)) return this.#lease(host);
      if (host.hasCapacityFor(action)) candidate ??= host;
    }
    if (candidate) return this.#lease(candidate);
    return this.#add(() => this.#takeSpare(action) ?? this.#start());
  }

  #lease(host: SandboxWorker): SandboxWorker {
    this.#idle.delete(host);
    return host;
  }

  /** Adds a host to the pool; in a full pool it replaces an idle one. */
  #add(create: () => SandboxWorker): SandboxWorker {
    const [idle] = this.#idle;
    if (idle && this.#hosts.size >= this.#size) this.#retire(idle);
    const host = create();
    this.#hosts.add(host);
    // Later: the job comes first.
    if (this.#spare === undefined) this.#scheduleWarm(SPARE_DELAY_MS);
    return host;
  }

  /** The spare, if it has the action or space for it. */
  #takeSpare(action: Action): SandboxWorker | undefined {
    const spare = this.#spare;
    if (!spare?.has(action) && !spare?.hasCapacityFor(action)) return undefined;
    this.#spare = undefined;
    return spare;
  }

  async #serve(job: Job, host: SandboxWorker): Promise<void> {
    const { checksum } = job.action;
    this.#running.set(checksum, (this.#running.get(checksum) ?? 0) + 1);
    this.#serving.add(host);
    this.#watchMemory();
    const startedAt = performance.now();
    let shouldRetry = false;
    try {
      await host.load(job.action);
      const run = await host.run(job.action, job.context, job.functions);
      this.#isolated.delete(checksum);
      job.resolve(run);
    } catch (error) {
      shouldRetry = error instanceof HostExitedError && !job.isRetry && !job.signal?.aborted && !this.#isClosed;
      if (host.hasExited && !shouldRetry) this.#isolated.add(checksum);
      else if (!shouldRetry) this.#isolated.delete(checksum);
      if (!shouldRetry) job.reject(error);
    }
    this.#serving.delete(host);
    this.#queue.served(performance.now() - startedAt);
    const running = (this.#running.get(checksum) ?? 1) - 1;
    if (running > 0) this.#running.set(checksum, running);
    else this.#running.delete(checksum);
    if (shouldRetry) this.#queue.add(Object.assign(job, { isRetry: true }), job.budget, checksum, job.reject);
    this.#release(host);
  }

  /** Returns a host to the pool. */
  #release(host: SandboxWorker): void {
    if (host.hasExited || !this.#hosts.has(host)) this.#hosts.delete(host);
    else if (host.shouldRecycle) this.#retire(host);
    else {
      this.#idle.add(host);
      this.#released.add(host);
    }
    this.#dispatch();
    this.#warm();
    this.#shrink();
  }

  #start(): SandboxWorker {
    this.#scripts ??= readSandboxScripts(['host']);
    this.#startedCount++;
    const host: SandboxWorker = new SandboxWorker(this.#scripts, this.#limits, () => this.#onExit(host));
    const { exited } = host;
    this.#exits.add(exited);
    void exited.then(() => this.#exits.delete(exited));
    return host;
  }

  #onExit(host: SandboxWorker): void {
    this.#endedCount++;
    const isActive = this.#hosts.delete(host) || this.#spare === host;
    this.#idle.delete(host);
    if (this.#spare === host) this.#spare = undefined;
    // A serving host is replaced on demand. The delay prevents a tight loop of hosts that cannot start.
    if (isActive && !this.#serving.has(host)) this.#scheduleWarm(REPLACEMENT_DELAY_MS);
    this.#dispatch();
  }

  #retire(host: SandboxWorker): void {
    this.#hosts.delete(host);
    this.#idle.delete(host);
    if (this.#spare === host) this.#spare = undefined;
    // An action that is being loaded is not at fault.
    host.kill(new HostExitedError());
  }

  /** Stops unused hosts if there are no active actions and no pending jobs. */
  #shrink(): void {
    if (this.#actions?.length !== 0 || this.#queue.size > 0) return;
    for (const host of this.#unused) this.#retire(host);
  }

  /** Copy of the idle hosts and the spare, which callers may retire. */
  get #unused(): readonly SandboxWorker[] {
    return this.#spare ? [...this.#idle, this.#spare] : [...this.#idle];
  }

  /** Fills the pool and the spare while there are active actions, and has idle hosts preload them. */
  #warm(): void {
    const actions = this.#actions;
    if (this.#isClosed || !actions?.length || this.#warmTimer !== undefined) return;
    for (const host of this.#unused) {
      if (this.#preloaded.get(host) !== actions && host.needsReplacementFor(actions)) this.#retire(host);
    }
    while (this.#hosts.size < this.#size) {
      const host = this.#spare ?? this.#start();
      this.#spare = undefined;
      this.#hosts.add(host);
      void this.#preload(host).then(() => this.#release(host));
    }
    // One at a time: the others continue to run the actions that they have loaded.
    if (this.#preloading?.hasExited === false) return;
    const next = this.#idle.values().find((host) => this.#preloaded.get(host) !== actions);
    this.#preloading = next;
    if (next) {
      this.#lease(next);
      void this.#preload(next).then(() => {
        if (this.#preloading === next) this.#preloading = undefined;
        this.#release(next);
      });
      return;
    }
    this.#spare ??= this.#start();
    if (this.#preloaded.get(this.#spare) !== actions) void this.#preload(this.#spare);
  }

  #scheduleWarm(delayMs: number): void {
    if (this.#isClosed || this.#warmTimer !== undefined) return;
    this.#warmTimer = setTimeout(() => {
      this.#warmTimer = undefined;
      this.#warm();
    }, delayMs).unref();
  }

  /** Never rejects: a failure is reported to the run that needs the host. */
  async #preload(host: SandboxWorker): Promise<void> {
    const actions = this.#actions ?? [];
    this.#preloaded.set(host, actions);
    this.#watchMemory();
    for (const action of actions) {
      if (host.hasExited || this.#actions !== actions) return;
      if (host.has(action) || !host.hasCapacityFor(action) || this.#unloadable.has(action.checksum)) continue;
      try {
        await host.load(action);
      } catch (error) {
        if (!(error instanceof HostExitedError)) this.#unloadable.add(action.checksum);
      }
      // Pending jobs come first; preloading continues when the host is idle again.
      if (this.#queue.size > 0 && host !== this.#spare) {
        this.#preloaded.delete(host);
        return;
      }
    }
  }

  /**
   * Checks memory while hosts work: of busy ones at every tick, of idle ones once after their release. Memory is counted
   * per process, so only the offending host is killed.
   */
  #watchMemory(): void {
    this.#memoryTimer ??= setInterval(() => {
      for (const host of this.#released) {
        if (this.#idle.has(host) && (host.residentBytes() ?? 0) > RECYCLE_RSS_BYTES) this.#retire(host);
      }
      this.#released.clear();
      const busy = [...this.#hosts].filter((host) => !this.#idle.has(host));
      if (this.#spare?.isBusy) busy.push(this.#spare);
      if (busy.length === 0) {
        clearInterval(this.#memoryTimer);
        this.#memoryTimer = undefined;
      }
      for (const host of busy) {
        if ((host.residentBytes() ?? 0) > MAX_RESIDENT_BYTES) {
          host.kill(new ActionFailure('memory', 'memory limit exceeded'));
        }
      }
    }, MEMORY_CHECK_MS).unref();
  }
}

function canceled(): ActionNotStartedError {
  return new ActionNotStartedError('request canceled');
}
