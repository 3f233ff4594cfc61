/**
 * Constants of the protocol: eras, versions, `_meta` keys, header names and error codes (MCP 2025-11-25 and 2026-07-28).
 */

/** Legacy versions start with `initialize`; modern requests carry version and capabilities. */
export type Era = 'legacy' | 'modern';

/** Legacy versions, newest first. */
export const LEGACY_VERSIONS: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

/** Modern versions, newest first. */
export const MODERN_VERSIONS: readonly string[] = ['2026-07-28'];

/** Version requested in `initialize`, and returned for an unknown version. */
export const LATEST_LEGACY = '2025-11-25';

/** The only version with batches. */
export const BATCH_VERSION = '2025-03-26';

/** First legacy version in which clients accept events without data and reconnect for a response. */
export const POLLING_VERSION = '2025-11-25';

/** Version of modern requests to an upstream whose versions are unknown. */
export const LATEST_MODERN = '2026-07-28';

/** `params._meta` of a modern request: protocol version. Required. */
export const META_PROTOCOL_VERSION = 'io.modelcontextprotocol/protocolVersion';
/** `params._meta` of a modern request: name and version of the client. */
export const META_CLIENT_INFO = 'io.modelcontextprotocol/clientInfo';
/** `params._meta` of a modern request: client capabilities. Required. */
export const META_CLIENT_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
/** `params._meta` of a modern request: minimum level of log messages. */
export const META_LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
/** `result._meta` of a modern response: name and version of the server. */
export const META_SERVER_INFO = 'io.modelcontextprotocol/serverInfo';

// Header names are lower case, as node:http reports them.

/** Protocol version; in every message except a legacy `initialize`. */
export const HEADER_PROTOCOL_VERSION = 'mcp-protocol-version';
/** Modern: repeats the method of the body. */
export const HEADER_METHOD = 'mcp-method';
/** Modern: repeats the name or uri in the body. */
export const HEADER_NAME = 'mcp-name';
/** Legacy: the session that `initialize` opened. */
export const HEADER_SESSION_ID = 'mcp-session-id';
/** Legacy: the last event that a client received of the stream that it resumes. */
export const HEADER_LAST_EVENT_ID = 'last-event-id';
/** Prefix of the headers that mirror `x-mcp-header` parameters. */
export const HEADER_PARAM_PREFIX = 'mcp-param-';
/** Number of gateways that a request has passed. */
export const HEADER_HOPS = 'x-service-hops';

/** JSON-RPC: the body is not JSON. */
export const PARSE_ERROR = -32700;
/** JSON-RPC: the body is not a valid request. */
export const INVALID_REQUEST = -32600;
/** JSON-RPC: unknown method. */
export const METHOD_NOT_FOUND = -32601;
/** JSON-RPC: invalid parameters, or the named tool, resource or prompt does not exist. */
export const INVALID_PARAMS = -32602;
/** JSON-RPC: internal error, or an upstream failure. */
export const INTERNAL_ERROR = -32603;
/** Errors of the server that JSON-RPC does not define. */
export const SERVER_ERROR = -32000;
/** Modern: a header and the body disagree, or a required header is missing. HTTP 400. */
export const HEADER_MISMATCH = -32020;
/** Modern: the request needs a client capability that was not declared. HTTP 400. */
export const MISSING_CAPABILITY = -32021;
/** Modern: `data.supported` has the supported versions. HTTP 400. */
export const UNSUPPORTED_VERSION = -32022;

/** Error codes that only a modern server sends; any of them proves the modern era. */
export const MODERN_ERROR_CODES: ReadonlySet<number> = new Set([
  HEADER_MISMATCH,
  MISSING_CAPABILITY,
  UNSUPPORTED_VERSION,
]);

/** List-change notification by kind, the same in both eras; resource templates are resources. */
export const LIST_CHANGED = {
  tool: 'notifications/tools/list_changed',
  resource: 'notifications/resources/list_changed',
  prompt: 'notifications/prompts/list_changed',
} as const;

/** All of {@link LIST_CHANGED}. */
export const LIST_CHANGED_METHODS: ReadonlySet<unknown> = new Set(Object.values(LIST_CHANGED));

/** The member of `params` that names what a request is about, and that `Mcp-Name` mirrors, by method. */
export const NAME_PARAM: ReadonlyMap<string, 'name' | 'uri'> = new Map([
  ['tools/call', 'name'],
  ['resources/read', 'uri'],
  ['prompts/get', 'name'],
]);

/** All methods with `Mcp-Name`, and the member of `params` that it mirrors: also those of the tasks extension. */
export const HEADER_NAME_PARAM: ReadonlyMap<string, string> = new Map<string, string>([
  ...NAME_PARAM,
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
]);
