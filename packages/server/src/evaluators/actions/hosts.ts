import { availableParallelism } from 'node:os';
import { ActionQueues } from './action-queues.ts';
import {
  type Action,
  ActionFailure,
  type ActionRun,
  type ActionRunning,
  type EvaluationContext,
  type HostAnswers,
} from './action-world.ts';
import { HOST_LIMITS, Host, type HostLimits } from './host.ts';
import { readHostScripts } from './host-scripts.ts';

/** Beyond it a run fails at once: whoever waits that long has given up. */
const MAX_WAITING = 1_000;

/** A host that takes more is ended: no host process ever exceeds 256 MiB. */
const MAX_RESIDENT_BYTES = 232 * 1024 * 1024;
/** One that has as much left after a run is replaced. */
const WORN_RESIDENT_BYTES = 168 * 1024 * 1024;
/** How often the memory of hosts at work is looked at: a memory fills at some 5 MB/ms at most, 64 of them at once. */
const WATCH_MS = 10;

/** After the spare host took a place, before the next one is started. */
const WARM_SOON_MS = 50;
/** After a host ended by itself while nobody needed it, before the next one is started in advance. */
const WARM_AGAIN_MS = 1_000;

/** Settings of the pool. */
export interface HostsOptions {
  /** Host processes that run actions at the same time, besides one that waits to take a place. */
  readonly size?: number;
  readonly limits?: HostLimits;
}

interface Job {
  readonly action: Action;
  readonly context: EvaluationContext;
  readonly answers: HostAnswers;
  resolve(run: ActionRun): void;
  reject(failure: unknown): void;
}

/**
 * Host processes for actions: some that run them and a warm one that takes the place of one that is killed
 * (architecture.md "Evaluators and the sandbox"). Nothing here waits on the event loop, and nothing derived from a
 * component is evaluated in this process.
 */
export class ActionHosts implements ActionRunning {
  readonly #size: number;
  readonly #scripts = readHostScripts();
  readonly #limits: HostLimits;
  readonly #queues = new ActionQueues<Job>();
  /** All that run actions; `#idle` are those of them that do nothing. */
  readonly #hosts = new Set<Host>();
  readonly #idle = new Set<Host>();
  readonly #ending = new Set<Promise<void>>();
  /** Runs under way, by action. */
  readonly #running = new Map<string, number>();
  /** Actions whose last run had to be killed: they get one host at a time, so that others are not kept waiting. */
  readonly #suspects = new Set<string>();
  /** Actions that hosts could not take in. */
  readonly #unloadable = new Set<string>();
  /** Undefined until there is a say in it: hosts stay for as long as this does. */
  #kept: readonly Action[] | undefined;
  #spare: Host | undefined;
  #watch: NodeJS.Timeout | undefined;
  #warming: NodeJS.Timeout | undefined;
  #closed = false;

  constructor({ size = Math.min(Math.max(availableParallelism(), 2), 8), limits = HOST_LIMITS }: HostsOptions = {}) {
    this.#size = size;
    this.#limits = limits;
  }

  /** Process ids of all hosts. */
  get pids(): readonly number[] {
    const all = this.#spare ? [...this.#hosts, this.#spare] : [...this.#hosts];
    return all.map(({ pid }) => pid).filter((pid) => pid !== undefined);
  }

  /** The actions that there are now: hosts take them in before they are asked for. With none, hosts that idle end. */
  keep(actions: readonly Action[]): void {
    this.#kept = actions;
    this.#unloadable.clear();
    if (actions.length > 0) this.#warm();
    else for (const host of [...this.#idle, ...(this.#spare ? [this.#spare] : [])]) this.#retire(host);
  }

  run(action: Action, context: EvaluationContext, answers: HostAnswers): Promise<ActionRun> {
    if (this.#closed) return Promise.reject(new ActionFailure('host', 'the service is stopping'));
    if (this.#queues.size >= MAX_WAITING) {
      return Promise.reject(new ActionFailure('host', `${MAX_WAITING} other runs wait for a host process already`));
    }
    const { promise, resolve, reject } = Promise.withResolvers<ActionRun>();
    this.#queues.add({ action, context, answers, resolve, reject });
    this.#pump();
    return promise;
  }

  /** Ends all hosts; what runs or waits fails. Resolves when their processes have gone. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#warming);
    clearInterval(this.#watch);
    const stopping = new ActionFailure('host', 'the service is stopping');
    for (const job of this.#queues.drain()) job.reject(stopping);
    for (const host of this.#hosts) host.kill(stopping);
    this.#spare?.kill(stopping);
    await Promise.all(this.#ending);
  }

  /** Hands out jobs for as long as there are jobs and hosts. */
  #pump(): void {
    while (!this.#closed && this.#queues.size > 0 && (this.#idle.size > 0 || this.#hosts.size < this.#size)) {
      const job = this.#queues.take((checksum) => !this.#suspects.has(checksum) || !this.#running.has(checksum));
      if (!job) return;
      void this.#serve(job, this.#hostFor(job.action));
    }
  }

  /** Where the action can be run: where it is known, else where there is room, else in a new process. */
  #hostFor(action: Action): Host {
    let room: Host | undefined;
    for (const host of this.#idle) {
      if (host.has(action)) return this.#taken(host);
      if (host.roomFor(action)) room ??= host;
    }
    if (room) return this.#taken(room);
    const [full] = this.#idle;
    if (full && this.#hosts.size >= this.#size) this.#retire(full);
    return this.#another();
  }

  #taken(host: Host): Host {
    this.#idle.delete(host);
    return host;
  }

  /** The spare one, or a new one. */
  #another(): Host {
    const host = this.#spare ?? this.#start();
    this.#spare = undefined;
    this.#hosts.add(host);
    // Not now: what this host is for comes first.
    if (this.#spare === undefined) this.#warmIn(WARM_SOON_MS);
    return host;
  }

  #start(): Host {
    const host: Host = new Host(this.#scripts, this.#limits, () => this.#ended(host));
    const { ended } = host;
    this.#ending.add(ended);
    void ended.then(() => this.#ending.delete(ended));
    return host;
  }

  #ended(host: Host): void {
    this.#hosts.delete(host);
    this.#idle.delete(host);
    if (this.#spare === host) {
      this.#spare = undefined;
      this.#warmIn(WARM_AGAIN_MS);
    }
    this.#pump();
  }

  #retire(host: Host): void {
    this.#hosts.delete(host);
    this.#idle.delete(host);
    if (this.#spare === host) this.#spare = undefined;
    host.kill();
  }

  async #serve(job: Job, host: Host): Promise<void> {
    const { checksum } = job.action;
    this.#running.set(checksum, (this.#running.get(checksum) ?? 0) + 1);
    this.#watchMemory();
    try {
      await host.load(job.action);
      const run = await host.run(job.action, job.context, job.answers);
      this.#suspects.delete(checksum);
      job.resolve(run);
    } catch (error) {
      if (host.gone || !(error instanceof ActionFailure) || error.fault !== 'trap') this.#suspects.add(checksum);
      job.reject(error);
    }
    const running = (this.#running.get(checksum) ?? 1) - 1;
    if (running > 0) this.#running.set(checksum, running);
    else this.#running.delete(checksum);
    this.#release(host);
  }

  /** A host whose run is over. */
  #release(host: Host): void {
    if (host.gone || !this.#hosts.has(host)) this.#hosts.delete(host);
    else if (host.worn || this.#kept?.length === 0) this.#retire(host);
    else this.#idle.add(host);
    this.#pump();
    if (this.#spare === undefined) this.#warm();
  }

  /** Starts a spare host, where one may be needed, and has it and those that idle take in what is kept. */
  #warm(): void {
    if (this.#closed || !this.#kept?.length || this.#warming !== undefined) return;
    while (this.#hosts.size < this.#size) {
      const host = this.#spare ?? this.#start();
      this.#spare = undefined;
      this.#hosts.add(host);
      void this.#prepare(host).then(() => this.#release(host));
    }
    for (const host of this.#idle) {
      if (this.#missing(host).length === 0) continue;
      this.#taken(host);
      void this.#prepare(host).then(() => this.#release(host));
    }
    if (this.#spare !== undefined) return;
    this.#spare = this.#start();
    void this.#prepare(this.#spare);
  }

  #warmIn(ms: number): void {
    if (this.#closed || this.#warming !== undefined) return;
    this.#warming = setTimeout(() => {
      this.#warming = undefined;
      this.#warm();
    }, ms).unref();
  }

  #missing(host: Host): readonly Action[] {
    return (this.#kept ?? []).filter(
      (action) => !host.has(action) && host.roomFor(action) && !this.#unloadable.has(action.checksum),
    );
  }

  async #prepare(host: Host): Promise<void> {
    try {
      for (const action of this.#missing(host)) {
        if (host.gone || !host.roomFor(action)) continue;
        await host.load(action).catch(() => this.#unloadable.add(action.checksum));
      }
    } catch {
      // It has gone; who needs one starts another and is told what is wrong.
    }
  }

  /** While actions run: memory is a host's own, so that only the one that takes too much is ended. */
  #watchMemory(): void {
    this.#watch ??= setInterval(() => {
      if (this.#hosts.size === this.#idle.size) {
        clearInterval(this.#watch);
        this.#watch = undefined;
      }
      for (const host of this.#hosts) this.#look(host);
    }, WATCH_MS).unref();
  }

  #look(host: Host): void {
    const bytes = host.residentBytes();
    if (bytes === undefined) return;
    if (bytes > MAX_RESIDENT_BYTES) host.kill(new ActionFailure('memory', 'it used up its memory'));
    else if (bytes > WORN_RESIDENT_BYTES && this.#idle.has(host)) this.#retire(host);
  }
}
