/** Protocol era of a client or an upstream (mcp 1). */
export type Era = 'legacy' | 'modern';

/** Newest protocol version of each era. */
export const protocolVersions: Readonly<Record<Era, string>> = { legacy: '2025-11-25', modern: '2026-07-28' };

/** Name of the tool that the call cases call; every upstream of the bench offers it. */
export const calledTool = 'lookup_customer_0';

/** One MCP request as it goes over the wire, without Host and Content-Length. */
export interface Message {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const envelope = {
  'io.modelcontextprotocol/protocolVersion': protocolVersions.modern,
  'io.modelcontextprotocol/clientCapabilities': {},
};

/** `tools/list` as a client of that era sends it; a legacy one inside its session. */
export function listMessage(era: Era, session?: string): Message {
  return message(era, 'tools/list', undefined, {}, session);
}

/** `tools/call` with a body of 300 bytes; a legacy one inside its session. */
export function callMessage(era: Era, session?: string): Message {
  return callWithQuery(era, callQuery(era), session);
}

function callWithQuery(era: Era, query: string, session?: string): Message {
  return message(era, 'tools/call', calledTool, { name: calledTool, arguments: { query } }, session);
}

/** Query argument that pads the body of a `tools/call` to 300 bytes. */
function callQuery(era: Era): string {
  return filler(300 - callWithQuery(era, '').body.length);
}

/** What the upstream of the bench is asked to stream: so many progress notifications, one every so many milliseconds. */
export interface StreamSpec {
  readonly events: number;
  readonly everyMs: number;
}

/**
 * `tools/call` that is answered with an event stream: progress first, the result as its last event.
 *
 * @param index makes the request's id and its progress token its own
 */
export function streamMessage(era: Era, streamed: StreamSpec, index: number, session?: string): Message {
  const params = { name: calledTool, arguments: { query: 'all', ...streamed } };
  return message(era, 'tools/call', calledTool, params, session, { id: index, progressToken: streamToken(index) });
}

/**
 * A chat completion of so many tokens, about 700 bytes: streamed, one token every so many milliseconds, or in one piece.
 *
 * @param user makes the completion's id its own
 */
export function completionMessage(user: string, tokens: number, everyMs?: number): Message {
  const messages = [
    { role: 'system', content: filler(300) },
    { role: 'user', content: filler(100) },
  ];
  const streamed =
    everyMs === undefined
      ? { stream: false }
      : { stream: true, stream_options: { include_usage: true }, metadata: { every_ms: String(everyMs) } };
  const headers = {
    'Content-Type': 'application/json',
    Accept: 'application/json',
    Authorization: 'Bearer sk-bench',
    'User-Agent': 'bench/1.0',
  };
  const body = JSON.stringify({ model: 'bench-model', messages, max_tokens: tokens, user, ...streamed });
  return { headers, body };
}

/** The progress token of a stream's call, and the user that a streamed completion is for. */
export const streamToken = (index: number): string => `stream-${index}`;

/** `initialize` of a legacy client that declares no capability. */
export function initializeMessage(): Message {
  return message('legacy', 'initialize', undefined, {
    protocolVersion: protocolVersions.legacy,
    capabilities: {},
    clientInfo: { name: 'bench', version: '1.0.0' },
  });
}

/** The notification that ends the handshake of a legacy session. */
export function initializedMessage(session: string): Message {
  const { headers } = message('legacy', 'notifications/initialized', undefined, {}, session);
  return { headers, body: JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }) };
}

/** A tool object of about 490 bytes, the size of a tool with a short description and three parameters. */
export function tool(prefix: string, index: number): object {
  return {
    name: `${prefix}lookup_customer_${index}`,
    title: `Look up customer ${index}`,
    description: filler(120),
    inputSchema: {
      type: 'object',
      properties: {
        query: { type: 'string', description: 'Words to look for in the customer record' },
        limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
        region: { type: 'string', enum: ['emea', 'amer', 'apac'] },
      },
      required: ['query'],
    },
    annotations: { readOnlyHint: true, openWorldHint: false },
  };
}

/** Plain words, `length` bytes of them. */
export function filler(length: number): string {
  return 'the quick brown fox jumps over the lazy dog and '.repeat(Math.ceil(length / 48)).slice(0, length);
}

function message(
  era: Era,
  method: string,
  name: string | undefined,
  params: object,
  session?: string,
  { id = 1, progressToken }: { id?: number; progressToken?: string } = {},
): Message {
  const headers: Record<string, string> = {
    'Content-Type': 'application/json',
    Accept: 'application/json, text/event-stream',
    'User-Agent': 'bench/1.0',
    'MCP-Protocol-Version': protocolVersions[era],
  };
  if (session !== undefined) headers['Mcp-Session-Id'] = session;
  if (era === 'modern') headers['Mcp-Method'] = method;
  if (era === 'modern' && name !== undefined) headers['Mcp-Name'] = name;
  const token = progressToken === undefined ? {} : { progressToken };
  const _meta = era === 'modern' ? { ...envelope, ...token } : token;
  const full = Object.keys(_meta).length > 0 ? { ...params, _meta } : params;
  return { headers, body: JSON.stringify({ jsonrpc: '2.0', id, method, params: full }) };
}

/** The namespace of the tool that the part `bridge` registers, and its type, which is the name of the service too. */
export const bridged = { namespace: 'bridge', toolType: 'bench' } as const;

/** The tool of which a capability service carries out every call, as the management API takes it. */
export const bridgedTool = {
  name: calledTool,
  namespace: bridged.namespace,
  description: filler(120),
  uri: 'bench://customers',
  toolType: bridged.toolType,
  input_schema: {
    type: 'object',
    properties: {
      query: { type: 'string', description: 'Words to look for in the customer record' },
      limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
      region: { type: 'string', enum: ['emea', 'amer', 'apac'] },
    },
    required: ['query'],
  },
} as const;

/** What every call is answered with. */
export const replyText = filler(400);

/** Milliseconds after which a caller gives a call up: what the gateway allows by default. */
export const deadlineMs = 5_000;

/** `ToolInvokeRequest` with all its members. */
export interface InvokeRequest {
  readonly uri: string;
  readonly body: string;
  readonly arguments: Record<string, string>;
  readonly configurationURI: string;
  readonly secretsURI: string;
  readonly headers: Record<string, string>;
}

/** What the `tools/call` of a client of that era becomes: the bare client sends the same. */
export function invokeRequest(era: Era): InvokeRequest {
  return {
    uri: bridgedTool.uri,
    body: '',
    arguments: { query: callQuery(era) },
    configurationURI: '',
    secretsURI: '',
    headers: {},
  };
}
