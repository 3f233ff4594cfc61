import { Worker } from 'node:worker_threads';
import type { SchemaJob, SchemaReply } from './result-schema-job.ts';

/** Milliseconds in which the thread must be there. */
const START_MS = 30_000;
/** An LLM's answer has 1 MiB at most; what is made of it here has room for some hundred times that. */
const HEAP_MIB = 128;

/** A thread that is of no more use: it took too long or has ended. The message says so of the job. */
export class ThreadLost extends Error {}

/** The thread of the result schemas. It carries out one job at a time. */
export class SchemaThread {
  readonly #worker: Worker;
  readonly #ready: Promise<SchemaReply>;
  #waiting: PromiseWithResolvers<SchemaReply> | undefined = undefined;
  #lost: ThreadLost | undefined = undefined;

  constructor() {
    this.#worker = new Worker(new URL('./result-schema-worker.ts', import.meta.url), {
      argv: [],
      env: {},
      execArgv: [],
      // What a runtime prints is no log.
      stdout: true,
      stderr: true,
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB },
    });
    this.#worker.on('message', (reply: SchemaReply) => this.#waiting?.resolve(reply));
    this.#worker.on('error', (error) => {
      const memory = error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
      this.#lose(memory ? 'took too much memory' : 'failed');
    });
    this.#worker.on('exit', () => this.#lose('failed'));
    this.#ready = this.#reply(START_MS);
    this.#ready.catch(() => undefined);
  }

  /** Whether it can do nothing any more. */
  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  /**
   * Carries out a job. Throws {@link ThreadLost} when it takes longer than `mostMs`, counted from when the thread is there
   * to do it, and when the thread ends; it can do nothing any more then.
   */
  async run(job: SchemaJob, mostMs: number): Promise<SchemaReply> {
    await this.#ready;
    const reply = this.#reply(mostMs);
    this.#worker.postMessage(job);
    return reply;
  }

  /** Ends it, with whatever it is doing. */
  async end(): Promise<void> {
    this.#lose('was ended: the service stops');
    await this.#worker.terminate();
  }

  async #reply(mostMs: number): Promise<SchemaReply> {
    if (this.#lost) throw this.#lost;
    const waiting = Promise.withResolvers<SchemaReply>();
    this.#waiting = waiting;
    this.#worker.ref();
    const timer = setTimeout(() => {
      // What came while this process was busy is read first.
      setImmediate(() => {
        if (this.#waiting !== waiting) return;
        this.#lose(`took longer than ${mostMs / 1000} s`);
        void this.#worker.terminate();
      });
    }, mostMs);
    try {
      return await waiting.promise;
    } finally {
      clearTimeout(timer);
      if (this.#waiting === waiting) this.#waiting = undefined;
      this.#worker.unref();
    }
  }

  #lose(how: string): void {
    this.#lost ??= new ThreadLost(how);
    this.#waiting?.reject(this.#lost);
  }
}
