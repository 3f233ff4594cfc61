/**
 * TypeScript declarations of `../wit/evaluator.wit`. Add them to the compiler options with
 * `"types": ["@sluice/actions/types"]`, or copy this file next to your action.
 */

/** Types shared by the interfaces. */
declare module 'service:evaluator/types' {
  /** The request and the LLM output. */
  export interface EvaluationContext {
    /** MCP method, such as `tools/call`. */
    method: string;
    /** Namespace of the request. */
    namespace: string;
    /** Name of the tool; `tools/call` only. */
    toolName?: string;
    /**
     * Top-level arguments of `tools/call`; for other methods the members of `params` except `_meta`. Strings are unchanged,
     * other values are JSON-encoded.
     */
    arguments: [name: string, value: string][];
    /**
     * Raw LLM output: JSON, a label or prose, including code fences. Not validated; see `verifyLlmResult`.
     */
    llmResult: string;
    /** Id of the conversation, if known. */
    conversationId?: string;
  }

  /** Tool in the registry. */
  export interface ToolEntry {
    name: string;
    /** May be empty. */
    description: string;
    uri: string;
    /** Type label, such as `mcp-forward`. */
    toolType: string;
    /** Namespace of the tool. */
    namespace?: string;
  }

  /** Message of a conversation. */
  export interface Message {
    /** Such as `user` or `assistant`; `unknown` if the message had no role. */
    role: string;
    content: string;
  }
}

/**
 * Decision about the request. Call one function, once; without a call the request passes. The last call wins, except that
 * `block` and `rejectMalformed` are final. If the action fails (exception, more than 1000 ms or 64 MiB), its calls are
 * discarded and the evaluator's `on_error` applies.
 */
declare module 'service:evaluator/response' {
  /** Passes the request on. */
  export function pass(): void;
  /** Blocks the request with JSON-RPC error -32001. The reason is sent to the client unchanged. */
  export function block(reason: string): void;
  /** Rejects unusable input with JSON-RPC error -32002. The reason is sent to the client unchanged. */
  export function rejectMalformed(reason: string): void;
  /** Passes the request on, logs the message and sets the metadata `service.evaluator.<name>.warning`. */
  export function warn(message: string): void;
  /**
   * Responds to `tools/list` with these tools of the request's namespace, in registry order. Unknown names are ignored. For
   * other methods the request passes, with a warning in the log.
   */
  export function filterTools(toolNames: readonly string[]): void;
  /**
   * Passes the request on with metadata for later filters. A run sets one key: a second call replaces the first. The key has
   * at most 64 bytes and must not start with `mcp.` or `service.`, the value has at most 256 bytes; otherwise the metadata
   * is dropped with a warning in the log.
   */
  export function setMetadata(key: string, value: string): void;
}

/** Registered tools, as of the start of the run, plus the copies made by the run. */
declare module 'service:evaluator/registry' {
  import type { ToolEntry } from 'service:evaluator/types';

  export type { ToolEntry };
  /** Lists the tools of all namespaces in order of registration. */
  export function listTools(): ToolEntry[];
  /** Lists the tools of a namespace in order of registration; empty if the namespace does not exist. */
  export function listToolsInNamespace(namespace: string): ToolEntry[];
  /** Finds a tool by name in the request's namespace, then in `default`, then in any other (first registered). */
  export function getTool(name: string): ToolEntry | undefined;
  /**
   * Copies a tool, found like in `getTool`, into a namespace, which is created if necessary. An existing tool of the same
   * name is not replaced. The copy is visible to the action immediately, and to others after the action has succeeded.
   * Returns false if the tool does not exist or the namespace name is invalid.
   */
  export function copyToolToNamespace(toolName: string, targetNamespace: string): boolean;
}

/** Conversation history. */
declare module 'service:evaluator/conversation' {
  import type { Message } from 'service:evaluator/types';

  export type { Message };
  /** Returns the recorded messages of a conversation, oldest first; empty if the conversation is unknown. */
  export function getHistory(conversationId: string): Message[];
}

/** Validation of the LLM output. */
declare module 'service:evaluator/validation' {
  /**
   * Validates a text against the evaluator's `result_schema` and returns it unchanged. Throws an `Error` with the validation
   * errors. Without a schema, every text is valid.
   */
  export function verifyLlmResult(raw: string): string;
}

/** Service log, target `service::evaluator`. Messages are truncated to 4096 bytes. */
declare module 'service:evaluator/log' {
  export function info(message: string): void;
  export function warn(message: string): void;
  export function error(message: string): void;
}

/** Writes to the service log. `log`, `info` and `debug` use level info. */
interface Console {
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  debug(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
}

declare var console: Console;
