// Process with a minimal upstream MCP server of one protocol era:
//   node bench/upstream.ts --era legacy|modern --tools <n> --page <n>
// Prints its port as one JSON line. Serves any path. The first of two path segments is the prefix of tool names, so that
// one process can act as many servers. A call with the arguments `events` and `everyMs` responds with an event stream, one
// with the argument `answer` with that content.
import { randomUUID } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import { parseArgs } from 'node:util';
import {
  content,
  contentNames,
  type Era,
  filler,
  protocolVersions,
  readResource,
  requestedPrompt,
  tool,
} from './messages.ts';
import { makePacer } from './pacer.ts';

const { values } = parseArgs({
  options: { era: { type: 'string' }, tools: { type: 'string' }, page: { type: 'string' } },
});
const era: Era = values.era === 'modern' ? 'modern' : 'legacy';
const toolCount = Number(values.tools ?? 20);
const pageSize = Number(values.page ?? toolCount);
const capabilities = { tools: {}, resources: {}, prompts: {} };
const serverInfo = { name: `bench-${era}`, version: '1.0.0' };

const complete = era === 'modern' ? { resultType: 'complete' } : {};
const cacheable = era === 'modern' ? { ttlMs: 60_000, cacheScope: 'public' } : {};
const emptyResult = JSON.stringify({ ...complete });
const listResults = new Map<string, string>();

/** Responses of 500 bytes. */
const callResult = padded((text) => ({ content: [{ type: 'text', text }], isError: false }));
const readResult = padded((text) => ({ contents: [{ uri: readResource, text }], ...cacheable }));
const promptResult = padded((text) => ({ messages: [{ role: 'user', content: { type: 'text', text } }] }));

function padded(result: (text: string) => object): string {
  const withText = (text: string) => JSON.stringify({ ...complete, ...result(text) });
  return withText(filler(500 - '{"jsonrpc":"2.0","id":1,"result":}'.length - withText('').length));
}

/** Results of calls with the argument `answer`, serialized when they are first requested. */
const largeResults = new Map<string, Buffer>();

function largeResult(answer: string): Buffer | undefined {
  let result = largeResults.get(answer);
  const name = contentNames.find((known) => known === answer);
  if (result === undefined && name !== undefined) {
    const value = content(name);
    const members =
      typeof value === 'string'
        ? { content: [{ type: 'text', text: value }] }
        : { content: [], structuredContent: { rows: value } };
    result = Buffer.from(JSON.stringify({ ...complete, ...members }));
    largeResults.set(answer, result);
  }
  return result;
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

/** Lists with at most one entry. */
const fixedLists: Readonly<Record<string, string>> = {
  'resources/list': JSON.stringify({
    ...complete,
    resources: [{ uri: readResource, name: 'customers' }],
    ...cacheable,
  }),
  'resources/templates/list': JSON.stringify({ ...complete, resourceTemplates: [], ...cacheable }),
  'prompts/list': JSON.stringify({ ...complete, prompts: [{ name: requestedPrompt }], ...cacheable }),
};

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
  if (method === 'resources/read') return result(readResult);
  if (method === 'prompts/get') return result(promptResult);
  const list = fixedLists[String(method)];
  if (list !== undefined) return result(list);
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

function handle(path: string, body: Buffer, res: ServerResponse): void {
  const request = body.length > largeBody ? largeCall(body) : JSON.parse(body.toString());
  const id = member(request, 'id');
  if (id === undefined) {
    res.writeHead(202).end();
    return;
  }
  const args = member(member(request, 'params'), 'arguments');
  const head = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},`;
  const answer = member(args, 'answer');
  const large = typeof answer === 'string' ? largeResult(answer) : undefined;
  if (large !== undefined) return sendLarge(head, large, res);
  const { status, rest, session } = reply(path, member(request, 'method'), request);
  const text = `${head}${rest}}`;
  const events = member(args, 'events');
  if (typeof events === 'number') return stream(member(request, 'params'), events, text, res);
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) };
  res.writeHead(status, session === undefined ? headers : { ...headers, 'Mcp-Session-Id': session });
  res.end(text);
}

/** Bytes of a body above which it is not parsed, so that the upstream is not slower than the proxies. */
const largeBody = 16_384;

/** Returns the id and method of a large `tools/call`, which are near the start or the end of the body. */
function largeCall(body: Buffer): { readonly id: unknown; readonly method: string } {
  const ends = `${body.toString('latin1', 0, 1_000)} ${body.toString('latin1', body.length - 500)}`;
  const id = /"id": ?("[^"]*"|\d+)/.exec(ends)?.[1];
  if (id === undefined || !/"method": ?"tools\/call"/.test(ends)) throw new Error(`unexpected request: ${ends}`);
  return { id: JSON.parse(id), method: 'tools/call' };
}

function sendLarge(head: string, result: Buffer, res: ServerResponse): void {
  const start = `${head}"result":`;
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': start.length + result.length + 1 });
  res.write(start);
  res.write(result);
  res.end('}');
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
  const args = member(params, 'arguments');
  const send = () => {
    if (res.destroyed) return false;
    if (sent === events) {
      res.end(`event: message\ndata: ${last}\n\n`);
      return false;
    }
    const message = `${process.hrtime.bigint()} ${eventFiller}`;
    res.write(`${start}"progress":${++sent},"total":${events},"message":"${message}"}}\n\n`);
    return true;
  };
  pacer.add(Number(member(args, 'everyMs')), send, Number(member(args, 'together') ?? 1));
}

const server = createServer((req, res) => {
  if (req.method !== 'POST') {
    req.resume();
    res.writeHead(req.method === 'DELETE' && era === 'legacy' ? 200 : 405).end();
    return;
  }
  const chunks: Buffer[] = [];
  req.on('data', (chunk: Buffer) => chunks.push(chunk));
  req.on('end', () => handle(req.url ?? '/', Buffer.concat(chunks), res));
});
// Keeps idle connections open, because reconnecting is not measured.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(JSON.stringify({ port: address.port }));
});
process.once('SIGTERM', () => process.exit(0));
