// What is sent, as far as this service looks at it. The .proto files say the rest.

export interface ToolInvokeRequest {
  /** The tool's `uri`, as it was registered. */
  readonly uri: string;
  /** Strings as the caller sent them, other values as JSON. */
  readonly arguments: Readonly<Record<string, string>>;
  /** What the tool was provisioned with; empty when it was not. */
  readonly secretsURI: string;
}

export interface ToolInvokeReply {
  readonly isError: boolean;
  readonly content: readonly string[];
}

export interface CodeExecutionRequest {
  readonly code: string;
  /** A list of arguments comes as `arg0`, `arg1` and so on. */
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
  /** Absent when the caller sent none. */
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
