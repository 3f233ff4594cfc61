import { createHash } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import { type BusyError, FairLimiter, WaitBudget } from '../../http/fair-queue.ts';

/** Time limit for compiling a schema, or validating one text. */
const DEADLINE_MS = 1_000;

/** Maximum length of a validated text; the result of an LLM has no more (`client.ts`). */
const MAX_TEXT_CHARACTERS = 1024 * 1024;
/** Texts that may wait for validation; each may have 1 MiB. */
const MAX_QUEUED = 1_000;

/** Cached results per schema, and maximum length of their texts. */
const MAX_CACHED_RESULTS = 64;
const MAX_CACHED_TEXT_CHARACTERS = 32 * 1024;

/** Time for which the result of a terminated worker is cached: the machine may have been too slow. */
const FAILURE_CACHE_MS = 5_000;

/** A result schema that cannot be used. */
export class ResultSchemaError extends Error {
  override readonly name = 'ResultSchemaError';
  /** Predicate of a sentence about the schema. */
  readonly problem: string;

  constructor(problem: string, options?: ErrorOptions) {
    super(`the schema ${problem}`, options);
    this.problem = problem;
  }
}

/** A compiled result schema. Does not own resources. */
export interface CompiledSchema {
  /** The schema as JSON, for prompts. */
  readonly text: string;
  /**
   * Returns the errors of a text, joined with `; `: at most ten, without values of the text; undefined if it is valid. Leading
   * `<think>…</think>` and one Markdown code fence around the rest are removed first.
   *
   * A text that cannot be validated is invalid: longer than 1 MiB, or a validation that exceeds 1 s or its memory. Throws
   * the reason of the signal if it aborts, and {@link BusyError} if there is no room or the text has waited too long.
   * `turn` is the place of the request in the queue.
   */
  validate(text: string, signal?: AbortSignal, budget?: WaitBudget): Promise<string | undefined>;
}

interface SchemaState {
  readonly key: string;
  readonly text: string;
}

interface ValidationResult {
  readonly problem: string | undefined;
  /** Time for which the result may be cached. */
  readonly cacheMs: number;
}

/** Runs jobs of one task in a worker. */
type Task = (worker: SchemaWorker) => Promise<SchemaReply>;

/** Updates of evaluators have a place of their own beside the namespaces. */
const UPDATE = new WaitBudget('', '');

/**
 * Compiles result schemas and validates with them, in a worker thread that is started on first use: a regular expression of a
 * schema, or a response of an LLM, may take unlimited time, which must not block the service. A worker that exceeds 1 s is
 * replaced.
 *
 * Tasks run one at a time, in turn by namespace, user and schema. A canceled task leaves the queue.
 */
export class ResultSchemas {
  readonly #deadlineMs: number;
  readonly #limiter = new FairLimiter(MAX_QUEUED, 1);
  #worker: SchemaWorker | undefined = undefined;
  #isClosed = false;

  /** `deadlineMs`: for tests. */
  constructor(deadlineMs: number = DEADLINE_MS) {
    this.#deadlineMs = deadlineMs;
  }

  /** Compiles a schema. Throws {@link ResultSchemaError} if it is invalid, of an unknown draft or has remote references. */
  async compile(schema: unknown): Promise<CompiledSchema> {
    const text = schemaText(schema);
    const key = createHash('sha256').update(text).digest('hex');
    const reply = await this.#enqueue(key, (worker) => this.#compileIn(worker, key, text), UPDATE);
    if (reply instanceof WorkerExitedError) {
      throw new ResultSchemaError(`cannot be used: compilation ${reply.message}`);
    }
    if (reply.kind === 'invalid') throw new ResultSchemaError(reply.problem);
    const state = { key, text };
    return {
      text,
      validate: cachedValidator((result, signal, budget) => this.#validate(state, result, signal, budget)),
    };
  }

  /** Ends the worker. Afterwards no schema compiles and no text is valid. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#limiter.drain();
    await this.#worker?.close();
  }

  async #validate(
    state: SchemaState,
    text: string,
    signal: AbortSignal | undefined,
    budget: WaitBudget,
  ): Promise<ValidationResult> {
    if (text.length > MAX_TEXT_CHARACTERS) {
      const problem = `the text is longer than ${MAX_TEXT_CHARACTERS} characters`;
      return { problem, cacheMs: Number.POSITIVE_INFINITY };
    }
    const reply = await this.#enqueue(state.key, (worker) => this.#validateIn(worker, state, text), budget, signal);
    if (reply instanceof WorkerExitedError) {
      return { problem: `validation ${reply.message}`, cacheMs: FAILURE_CACHE_MS };
    }
    return { problem: reply.kind === 'invalid' ? reply.problem : undefined, cacheMs: Number.POSITIVE_INFINITY };
  }

  async #validateIn(worker: SchemaWorker, state: SchemaState, text: string): Promise<SchemaReply> {
    const job: SchemaJob = { kind: 'validate', key: state.key, text };
    let reply = await worker.run(job, this.#deadlineMs);
    if (reply.kind === 'unknown') {
      // The worker is new, or has compiled many other schemas since.
      reply = await this.#compileIn(worker, state.key, state.text);
      if (reply.kind === 'valid') reply = await worker.run(job, this.#deadlineMs);
    }
    return reply;
  }

  #compileIn(worker: SchemaWorker, key: string, schema: string): Promise<SchemaReply> {
    return worker.run({ kind: 'compile', key, schema }, this.#deadlineMs);
  }

  #enqueue(
    key: string,
    task: Task,
    budget: WaitBudget,
    signal?: AbortSignal,
  ): Promise<SchemaReply | WorkerExitedError> {
    return this.#limiter.run(() => this.#run(task), budget, key, signal);
  }

  async #run(task: Task): Promise<SchemaReply | WorkerExitedError> {
    if (this.#isClosed) return shuttingDown();
    try {
      if (this.#worker === undefined || this.#worker.hasExited) this.#worker = new SchemaWorker();
      return await task(this.#worker);
    } catch (error) {
      return error instanceof WorkerExitedError ? error : new WorkerExitedError('failed: cannot start a worker thread');
    }
  }
}

/**
 * Caches the latest results: an action mostly verifies the text that was validated before it ran, and must not wait in the
 * queue for it while its own deadline runs.
 */
function cachedValidator(
  validate: (text: string, signal: AbortSignal | undefined, budget: WaitBudget) => Promise<ValidationResult>,
): CompiledSchema['validate'] {
  const results = new Map<string, { readonly problem: string | undefined; readonly until: number }>();
  return async (text, signal, budget = new WaitBudget('', '')) => {
    const known = results.get(text);
    if (known && performance.now() < known.until) return known.problem;
    const { problem, cacheMs } = await validate(text, signal, budget);
    if (text.length > MAX_CACHED_TEXT_CHARACTERS) return problem;
    const [oldest] = results.keys();
    if (results.size >= MAX_CACHED_RESULTS && oldest !== undefined) results.delete(oldest);
    results.set(text, { problem, until: performance.now() + cacheMs });
    return problem;
  };
}

function schemaText(schema: unknown): string {
  try {
    return JSON.stringify(schema);
  } catch (cause) {
    throw new ResultSchemaError('is nested too deeply', { cause });
  }
}

/** Time limit for starting the worker. */
const START_MS = 30_000;
/** The result of an LLM has at most 1 MiB; this is about a hundred times that. */
const MAX_HEAP_MIB = 128;

/** The worker exceeded its deadline or has exited. The message is a predicate about the job. */
class WorkerExitedError extends Error {}

function shuttingDown(): WorkerExitedError {
  return new WorkerExitedError('was canceled: service is shutting down');
}

/** Worker thread that compiles and validates, one job at a time. */
class SchemaWorker {
  readonly #worker: Worker;
  readonly #ready: Promise<SchemaReply>;
  #pending: PromiseWithResolvers<SchemaReply> | undefined = undefined;
  #exit: WorkerExitedError | undefined = undefined;

  constructor() {
    this.#worker = new Worker(new URL('./result-schema-worker.ts', import.meta.url), {
      argv: [],
      env: {},
      execArgv: [],
      // Output of the runtime must not appear in the log.
      stdout: true,
      stderr: true,
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
    });
    this.#worker.on('message', (reply: SchemaReply) => this.#pending?.resolve(reply));
    this.#worker.on('error', (error) => {
      const isOutOfMemory = error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
      this.#onExit(isOutOfMemory ? 'ran out of memory' : 'failed');
    });
    this.#worker.on('exit', () => this.#onExit('failed'));
    this.#ready = this.#nextReply(START_MS);
    this.#ready.catch(() => undefined);
  }

  /** Whether it can run no more jobs. */
  get hasExited(): boolean {
    return this.#exit !== undefined;
  }

  /**
   * Runs a job. Throws {@link WorkerExitedError} if the worker exits or the job exceeds `deadlineMs`, counted from when the
   * worker is ready; the worker can then run no more jobs.
   */
  async run(job: SchemaJob, deadlineMs: number): Promise<SchemaReply> {
    await this.#ready;
    const reply = this.#nextReply(deadlineMs);
    this.#worker.postMessage(job);
    return reply;
  }

  /** Terminates the worker and the job in progress. */
  async close(): Promise<void> {
    this.#onExit(shuttingDown().message);
    await this.#worker.terminate();
  }

  async #nextReply(deadlineMs: number): Promise<SchemaReply> {
    if (this.#exit) throw this.#exit;
    const pending = Promise.withResolvers<SchemaReply>();
    this.#pending = pending;
    this.#worker.ref();
    const timer = setTimeout(() => {
      // A reply that arrived while this process was busy is delivered first.
      setImmediate(() => {
        if (this.#pending !== pending) return;
        this.#onExit(`exceeded ${deadlineMs / 1000} s`);
        void this.#worker.terminate();
      });
    }, deadlineMs);
    try {
      return await pending.promise;
    } finally {
      clearTimeout(timer);
      if (this.#pending === pending) this.#pending = undefined;
      this.#worker.unref();
    }
  }

  #onExit(reason: string): void {
    this.#exit ??= new WorkerExitedError(reason);
    this.#pending?.reject(this.#exit);
  }
}

/** Job of the worker; schemas are identified by a key. */
export type SchemaJob =
  | { readonly kind: 'compile'; readonly key: string; readonly schema: string }
  | { readonly kind: 'validate'; readonly key: string; readonly text: string };

/**
 * Reply of the worker. `unknown`: the schema of the text must be compiled first. `ready` is sent once, before all other
 * replies.
 */
export type SchemaReply =
  | { readonly kind: 'ready' }
  | { readonly kind: 'valid' }
  | { readonly kind: 'invalid'; readonly problem: string }
  | { readonly kind: 'unknown' };
