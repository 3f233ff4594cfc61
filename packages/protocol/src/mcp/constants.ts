/**
 * The protocol's own words that both sides of the gateway share: eras, versions, `_meta` keys, header names and error
 * codes (mcp 1; the published text of 2025-11-25 and 2026-07-28).
 */

/** Legacy versions open with `initialize`; modern ones carry version and capabilities in every request. */
export type Era = 'legacy' | 'modern';

/** Versions that open with `initialize`, newest first. */
export const LEGACY_VERSIONS: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

/** Versions that carry their metadata in every request, newest first. */
export const MODERN_VERSIONS: readonly string[] = ['2026-07-28'];

/** What we ask for in `initialize`, and answer when a client asks for a version we do not know. */
export const LATEST_LEGACY = '2025-11-25';

/** The one version in which a body may be a batch of messages. */
export const BATCH_VERSION = '2025-03-26';

/** From this legacy version on clients expect events without data, and to be sent away until an answer is there. */
export const POLLING_VERSION = '2025-11-25';

/** What we ask for in a modern request when the upstream has not named its versions. */
export const LATEST_MODERN = '2026-07-28';

/** `params._meta` of a modern request: the version the request speaks. Required. */
export const META_PROTOCOL_VERSION = 'io.modelcontextprotocol/protocolVersion';
/** `params._meta` of a modern request: name and version of the client. */
export const META_CLIENT_INFO = 'io.modelcontextprotocol/clientInfo';
/** `params._meta` of a modern request: what the client can do. Required. */
export const META_CLIENT_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
/** `params._meta` of a modern request: the least level of log messages that it asks for. */
export const META_LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
/** `result._meta` of a modern answer: name and version of the server. */
export const META_SERVER_INFO = 'io.modelcontextprotocol/serverInfo';

// Header names are lower case, as node:http reports them.

/** The version that the message speaks; in every message but a legacy `initialize`. */
export const HEADER_PROTOCOL_VERSION = 'mcp-protocol-version';
/** Modern: repeats the method of the body. */
export const HEADER_METHOD = 'mcp-method';
/** Modern: repeats the name or uri that the body addresses. */
export const HEADER_NAME = 'mcp-name';
/** Legacy: the session that `initialize` opened. */
export const HEADER_SESSION_ID = 'mcp-session-id';
/** Legacy: the last event that a client has seen of the stream that it takes up again. */
export const HEADER_LAST_EVENT_ID = 'last-event-id';
/** Prefix of the headers that mirror `x-mcp-header` parameters. */
export const HEADER_PARAM_PREFIX = 'mcp-param-';
/** How many gateways a request has crossed (decisions 4.3). */
export const HEADER_HOPS = 'x-service-hops';

/** JSON-RPC: the body is not JSON. */
export const PARSE_ERROR = -32700;
/** JSON-RPC: the body is not a request, or not one that is accepted here. */
export const INVALID_REQUEST = -32600;
/** JSON-RPC: nothing here answers the method. */
export const METHOD_NOT_FOUND = -32601;
/** JSON-RPC: the method is known, but names nothing that is there or has unfit parameters. */
export const INVALID_PARAMS = -32602;
/** JSON-RPC: it failed here or upstream. */
export const INTERNAL_ERROR = -32603;
/** Modern: a header and the body disagree, or a required header is missing. HTTP 400. */
export const HEADER_MISMATCH = -32020;
/** Modern: the request needs a client capability that was not declared. HTTP 400. */
export const MISSING_CAPABILITY = -32021;
/** Modern: `data.supported` names the versions that would have been accepted. HTTP 400. */
export const UNSUPPORTED_VERSION = -32022;

/** Error codes that only a modern server sends; any of them proves the modern era (mcp 4). */
export const MODERN_ERROR_CODES: ReadonlySet<number> = new Set([
  HEADER_MISMATCH,
  MISSING_CAPABILITY,
  UNSUPPORTED_VERSION,
]);

/** The notification that tells of a changed list; resource templates are resources. The same in both eras. */
export const LIST_CHANGED = {
  tool: 'notifications/tools/list_changed',
  resource: 'notifications/resources/list_changed',
  prompt: 'notifications/prompts/list_changed',
} as const;

/** All of {@link LIST_CHANGED}. */
export const LIST_CHANGED_METHODS: ReadonlySet<unknown> = new Set(Object.values(LIST_CHANGED));

/** The member of `params` that `Mcp-Name` mirrors, by method; methods not in here carry no `Mcp-Name`. */
export const NAME_PARAM: ReadonlyMap<string, 'name' | 'uri'> = new Map([
  ['tools/call', 'name'],
  ['resources/read', 'uri'],
  ['prompts/get', 'name'],
]);
