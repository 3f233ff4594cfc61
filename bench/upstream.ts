// Process with a minimal upstream MCP server of one protocol era:
//   node bench/upstream.ts --era legacy|modern --tools <n> --page <n>
// Prints its port as one JSON line. Serves any path. The first of two path segments is the prefix of tool names, so that
// one process can act as many servers. A call with the arguments `events` and `everyMs` responds with an event stream.
import { randomUUID } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import { parseArgs } from 'node:util';
import { type Era, filler, protocolVersions, tool } from './messages.ts';
import { makePacer } from './pacer.ts';

const { values } = parseArgs({
  options: { era: { type: 'string' }, tools: { type: 'string' }, page: { type: 'string' } },
});
const era: Era = values.era === 'modern' ? 'modern' : 'legacy';
const toolCount = Number(values.tools ?? 20);
const pageSize = Number(values.page ?? toolCount);
const capabilities = { tools: {} };
const serverInfo = { name: `bench-${era}`, version: '1.0.0' };

const complete = era === 'modern' ? { resultType: 'complete' } : {};
const cacheable = era === 'modern' ? { ttlMs: 60_000, cacheScope: 'public' } : {};
const emptyResult = JSON.stringify({ ...complete });
const callResult = padded(500 - '{"jsonrpc":"2.0","id":1,"result":}'.length);
const listResults = new Map<string, string>();

function padded(bytes: number): string {
  const withText = (text: string) => JSON.stringify({ ...complete, content: [{ type: 'text', text }], isError: false });
  return withText(filler(bytes - withText('').length));
}

function listResult(prefix: string, cursor: string): string {
  const key = `${prefix} ${cursor}`;
  let result = listResults.get(key);
  if (result === undefined) {
    const first = Number(cursor);
    const end = Math.min(first + pageSize, toolCount);
    const tools = Array.from({ length: end - first }, (_, index) => tool(prefix, first + index));
    const next = end < toolCount ? { nextCursor: String(end) } : {};
    result = JSON.stringify({ ...complete, tools, ...next, ...cacheable });
    listResults.set(key, result);
  }
  return result;
}

const member = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, name)?.value : undefined;

/** Response to a request: HTTP status, JSON-RPC members after the id, and session id. */
interface Reply {
  readonly status: number;
  readonly rest: string;
  readonly session?: string;
}

const result = (json: string): Reply => ({ status: 200, rest: `"result":${json}` });
const failure = (status: number, error: object): Reply => ({ status, rest: `"error":${JSON.stringify(error)}` });

function reply(path: string, method: unknown, request: unknown): Reply {
  if (method === 'tools/call') return result(callResult);
  if (method === 'tools/list') {
    const cursor = member(member(request, 'params'), 'cursor');
    const segments = path.split('/').filter((segment) => segment !== '');
    return result(listResult(segments.length > 1 ? `${segments[0]}_` : '', typeof cursor === 'string' ? cursor : '0'));
  }
  if (method === 'ping' && era === 'legacy') return result(emptyResult);
  if (method === 'initialize' && era === 'legacy') {
    const opened = { protocolVersion: protocolVersions.legacy, capabilities, serverInfo };
    return { ...result(JSON.stringify(opened)), session: randomUUID() };
  }
  if (method === 'server/discover' && era === 'modern') {
    const supportedVersions = [protocolVersions.modern];
    const _meta = { 'io.modelcontextprotocol/serverInfo': serverInfo };
    return result(JSON.stringify({ ...complete, supportedVersions, capabilities, _meta, ...cacheable }));
  }
  if (method === 'initialize') {
    const data = { supported: [protocolVersions.modern], requested: protocolVersions.legacy };
    return failure(400, { code: -32022, message: 'Unsupported protocol version', data });
  }
  return failure(era === 'modern' ? 404 : 200, { code: -32601, message: 'Method not found' });
}

function handle(path: string, body: string, res: ServerResponse): void {
  const request: unknown = JSON.parse(body);
  const id = member(request, 'id');
  if (id === undefined) {
    res.writeHead(202).end();
    return;
  }
  const { status, rest, session } = reply(path, member(request, 'method'), request);
  const text = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${rest}}`;
  const params = member(request, 'params');
  const events = member(member(params, 'arguments'), 'events');
  if (typeof events === 'number') return stream(params, events, text, res);
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) };
  res.writeHead(status, session === undefined ? headers : { ...headers, 'Mcp-Session-Id': session });
  res.end(text);
}

const pacer = makePacer();
/** Pads an event to about 200 bytes. */
const eventFiller = filler(40);

/** Sends progress notifications, which contain their send time in nanoseconds, and then `last`. */
function stream(params: unknown, events: number, last: string, res: ServerResponse): void {
  const token = JSON.stringify(member(member(params, '_meta'), 'progressToken'));
  const start = `event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},`;
  let sent = 0;
  res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
  res.flushHeaders();
  pacer.add(Number(member(member(params, 'arguments'), 'everyMs')), () => {
    if (res.destroyed) return false;
    if (sent === events) {
      res.end(`event: message\ndata: ${last}\n\n`);
      return false;
    }
    const message = `${process.hrtime.bigint()} ${eventFiller}`;
    res.write(`${start}"progress":${++sent},"total":${events},"message":"${message}"}}\n\n`);
    return true;
  });
}

const server = createServer((req, res) => {
  if (req.method !== 'POST') {
    req.resume();
    res.writeHead(req.method === 'DELETE' && era === 'legacy' ? 200 : 405).end();
    return;
  }
  let body = '';
  req.setEncoding('utf8');
  req.on('data', (chunk: string) => {
    body += chunk;
  });
  req.on('end', () => handle(req.url ?? '/', body, res));
});
// Keeps idle connections open, because reconnecting is not measured.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(JSON.stringify({ port: address.port }));
});
process.once('SIGTERM', () => process.exit(0));
