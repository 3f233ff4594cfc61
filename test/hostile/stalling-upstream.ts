import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listen } from '../fixtures/http-server.ts';
import { LEGACY } from '../fixtures/raw-client.ts';
import { toolList, toolText } from '../fixtures/raw-upstream/texts.ts';

/** A legacy upstream whose calls send one message and then wait, unless that is a request that is rejected. */
export interface StallingUpstream {
  readonly url: string;
  /** Ends all waiting calls with a text, ten at a time. */
  readonly release: (text: string) => Promise<void>;
  readonly close: () => void;
}

interface Received {
  readonly id?: unknown;
  readonly method?: string;
  readonly error?: unknown;
  readonly params?: { readonly _meta?: { readonly progressToken?: unknown } };
}

/** Starts it. `first`: the message that a call begins with, for a progress token. */
export async function startStallingUpstream(first: (progressToken: unknown) => object): Promise<StallingUpstream> {
  const calls: { readonly id: unknown; readonly session: unknown; readonly response: ServerResponse }[] = [];
  const end = ({ id, response }: (typeof calls)[number], text: string) =>
    response.end(event({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text }] } }));
  const results: Record<string, string> = {
    initialize: `{"protocolVersion":"${LEGACY}","capabilities":{"tools":{}},"serverInfo":{"name":"stalling","version":"1"}}`,
    'tools/list': toolList(toolText('a')),
    ping: '{}',
  };
  const onMessage = (received: Received, session: unknown, response: ServerResponse): void => {
    const { id, method = '', params, error } = received;
    if (id === undefined || method === '') {
      response.writeHead(202).end();
      const at = error ? calls.findIndex((call) => call.session === session) : -1;
      if (at !== -1) for (const call of calls.splice(at, 1)) end(call, 'rejected');
    } else if (method === 'tools/call') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(event({ jsonrpc: '2.0', ...first(params?._meta?.progressToken) }));
      calls.push({ id, session, response });
    } else if (results[method] === undefined) {
      const error = { code: -32601, message: 'Method not found' };
      response.writeHead(404, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, error }));
    } else {
      const headers = method === 'initialize' ? { 'mcp-session-id': `s${Math.random()}` } : {};
      response.writeHead(200, { 'content-type': 'application/json', ...headers });
      response.end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${results[method]}}`);
    }
  };
  const server = createServer((request, response) => {
    response.on('error', () => undefined);
    if (request.method !== 'POST') {
      response.writeHead(request.method === 'DELETE' ? 204 : 405).end();
      return;
    }
    read(request).then(
      (message) => onMessage(message, request.headers['mcp-session-id'], response),
      () => response.destroy(),
    );
  });
  const port = await listen(server, 0);
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async release(text) {
      while (calls.length > 0) {
        const ended = calls.splice(0, 10).map(async (call) => {
          end(call, text);
          await once(call.response, 'close');
        });
        await Promise.all(ended);
      }
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function event(message: object): string {
  return `data: ${JSON.stringify(message)}\n\n`;
}

async function read(request: IncomingMessage): Promise<Received> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Object(JSON.parse(Buffer.concat(chunks).toString()));
}
