import {
  type Action,
  ActionFailure,
  ActionNotStartedError,
  type ActionRun,
  actionSize,
  type EvaluationContext,
  HostExitedError,
  type HostFunctions,
} from './action.ts';
import { type HostCall, type HostCommand, MAX_HOST_FRAME_BYTES, parseHostMessage } from './ipc.ts';
import { type SandboxExit, SandboxProcess, type SandboxScripts } from './sandbox-process.ts';

/** Deadlines for the start of a process and for loading an action. */
const START_MS = 10_000;
const LOAD_MS = 10_000;

/** Host function calls per run; each costs the service some time. */
const MAX_CALLS = 20_000;
/**
 * Results of host functions per run. A long tool list is serialized again after each copy, which costs the service some
 * time.
 */
const MAX_RESULT_BYTES = 128 * 1024 * 1024;
/** Log lines per run; the host itself stops earlier. */
const MAX_LOG_LINES = 300;

/** A host is recycled after this much work, long before the system's limit of processor time. */
const RECYCLE_AFTER_MS = 20_000;
const CPU_SECONDS = 60;
/** Actions that one host loads; a larger action gets a host of its own. */
const MAX_LOADED_BYTES = 32 * 1024 * 1024;
const MAX_LOADED = 32;

const FLAGS = [
  '--max-old-space-size=64',
  // Large enough to collect the garbage of a run in the young generation.
  '--max-semi-space-size=8',
  '--min-semi-space-size=8',
  '--wasm-max-mem-pages=1024',
  '--wasm-max-table-size=400000',
  // Baseline compiler only: optimizing the hot code of one run would continue after it, at the cost of the next run,
  // and an attacker can make it use gigabytes. Actions are too short to benefit from it.
  '--liftoff-only',
  '--no-flush-bytecode',
];

/** Limits of a host process. */
export interface HostLimits {
  /** Wall-clock time of a run in milliseconds, from sending the command to the result. */
  readonly runMs: number;
}

/** Production limits. */
export const HOST_LIMITS: HostLimits = { runMs: 1_000 };

/** Command that the host process is executing. */
interface PendingCommand {
  /** Only for a run. */
  readonly functions: HostFunctions | undefined;
  readonly startedAt: number;
  /** The host process has sent a message for it. */
  hasResponded: boolean;
  calls: number;
  resultBytes: number;
  logLines: number;
  /** Host function call in progress: no other message may come until it returns. Aborted when the command ends. */
  activeCall: AbortController | undefined;
  resolve(run: ActionRun | undefined): void;
  reject(failure: ActionFailure): void;
}

/** One host process. It executes one command at a time; further commands wait in order. */
export class SandboxWorker {
  readonly #process: SandboxProcess;
  readonly #limits: HostLimits;
  readonly #loaded = new Set<string>();
  #loadedBytes = 0;
  #workedMs = 0;
  #pending: PendingCommand | undefined;
  /** Settles with the last queued command. */
  #queue: Promise<unknown>;
  #hasStarted = false;
  /** Reason why the process has ended, or is about to. */
  #endReason: ActionFailure | undefined;

  constructor({ loader, sources }: SandboxScripts, limits: HostLimits, onExit: () => void) {
    this.#limits = limits;
    this.#process = new SandboxProcess({
      script: ['--input-type=module', '--eval', loader],
      readable: [],
      flags: FLAGS,
      cpuSeconds: CPU_SECONDS,
      maxFrameBytes: MAX_HOST_FRAME_BYTES,
      onFrame: (bytes) => this.#onFrame(bytes),
      onExit: (exit) => {
        this.#endReason ??= this.#exitReason(exit);
        this.#pending?.reject(this.#endReason);
        onExit();
      },
    });
    this.#process.send(sources);
    // A failed start is reported by the commands that wait for it.
    this.#queue = this.#nextResult(`host process did not start within ${START_MS / 1000} s`, START_MS).then(
      () => {
        this.#hasStarted = true;
      },
      () => undefined,
    );
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Whether a command is in progress. */
  get isBusy(): boolean {
    return this.#pending !== undefined;
  }

  /** Whether the process has ended or is about to. */
  get hasExited(): boolean {
    return this.#endReason !== undefined;
  }

  /** Resolves when the process has exited. */
  get exited(): Promise<void> {
    return this.#process.exited;
  }

  /** Whether the process has worked long enough to be replaced. */
  get shouldRecycle(): boolean {
    return this.#workedMs > RECYCLE_AFTER_MS;
  }

  has(action: Action): boolean {
    return this.#loaded.has(action.checksum);
  }

  /** Whether an action fits beside the loaded ones. */
  hasCapacityFor(action: Action): boolean {
    if (this.#loaded.size === 0) return true;
    return this.#loaded.size < MAX_LOADED && this.#loadedBytes + actionSize(action) <= MAX_LOADED_BYTES;
  }

  /** Whether inactive actions occupy space that these distinct active ones need. Actions cannot be unloaded. */
  needsReplacementFor(actions: readonly Action[]): boolean {
    const missing = actions.filter((action) => !this.has(action));
    const bytes = missing.reduce((sum, action) => sum + actionSize(action), this.#loadedBytes);
    if (this.#loaded.size + missing.length <= MAX_LOADED && bytes <= MAX_LOADED_BYTES) return false;
    return this.#loaded.size > actions.length - missing.length;
  }

  residentBytes(): number | undefined {
    return this.#process.residentBytes();
  }

  /** Loads an action. Throws `ActionFailure`, after which the process may be gone. */
  load(action: Action): Promise<void> {
    return this.#enqueue(() => this.#load(action));
  }

  /** Runs a loaded action. Throws `ActionFailure`, after which the process may be gone. */
  run(action: Action, context: EvaluationContext, functions: HostFunctions): Promise<ActionRun> {
    return this.#enqueue(() => this.#run(action, context, functions));
  }

  /** Kills the process; the command in progress fails with the returned reason. */
  kill(reason = new ActionFailure('host', 'host process was killed')): ActionFailure {
    this.#endReason ??= reason;
    this.#pending?.activeCall?.abort(this.#endReason);
    this.#process.kill();
    return this.#endReason;
  }

  #exitReason({ outOfMemory, frameLimitExceeded }: SandboxExit): ActionFailure {
    if (frameLimitExceeded) return new ActionFailure('host', 'host process sent an oversized message');
    if (outOfMemory) return new ActionFailure('memory', 'memory limit exceeded');
    // Only a command without visible effects may be retried elsewhere.
    if (this.#pending?.hasResponded) return new ActionFailure('host', 'host process exited');
    return new HostExitedError();
  }

  #enqueue<T>(command: () => Promise<T>): Promise<T> {
    const previousEndReason = this.#endReason;
    const result = this.#queue.then(() => {
      if (this.#endReason) throw previousEndReason ?? this.#reasonForQueued(this.#endReason);
      return command();
    });
    this.#queue = result.catch(() => undefined);
    return result;
  }

  /** Failure of a command that was still queued: another command was at fault, so this one can be retried elsewhere. */
  #reasonForQueued(reason: ActionFailure): ActionFailure {
    return this.#hasStarted && !(reason instanceof ActionNotStartedError) ? new HostExitedError() : reason;
  }

  async #load(action: Action): Promise<void> {
    if (this.has(action)) return;
    const load: HostCommand = {
      kind: 'load',
      action: action.checksum,
      modules: action.modules.map(({ name, pages }) => ({ name, pages })),
    };
    const loaded = this.#nextResult(`loading exceeded ${LOAD_MS / 1000} s`, LOAD_MS);
    this.#process.send(load, Buffer.from(action.glue), ...action.modules.map(({ bytes }) => bytes));
    if ((await loaded) !== undefined) throw this.kill(unexpectedMessage());
    this.#loaded.add(action.checksum);
    this.#loadedBytes += actionSize(action);
  }

  async #run(action: Action, context: EvaluationContext, functions: HostFunctions): Promise<ActionRun> {
    const { runMs } = this.#limits;
    const finished = this.#nextResult(`execution exceeded ${runMs} ms`, runMs, functions);
    const command: HostCommand = { kind: 'run', action: action.checksum };
    this.#process.send(command, Buffer.from(JSON.stringify(context)));
    const run = await finished;
    if (run === undefined) throw this.kill(unexpectedMessage());
    return run;
  }

  /** Result of the next command: a run, or undefined for a start or a load. */
  #nextResult(timeoutMessage: string, deadlineMs: number, functions?: HostFunctions): Promise<ActionRun | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<ActionRun | undefined>();
    const startedAt = performance.now();
    // If this process itself was blocked, the result may already be in the pipe: it is read first.
    const onTimeout = () => this.#pending === pending && this.kill(new ActionFailure('timeout', timeoutMessage));
    const deadline = setTimeout(() => setImmediate(onTimeout), deadlineMs);
    const finish = () => {
      clearTimeout(deadline);
      this.#pending = undefined;
      this.#workedMs += performance.now() - startedAt;
    };
    const pending: PendingCommand = {
      functions,
      startedAt,
      hasResponded: false,
      calls: 0,
      resultBytes: 0,
      logLines: 0,
      activeCall: undefined,
      resolve(run) {
        finish();
        resolve(run);
      },
      reject(failure) {
        pending.activeCall?.abort(failure);
        finish();
        reject(failure);
      },
    };
    this.#pending = pending;
    return promise;
  }

  /** Messages are untrusted: an invalid or unexpected one ends the process. */
  #onFrame(bytes: Buffer): void {
    const pending = this.#pending;
    const message = parseHostMessage(bytes);
    if (message === undefined || pending === undefined || pending.activeCall) {
      this.kill(new ActionFailure('host', 'host process sent an invalid message'));
      return;
    }
    pending.hasResponded = true;
    switch (message.kind) {
      case 'ready':
      case 'loaded':
        pending.resolve(undefined);
        return;
      case 'log':
        pending.logLines++;
        if (pending.logLines > MAX_LOG_LINES) this.kill(new ActionFailure('limit', 'too many log lines'));
        else pending.functions?.log(message.level, message.message);
        return;
      case 'call':
        void this.#call(message, pending);
        return;
      case 'failed':
        pending.reject(new ActionFailure(message.fault, message.message));
        return;
      case 'done': {
        const durationMs = performance.now() - pending.startedAt;
        pending.resolve({ response: message.response, ignoredResponses: message.ignored, durationMs });
      }
    }
  }

  async #call(call: HostCall, pending: PendingCommand): Promise<void> {
    pending.calls++;
    const activeCall = new AbortController();
    pending.activeCall = activeCall;
    try {
      if (pending.functions === undefined) throw new ActionFailure('limit', 'host function called outside of a run');
      if (pending.calls > MAX_CALLS) throw new ActionFailure('limit', `more than ${MAX_CALLS} host function calls`);
      const result = Buffer.from(await callHostFunction(call, pending.functions, activeCall.signal));
      pending.resultBytes += result.length;
      if (pending.resultBytes > MAX_RESULT_BYTES) {
        throw new ActionFailure('limit', `host functions returned more than ${MAX_RESULT_BYTES / 1024 ** 2} MiB`);
      }
      pending.activeCall = undefined;
      if (this.#pending === pending) this.#process.send({ kind: 'result' } satisfies HostCommand, result);
    } catch (error) {
      const isActionFailure = error instanceof ActionFailure;
      this.kill(isActionFailure ? error : new ActionFailure('host', 'host function failed', { cause: error }));
    }
  }
}

function unexpectedMessage(): ActionFailure {
  return new ActionFailure('host', 'host process sent an unexpected message');
}

/** Returns the result as JSON. */
async function callHostFunction(call: HostCall, functions: HostFunctions, signal: AbortSignal): Promise<string> {
  switch (call.function) {
    case 'tools':
      return functions.tools(call.namespace);
    case 'tool':
      return JSON.stringify(functions.tool(call.name) ?? null);
    case 'copy':
      return JSON.stringify(functions.copyTool(call.name, call.namespace));
    case 'history':
      return await functions.history(call.conversation, signal);
    case 'verify':
      return JSON.stringify((await functions.verify(call.raw, signal)) ?? null);
  }
}
