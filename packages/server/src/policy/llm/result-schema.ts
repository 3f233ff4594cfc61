import { createHash } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import { FairQueue } from '../fair-queue.ts';

/** Milliseconds in which the thread must be there. */
const START_MS = 30_000;
/** An LLM's answer has 1 MiB at most; what is made of it here has room for some hundred times that. */
const HEAP_MIB = 128;

/** A thread that is of no more use: it took too long or has ended. The message says so of the job. */
export class WorkerExitedError extends Error {}

/** The thread of the result schemas. It carries out one job at a time. */
export class SchemaThread {
  readonly #worker: Worker;
  readonly #ready: Promise<SchemaReply>;
  #waiting: PromiseWithResolvers<SchemaReply> | undefined = undefined;
  #lost: WorkerExitedError | undefined = undefined;

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
   * Carries out a job. Throws {@link WorkerExitedError} when it takes longer than `mostMs`, counted from when the thread is there
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
    this.#lost ??= new WorkerExitedError(how);
    this.#waiting?.reject(this.#lost);
  }
}

/** Milliseconds that compiling a schema, or judging one text, may take. */
const DEADLINE_MS = 1_000;

/** Characters of a text that is judged: an LLM's answer has no more (`llm-client.ts`). */
const MAX_TEXT = 1024 * 1024;
/**
 * Texts that wait to be judged by a schema, beyond which one fails at once: whoever waits that long has given up. Fewer
 * may wait when the text before them took too long, because they might each take as long.
 */
const MAX_WAITING = 1_000;
const MAX_WAITING_OF_SUSPECT = 50;

/** Verdicts that each schema remembers, of texts of so many characters at most. */
const REMEMBERED = 64;
const MAX_REMEMBERED = 32 * 1024;

/** How long one is remembered that the thread was lost over: it may have been the machine that was too slow. */
const DOUBT_MS = 5_000;

/** A result schema that cannot be used; the message says why (decisions 4.5). */
export class ResultSchemaError extends Error {
  override readonly name = 'ResultSchemaError';
}

/** A result schema that can be used. It holds nothing that would have to be given back. */
export interface CompiledSchema {
  /** The schema as JSON, for prompts. */
  readonly text: string;
  /**
   * What is wrong with a text by the schema, joined with `; `: of ten errors at most, none with a value of the text.
   * Undefined when nothing is. One Markdown code fence around all of the text is not part of it (decisions 4.9).
   *
   * A text that cannot be judged does not fit: one of more than 1 MiB, one that takes longer than 1 s or too much
   * memory, and one before which too many wait. `signal`: nobody waits for the verdict any more; its reason is thrown
   * then.
   */
  validate(text: string, signal?: AbortSignal): Promise<string | undefined>;
}

/** A schema that compiled. */
interface Known {
  readonly key: string;
  readonly text: string;
  /** The thread was lost over the text that it judged last. */
  suspect: boolean;
}

/** What is wrong with a text, if anything, and for how many milliseconds that is so. */
interface Verdict {
  readonly problem: string | undefined;
  readonly lastsMs: number;
}

/** Something to do in the thread, and who waits for it. */
interface Task {
  readonly work: (thread: SchemaThread) => Promise<SchemaReply>;
  readonly done: (reply: SchemaReply | WorkerExitedError) => void;
}

/**
 * The result schemas of the evaluators (decisions 4.9). They are compiled and used in a thread of their own, which is
 * started when there is something to do: a schema's regular expressions and what an LLM answers may keep it busy for
 * ever, and neither must hold up the service. A thread that takes longer than 1 s is given up for another one.
 *
 * One job is done at a time, and every schema has its turn. What nobody waits for any more leaves the queue.
 */
export class ResultSchemas {
  readonly #deadlineMs: number;
  readonly #queue = new FairQueue<Task>();
  #thread: SchemaThread | undefined = undefined;
  #busy = false;
  #closed = false;

  /** `deadlineMs` is for tests. */
  constructor(deadlineMs: number = DEADLINE_MS) {
    this.#deadlineMs = deadlineMs;
  }

  /** Throws {@link ResultSchemaError}: for what is no schema, is of an unknown draft or refers to another document. */
  async compile(schema: unknown): Promise<CompiledSchema> {
    const text = textOf(schema);
    const key = createHash('sha256').update(text).digest('hex');
    const reply = await this.#inTurn(key, (thread) => this.#compileIn(thread, key, text));
    if (reply instanceof WorkerExitedError) {
      throw new ResultSchemaError(`the schema cannot be used: compiling it ${reply.message}`);
    }
    if (reply.kind === 'refused') throw new ResultSchemaError(`the schema ${reply.problem}`);
    const known = { key, text, suspect: false };
    return { text, validate: remembering((result, signal) => this.#validate(known, result, signal)) };
  }

  /** Ends the thread. From then on no schema can be compiled, and no text fits. */
  async close(): Promise<void> {
    this.#closed = true;
    for (let task = this.#queue.take(); task !== undefined; task = this.#queue.take()) task.done(stopped());
    await this.#thread?.end();
  }

  async #validate(known: Known, text: string, signal: AbortSignal | undefined): Promise<Verdict> {
    if (text.length > MAX_TEXT) {
      return { problem: `the text is longer than ${MAX_TEXT} characters`, lastsMs: Number.POSITIVE_INFINITY };
    }
    if (this.#queue.sizeOf(known.key) >= (known.suspect ? MAX_WAITING_OF_SUSPECT : MAX_WAITING)) {
      return { problem: 'validation failed: too many texts wait to be judged by this schema', lastsMs: 0 };
    }
    const reply = await this.#inTurn(known.key, (thread) => this.#judgeIn(thread, known, text), signal);
    if (reply instanceof WorkerExitedError) return { problem: `validation ${reply.message}`, lastsMs: DOUBT_MS };
    return { problem: reply.kind === 'refused' ? reply.problem : undefined, lastsMs: Number.POSITIVE_INFINITY };
  }

  async #judgeIn(thread: SchemaThread, known: Known, text: string): Promise<SchemaReply> {
    const job: SchemaJob = { kind: 'validate', key: known.key, text };
    try {
      let reply = await thread.run(job, this.#deadlineMs);
      if (reply.kind === 'unknown') {
        // The thread is a new one, or has had many others since.
        reply = await this.#compileIn(thread, known.key, known.text);
        if (reply.kind === 'fine') reply = await thread.run(job, this.#deadlineMs);
      }
      known.suspect = false;
      return reply;
    } catch (error) {
      known.suspect = true;
      throw error;
    }
  }

  #compileIn(thread: SchemaThread, key: string, schema: string): Promise<SchemaReply> {
    return thread.run({ kind: 'compile', key, schema }, this.#deadlineMs);
  }

  #inTurn(key: string, work: Task['work'], signal?: AbortSignal): Promise<SchemaReply | WorkerExitedError> {
    if (this.#closed) return Promise.resolve(stopped());
    if (signal?.aborted) return Promise.reject(signal.reason);
    const { promise, resolve, reject } = Promise.withResolvers<SchemaReply | WorkerExitedError>();
    const leave = () => {
      this.#queue.remove(key, task);
      reject(signal?.reason);
    };
    const task: Task = {
      work,
      done(reply) {
        signal?.removeEventListener('abort', leave);
        resolve(reply);
      },
    };
    signal?.addEventListener('abort', leave, { once: true });
    this.#queue.add(key, task);
    if (!this.#busy) void this.#workOff();
    return promise;
  }

  async #workOff(): Promise<void> {
    this.#busy = true;
    for (let task = this.#queue.take(); task !== undefined; task = this.#queue.take()) {
      task.done(await this.#carryOut(task));
    }
    this.#busy = false;
  }

  async #carryOut({ work }: Task): Promise<SchemaReply | WorkerExitedError> {
    try {
      if (this.#thread === undefined || this.#thread.isLost) this.#thread = new SchemaThread();
      return await work(this.#thread);
    } catch (error) {
      return error instanceof WorkerExitedError
        ? error
        : new WorkerExitedError('failed: there is no thread to be had for it');
    }
  }
}

/**
 * With the latest verdicts, because an action mostly asks for that of the answer which was judged before it ran: it is
 * not to wait for its turn while its own time runs.
 */
function remembering(validate: (text: string, signal?: AbortSignal) => Promise<Verdict>): CompiledSchema['validate'] {
  const verdicts = new Map<string, { readonly problem: string | undefined; readonly until: number }>();
  return async (text, signal) => {
    const known = verdicts.get(text);
    if (known && performance.now() < known.until) return known.problem;
    const { problem, lastsMs } = await validate(text, signal);
    if (text.length > MAX_REMEMBERED || lastsMs === 0) return problem;
    const [oldest] = verdicts.keys();
    if (verdicts.size >= REMEMBERED && oldest !== undefined) verdicts.delete(oldest);
    verdicts.set(text, { problem, until: performance.now() + lastsMs });
    return problem;
  };
}

function stopped(): WorkerExitedError {
  return new WorkerExitedError('was ended: the service stops');
}

function textOf(schema: unknown): string {
  if (typeof schema !== 'boolean' && (typeof schema !== 'object' || schema === null || Array.isArray(schema))) {
    throw new ResultSchemaError('the schema is neither an object nor a boolean');
  }
  try {
    return JSON.stringify(schema);
  } catch (cause) {
    throw new ResultSchemaError('the schema is nested too deeply', { cause });
  }
}

/** What the thread of the result schemas is asked; schemas are known by a key. */
export type SchemaJob =
  | { readonly kind: 'compile'; readonly key: string; readonly schema: string }
  | { readonly kind: 'validate'; readonly key: string; readonly text: string };

/**
 * What it answers: `fine` when the schema compiled or the text fits, `refused` when not, with what is wrong; `unknown`
 * when the schema of a text has to be compiled first. `ready` is said once, before all answers.
 */
export type SchemaReply =
  | { readonly kind: 'ready' }
  | { readonly kind: 'fine' }
  | { readonly kind: 'refused'; readonly problem: string }
  | { readonly kind: 'unknown' };
