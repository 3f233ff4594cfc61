/** An HTTP request that a listener has had. */
export interface HttpRequest {
  /** Name of the listener; `management` for the management API's. */
  readonly listener: string;
  readonly method: string;
  /** Undefined where none was sent, because the client had left. */
  readonly status: number | undefined;
  readonly seconds: number;
}

/** A message of MCP and how it ended. */
export interface McpOperation {
  /** As it came; what is no method of the protocol is counted as `_OTHER`. */
  readonly method: string;
  /** Names that are known here: those that nothing answers to are left out, since there is no end of them. */
  readonly tool?: string | undefined;
  readonly prompt?: string | undefined;
  /** A word of few; of numbers those that nobody has given a meaning are counted as `_OTHER`. Undefined where it went well. */
  readonly errorType?: string | undefined;
  readonly seconds: number;
}

/** What a client asked of us. */
export interface McpServerOperation extends McpOperation {
  /** One that is there. */
  readonly namespace?: string | undefined;
}

/** What we asked of an upstream. */
export interface McpClientOperation extends McpOperation {
  /** `host:port`. */
  readonly server: string;
}

/** What we asked of a capability service. */
export interface RpcCall {
  /** Its full name, `package.Service/Method`. */
  readonly method: string;
  /** `host:port`. */
  readonly server: string;
  /** A word of few; undefined where it went well. */
  readonly errorType?: string | undefined;
  readonly seconds: number;
}

/** A completion that was passed on. */
export interface Completion {
  readonly operation: 'chat';
  readonly requestModel?: string | undefined;
  readonly responseModel?: string | undefined;
  readonly inputTokens?: number | undefined;
  readonly outputTokens?: number | undefined;
  /** A word of few; undefined where it went well. */
  readonly errorType?: string | undefined;
  readonly seconds: number;
  /** `host:port`. */
  readonly server: string;
}
