import {
  type Action,
  ActionFailure,
  ActionNotStartedError,
  type ActionRun,
  actionBytes,
  type EvaluationContext,
  type HostAnswers,
  HostExitedError,
} from './action.ts';
import type { Question, ToHost } from './host/messages.ts';
import { fromHost, MAX_WORD_BYTES } from './ipc.ts';
import { SandboxProcess, type SandboxScripts } from './sandbox-process.ts';

/** Until a process is there, and until it has taken an action in. */
const START_MS = 10_000;
const LOAD_MS = 10_000;

/** What an action may ask in one run; each costs the service some time. */
const MAX_QUESTIONS = 20_000;
/** What it is answered in all. Lists of many tools are made anew after each copy, and that takes the service some time. */
const MAX_ANSWER_BYTES = 128 * 1024 * 1024;
/** Lines of the log that a run may have; the host itself stops before. */
const MAX_LOG_LINES = 300;

/** A host is replaced after this much work, long before the system's limit of processor time. */
const RETIRE_AFTER_MS = 20_000;
const CPU_SECONDS = 60;
/** Module bytes that one host holds; what needs more gets a host of its own. */
const MAX_LOADED_BYTES = 32 * 1024 * 1024;
const MAX_LOADED = 32;

const FLAGS = [
  '--max-old-space-size=64',
  // What a run makes dies with it, if there is room for that to happen.
  '--max-semi-space-size=8',
  '--min-semi-space-size=8',
  '--wasm-max-mem-pages=1024',
  '--wasm-max-table-size=400000',
  // Once: what a run made hot would be compiled again after it, for the next run to pay. That takes gigabytes where
  // somebody wants it to, and what actions do in their second is no quicker for it.
  '--liftoff-only',
  '--no-flush-bytecode',
];

/** What may be configured of hosts, for tests. */
export interface HostLimits {
  /** Milliseconds that a run may take, by the wall clock, from hand-over to its end. */
  readonly runMs: number;
}

/** Those of the product. */
export const HOST_LIMITS: HostLimits = { runMs: 1_000 };

/** What waits for the host's next word. */
interface Waiting {
  readonly answers: HostAnswers | undefined;
  readonly startedAt: number;
  /** The host has said something. */
  heard: boolean;
  questions: number;
  answerBytes: number;
  lines: number;
  /** A question has not been answered yet: until then there is nothing else to be said. Aborted when the run is over. */
  asking: AbortController | undefined;
  settle(outcome: ActionRun | undefined): void;
  fail(failure: ActionFailure): void;
}

/** One host process. It does one thing at a time; what it is asked for meanwhile waits. */
export class Host {
  readonly #process: SandboxProcess;
  readonly #limits: HostLimits;
  readonly #loaded = new Set<string>();
  #loadedBytes = 0;
  #workedMs = 0;
  #waiting: Waiting | undefined;
  #turn: Promise<unknown>;
  #started = false;
  /** Why it is killed, for whoever waits. */
  #reason: ActionFailure | undefined;

  constructor({ loader, sources }: SandboxScripts, limits: HostLimits, onEnd: () => void) {
    this.#limits = limits;
    this.#process = new SandboxProcess({
      script: ['--input-type=module', '--eval', loader],
      readable: [],
      flags: FLAGS,
      cpuSeconds: CPU_SECONDS,
      maxFrameBytes: MAX_WORD_BYTES,
      onFrame: (bytes) => this.#take(bytes),
      onEnd: ({ memory, tooLong }) => {
        if (tooLong) this.#reason ??= new ActionFailure('host', 'its host process was ended: it said too much at once');
        if (memory) this.#reason ??= new ActionFailure('memory', 'it used up its memory');
        if (this.#waiting?.heard) this.#reason ??= new ActionFailure('host', 'its host process ended');
        this.#reason ??= new HostExitedError();
        this.#waiting?.fail(this.#reason);
        onEnd();
      },
    });
    this.#process.send(sources);
    // Whoever uses the host is told; nobody may.
    this.#turn = this.#next('its host process did not start', START_MS).then(
      () => {
        this.#started = true;
      },
      () => undefined,
    );
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** It works on something. */
  get busy(): boolean {
    return this.#waiting !== undefined;
  }

  /** It has ended, or is to end. */
  get gone(): boolean {
    return this.#reason !== undefined;
  }

  get ended(): Promise<void> {
    return this.#process.ended;
  }

  /** True when it has worked enough. */
  get worn(): boolean {
    return this.#workedMs > RETIRE_AFTER_MS;
  }

  has(action: Action): boolean {
    return this.#loaded.has(action.checksum);
  }

  /** True when there is room for an action beside those that it has. */
  roomFor(action: Action): boolean {
    if (this.#loaded.size === 0) return true;
    return this.#loaded.size < MAX_LOADED && this.#loadedBytes + actionBytes(action) <= MAX_LOADED_BYTES;
  }

  /** True when actions that are not kept take room that those kept need; these are different ones. */
  crowded(kept: readonly Action[]): boolean {
    const missing = kept.filter((action) => !this.has(action));
    const bytes = missing.reduce((sum, action) => sum + actionBytes(action), this.#loadedBytes);
    if (this.#loaded.size + missing.length <= MAX_LOADED && bytes <= MAX_LOADED_BYTES) return false;
    return this.#loaded.size > kept.length - missing.length;
  }

  residentBytes(): number | undefined {
    return this.#process.residentBytes();
  }

  /** Takes an action in, so that it can be run. Throws `ActionFailure`; the host may have gone then. */
  load(action: Action): Promise<void> {
    return this.#inTurn(() => this.#load(action));
  }

  /** Runs an action that it has. Throws `ActionFailure`. */
  run(action: Action, context: EvaluationContext, answers: HostAnswers): Promise<ActionRun> {
    return this.#inTurn(() => this.#run(action, context, answers));
  }

  /** Ends the process at once; what it was doing fails with this. */
  kill(reason = new ActionFailure('host', 'its host process was ended')): ActionFailure {
    this.#reason ??= reason;
    this.#waiting?.asking?.abort(this.#reason);
    this.#process.kill();
    return this.#reason;
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const gone = this.#reason;
    const done = this.#turn.then(() => {
      if (this.#reason) throw gone ?? this.#reasonOfOthers(this.#reason);
      return work();
    });
    this.#turn = done.catch(() => undefined);
    return done;
  }

  /** Why work fails whose turn had not come: what the host was killed over was other work, and this can be done elsewhere. */
  #reasonOfOthers(reason: ActionFailure): ActionFailure {
    return this.#started && !(reason instanceof ActionNotStartedError) ? new HostExitedError() : reason;
  }

  async #load(action: Action): Promise<void> {
    if (this.has(action)) return;
    const load: ToHost = {
      kind: 'load',
      action: action.checksum,
      modules: action.modules.map(({ name, pages }) => ({ name, pages })),
    };
    const taken = this.#next('it took too long to load', LOAD_MS);
    this.#process.send(load, Buffer.from(action.glue), ...action.modules.map(({ bytes }) => bytes));
    if ((await taken) !== undefined) throw this.kill(outOfTurn());
    this.#loaded.add(action.checksum);
    this.#loadedBytes += actionBytes(action);
  }

  async #run(action: Action, context: EvaluationContext, answers: HostAnswers): Promise<ActionRun> {
    const overrun = `it ran longer than ${this.#limits.runMs} ms`;
    const done = this.#next(overrun, this.#limits.runMs, answers);
    const run: ToHost = { kind: 'run', action: action.checksum };
    this.#process.send(run, Buffer.from(JSON.stringify(context)));
    const outcome = await done;
    if (outcome === undefined) throw this.kill(outOfTurn());
    return outcome;
  }

  #next(overrun: string, deadlineMs: number, answers?: HostAnswers): Promise<ActionRun | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<ActionRun | undefined>();
    const startedAt = performance.now();
    // When this process was busy itself, what the host said may lie in the pipe: it is read first.
    const overdue = () => this.#waiting === waiting && this.kill(new ActionFailure('timeout', overrun));
    const deadline = setTimeout(() => setImmediate(overdue), deadlineMs);
    const over = () => {
      clearTimeout(deadline);
      this.#waiting = undefined;
      this.#workedMs += performance.now() - startedAt;
    };
    const waiting: Waiting = {
      answers,
      startedAt,
      heard: false,
      questions: 0,
      answerBytes: 0,
      lines: 0,
      asking: undefined,
      settle(outcome) {
        over();
        resolve(outcome);
      },
      fail(failure) {
        waiting.asking?.abort(failure);
        over();
        reject(failure);
      },
    };
    this.#waiting = waiting;
    return promise;
  }

  /** What it says is not trusted: a word that does not fit ends it. */
  #take(bytes: Buffer): void {
    const waiting = this.#waiting;
    const message = fromHost(bytes);
    if (message === undefined || waiting === undefined || waiting.asking) {
      this.kill(new ActionFailure('host', 'its host process said what it may not'));
      return;
    }
    waiting.heard = true;
    switch (message.kind) {
      case 'ready':
      case 'loaded':
        waiting.settle(undefined);
        return;
      case 'log':
        waiting.lines++;
        if (waiting.lines > MAX_LOG_LINES) this.kill(new ActionFailure('limit', 'it logged too much'));
        else waiting.answers?.log(message.level, message.message);
        return;
      case 'question':
        void this.#answer(message, waiting);
        return;
      case 'failed':
        waiting.fail(new ActionFailure(message.fault, message.message));
        return;
      case 'done': {
        const durationMs = performance.now() - waiting.startedAt;
        waiting.settle({ response: message.response, ignoredResponses: message.ignored, durationMs });
      }
    }
  }

  async #answer(question: Question, waiting: Waiting): Promise<void> {
    waiting.questions++;
    const asking = new AbortController();
    waiting.asking = asking;
    try {
      if (waiting.answers === undefined || waiting.questions > MAX_QUESTIONS) throw tooMuchAsked();
      const text = Buffer.from(await answerOf(question, waiting.answers, asking.signal));
      waiting.answerBytes += text.length;
      if (waiting.answerBytes > MAX_ANSWER_BYTES) throw tooMuchAsked();
      waiting.asking = undefined;
      if (this.#waiting === waiting) this.#process.send({ kind: 'answer' } satisfies ToHost, text);
    } catch (error) {
      this.kill(
        error instanceof ActionFailure
          ? error
          : new ActionFailure('host', 'what it asked could not be answered', { cause: error }),
      );
    }
  }
}

function outOfTurn(): ActionFailure {
  return new ActionFailure('host', 'its host process spoke out of turn');
}

function tooMuchAsked(): ActionFailure {
  return new ActionFailure('limit', 'it asked the service for too much');
}

/** JSON. */
async function answerOf(question: Question, answers: HostAnswers, signal: AbortSignal): Promise<string> {
  switch (question.ask) {
    case 'tools':
      return answers.tools(question.namespace);
    case 'tool':
      return JSON.stringify(answers.tool(question.name) ?? null);
    case 'copy':
      return JSON.stringify(answers.copyTool(question.name, question.namespace));
    case 'history':
      return await answers.history(question.conversation, signal);
    case 'verify':
      return JSON.stringify((await answers.verify(question.raw, signal)) ?? null);
  }
}
