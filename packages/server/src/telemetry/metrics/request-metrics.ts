import { METHODS, STATUS_CODES } from 'node:http';
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
  MetricFamily,
  OTHER,
  serverAddress,
  TOKENS,
} from './instruments.ts';

/** Codes of the official SDKs. */
const CONNECTION_CLOSED = -32000;
const REQUEST_TIMEOUT = -32001;
/** Logged status of requests whose client disconnected; not an official status code. */
const CLIENT_CLOSED_REQUEST = '499';

/** JSON-RPC error codes with series of their own: those of JSON-RPC, of both eras and of the SDKs. */
const CODES = [
  ...[PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR],
  ...MODERN_ERROR_CODES,
  ...[RESOURCE_NOT_FOUND, URL_ELICITATION_REQUIRED, CONNECTION_CLOSED, REQUEST_TIMEOUT],
];
const STATUSES = Object.keys(STATUS_CODES).filter((status) => Number(status) >= 400);
const NUMBERS: ReadonlySet<string> = new Set([...CODES.map(String), ...STATUSES, CLIENT_CLOSED_REQUEST]);

/**
 * Returns the error type of a series. Names are defined here and few; numbers are codes and statuses that upstreams choose:
 * unknown ones share one series.
 */
function countedErrorType(errorType: string): string {
  if (NUMBERS.has(errorType) || Number.isNaN(Number(errorType))) return errorType;
  return OTHER;
}

const HTTP_METHODS: ReadonlySet<string> = new Set(METHODS);

/** A counter that can be decremented. */
export class UpDownCounter {
  readonly attributes: MetricAttributes;
  value = 0;

  constructor(attributes: MetricAttributes) {
    this.attributes = attributes;
  }
}

/**
 * Metrics of requests by OpenTelemetry's semantic conventions for HTTP, MCP and generative AI. Part of the hot path: each
 * method costs one lookup, 0.1 to 0.2 µs (measured).
 */
export class RequestMetrics {
  readonly #secure: ReadonlySet<string>;
  readonly #mcpServer = new HistogramFamily(
    {
      name: 'mcp.server.operation.duration',
      description: 'Duration of MCP requests of clients',
      unit: 's',
    },
    MCP_SECONDS,
  );
  readonly #mcpClient = new HistogramFamily(
    { name: 'mcp.client.operation.duration', description: 'Duration of MCP requests sent to upstreams', unit: 's' },
    MCP_SECONDS,
  );
  readonly #http = new HistogramFamily(
    { name: 'http.server.request.duration', description: 'Duration of HTTP requests', unit: 's' },
    HTTP_SECONDS,
  );
  readonly #rpcClient = new HistogramFamily(
    { name: 'rpc.client.call.duration', description: 'Duration of capability service calls', unit: 's' },
    HTTP_SECONDS,
  );
  readonly #completions = new HistogramFamily(
    { name: 'gen_ai.client.operation.duration', description: 'Duration of completions', unit: 's' },
    COMPLETION_SECONDS,
  );
  readonly #tokens = new HistogramFamily(
    { name: 'gen_ai.client.token.usage', description: 'Input and output tokens of completions', unit: '{token}' },
    TOKENS,
  );
  readonly #active = new MetricFamily((attributes) => new UpDownCounter(attributes));

  /** `secure` are the names of listeners with TLS. */
  constructor(secure: ReadonlySet<string> = new Set()) {
    this.#secure = secure;
  }

  /** Returns the number of in-flight requests of a listener, which the caller changes. */
  activeRequests(listener: string): UpDownCounter {
    return this.#active.cells.get(listener) ?? this.#active.open(listener, () => this.#listenerAttributes(listener));
  }

  /** An HTTP request ended. */
  http({ listener, method, status, seconds }: HttpRequest): void {
    const known = HTTP_METHODS.has(method) ? method : OTHER;
    this.#http.record(`${known} ${status} ${listener}`, seconds, () => ({
      'http.request.method': known,
      ...this.#listenerAttributes(listener),
      ...(status !== undefined && { 'http.response.status_code': status }),
      ...(status !== undefined && status >= 500 && { 'error.type': String(status) }),
    }));
  }

  /** A client's message has a response. */
  mcpServer(operation: McpServerOperation): void {
    const { namespace = '', seconds } = operation;
    this.#mcpServer.record(`${namespace} ${keyOf(operation)}`, seconds, () => ({
      ...attributesOf(operation),
      ...(namespace !== '' && { 'sluice.namespace': attributeText(namespace) }),
    }));
  }

  /** A message to an upstream ended. */
  mcpClient(operation: McpClientOperation): void {
    const { server, seconds } = operation;
    this.#mcpClient.record(`${server} ${keyOf(operation)}`, seconds, () => ({
      ...attributesOf(operation),
      ...serverAddress(server),
    }));
  }

  /** A call of a capability service ended. */
  rpcClient({ method, server, errorType = '', seconds }: RpcCall): void {
    this.#rpcClient.record(`${method} ${server} ${errorType}`, seconds, () => ({
      'rpc.system.name': 'grpc',
      'rpc.method': method,
      ...serverAddress(server),
      ...(errorType !== '' && { 'error.type': errorType }),
    }));
  }

  /** A completion ended. */
  completion(completion: Completion): void {
    const { operation, requestModel = '', responseModel = '', server, errorType = '', seconds } = completion;
    const model = boundedName(requestModel);
    // The length makes the key unique for all names.
    const key = `${operation} ${server} ${errorType} ${model.length} ${model}${boundedName(responseModel)}`;
    const attributes = (): MetricAttributes => ({
      'gen_ai.operation.name': operation,
      'gen_ai.provider.name': 'openai',
      ...(requestModel !== '' && { 'gen_ai.request.model': attributeText(requestModel) }),
      ...(responseModel !== '' && { 'gen_ai.response.model': attributeText(responseModel) }),
      ...serverAddress(server),
      ...(errorType !== '' && { 'error.type': errorType }),
    });
    this.#completions.record(key, seconds, attributes);
    for (const type of ['input', 'output'] as const) {
      const tokens = completion[`${type}Tokens`];
      if (tokens === undefined) continue;
      this.#tokens.record(`${type} ${key}`, tokens, () => ({ ...attributes(), 'gen_ai.token.type': type }));
    }
  }

  /** Returns the messages of clients by method, all namespaces, tools and prompts together. */
  mcpMethods(): ReadonlyMap<string, MethodCounts> {
    const methods = new Map<string, MethodCounts>();
    for (const { attributes, value } of this.#mcpServer.metric.series) {
      const method = String(attributes['mcp.method.name'] ?? OTHER);
      const before = methods.get(method);
      methods.set(method, {
        count: value.count + (before?.count ?? 0),
        errors: (attributes['error.type'] === undefined ? 0 : value.count) + (before?.errors ?? 0),
        buckets: value.buckets.map((count, at) => count + (before?.buckets[at] ?? 0)),
      });
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
      series: this.#active.series((counter) => counter.value),
    };
    const histograms = [this.#http, this.#mcpServer, this.#mcpClient, this.#rpcClient, this.#completions, this.#tokens];
    return [active, ...histograms.map(({ metric }) => metric)];
  }

  #listenerAttributes(listener: string): MetricAttributes {
    return { 'url.scheme': this.#secure.has(listener) ? 'https' : 'http', 'sluice.listener': listener };
  }
}

/** Returns the key of an operation. A name chosen by others is last, so that keys are unique. */
function keyOf({ method, subject, errorType }: McpOperation): string {
  const known = KNOWN_METHODS.has(method) ? method : OTHER;
  const failure = errorType === undefined ? undefined : countedErrorType(errorType);
  return subject ? `${known} ${failure} ${subject.name}` : `${known} ${failure}`;
}

function attributesOf({ method, subject, errorType }: McpOperation): MetricAttributes {
  const failure = errorType === undefined ? undefined : countedErrorType(errorType);
  return {
    'mcp.method.name': KNOWN_METHODS.has(method) ? method : OTHER,
    ...(method === 'tools/call' && { 'gen_ai.operation.name': 'execute_tool' }),
    ...(subject?.kind === 'tool' && { 'gen_ai.tool.name': attributeText(subject.name) }),
    ...(subject?.kind === 'prompt' && { 'gen_ai.prompt.name': attributeText(subject.name) }),
    ...(failure !== undefined && { 'error.type': failure }),
  };
}

/** Messages of one method since the start. */
export interface MethodCounts {
  readonly count: number;
  /** Those that failed. */
  readonly errors: number;
  /** Counts by the bounds {@link MCP_SECONDS}. */
  readonly buckets: readonly number[];
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
