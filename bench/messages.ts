/** Protocol era of a client or an upstream. */
export type Era = 'legacy' | 'modern';

/** Latest protocol version of each era. */
export const protocolVersions: Readonly<Record<Era, string>> = { legacy: '2025-11-25', modern: '2026-07-28' };

/** Tool of the call cases, offered by every upstream and the capability service. */
export const calledTool = 'lookup_customer_0';

/** MCP request with its headers, without Host and Content-Length. */
export interface Message {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const envelope = {
  'io.modelcontextprotocol/protocolVersion': protocolVersions.modern,
  'io.modelcontextprotocol/clientCapabilities': {},
};

/** Returns a `tools/list` request; a legacy one has a session. */
export function listMessage(era: Era, session?: string): Message {
  return message(era, 'tools/list', undefined, {}, session);
}

/** Tool and large parts of a `tools/call`. */
export interface CallContents {
  /** The tool of the call cases by default. */
  readonly tool?: string;
  /** Content that the upstream responds with; 500 bytes by default. */
  readonly answer?: ContentName;
  /** Content of an additional argument. */
  readonly argument?: ContentName;
}

/** Returns a `tools/call` request, with a body of 300 bytes unless it has large contents; a legacy one has a session. */
export function callMessage(era: Era, session?: string, { tool, answer, argument }: CallContents = {}): Message {
  const document = argument === undefined ? undefined : content(argument);
  return callWithArguments(era, { query: callQuery(era), answer, document }, session, tool);
}

function callWithArguments(era: Era, args: object, session?: string, name = calledTool): Message {
  return message(era, 'tools/call', name, { name, arguments: args }, session);
}

/** Query argument that pads the body of a `tools/call` to 300 bytes. */
function callQuery(era: Era): string {
  return filler(300 - callWithArguments(era, { query: '' }).body.length);
}

/** Returns a request of a user that an authenticating proxy names. */
export function asUser(user: string | undefined, { headers, body }: Message): Message {
  return user === undefined ? { headers, body } : { headers: { ...headers, 'X-Forwarded-User': user }, body };
}

/** Resource and prompt of every upstream. */
export const readResource = 'mem://customers';
export const requestedPrompt = 'summary';

/** Returns a `resources/read` request; a legacy one has a session. */
export function readMessage(era: Era, session?: string): Message {
  return message(era, 'resources/read', readResource, { uri: readResource }, session);
}

/** Returns a `prompts/get` request; a legacy one has a session. */
export function promptMessage(era: Era, session?: string): Message {
  return message(era, 'prompts/get', requestedPrompt, { name: requestedPrompt }, session);
}

/** `prompts/list` of a modern client. */
export const promptListMessage: Message = message('modern', 'prompts/list', undefined, {});

/** Contents of large requests and responses: 64 kB and 1 MB of JSON with much or little structure, and 60 MB. */
export const contentNames = ['64k', 'prose', 'escaped', 'dense', '60m'] as const;
export type ContentName = (typeof contentNames)[number];

/** Returns a JSON value: text, except for `dense`. */
export function content(name: ContentName): string | readonly object[] {
  switch (name) {
    case '64k':
      return filler(65_000);
    case 'prose':
      return filler(1_000_000);
    // JSON in JSON, where every third character is an escape.
    case 'escaped':
      return JSON.stringify(Array.from({ length: 40_000 }, (_, index) => ({ k: `"${index}"` })));
    case 'dense':
      return Array.from({ length: 80_000 }, (_, index) => ({ a: index % 97, b: [] }));
    case '60m':
      return filler(60_000_000);
  }
}

/** Number of events of a stream and their interval. */
export interface StreamSpec {
  readonly events: number;
  readonly everyMs: number;
  /** Number of streams that send nothing until all of them are open. */
  readonly together?: number;
}

/**
 * Returns a `tools/call` request whose response is an event stream: progress notifications, then the result.
 *
 * @param index used for the request id and the progress token
 */
export function streamMessage(era: Era, streamed: StreamSpec, index: number, session?: string): Message {
  const params = { name: calledTool, arguments: { query: 'all', ...streamed } };
  return message(era, 'tools/call', calledTool, params, session, { id: index, progressToken: streamToken(index) });
}

/**
 * Returns a streamed chat completion request of about 700 bytes.
 *
 * @param user used for the completion id
 */
export function completionMessage(user: string, tokens: number, everyMs: number, together = 1): Message {
  const messages = [
    { role: 'system', content: filler(300) },
    { role: 'user', content: filler(100) },
  ];
  const metadata = { every_ms: String(everyMs), together: String(together) };
  const headers = {
    'Content-Type': 'application/json',
    Accept: 'application/json',
    Authorization: 'Bearer sk-bench',
    'User-Agent': 'bench/1.0',
  };
  const streamed = { stream: true, stream_options: { include_usage: true }, metadata };
  return { headers, body: JSON.stringify({ model: 'bench-model', messages, max_tokens: tokens, user, ...streamed }) };
}

/** Returns the progress token of a stream, which is also the user of a streamed completion. */
export const streamToken = (index: number): string => `stream-${index}`;

/** Returns `initialize` of a legacy client without capabilities. */
export function initializeMessage(): Message {
  return message('legacy', 'initialize', undefined, {
    protocolVersion: protocolVersions.legacy,
    capabilities: {},
    clientInfo: { name: 'bench', version: '1.0.0' },
  });
}

/** Returns `notifications/initialized` of a legacy session. */
export function initializedMessage(session: string): Message {
  const { headers } = message('legacy', 'notifications/initialized', undefined, {}, session);
  return { headers, body: JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }) };
}

const inputSchema = {
  type: 'object',
  properties: {
    query: { type: 'string', description: 'Words to look for in the customer record' },
    limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
    region: { type: 'string', enum: ['emea', 'amer', 'apac'] },
  },
  required: ['query'],
};

/** Returns a tool of about 490 bytes, with a short description and three parameters. */
export function tool(prefix: string, index: number): object {
  return {
    name: `${prefix}lookup_customer_${index}`,
    title: `Look up customer ${index}`,
    description: filler(120),
    inputSchema,
    annotations: { readOnlyHint: true, openWorldHint: false },
  };
}

/** Returns text of `length` bytes. */
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

/** Namespace and type of the tool of the part `bridge`. The type is also the name of the service. */
export const bridged = { namespace: 'bridge', toolType: 'bench' } as const;

/** Returns a tool of the capability service, as registered through the management API. */
export const registeredTool = (name: string) => ({
  name,
  namespace: bridged.namespace,
  description: filler(120),
  uri: 'bench://customers',
  toolType: bridged.toolType,
  input_schema: inputSchema,
});

/** Reply of every call. */
export const replyText = filler(400);

/** Deadline of a call in milliseconds: the gateway's default. */
export const deadlineMs = 5_000;

/** `ToolInvokeRequest`. */
export interface InvokeRequest {
  readonly uri: string;
  readonly body: string;
  readonly arguments: Record<string, string>;
  readonly configurationURI: string;
  readonly secretsURI: string;
  readonly headers: Record<string, string>;
}

/** Returns the gRPC request that the gateway sends for a `tools/call`. */
export function invokeRequest(era: Era): InvokeRequest {
  return {
    uri: registeredTool(calledTool).uri,
    body: '',
    arguments: { query: callQuery(era) },
    configurationURI: '',
    secretsURI: '',
    headers: {},
  };
}
