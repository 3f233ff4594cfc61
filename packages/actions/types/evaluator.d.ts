/**
 * What an action can import, and what it is given: `../wit/evaluator.wit` as TypeScript has it. Make it known to the
 * compiler with `"types": ["@sluice/actions/types"]`, or copy the file beside your action.
 */

/** What passes between an action and the service. */
declare module 'service:evaluator/types' {
  /** The request that the action judges, and what the LLM said of it. */
  export interface EvaluationContext {
    /** The MCP method, such as `tools/call`. */
    method: string;
    /** The namespace of the request. */
    namespace: string;
    /** The tool that is called; of `tools/call` alone. */
    toolName?: string;
    /**
     * The top-level arguments of `tools/call`; of other methods the members of `params`, without `_meta`. A string is as
     * it is, any other value is JSON.
     */
    arguments: [name: string, value: string][];
    /**
     * What the LLM answered, as it came: JSON, a label or prose, code fences included, and perhaps nothing that was asked
     * for. See `verifyLlmResult`.
     */
    llmResult: string;
    /** Of the conversation that the request belongs to, where that is known. */
    conversationId?: string;
  }

  /** A tool as the registry has it. */
  export interface ToolEntry {
    name: string;
    /** Empty when the tool has none. */
    description: string;
    uri: string;
    /** What carries the tool out, such as `mcp-forward`. */
    toolType: string;
    /** The namespace it stands in. */
    namespace?: string;
  }

  /** A message of a conversation. */
  export interface Message {
    /** Such as `user` or `assistant`; `unknown` when the message had none. */
    role: string;
    content: string;
  }
}

/**
 * The verdict. Call one of these, once; without a call the request passes. Of several calls the last counts, but nothing
 * counts after `block` or `rejectMalformed`. When the action fails (an exception, more than 1000 ms or 64 MiB), none does:
 * the evaluator's `on_error` decides.
 */
declare module 'service:evaluator/response' {
  /** The request goes on, to the next evaluator or to where it is carried out. */
  export function pass(): void;
  /** The request is refused: JSON-RPC error -32001. The client reads the reason, word for word. */
  export function block(reason: string): void;
  /**
   * The input was of no use, which is no verdict on the request: JSON-RPC error -32002. The client reads the reason, word
   * for word.
   */
  export function rejectMalformed(reason: string): void;
  /** The request goes on. The message is logged, and later filters find it as `service.evaluator.<name>.warning`. */
  export function warn(message: string): void;
  /**
   * `tools/list` alone: answered with these tools of the request's namespace, in the registry's order. Names that are not
   * there are left out. For another method the request passes, and the log says so.
   */
  export function filterTools(toolNames: readonly string[]): void;
  /**
   * The request goes on, and later filters find this in its metadata. One key in a run: a second call replaces the first,
   * as any response does, so put several things into one value. At most 64 bytes of key and 256 of value; a key must not
   * begin with `mcp.` or `service.`. What does not fit is dropped with a warning in the log.
   */
  export function setMetadata(key: string, value: string): void;
}

/** The tools that are registered, as they were when the action began, and what it has copied since. */
declare module 'service:evaluator/registry' {
  import type { ToolEntry } from 'service:evaluator/types';

  export type { ToolEntry };
  /** The tools of all namespaces, in order of registration. */
  export function listTools(): ToolEntry[];
  /** The tools of one namespace, in order of registration; none when there is no such namespace. */
  export function listToolsInNamespace(namespace: string): ToolEntry[];
  /** A tool by name: that of the request's namespace, else of `default`, else the first registered elsewhere. */
  export function getTool(name: string): ToolEntry | undefined;
  /**
   * Copies a tool, found as `getTool` finds it, into a namespace, which is created when it is not there. The tool stays
   * where it is, too. A namespace that has a tool of this name keeps its own, and the answer is true all the same. The
   * action sees the copy at once, others when the action has ended well. False when there is no such tool, or when the
   * namespace's name is not valid.
   */
  export function copyToolToNamespace(toolName: string, targetNamespace: string): boolean;
}

/** What was said before. */
declare module 'service:evaluator/conversation' {
  import type { Message } from 'service:evaluator/types';

  export type { Message };
  /** The messages of a conversation, oldest first, all that are kept; none when it is not known. */
  export function getHistory(conversationId: string): Message[];
}

/** What the LLM was to answer. */
declare module 'service:evaluator/validation' {
  /**
   * Checks a text by the evaluator's `result_schema` and returns it as it is. Throws an `Error` whose message says what
   * is wrong with it. Without a schema every text is right.
   */
  export function verifyLlmResult(raw: string): string;
}

/** The service's log, under the target `service::evaluator`. A message is cut at 4096 bytes. */
declare module 'service:evaluator/log' {
  export function info(message: string): void;
  export function warn(message: string): void;
  export function error(message: string): void;
}

/** `console.log`, `info` and `debug` are lines of the service's log of level info, the others of their own. */
interface Console {
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  debug(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
}

declare var console: Console;
