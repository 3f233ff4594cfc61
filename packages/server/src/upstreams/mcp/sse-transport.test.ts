import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { describe, expect, it, onTestFinished } from 'vitest';
import { listen } from '../../../../../test/fixtures/http-server.ts';
import { startTestService } from '../../../testing/service.ts';

/** A server with the transport of 2024-11-05, which answers all other requests with this status. */
async function oldServer(status: number): Promise<string> {
  const server = createServer((request, response) => {
    if (request.method !== 'GET') return void response.writeHead(status).end();
    const transport = new SSEServerTransport('/messages', response);
    new McpServer({ name: 'old', version: '1' }).connect(transport).catch(() => undefined);
  });
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${await listen(server, 0)}/sse`;
}

async function statusOf(address: string): Promise<unknown> {
  const service = await startTestService();
  onTestFinished(() => service.stop(0));
  await service.register('forwards', { name: 'f', address });
  const { data } = await service.manage('GET', '/forwards/f');
  return data;
}

describe('the status of a forward', () => {
  it.each([404, 405])('names the HTTP+SSE transport and what to do (POST: %d)', async (status) => {
    const address = await oldServer(status);
    expect(await statusOf(address)).toMatchObject({
      available: false,
      statusMessage: expect.stringContaining(
        `upstream ${address} is an MCP server with the HTTP+SSE transport of 2024-11-05, which is not supported; use its ` +
          'Streamable HTTP address (often /mcp), or put a bridge in front of it (docs/other-transports.md)',
      ),
    });
  });

  it.each([
    ['an event stream of something else', 'text/event-stream', 'event: ping\ndata: x\n\n'],
    ['an event stream without events', 'text/event-stream', ''],
    ['no event stream', 'text/html', '<html>event: endpoint'],
  ])('is that of any other server with %s', async (_what, type, body) => {
    const server = createServer((request, response) => {
      if (request.method === 'GET') response.writeHead(200, { 'content-type': type }).end(body);
      else response.writeHead(404).end();
    });
    onTestFinished(() => void server.close());
    const address = `http://127.0.0.1:${await listen(server, 0)}/`;
    expect(await statusOf(address)).toMatchObject({ statusMessage: expect.stringContaining('is not an MCP server') });
  });
});

it.each([
  'npx -y @modelcontextprotocol/server-everything',
  'uvx mcp-server-time',
  'python3 server.py',
  './server',
  '/usr/local/bin/server',
  'my-server --verbose',
  'stdio:my-server',
])('the command %s in place of an address is rejected with what to do', async (address) => {
  const service = await startTestService();
  onTestFinished(() => service.stop(0));
  const response = await fetch(`${service.management}/api/v1/forwards`, {
    method: 'POST',
    body: JSON.stringify({ name: 'f', address }),
  });
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({
    error: {
      message: expect.stringMatching(
        /^invalid forward: address must be a.* URL.*; a server that is started with a command \(stdio\) needs a bridge: run npx -y mcp-proxy --host 127\.0\.0\.1 --port 3002 --server stream -- COMMAND, and use http:\/\/127\.0\.0\.1:3002\/mcp \(docs\/other-transports\.md\)$/,
      ),
    },
  });
});
