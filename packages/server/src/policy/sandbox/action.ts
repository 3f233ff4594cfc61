import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';

/**
 * What passes between the service and an action: the world `evaluator-action` of `packages/actions/wit/evaluator.wit`
 * (spec "Evaluation context" and "Host functions", decisions 2.11), as the JavaScript bindings spell it.
 */

/** What `evaluate` is given. */
export interface EvaluationContext {
  readonly method: string;
  readonly namespace: string;
  /** Of `tools/call`. */
  readonly toolName?: string;
  /** Top-level arguments; strings as they are, other values as JSON. */
  readonly arguments: readonly (readonly [name: string, value: string])[];
  /** The raw output of the LLM. */
  readonly llmResult: string;
  readonly conversationId?: string;
}

/** A tool as actions see it. */
export interface ToolEntry {
  readonly name: string;
  readonly description: string;
  readonly uri: string;
  readonly toolType: string;
  readonly namespace?: string;
}

/** A message of a conversation. */
export interface HistoryMessage {
  readonly role: string;
  readonly content: string;
}

/** What an action called last of the interface `response`. */
export type ActionResponse =
  | { readonly kind: 'pass' }
  | { readonly kind: 'block'; readonly reason: string }
  | { readonly kind: 'reject_malformed'; readonly reason: string }
  | { readonly kind: 'warn'; readonly message: string }
  | { readonly kind: 'filter_tools'; readonly tools: readonly string[] }
  | { readonly kind: 'set_metadata'; readonly key: string; readonly value: string };

/** How much a line of an action matters. `debug`: what it prints; the others have a function each. */
export type ActionLogLevel = 'debug' | 'info' | 'warn' | 'error';

/**
 * What the service answers an action. Everything is of one moment: what changes meanwhile is not seen, but for what the
 * action itself copied. Lists are JSON texts of `ToolEntry[]` and `HistoryMessage[]`, so that they can be kept.
 */
export interface HostAnswers {
  /** All tools (no `namespace`) or those of one, in order of registration. */
  tools(namespace?: string): string;
  tool(name: string): ToolEntry | undefined;
  /** True when the tool was found; what is to be copied is kept until the run ended well. */
  copyTool(name: string, namespace: string): boolean;
  /** `signal`: nobody waits for the answer any more. */
  history(conversationId: string, signal: AbortSignal): string | Promise<string>;
  /** What is wrong with a text by the evaluator's `result_schema`, joined with `; `; undefined when nothing is. */
  verify(raw: string, signal: AbortSignal): Promise<string | undefined>;
  log(level: ActionLogLevel, message: string): void;
}

/** A run that ended well. */
export interface ActionRun {
  /** Undefined when the action called no response function: the request passes. */
  readonly response: ActionResponse | undefined;
  /** How many calls of response functions did not count, because one of them after it or before it did. */
  readonly ignoredResponses: number;
  /** From hand-over to the host process to its end. */
  readonly durationMs: number;
}

/** Why a run did not end well. */
export type ActionFault = 'trap' | 'timeout' | 'memory' | 'limit' | 'host';

/** A run that did not end well: a trap, a deadline, memory, a limit of ours, or the host process itself. */
export class ActionFailure extends Error {
  readonly fault: ActionFault;

  constructor(fault: ActionFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}

/** A run that was refused, or that nobody waited for any more, before it began. */
export class ActionNotStartedError extends ActionFailure {
  constructor(message: string) {
    super('host', message);
  }
}

/** The host process ended by itself before it had said anything of the run, which can be tried in another one. */
export class HostExitedError extends ActionFailure {
  constructor() {
    super('host', 'its host process ended');
  }
}

/** A component that compiled: what a host process makes instances of. Nothing of it is ever run in this process. */
export interface Action {
  /** SHA-256 of the component, in hex. */
  readonly checksum: string;
  /** JavaScript that jco made of the component; only host processes evaluate it. */
  readonly glue: string;
  /** `pages`: what an instance may take of the memory of a run, in pages of 64 KiB. */
  readonly modules: readonly { readonly name: string; readonly bytes: Uint8Array; readonly pages: number }[];
}

/** The memory that an action takes, in bytes. */
export function actionBytes({ glue, modules }: Action): number {
  return modules.reduce((sum, { bytes }) => sum + bytes.length, glue.length);
}

/** Why a file is no action; the message says what is wrong with it. */
export class ActionCompileError extends Error {}

/** Compiles components in child processes. */
export interface ActionCompiling {
  /** `checksum`: where it is known. Throws `ActionCompileError`. */
  compile(component: Uint8Array, checksum?: string): Promise<Action>;
  close(): Promise<void>;
}

/** Runs actions in child processes. */
export interface ActionRunning {
  /**
   * Throws `ActionFailure`. `signal`: nobody waits for it any more. A run that has not begun fails then; one that has goes
   * on, because its host process would end with it.
   */
  run(action: Action, context: EvaluationContext, answers: HostAnswers, signal?: AbortSignal): Promise<ActionRun>;
  close(): Promise<void>;
}

/** A millisecond or two. */
const AT_ONCE = 1024 * 1024;

/** SHA-256 of a component, in hex; of a large one in pieces, between which others go on. */
export async function componentChecksum(component: Uint8Array): Promise<string> {
  const hash = createHash('sha256').update(component.subarray(0, AT_ONCE));
  for (let at = AT_ONCE; at < component.length; at += AT_ONCE) {
    await setImmediate();
    hash.update(component.subarray(at, at + AT_ONCE));
  }
  return hash.digest('hex');
}
