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
import {
  attributeText,
  COMPLETION_SECONDS,
  cutName,
  Family,
  Histograms,
  HTTP_SECONDS,
  MCP_SECONDS,
  type Metric,
  type MetricAttributes,
  OTHER,
  serverAddress,
  TOKENS,
} from './instruments.ts';

/** What the official SDKs say of a connection that has ended, and of a request that took too long. */
const CONNECTION_CLOSED = -32000;
const REQUEST_TIMEOUT = -32001;
/** The status that logs have for a client that has left; it is in no list of those that are sent. */
const CLIENT_LEFT = '499';

/** Codes of JSON-RPC errors that are counted each by itself: JSON-RPC's own, those of both eras, the SDKs'. */
const CODES = [
  ...[PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR],
  ...MODERN_ERROR_CODES,
  ...[RESOURCE_NOT_FOUND, URL_ELICITATION_REQUIRED, CONNECTION_CLOSED, REQUEST_TIMEOUT],
];
const STATUSES = Object.keys(STATUS_CODES).filter((status) => Number(status) >= 400);
const NUMBERS: ReadonlySet<string> = new Set([...CODES.map(String), ...STATUSES, CLIENT_LEFT]);

/**
 * How the failure of an MCP message is counted. Words are ours and few; numbers are codes and statuses, of which upstreams
 * may choose a new one each time: those that nobody has given a meaning are one.
 */
export function countedErrorType(errorType: string | undefined): string | undefined {
  if (errorType === undefined || NUMBERS.has(errorType) || Number.isNaN(Number(errorType))) return errorType;
  return OTHER;
}

/** The methods of all protocol versions, requests and notifications, those that servers send to clients too. */
export const MCP_METHODS: ReadonlySet<string> = new Set([
  ...['initialize', 'ping', 'server/discover', 'subscriptions/listen', 'logging/setLevel', 'completion/complete'],
  ...['tools/list', 'tools/call', 'prompts/list', 'prompts/get'],
  ...['resources/list', 'resources/templates/list', 'resources/read', 'resources/subscribe', 'resources/unsubscribe'],
  ...['tasks/get', 'tasks/update', 'tasks/list', 'tasks/result', 'tasks/cancel'],
  ...['sampling/createMessage', 'elicitation/create', 'roots/list'],
  ...['notifications/initialized', 'notifications/cancelled', 'notifications/progress', 'notifications/message'],
  ...['notifications/tools/list_changed', 'notifications/prompts/list_changed', 'notifications/roots/list_changed'],
  ...['notifications/resources/list_changed', 'notifications/resources/updated'],
  ...['notifications/elicitation/complete', 'notifications/subscriptions/acknowledged', 'notifications/tasks/status'],
]);

const HTTP_METHODS: ReadonlySet<string> = new Set(METHODS);

/** A number that goes up and down. */
class Level {
  readonly attributes: MetricAttributes;
  value = 0;

  constructor(attributes: MetricAttributes) {
    this.attributes = attributes;
  }
}

/**
 * Counts what is told of requests, in the words of OpenTelemetry's semantic conventions for HTTP, MCP and generative AI.
 * Part of the hot path: each method costs one look-up. Measured, 0.1 to 0.2 µs.
 */
export class RequestMetrics {
  readonly #secure: ReadonlySet<string>;
  readonly #mcpServer = new Histograms(
    {
      name: 'mcp.server.operation.duration',
      description: 'Duration of MCP requests as their clients see it',
      unit: 's',
    },
    MCP_SECONDS,
  );
  readonly #mcpClient = new Histograms(
    { name: 'mcp.client.operation.duration', description: 'Duration of MCP requests sent to upstreams', unit: 's' },
    MCP_SECONDS,
  );
  readonly #http = new Histograms(
    { name: 'http.server.request.duration', description: 'Duration of HTTP requests, answered to the end', unit: 's' },
    HTTP_SECONDS,
  );
  readonly #rpcClient = new Histograms(
    { name: 'rpc.client.call.duration', description: 'Duration of calls of capability services', unit: 's' },
    HTTP_SECONDS,
  );
  readonly #completions = new Histograms(
    { name: 'gen_ai.client.operation.duration', description: 'Duration of completions, asked upstream', unit: 's' },
    COMPLETION_SECONDS,
  );
  readonly #tokens = new Histograms(
    { name: 'gen_ai.client.token.usage', description: 'Tokens that completions took and gave', unit: '{token}' },
    TOKENS,
  );
  readonly #active = new Family((attributes) => new Level(attributes));

  /** `secure`: names of the listeners that speak TLS. */
  constructor(secure: ReadonlySet<string> = new Set()) {
    this.#secure = secure;
  }

  /** A listener has an HTTP request, which {@link ended} is to be told of too. */
  began(listener: string): void {
    this.#levelOf(listener).value++;
  }

  ended(listener: string): void {
    this.#levelOf(listener).value--;
  }

  /** An HTTP request has been answered, or its client has left. */
  http({ listener, method, status, seconds }: HttpRequest): void {
    const known = HTTP_METHODS.has(method) ? method : OTHER;
    this.#http.record(`${known} ${status} ${listener}`, seconds, () => ({
      'http.request.method': known,
      ...this.#listenerAttributes(listener),
      ...(status !== undefined && { 'http.response.status_code': status }),
      ...(status !== undefined && status >= 500 && { 'error.type': String(status) }),
    }));
  }

  /** A client's message has been answered. */
  mcpServer(operation: McpServerOperation): void {
    const { namespace = '', seconds } = operation;
    this.#mcpServer.record(`${namespace} ${keyOf(operation)}`, seconds, () => ({
      ...attributesOf(operation),
      ...(namespace !== '' && { 'sluice.namespace': attributeText(namespace) }),
    }));
  }

  /** An upstream has answered a message, or failed to. */
  mcpClient(operation: McpClientOperation): void {
    const { server, seconds } = operation;
    this.#mcpClient.record(`${server} ${keyOf(operation)}`, seconds, () => ({
      ...attributesOf(operation),
      ...serverAddress(server),
    }));
  }

  /** A capability service has answered, or failed to. */
  rpcClient({ method, server, errorType = '', seconds }: RpcCall): void {
    this.#rpcClient.record(`${method} ${server} ${errorType}`, seconds, () => ({
      'rpc.system.name': 'grpc',
      'rpc.method': method,
      ...serverAddress(server),
      ...(errorType !== '' && { 'error.type': errorType }),
    }));
  }

  /** A model has answered, or failed to. */
  completion(completion: Completion): void {
    const { operation, requestModel = '', responseModel = '', server, errorType = '', seconds } = completion;
    const asked = cutName(requestModel);
    // The length says where one name ends and the other begins, whatever is in them.
    const key = `${operation} ${server} ${errorType} ${asked.length} ${asked}${cutName(responseModel)}`;
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

  /** All of it as it is now. */
  metrics(): Metric[] {
    const active: Metric = {
      name: 'http.server.active_requests',
      description: 'HTTP requests that have not been answered to the end',
      unit: '{request}',
      kind: 'level',
      series: this.#active.series((level) => level.value),
    };
    const histograms = [this.#http, this.#mcpServer, this.#mcpClient, this.#rpcClient, this.#completions, this.#tokens];
    return [active, ...histograms.map(({ metric }) => metric)];
  }

  #levelOf(listener: string): Level {
    return this.#active.get(listener) ?? this.#active.open(listener, () => this.#listenerAttributes(listener));
  }

  #listenerAttributes(listener: string): MetricAttributes {
    return { 'url.scheme': this.#secure.has(listener) ? 'https' : 'http', 'sluice.listener': listener };
  }
}

/** What tells operations apart. What others have chosen stands at the end, so that no two can be taken for one. */
function keyOf({ method, tool, prompt, errorType }: McpOperation): string {
  const known = MCP_METHODS.has(method) ? method : OTHER;
  const failure = countedErrorType(errorType);
  const name = tool ?? prompt;
  return name === undefined ? `${known} ${failure}` : `${known} ${failure} ${cutName(name)}`;
}

function attributesOf({ method, tool, prompt, errorType }: McpOperation): MetricAttributes {
  const failure = countedErrorType(errorType);
  return {
    'mcp.method.name': MCP_METHODS.has(method) ? method : OTHER,
    ...(method === 'tools/call' && { 'gen_ai.operation.name': 'execute_tool' }),
    ...(tool !== undefined && { 'gen_ai.tool.name': attributeText(tool) }),
    ...(prompt !== undefined && { 'gen_ai.prompt.name': attributeText(prompt) }),
    ...(failure !== undefined && { 'error.type': failure }),
  };
}

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
