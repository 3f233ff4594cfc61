import { availableParallelism } from 'node:os';
import { FairQueue } from '../fair-queue.ts';
import {
  type Action,
  ActionFailure,
  ActionNotStartedError,
  type ActionRun,
  type ActionRunning,
  type EvaluationContext,
  type HostAnswers,
  HostExitedError,
} from './action.ts';
import { HOST_LIMITS, Host, type HostLimits } from './host-process.ts';
import { readSandboxScripts, type SandboxScripts } from './sandbox-process.ts';

/** Beyond these a run fails at once: whoever waits that long has given up. Each action has room of its own. */
const MAX_WAITING = 1_000;
const MAX_WAITING_OF_SUSPECT = 50;
const MAX_WAITING_IN_ALL = 10_000;

/**
 * A host that takes more is ended. What an action has is bounded by its limits of memory and heap; this is for what no
 * limit foresaw, and no host process is to come to 256 MiB.
 */
const MAX_RESIDENT_BYTES = 232 * 1024 * 1024;
/** One that has as much while it idles is replaced. */
const RECYCLE_RSS_BYTES = 176 * 1024 * 1024;
/** How often the memory of hosts is looked at while one of them works. */
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
  readonly signal: AbortSignal | undefined;
  /** It was handed to a host before, which ended by itself. */
  again: boolean;
  resolve(run: ActionRun): void;
  reject(failure: unknown): void;
}

/**
 * Host processes for actions: some that run them and a warm one that takes the place of one that is killed
 * (docs/architecture.md "The sandbox"). Nothing derived from a component is evaluated in this process.
 */
export class ActionHosts implements ActionRunning {
  readonly #size: number;
  /** Read when the first host is started: a service without evaluators has none. */
  #scripts: SandboxScripts | undefined;
  readonly #limits: HostLimits;
  /** What waits, by action: one with many runs does not keep others waiting. */
  readonly #waiting = new FairQueue<Job>();
  /** All that run actions; `#idle` are those of them that do nothing. */
  readonly #hosts = new Set<Host>();
  readonly #idle = new Set<Host>();
  /** Those that a run waits for. */
  readonly #serving = new Set<Host>();
  readonly #ending = new Set<Promise<void>>();
  /** Runs under way, by action. */
  readonly #running = new Map<string, number>();
  /** Actions whose last run cost a host: they get one host at a time, so that others are not kept waiting. */
  readonly #suspects = new Set<string>();
  /** Actions that hosts could not take in. */
  readonly #unloadable = new Set<string>();
  /** Undefined until there is a say in it: hosts stay for as long as this does. */
  #kept: readonly Action[] | undefined;
  /** What a host was last prepared for. */
  readonly #preparedFor = new WeakMap<Host, readonly Action[]>();
  /** One of those that idled, while it takes in what is kept. */
  #preparing: Host | undefined;
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
    return this.#all.map(({ pid }) => pid).filter((pid) => pid !== undefined);
  }

  /** A copy, as the next one: who goes over them may end some. */
  get #all(): readonly Host[] {
    return this.#spare ? [...this.#hosts, this.#spare] : [...this.#hosts];
  }

  get #unused(): readonly Host[] {
    return this.#spare ? [...this.#idle, this.#spare] : [...this.#idle];
  }

  /** The actions that there are now: hosts take them in before they are asked for. With none, hosts that idle end. */
  keep(actions: readonly Action[]): void {
    this.#kept = actions;
    const checksums = new Set(actions.map(({ checksum }) => checksum));
    for (const suspect of this.#suspects) if (!checksums.has(suspect)) this.#suspects.delete(suspect);
    this.#unloadable.clear();
    if (actions.length > 0) this.#warm();
    else this.#rest();
  }

  run(action: Action, context: EvaluationContext, answers: HostAnswers, signal?: AbortSignal): Promise<ActionRun> {
    if (this.#closed) return Promise.reject(new ActionNotStartedError('the service is stopping'));
    if (signal?.aborted) return Promise.reject(forNobody());
    const { checksum } = action;
    const most = this.#suspects.has(checksum) ? MAX_WAITING_OF_SUSPECT : MAX_WAITING;
    if (this.#waiting.sizeOf(checksum) >= most || this.#waiting.size >= MAX_WAITING_IN_ALL) {
      return Promise.reject(new ActionNotStartedError('too many runs wait for a host process already'));
    }
    const { promise, resolve, reject } = Promise.withResolvers<ActionRun>();
    const job: Job = { action, context, answers, signal, again: false, resolve, reject };
    signal?.addEventListener('abort', () => this.#waiting.remove(checksum, job) && reject(forNobody()), { once: true });
    this.#waiting.add(checksum, job);
    this.#pump();
    return promise;
  }

  /** Ends all hosts; what runs or waits fails. Resolves when their processes have gone. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#warming);
    clearInterval(this.#watch);
    const stopping = new ActionNotStartedError('the service is stopping');
    for (let job = this.#waiting.take(); job; job = this.#waiting.take()) job.reject(stopping);
    for (const host of this.#hosts) host.kill(stopping);
    this.#spare?.kill(stopping);
    await Promise.all(this.#ending);
  }

  /** Hands out jobs for as long as there are jobs and hosts. */
  #pump(): void {
    while (!this.#closed && this.#waiting.size > 0 && (this.#idle.size > 0 || this.#hosts.size < this.#size)) {
      const job = this.#waiting.take((checksum) => !this.#suspects.has(checksum) || !this.#running.has(checksum));
      if (!job) return;
      void this.#serve(job, this.#hostFor(job));
    }
  }

  /** Where the action can be run: where it is known, else where there is room, else in a new process. */
  #hostFor({ action, again }: Job): Host {
    // What ended one host may have ended all of them, which is not known of yet: only a new one is there for certain.
    if (again) return this.#inPlaceOfIdle(() => this.#start());
    let room: Host | undefined;
    for (const host of this.#idle) {
      if (host.has(action)) return this.#taken(host);
      if (host.roomFor(action)) room ??= host;
    }
    if (room) return this.#taken(room);
    return this.#inPlaceOfIdle(() => this.#another(action));
  }

  #inPlaceOfIdle(make: () => Host): Host {
    const [idle] = this.#idle;
    if (idle && this.#hosts.size >= this.#size) this.#retire(idle);
    const host = make();
    this.#hosts.add(host);
    // Not now: what this host is for comes first.
    if (this.#spare === undefined) this.#warmIn(WARM_SOON_MS);
    return host;
  }

  #taken(host: Host): Host {
    this.#idle.delete(host);
    return host;
  }

  /** The spare one, where it has the action or room for it, or a new one. */
  #another(action: Action): Host {
    const fits = this.#spare && (this.#spare.has(action) || this.#spare.roomFor(action));
    const host = fits && this.#spare ? this.#spare : this.#start();
    if (host === this.#spare) this.#spare = undefined;
    return host;
  }

  #start(): Host {
    this.#scripts ??= readSandboxScripts(['host']);
    const host: Host = new Host(this.#scripts, this.#limits, () => this.#ended(host));
    const { ended } = host;
    this.#ending.add(ended);
    void ended.then(() => this.#ending.delete(ended));
    return host;
  }

  #ended(host: Host): void {
    const ours = this.#hosts.delete(host) || this.#spare === host;
    this.#idle.delete(host);
    if (this.#spare === host) this.#spare = undefined;
    // One that served is replaced by who needs it. Where none can be started, trying without a pause would never end.
    if (ours && !this.#serving.has(host)) this.#warmIn(WARM_AGAIN_MS);
    this.#pump();
  }

  #retire(host: Host): void {
    this.#hosts.delete(host);
    this.#idle.delete(host);
    if (this.#spare === host) this.#spare = undefined;
    // Not the fault of what it is taking in.
    host.kill(new HostExitedError());
  }

  async #serve(job: Job, host: Host): Promise<void> {
    const { checksum } = job.action;
    this.#running.set(checksum, (this.#running.get(checksum) ?? 0) + 1);
    this.#serving.add(host);
    this.#watchMemory();
    let lost = false;
    try {
      await host.load(job.action);
      const run = await host.run(job.action, job.context, job.answers);
      this.#suspects.delete(checksum);
      job.resolve(run);
    } catch (error) {
      lost = error instanceof HostExitedError && !job.again && !job.signal?.aborted && !this.#closed;
      if (host.gone && !lost) this.#suspects.add(checksum);
      else if (!lost) this.#suspects.delete(checksum);
      if (!lost) job.reject(error);
    }
    this.#serving.delete(host);
    const running = (this.#running.get(checksum) ?? 1) - 1;
    if (running > 0) this.#running.set(checksum, running);
    else this.#running.delete(checksum);
    if (lost) this.#waiting.add(checksum, Object.assign(job, { again: true }));
    this.#release(host);
  }

  /** A host that has nothing to do any more. */
  #release(host: Host): void {
    if (host.gone || !this.#hosts.has(host)) this.#hosts.delete(host);
    else if (host.worn) this.#retire(host);
    else this.#idle.add(host);
    this.#pump();
    this.#warm();
    this.#rest();
  }

  /** Ends hosts that idle, where no actions are kept and none waits to be run. */
  #rest(): void {
    if (this.#kept?.length !== 0 || this.#waiting.size > 0) return;
    for (const host of this.#unused) this.#retire(host);
  }

  /** Starts hosts and a spare one, where there are actions to run, and has those that idle take in what is kept. */
  #warm(): void {
    const kept = this.#kept;
    if (this.#closed || !kept?.length || this.#warming !== undefined) return;
    for (const host of this.#unused) {
      if (this.#preparedFor.get(host) !== kept && host.crowded(kept)) this.#retire(host);
    }
    while (this.#hosts.size < this.#size) {
      const host = this.#spare ?? this.#start();
      this.#spare = undefined;
      this.#hosts.add(host);
      void this.#prepare(host).then(() => this.#release(host));
    }
    // One at a time: the others run what they have already.
    if (this.#preparing?.gone === false) return;
    const next = this.#idle.values().find((host) => this.#preparedFor.get(host) !== kept);
    this.#preparing = next;
    if (next) {
      this.#taken(next);
      void this.#prepare(next).then(() => {
        if (this.#preparing === next) this.#preparing = undefined;
        this.#release(next);
      });
      return;
    }
    this.#spare ??= this.#start();
    if (this.#preparedFor.get(this.#spare) !== kept) void this.#prepare(this.#spare);
  }

  #warmIn(ms: number): void {
    if (this.#closed || this.#warming !== undefined) return;
    this.#warming = setTimeout(() => {
      this.#warming = undefined;
      this.#warm();
    }, ms).unref();
  }

  /** Never rejects: who needs a host that could not be prepared is told what is wrong. */
  async #prepare(host: Host): Promise<void> {
    const kept = this.#kept ?? [];
    this.#preparedFor.set(host, kept);
    this.#watchMemory();
    for (const action of kept) {
      if (host.gone || this.#kept !== kept) return;
      if (host.has(action) || !host.roomFor(action) || this.#unloadable.has(action.checksum)) continue;
      try {
        await host.load(action);
      } catch (error) {
        if (!(error instanceof HostExitedError)) this.#unloadable.add(action.checksum);
      }
      // Runs that wait come first; it goes on when it idles again.
      if (this.#waiting.size > 0 && host !== this.#spare) {
        this.#preparedFor.delete(host);
        return;
      }
    }
  }

  /** While hosts work: memory is a host's own, so that only the one that takes too much is ended. */
  #watchMemory(): void {
    this.#watch ??= setInterval(() => {
      if (this.#hosts.size === this.#idle.size && !this.#spare?.busy) {
        clearInterval(this.#watch);
        this.#watch = undefined;
      }
      for (const host of this.#all) this.#look(host);
    }, WATCH_MS).unref();
  }

  #look(host: Host): void {
    const bytes = host.residentBytes();
    if (bytes === undefined) return;
    if (this.#idle.has(host) && bytes > RECYCLE_RSS_BYTES) this.#retire(host);
    else if (bytes > MAX_RESIDENT_BYTES) host.kill(new ActionFailure('memory', 'it used up its memory'));
  }
}

function forNobody(): ActionNotStartedError {
  return new ActionNotStartedError('nobody waits for it any more');
}
