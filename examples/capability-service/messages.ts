// The members of the gRPC messages that this service uses. See the .proto files for all members.

export interface ToolInvokeRequest {
  /** Registered `uri` of the tool. */
  readonly uri: string;
  /** Strings unchanged, other values JSON-encoded. */
  readonly arguments: Readonly<Record<string, string>>;
  /** Secrets reference of the tool; empty if it has none. */
  readonly secretsURI: string;
}

export interface ToolInvokeReply {
  readonly isError: boolean;
  readonly content: readonly string[];
}

export interface CodeExecutionRequest {
  readonly code: string;
  /** A list of arguments has the keys `arg0`, `arg1` and so on. */
  readonly arguments: Readonly<Record<string, string>>;
  readonly environment: Readonly<Record<string, string>>;
  /** Milliseconds. */
  readonly timeout: number;
}

export interface CodeExecutionReply {
  readonly isError: boolean;
  readonly content: readonly string[];
  readonly outputType: 'STDOUT' | 'STDERR' | 'STATUS' | 'COMPLETION';
  readonly status: 'PENDING' | 'RUNNING' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMEOUT';
  readonly exitCode: number;
  /** Milliseconds since the Unix epoch. */
  readonly timestamp: number;
}

export interface ProvisionRequest {
  /** Null if the caller sent none. */
  readonly secret: { readonly name: string; readonly payload: string } | null;
}

export interface ProvisionReply {
  readonly configurationUri: string;
  readonly secretUri: string;
  readonly properties: Readonly<Record<string, { type: string; description: string; required: boolean }>>;
}

export interface HealthProbeReply {
  readonly status: 'STOPPED' | 'STOPPING' | 'STARTING' | 'STARTED';
}
