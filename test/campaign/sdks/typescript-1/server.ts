import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import {
  isInitializeRequest,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { readBody } from '../../../fixtures/http-server.ts';

/** The server of the SDK campaign on the TypeScript SDK 1.x: sessions as in the SDK's example, on the port of `PORT`. */
const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });
const NAMES = ['Ada', 'Alan', 'Grace'];
let canceled = 0;
const subscribers = new Set<McpServer>();

function build(): McpServer {
  const server = new McpServer(
    { name: 'typescript-1', version: '1.0.0' },
    { capabilities: { resources: { subscribe: true } }, instructions: 'A server for tests.' },
  );
  server.registerTool(
    'echo',
    { description: 'Returns its text', inputSchema: { text: z.string() } },
    ({ text: said }) => text(said),
  );
  server.registerTool(
    'add',
    {
      description: 'Adds two numbers',
      inputSchema: { a: z.number(), b: z.number() },
      outputSchema: { sum: z.number() },
    },
    ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { sum: a + b } }),
  );
  server.registerTool('fail', { description: 'Fails' }, () => {
    throw new Error('the tool failed');
  });
  server.registerTool(
    'progress',
    { description: 'Reports progress', inputSchema: { steps: z.number().int() } },
    async ({ steps }, { _meta, sendNotification }) => {
      const progressToken = _meta?.progressToken;
      for (let progress = 1; progress <= steps && progressToken !== undefined; progress++) {
        const params = { progressToken, progress, total: steps, message: `step ${progress}` };
        await sendNotification({ method: 'notifications/progress', params });
      }
      return text(`${steps} steps`);
    },
  );
  server.registerTool('ask', { description: 'Asks for a name' }, async () => {
    const { action, content } = await server.server.elicitInput({
      message: 'Your name?',
      requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    });
    return text(`${action}: ${String(content?.name)}`);
  });
  server.registerTool('slow', { description: 'Runs until it is canceled' }, async ({ signal }) => {
    await delay(20_000, undefined, { signal }).catch(() => canceled++);
    return text('done');
  });
  server.registerTool('canceled', { description: 'Number of canceled calls' }, () => text(String(canceled)));
  server.registerTool('touch', { description: 'Changes the counter' }, async () => {
    for (const { server } of subscribers) await server.sendResourceUpdated({ uri: 'test://counter' });
    return text('touched');
  });
  for (let page = 1; page <= 30; page++) {
    const name = `page_${String(page).padStart(2, '0')}`;
    server.registerTool(name, { description: `Tool ${page}` }, () => text(name));
  }
  const read = (uri: URL, value: string) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: value }] });
  server.registerResource('static', 'test://static', { mimeType: 'text/plain' }, (uri) => read(uri, 'static text'));
  server.registerResource('counter', 'test://counter', { mimeType: 'text/plain' }, (uri) => read(uri, '1'));
  server.registerResource(
    'item',
    new ResourceTemplate('test://items/{id}', { list: undefined }),
    { mimeType: 'text/plain' },
    (uri, { id }) => read(uri, `item ${String(id)}`),
  );
  server.registerPrompt(
    'greet',
    {
      description: 'Greets someone',
      argsSchema: { name: completable(z.string(), (value) => NAMES.filter((name) => name.startsWith(value))) },
    },
    ({ name }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}` } }] }),
  );
  server.server.setRequestHandler(SubscribeRequestSchema, () => {
    subscribers.add(server);
    return {};
  });
  server.server.setRequestHandler(UnsubscribeRequestSchema, () => {
    subscribers.delete(server);
    return {};
  });
  return server;
}

const transports = new Map<string, StreamableHTTPServerTransport>();
const http = createServer(async (req, res) => {
  const id = req.headers['mcp-session-id'];
  const known = typeof id === 'string' ? transports.get(id) : undefined;
  const body: unknown = req.method === 'POST' ? JSON.parse(await readBody(req)) : undefined;
  if (known !== undefined) return await known.handleRequest(req, res, body);
  if (req.method !== 'POST') return void res.writeHead(400).end('Invalid or missing session ID');
  if (id !== undefined || !isInitializeRequest(body)) {
    const error = { code: -32000, message: 'Bad Request: No valid session ID provided' };
    const type = { 'content-type': 'application/json' };
    return void res.writeHead(400, type).end(JSON.stringify({ jsonrpc: '2.0', error, id: null }));
  }
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (session) => void transports.set(session, transport),
  });
  transport.onclose = () => void transports.delete(transport.sessionId ?? '');
  await build().connect(transport);
  await transport.handleRequest(req, res, body);
});
// So that no client of a busy machine uses a connection at the moment that the server closes it.
http.keepAliveTimeout = 60_000;
http.listen(Number(process.env.PORT), '127.0.0.1');
await once(http, 'listening');
