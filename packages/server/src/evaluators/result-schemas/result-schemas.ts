import { createHash } from 'node:crypto';
import { FairQueue } from '../fair-queue.ts';
import type { SchemaJob, SchemaReply } from './result-schema-job.ts';
import { SchemaThread, ThreadLost } from './schema-thread.ts';

/** Milliseconds that compiling a schema, or judging one text, may take. */
const DEADLINE_MS = 1_000;

/** Verdicts that each schema remembers, of texts of so many characters at most. */
const REMEMBERED = 64;
const MAX_REMEMBERED = 32 * 1024;

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
   * A text that cannot be judged, because that takes longer than 1 s or too much memory, does not fit.
   */
  validate(text: string): Promise<string | undefined>;
}

/** Something to do in the thread, and who waits for it. */
interface Task {
  readonly work: (thread: SchemaThread) => Promise<SchemaReply>;
  readonly done: (reply: SchemaReply | ThreadLost) => void;
}

/**
 * The result schemas of the evaluators (decisions 4.9). They are compiled and used in a thread of their own, which is
 * started when there is something to do: a schema's regular expressions and what an LLM answers may keep it busy for
 * ever, and neither must hold up the service. A thread that takes longer than 1 s is given up for another one.
 *
 * One job is done at a time, and every schema has its turn.
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
    if (reply instanceof ThreadLost) {
      throw new ResultSchemaError(`the schema cannot be used: compiling it ${reply.message}`);
    }
    if (reply.kind === 'refused') throw new ResultSchemaError(`the schema ${reply.problem}`);
    return { text, validate: remembering((result) => this.#validate(key, text, result)) };
  }

  /** Ends the thread. From then on no schema can be compiled, and no text fits. */
  async close(): Promise<void> {
    this.#closed = true;
    for (let task = this.#queue.take(); task !== undefined; task = this.#queue.take()) task.done(stopped());
    await this.#thread?.end();
  }

  async #validate(key: string, schema: string, text: string): Promise<string | undefined> {
    const job: SchemaJob = { kind: 'validate', key, text };
    const reply = await this.#inTurn(key, async (thread) => {
      const first = await thread.run(job, this.#deadlineMs);
      if (first.kind !== 'unknown') return first;
      // The thread is a new one, or has had many others since.
      const compiled = await this.#compileIn(thread, key, schema);
      return compiled.kind === 'fine' ? thread.run(job, this.#deadlineMs) : compiled;
    });
    if (reply instanceof ThreadLost) return `validation ${reply.message}`;
    return reply.kind === 'refused' ? reply.problem : undefined;
  }

  #compileIn(thread: SchemaThread, key: string, schema: string): Promise<SchemaReply> {
    return thread.run({ kind: 'compile', key, schema }, this.#deadlineMs);
  }

  #inTurn(key: string, work: Task['work']): Promise<SchemaReply | ThreadLost> {
    if (this.#closed) return Promise.resolve(stopped());
    const { promise, resolve } = Promise.withResolvers<SchemaReply | ThreadLost>();
    this.#queue.add(key, { work, done: resolve });
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

  async #carryOut({ work }: Task): Promise<SchemaReply | ThreadLost> {
    try {
      if (this.#thread === undefined || this.#thread.isLost) this.#thread = new SchemaThread();
      return await work(this.#thread);
    } catch (error) {
      return error instanceof ThreadLost ? error : new ThreadLost('failed: there is no thread to be had for it');
    }
  }
}

type Validate = CompiledSchema['validate'];

/**
 * With the latest verdicts, because an action mostly asks for that of the answer which was judged before it ran: it is
 * not to wait for its turn while its own time runs.
 */
function remembering(validate: Validate): Validate {
  const verdicts = new Map<string, string | undefined>();
  return async (text) => {
    if (verdicts.has(text)) return verdicts.get(text);
    const verdict = await validate(text);
    if (text.length > MAX_REMEMBERED) return verdict;
    const [oldest] = verdicts.keys();
    if (verdicts.size >= REMEMBERED && oldest !== undefined) verdicts.delete(oldest);
    verdicts.set(text, verdict);
    return verdict;
  };
}

function stopped(): ThreadLost {
  return new ThreadLost('was ended: the service stops');
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
