import { randomUUID } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { listen, readBody } from '../../../test/fixtures/http-server.ts';
import { type EventFields, event } from '../../../test/fixtures/raw-upstream/texts.ts';
import { Arrivals } from './arrivals.ts';
import { PendingResponse } from './pending-response.ts';

/** A response that the test writes. */
export interface LiveResponse {
  readonly headers: IncomingHttpHeaders;
  readonly session: string;
  readonly response: ServerResponse;
  /** True once the connection has closed before the response was complete. */
  readonly isDisconnected: boolean;
  /** Starts an event stream. */
  begin(): void;
  /** Sends one message in it. */
  send(message: string, fields?: EventFields): void;
  /** Responds with a status and no body. */
  reject(status: number): void;
}

/** One received `tools/call`. */
export interface LiveCall extends LiveResponse {
  /** Id and progress token as received, as JSON text. */
  readonly id: string;
  readonly progressToken: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** Sends a request to the client on the call's stream; `id` and `params` are JSON text. */
  request(id: string, method: string, params?: string): void;
  progress(value: number): void;
  /** The text of a response to the call. */
  answerText(text: string): string;
  /** Responds on the stream, and ends it. */
  end(text: string, fields?: EventFields): void;
  /** Responds with JSON. */
  json(text: string): void;
}

/** Any other received message. */
export interface ReceivedRequest {
  readonly body: string;
  readonly session: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly method: string | undefined;
  readonly params: Readonly<Record<string, unknown>>;
}

/** A legacy upstream with sessions, whose calls and notification streams are written by the test. */
export interface LiveUpstream {
  readonly url: string;
  readonly calls: Arrivals<LiveCall>;
  /** Notification streams; each is started immediately. */
  readonly streams: Arrivals<LiveResponse>;
  /** GET requests with `Last-Event-ID`: the test accepts or rejects them. */
  readonly resumptions: Arrivals<LiveResponse>;
  readonly posted: readonly ReceivedRequest[];
  /** Ids of the sessions that are open. */
  readonly sessions: ReadonlySet<string>;
  /** JSON text of results by method, or the members of a response besides its id; changeable at any time. */
  readonly results: Record<string, string | (() => string | Promise<string>)>;
  /** Status for notifications and for client responses (202); 0 for no response. */
  acceptStatus: number;
  /** Status for notification streams that are not resumed (200); 0 for no response. */
  streamStatus: number;
  /** Received messages of this method. */
  of(method: string): readonly ReceivedRequest[];
  /** Client responses to server requests, unchanged. */
  answers(): readonly string[];
  /** Drops all sessions: requests with their ids are 404 from now on. */
  forgetSessions(): void;
  /** Accepts no new connections; open ones continue. */
  shut(): void;
  /** Resets every connection and stops listening, as in a crash; sessions are lost unless `keepSessions`. */
  down(keepSessions?: boolean): Promise<void>;
  /** Listens again on the same port. */
  up(): Promise<void>;
  close(): Promise<void>;
}

/** Optional settings. */
export interface LiveUpstreamOptions {
  /** JSON text. */
  readonly capabilities?: string;
  /** The one tool's name. */
  readonly tool?: string;
  readonly uris?: readonly string[];
  readonly templates?: readonly string[];
  /** Names; prompts have to be declared too. */
  readonly prompts?: readonly string[];
}

/** Starts it on the loopback interface. It declares no list changes, so that only clients open sessions. */
export async function startLiveUpstream({
  capabilities = '{"tools":{},"resources":{"subscribe":true},"logging":{}}',
  tool = 'work',
  uris = [],
  templates = [],
  prompts = [],
}: LiveUpstreamOptions = {}): Promise<LiveUpstream> {
  const calls = new Arrivals<LiveCall>();
  const streams = new Arrivals<LiveResponse>();
  const resumptions = new Arrivals<LiveResponse>();
  const posted: ReceivedRequest[] = [];
  const sessions = new Set<string>();
  const results: LiveUpstream['results'] = {
    initialize: `{"protocolVersion":"2025-11-25","capabilities":${capabilities},"serverInfo":{"name":"live","version":"1"}}`,
    ping: '{}',
    'logging/setLevel': '{}',
    'resources/subscribe': '{}',
    'resources/unsubscribe': '{}',
    'tools/list': `{"tools":[{"name":"${tool}","inputSchema":{"type":"object"}}]}`,
    'resources/list': `{"resources":[${objects('uri', uris)}]}`,
    'resources/templates/list': `{"resourceTemplates":[${objects('uriTemplate', templates)}]}`,
    'prompts/list': `{"prompts":[${objects('name', prompts)}]}`,
  };

  const serve = async (method: string, headers: IncomingHttpHeaders, body: string, response: ServerResponse) => {
    const session = typeof headers['mcp-session-id'] === 'string' ? headers['mcp-session-id'] : undefined;
    const { id, method: rpc, params = {} } = body === '' ? {} : JSON.parse(body);
    if (rpc !== 'initialize') {
      if (session === undefined) return reject(response, 400, 'Session ID required');
      if (!sessions.has(session)) return reject(response, 404, 'Session not found');
      if (method === 'DELETE') {
        sessions.delete(session);
        return void response.writeHead(200).end();
      }
      if (method === 'GET') {
        const stream = new Answer(headers, session, response);
        if (headers['last-event-id'] !== undefined) return resumptions.add(stream);
        if (upstream.streamStatus === 0) return;
        if (upstream.streamStatus !== 200) return stream.reject(upstream.streamStatus);
        stream.begin();
        return streams.add(stream);
      }
      if (rpc === 'tools/call') return calls.add(new Call(headers, session, response, body));
    }
    posted.push({ body, session, headers, method: rpc, params });
    if (rpc === undefined || id === undefined) {
      if (upstream.acceptStatus !== 0) response.writeHead(upstream.acceptStatus).end();
      return;
    }
    const result = results[rpc];
    if (result === undefined) return reject(response, 200, 'Method not found', -32601, id);
    const opened = rpc === 'initialize' ? randomUUID() : undefined;
    const text = typeof result === 'function' ? await result() : result;
    if (opened !== undefined) sessions.add(opened);
    const member = text.startsWith('"error"') ? text : `"result":${text}`;
    response.writeHead(200, { 'content-type': 'application/json', ...(opened && { 'mcp-session-id': opened }) });
    response.end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},${member}}`);
  };

  const start = () =>
    createServer((request, response) => {
      readBody(request)
        .then((body) => serve(request.method ?? '', request.headers, body, response))
        .catch(() => response.destroy());
    });
  let server = start();
  const port = await listen(server, 0);
  const stopListening = async (keepSessions = false) => {
    if (!keepSessions) sessions.clear();
    const closed = Promise.withResolvers<void>();
    server.close(() => closed.resolve());
    server.closeAllConnections();
    await closed.promise;
  };
  const upstream: LiveUpstream = {
    url: `http://127.0.0.1:${port}/mcp`,
    calls,
    streams,
    resumptions,
    posted,
    sessions,
    results,
    acceptStatus: 202,
    streamStatus: 200,
    of: (method) => posted.filter((arrived) => arrived.method === method),
    answers: () => posted.filter(({ method }) => method === undefined).map(({ body }) => body),
    forgetSessions: () => sessions.clear(),
    shut: () => void server.close(),
    down: stopListening,
    async up() {
      server = start();
      await listen(server, port);
    },
    close: () => stopListening(),
  };
  return upstream;
}

class Answer extends PendingResponse implements LiveResponse {
  readonly headers: IncomingHttpHeaders;
  readonly session: string;

  constructor(headers: IncomingHttpHeaders, session: string, response: ServerResponse) {
    super(response);
    this.headers = headers;
    this.session = session;
  }

  send(message: string, fields?: EventFields): void {
    this.response.write(event(message, fields));
  }

  reject(status: number): void {
    this.response.writeHead(status).end();
  }
}

class Call extends Answer implements LiveCall {
  readonly id: string;
  readonly progressToken: string;
  readonly params: Readonly<Record<string, unknown>>;

  constructor(headers: IncomingHttpHeaders, session: string, response: ServerResponse, body: string) {
    super(headers, session, response);
    const { id, params } = JSON.parse(body);
    this.id = JSON.stringify(id);
    this.params = params;
    this.progressToken = JSON.stringify(params._meta?.progressToken);
  }

  request(id: string, method: string, params = '{}'): void {
    this.send(`{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${params}}`);
  }

  progress(value: number): void {
    const params = `{"progressToken":${this.progressToken},"progress":${value}}`;
    this.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`);
  }

  answerText(text: string): string {
    return `{"jsonrpc":"2.0","id":${this.id},"result":{"content":[{"type":"text","text":"${text}"}]}}`;
  }

  end(text: string, fields?: EventFields): void {
    this.send(this.answerText(text), fields);
    this.response.end();
  }

  json(text: string): void {
    this.response.writeHead(200, { 'content-type': 'application/json' }).end(this.answerText(text));
  }
}

function reject(response: ServerResponse, status: number, message: string, code = -32000, id: unknown = null): void {
  const error = JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } });
  response.writeHead(status, { 'content-type': 'application/json' }).end(error);
}

function objects(member: string, keys: readonly string[]): string {
  return keys.map((key) => JSON.stringify({ [member]: key, name: key })).join(',');
}
