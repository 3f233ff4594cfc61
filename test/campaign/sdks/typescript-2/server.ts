import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  acceptedContent,
  completable,
  createMcpHandler,
  inputRequired,
  McpServer,
  ResourceTemplate,
} from '@modelcontextprotocol/server';
import { z } from 'zod';

/** The server of the SDK campaign on the TypeScript SDK 2.x: both eras, a server per request, on the port of `PORT`. */
const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });
const NAMES = ['Ada', 'Alan', 'Grace'];
let canceled = 0;

function build(): McpServer {
  const server = new McpServer(
    { name: 'typescript-2', version: '1.0.0' },
    { capabilities: { resources: { subscribe: true } }, instructions: 'A server for tests.' },
  );
  const echo = { description: 'Returns its text', inputSchema: z.object({ text: z.string() }) };
  server.registerTool('echo', echo, ({ text: said }) => text(said));
  server.registerTool(
    'add',
    {
      description: 'Adds two numbers',
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      outputSchema: z.object({ sum: z.number() }),
    },
    ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { sum: a + b } }),
  );
  server.registerTool('fail', { description: 'Fails' }, () => {
    throw new Error('the tool failed');
  });
  server.registerTool(
    'progress',
    { description: 'Reports progress', inputSchema: z.object({ steps: z.number().int() }) },
    async ({ steps }, { mcpReq }) => {
      const progressToken = mcpReq._meta?.progressToken;
      for (let progress = 1; progress <= steps && progressToken !== undefined; progress++) {
        const params = { progressToken, progress, total: steps, message: `step ${progress}` };
        await mcpReq.notify({ method: 'notifications/progress', params });
      }
      return text(`${steps} steps`);
    },
  );
  server.registerTool('ask', { description: 'Asks for a name' }, ({ mcpReq }) => {
    const answer = acceptedContent(mcpReq.inputResponses, 'name');
    if (answer !== undefined) return text(`accept: ${String(answer.name)}`);
    const name = inputRequired.elicit({
      message: 'Your name?',
      requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    });
    return inputRequired({ inputRequests: { name } });
  });
  server.registerTool('slow', { description: 'Runs until it is canceled' }, async ({ mcpReq }) => {
    await delay(20_000, undefined, { signal: mcpReq.signal }).catch(() => canceled++);
    return text('done');
  });
  server.registerTool('canceled', { description: 'Number of canceled calls' }, () => text(String(canceled)));
  server.registerTool('touch', { description: 'Changes the counter' }, () => {
    handler.notify.resourceUpdated('test://counter');
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
  const name = completable(z.string(), (value) => NAMES.filter((known) => known.startsWith(value)));
  server.registerPrompt(
    'greet',
    { description: 'Greets someone', argsSchema: z.object({ name }) },
    ({ name: greeted }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Greet ${greeted}` } }] }),
  );
  return server;
}

const handler = createMcpHandler(build);
const http = createServer(toNodeHandler(handler));
// So that no client of a busy machine uses a connection at the moment that the server closes it.
http.keepAliveTimeout = 60_000;
http.listen(Number(process.env.PORT), '127.0.0.1');
await once(http, 'listening');
