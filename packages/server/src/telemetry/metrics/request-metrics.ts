import { METHODS, STATUS_CODES } from 'node:http';
import { type ToolCallOutcome, toolCallOutcome } from '@sluice/contract';
import {
  INTERNAL_ERROR,
  INVALID_PARAMS,
  INVALID_REQUEST,
  METHOD_NOT_FOUND,
  MODERN_ERROR_CODES,
  PARSE_ERROR,
} from '@sluice/protocol/mcp/constants';
import { RESOURCE_NOT_FOUND, URL_ELICITATION_REQUIRED } from '@sluice/protocol/mcp/era';
import { KNOWN_METHODS } from '@sluice/protocol/mcp/methods';
import { attributeText, boundedName, type Subject } from '../redaction.ts';
import {
  COMPLETION_SECONDS,
  HistogramFamily,
  HTTP_SECONDS,
  MCP_SECONDS,
  type Metric,
  type MetricAttributes,
  OTHER,
  serverAddress,
  TOKENS,
} from './instruments.ts';

/** Codes of the official SDKs. */
const CONNECTION_CLOSED = -32000;
const REQUEST_TIMEOUT = -32001;
/** Logged status of a request whose client disconnected before the response began; not an official status code. */
export const CLIENT_CLOSED_REQUEST = 499;

/** JSON-RPC error codes with series of their own: those of JSON-RPC, of both eras and of the SDKs. */
const CODES = [
  ...[PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR],
  ...MODERN_ERROR_CODES,
  ...[RESOURCE_NOT_FOUND, URL_ELICITATION_REQUIRED, CONNECTION_CLOSED, REQUEST_TIMEOUT],
];
const STATUSES = Object.keys(STATUS_CODES).filter((status) => Number(status) >= 400);
const NUMBERS: ReadonlySet<string> = new Set([...CODES.map(String), ...STATUSES, String(CLIENT_CLOSED_REQUEST)]);

/**
 * Returns the error type of a series; empty without an error. Names are defined here and few; numbers are codes and statuses that
 * upstreams choose: unknown ones share one series.
 */
function countedErrorType(errorType: string | undefined): string {
  if (errorType === undefined) return '';
  if (NUMBERS.has(errorType) || Number.isNaN(Number(errorType))) return errorType;
  return OTHER;
}

const HTTP_METHODS: ReadonlySet<string> = new Set(METHODS);

/** Attribute of the outcome; missing in series of completed requests. */
const OUTCOME = 'sluice.outcome';

/** A counter that can be decremented. */
export interface UpDownCounter {
  readonly attributes: MetricAttributes;
  value: number;
}

/** Metrics of requests by OpenTelemetry's semantic conventions for HTTP, MCP and generative AI. Part of the hot path. */
export class RequestMetrics {
  readonly #secure: ReadonlySet<string>;
  readonly mcpServer = new HistogramFamily<McpServerOperation>(
    { name: 'mcp.server.operation.duration', description: 'Duration of MCP requests of clients', unit: 's' },
    MCP_SECONDS,
    {
      key: (operation) => {
        const { namespace = '', method, errorType, subject } = operation;
        const outcome = outcomeOf(operation);
        const end = outcome === 'completed' ? '' : `${outcome}/${countedErrorType(errorType)}`;
        return [namespace, countedMethod(method), end, subject?.name];
      },
      attributes: (operation) => ({
        ...attributesOf(operation),
        ...(outcomeOf(operation) !== 'completed' && { [OUTCOME]: outcomeOf(operation) }),
        ...(operation.namespace && { 'sluice.namespace': attributeText(operation.namespace) }),
      }),
    },
  );
  readonly mcpClient = new HistogramFamily<McpClientOperation>(
    { name: 'mcp.client.operation.duration', description: 'Duration of MCP requests sent to upstreams', unit: 's' },
    MCP_SECONDS,
    {
      key: ({ server, method, errorType, subject }) => [
        server,
        countedMethod(method),
        countedErrorType(errorType),
        subject?.name,
      ],
      attributes: (operation) => ({ ...attributesOf(operation), ...serverAddress(operation.server) }),
    },
  );
  readonly http = new HistogramFamily<HttpRequest>(
    { name: 'http.server.request.duration', description: 'Duration of HTTP requests', unit: 's' },
    HTTP_SECONDS,
    {
      key: ({ listener, method, status }) => [HTTP_METHODS.has(method) ? method : OTHER, status, listener],
      attributes: ({ listener, method, status }) => ({
        'http.request.method': HTTP_METHODS.has(method) ? method : OTHER,
        ...this.#listenerAttributes(listener),
        ...(status !== undefined && { 'http.response.status_code': status }),
        ...(status !== undefined && status >= 500 && { 'error.type': String(status) }),
      }),
    },
  );
  readonly rpcClient = new HistogramFamily<RpcCall>(
    { name: 'rpc.client.call.duration', description: 'Duration of capability service calls', unit: 's' },
    HTTP_SECONDS,
    {
      key: ({ method, server, errorType }) => [method, server, errorType],
      attributes: ({ method, server, errorType }) => ({
        'rpc.system.name': 'grpc',
        'rpc.method': method,
        ...serverAddress(server),
        ...(errorType && { 'error.type': errorType }),
      }),
    },
  );
  readonly #completions = new HistogramFamily<Completion>(
    { name: 'gen_ai.client.operation.duration', description: 'Duration of completions', unit: 's' },
    COMPLETION_SECONDS,
    { key: (completion) => [completionKey(completion)], attributes: completionAttributes },
  );
  readonly #tokens = new HistogramFamily<Completion & { readonly type: 'input' | 'output' }>(
    { name: 'gen_ai.client.token.usage', description: 'Input and output tokens of completions', unit: '{token}' },
    TOKENS,
    {
      key: (completion) => [completion.type, completionKey(completion)],
      attributes: (completion) => ({ ...completionAttributes(completion), 'gen_ai.token.type': completion.type }),
    },
  );
  readonly #active = new Map<string, UpDownCounter>();

  /** `secure` are the names of listeners with TLS. */
  constructor(secure: ReadonlySet<string> = new Set()) {
    this.#secure = secure;
  }

  /** Returns the number of in-flight requests of a listener, which the caller changes. */
  activeRequests(listener: string): UpDownCounter {
    const attributes = this.#listenerAttributes(listener);
    return this.#active.getOrInsertComputed(listener, () => ({ attributes, value: 0 }));
  }

  /** A completion ended. */
  completion(completion: Completion): void {
    this.#completions.record(completion);
    for (const type of ['input', 'output'] as const) {
      const tokens = completion[`${type}Tokens`];
      if (tokens !== undefined) this.#tokens.record({ ...completion, type }, tokens);
    }
  }

  /**
   * Returns the messages of clients by method, all namespaces, tools and prompts together: their numbers by outcome, in the order
   * of `toolCallOutcome`, and then by the buckets of {@link MCP_SECONDS}.
   */
  mcpMethods(): ReadonlyMap<string, readonly number[]> {
    const methods = new Map<string, readonly number[]>();
    for (const { attributes, value } of this.mcpServer.metric.series) {
      const method = String(attributes['mcp.method.name'] ?? OTHER);
      const outcome = toolCallOutcome.safeParse(attributes[OUTCOME]).data ?? 'completed';
      const added = [...toolCallOutcome.options.map((each) => (each === outcome ? value.count : 0)), ...value.buckets];
      const before = methods.get(method);
      methods.set(
        method,
        added.map((count, at) => count + (before?.[at] ?? 0)),
      );
    }
    return methods;
  }

  /** Returns the current values. */
  metrics(): Metric[] {
    const active: Metric = {
      name: 'http.server.active_requests',
      description: 'HTTP requests in flight',
      unit: '{request}',
      kind: 'updowncounter',
      series: Array.from(this.#active.values(), (counter) => ({ ...counter })),
    };
    const histograms = [this.http, this.mcpServer, this.mcpClient, this.rpcClient, this.#completions, this.#tokens];
    return [active, ...histograms.map(({ metric }) => metric)];
  }

  #listenerAttributes(listener: string): MetricAttributes {
    return { 'url.scheme': this.#secure.has(listener) ? 'https' : 'http', 'sluice.listener': listener };
  }
}

function countedMethod(method: string): string {
  return KNOWN_METHODS.has(method) ? method : OTHER;
}

function outcomeOf({ outcome, errorType }: McpServerOperation): ToolCallOutcome {
  return outcome ?? (errorType === undefined ? 'completed' : 'failed');
}

function attributesOf({ method, subject, errorType }: McpOperation): MetricAttributes {
  const failure = countedErrorType(errorType);
  return {
    'mcp.method.name': countedMethod(method),
    ...(method === 'tools/call' && { 'gen_ai.operation.name': 'execute_tool' }),
    ...(subject?.kind === 'tool' && { 'gen_ai.tool.name': attributeText(subject.name) }),
    ...(subject?.kind === 'prompt' && { 'gen_ai.prompt.name': attributeText(subject.name) }),
    ...(failure !== '' && { 'error.type': failure }),
  };
}

function completionKey(completion: Completion): string {
  const { operation, requestModel = '', responseModel = '', server, errorType = '' } = completion;
  const model = boundedName(requestModel);
  // The length makes the key unique for all names.
  return `${operation} ${server} ${errorType} ${model.length} ${model}${boundedName(responseModel)}`;
}

function completionAttributes(completion: Completion): MetricAttributes {
  const { operation, requestModel, responseModel, server, errorType } = completion;
  return {
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': 'openai',
    ...(requestModel && { 'gen_ai.request.model': attributeText(requestModel) }),
    ...(responseModel && { 'gen_ai.response.model': attributeText(responseModel) }),
    ...serverAddress(server),
    ...(errorType && { 'error.type': errorType }),
  };
}

/** An HTTP request that has ended. */
export interface HttpRequest {
  /** Name of the listener; `management` for the management API. */
  readonly listener: string;
  readonly method: string;
  /** Undefined if none was sent because the client disconnected. */
  readonly status: number | undefined;
  readonly seconds: number;
}

/** An MCP message that has ended. */
export interface McpOperation {
  /** Unknown methods are counted as `_OTHER`. */
  readonly method: string;
  /** A registered tool or prompt with a bounded name: unknown names are unlimited. */
  readonly subject?: Subject | undefined;
  /** Low-cardinality error type, see {@link countedErrorType}; undefined on success. */
  readonly errorType?: string | undefined;
  readonly seconds: number;
}

/** A message of a client. */
export interface McpServerOperation extends McpOperation {
  /** Name of an existing namespace. */
  readonly namespace?: string | undefined;
  /** By default `failed` with an error type, else `completed`. */
  readonly outcome?: ToolCallOutcome | undefined;
}

/** A message to an upstream. */
export interface McpClientOperation extends McpOperation {
  /** `host:port`. */
  readonly server: string;
}

/** A call of a capability service. */
export interface RpcCall {
  /** Full name, `package.Service/Method`. */
  readonly method: string;
  /** `host:port`. */
  readonly server: string;
  /** Low-cardinality error type; undefined on success. */
  readonly errorType?: string | undefined;
  readonly seconds: number;
}

/** A proxied completion. */
export interface Completion {
  readonly operation: 'chat';
  readonly requestModel?: string | undefined;
  readonly responseModel?: string | undefined;
  readonly inputTokens?: number | undefined;
  readonly outputTokens?: number | undefined;
  /** Low-cardinality error type; undefined on success. */
  readonly errorType?: string | undefined;
  readonly seconds: number;
  /** `host:port`. */
  readonly server: string;
}
