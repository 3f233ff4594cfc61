import {
  Client,
  type ElicitRequest,
  type ElicitResult,
  LOG_LEVEL_META_KEY,
  type RequestOptions,
  StreamableHTTPClientTransport,
  UriTemplate,
} from '@modelcontextprotocol/client';

/** An HTTP request of the MCP client with its response. */
export interface Exchange {
  readonly request: string;
  /** Body of the response as far as it has arrived. */
  response: string;
  readonly status: number;
}

/** What happens during a call. */
export interface McpObserver {
  onProgress(progress: string): void;
  onLog(level: string, text: string): void;
  onExchange(exchange: Exchange): void;
  /** A question of the server to the user. */
  onElicitation(params: ElicitRequest['params']): Promise<ElicitResult>;
}

/** Longest recorded body, in characters. */
const MAX_RECORDED = 200_000;
/** The service and the upstream limit the time of calls. */
const NO_TIMEOUT_MS = 2_147_483_647;

/** The client reports its own work as progress of the call while it answers questions of the server. */
const INPUT_ROUND_PREFIX = 'Fulfilling input required by ';

/** A connected client. */
export interface McpConnection {
  readonly client: Client;
  close(): Promise<void>;
}

/**
 * Connects to the endpoint of a namespace on the management listener like any MCP client, in its newest era. Without an observer,
 * questions of the server are declined.
 */
export async function connectMcp(
  base: string,
  namespace: string,
  signal: AbortSignal,
  observer?: McpObserver,
): Promise<McpConnection> {
  const transport = new StreamableHTTPClientTransport(
    new URL(`${base}/api/v1/namespaces/${encodeURIComponent(namespace)}/mcp`),
    observer && { fetch: (input, init) => recordedFetch(input, init, observer) },
  );
  const client = new Client(
    { name: 'sluice-console', version: '1' },
    { capabilities: { elicitation: { form: {}, url: {} } }, versionNegotiation: { mode: 'auto' } },
  );
  client.setRequestHandler(
    'elicitation/create',
    ({ params }) => observer?.onElicitation(params) ?? { action: 'decline' },
  );
  client.setNotificationHandler('notifications/message', ({ params: { level, data } }) =>
    observer?.onLog(level, typeof data === 'string' ? data : JSON.stringify(data)),
  );
  const close = async (): Promise<void> => {
    if (transport.sessionId !== undefined) await transport.terminateSession().catch(() => undefined);
    await client.close().catch(() => undefined);
  };
  try {
    await client.connect(transport, { signal });
  } catch (error) {
    await close();
    throw error;
  }
  return { client, close };
}

/**
 * Requests all log messages. Resolves with the `_meta` that requests need for it: in the modern era the level is sent with each
 * request, in the legacy era it is set for the session.
 */
async function requestLogs(client: Client, signal: AbortSignal): Promise<Record<string, unknown>> {
  if (client.getProtocolEra() === 'modern') return { [LOG_LEVEL_META_KEY]: 'debug' };
  if (client.getServerCapabilities()?.logging !== undefined) {
    // A server that does not support it may send logs anyway.
    await client.setLoggingLevel('debug', { signal }).catch(() => undefined);
  }
  return {};
}

/** Connects, calls `use` with the `_meta` of its requests, and disconnects. */
export async function withMcpClient<T>(
  base: string,
  namespace: string,
  signal: AbortSignal,
  observer: McpObserver,
  use: (client: Client, options: RequestOptions, meta: Readonly<Record<string, unknown>>) => Promise<T>,
): Promise<T> {
  const { client, close } = await connectMcp(base, namespace, signal, observer);
  try {
    const onprogress = ({ progress, total, message }: Progress): void => {
      if (message?.startsWith(INPUT_ROUND_PREFIX)) return;
      const share = total === undefined ? `${progress}` : `${progress} of ${total}`;
      observer.onProgress([share, message].filter(Boolean).join(': '));
    };
    const meta = await requestLogs(client, signal);
    return await use(client, { signal, timeout: NO_TIMEOUT_MS, onprogress }, meta);
  } finally {
    await close();
  }
}

/** Fills in the variables of a URI template (RFC 6570). */
export function expandTemplate(template: string, values: Readonly<Record<string, string>>): string {
  return new UriTemplate(template).expand({ ...values });
}

interface Progress {
  readonly progress: number;
  readonly total?: number | undefined;
  readonly message?: string | undefined;
}

async function recordedFetch(
  input: string | URL | Request,
  init: RequestInit | undefined,
  observer: McpObserver,
): Promise<Response> {
  const response = await fetch(input, init);
  const request = typeof init?.body === 'string' ? init.body : (init?.method ?? 'GET');
  const exchange: Exchange = { request, response: '', status: response.status };
  observer.onExchange(exchange);
  if (!response.body) return response;
  const decoder = new TextDecoder();
  const recorded = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        if (exchange.response.length < MAX_RECORDED) exchange.response += decoder.decode(chunk, { stream: true });
        controller.enqueue(chunk);
      },
    }),
  );
  return new Response(recorded, {
    status: response.status,
    statusText: response.statusText,
    headers: response.headers,
  });
}
