import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { LEGACY } from '../../../test/fixtures/raw-client.ts';
import type { Era } from '../../../test/fixtures/raw-upstream/message.ts';
import { PendingResponse } from './pending-response.ts';

/** One `tools/call` received by a {@link Streamer}; the test writes its response. */
export interface StreamedCall {
  /** Id and progress token as received, as JSON text. */
  readonly id: string;
  readonly progressToken: string;
  readonly response: ServerResponse;
  /** True once the connection has closed before the response was complete. */
  readonly isDisconnected: boolean;
  /** Starts the event stream. */
  begin(): void;
  /** Sends one message in it. */
  event(message: string): void;
  /** Reports progress on it. */
  progress(value: number): void;
  /** Responds to the call with this text, and ends the stream. */
  end(text: string): void;
}

/** An upstream with one tool, `work`, whose responses the test writes. */
export interface Streamer {
  readonly url: string;
  readonly calls: readonly StreamedCall[];
  /** Bodies of all other POST requests, in order. */
  readonly posted: readonly { readonly body: string; readonly headers: IncomingMessage['headers'] }[];
  /** The next call that arrives. */
  next(): Promise<StreamedCall>;
  close(): Promise<void>;
}

const TOOLS =
  '{"tools":[{"name":"work","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}';
const DISCOVERED =
  '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}';
const INITIALIZED =
  '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"streamer","version":"1"}}';

/** Starts it on the loopback interface. It supports both eras, without legacy sessions. */
export async function startStreamer(): Promise<Streamer> {
  const calls: Call[] = [];
  const posted: { body: string; headers: IncomingMessage['headers'] }[] = [];
  let waiting: ((call: StreamedCall) => void) | undefined;
  const results: Record<string, string> = {
    initialize: INITIALIZED,
    'server/discover': DISCOVERED,
    'tools/list': TOOLS,
  };

  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const { id, method, params } = body === '' ? {} : JSON.parse(body);
    if (method === 'tools/call') {
      const call = new Call(JSON.stringify(id), JSON.stringify(params._meta?.progressToken), response);
      calls.push(call);
      waiting?.(call);
      return;
    }
    posted.push({ body, headers: request.headers });
    const result = results[method];
    if (result === undefined) response.writeHead(202).end();
    else
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/mcp`,
    calls,
    posted,
    next: () =>
      new Promise((resolve) => {
        waiting = resolve;
      }),
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

class Call extends PendingResponse implements StreamedCall {
  readonly id: string;
  readonly progressToken: string;

  constructor(id: string, progressToken: string, response: ServerResponse) {
    super(response);
    this.id = id;
    this.progressToken = progressToken;
  }

  event(message: string): void {
    this.response.write(`data: ${message}\n\n`);
  }

  progress(value: number): void {
    const params = `{"progressToken":${this.progressToken},"progress":${value}}`;
    this.event(`{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`);
  }

  end(text: string): void {
    const result = `{"content":[{"type":"text","text":"${text}"}],"resultType":"complete"}`;
    this.event(`{"jsonrpc":"2.0","id":${this.id},"result":${result}}`);
    this.response.end();
  }
}

/** Sends a call whose response the test reads chunk by chunk. */
export async function openCall(url: string, body: string, headers: Record<string, string>): Promise<IncomingMessage> {
  const req = request(url, {
    method: 'POST',
    agent: false,
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
  });
  req.end(body);
  const [response] = await once(req, 'response');
  return response;
}

/** A call of `work` in the form of an era; `meta` is JSON text of further members of `_meta`. */
export function callText(era: Era, meta = ''): string {
  const envelope =
    '"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}';
  const members = [...(era === 'modern' ? [envelope] : []), ...(meta === '' ? [] : [meta])].join(',');
  return `{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"work","_meta":{${members}}}}`;
}

/** The headers that go with it. */
export function callHeaders(era: Era): Record<string, string> {
  return era === 'modern'
    ? { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'work' }
    : { 'mcp-protocol-version': LEGACY };
}
