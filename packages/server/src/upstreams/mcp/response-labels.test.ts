import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { legacyClient, modernClient, reply } from '../../../../../test/fixtures/raw-client.ts';
import { liveTests } from '../../../testing/live-tests.ts';
import { errorOf } from '../../../testing/relay.ts';

const { register, onEnd } = liveTests();

/** The head of a response without its status line, and its body; `$json` is the JSON-RPC response. */
type Form = (json: string) => readonly [head: string, body: string | Buffer];

/** An upstream on a bare socket: every response to a request has this form. */
async function upstreamWith(form: Form, notification = 'HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n') {
  const methods: string[] = [];
  const respond = (socket: Socket, body: string) => {
    const { id, method, params } = JSON.parse(body);
    methods.push(method);
    if (id === undefined) return socket.write(notification);
    if (method === 'server/discover') {
      return writeResponse(
        socket,
        404,
        'Content-Type: application/json\r\n',
        `{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":"no"}}`,
      );
    }
    const results: Readonly<Record<string, string>> = {
      initialize:
        '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}',
      'tools/list': '{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}',
      'tools/call': `{"content":[{"type":"text","text":"done ${params?.name}"}]}`,
    };
    const [head, content] = form(`{"jsonrpc":"2.0","id":${id},"result":${results[method] ?? '{}'}}`);
    writeResponse(socket, 200, head, content);
  };
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    let received = '';
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
      for (;;) {
        const end = received.indexOf('\r\n\r\n');
        const length = Number(/content-length: (\d+)/i.exec(received.slice(0, end))?.[1] ?? 0);
        if (end === -1 || received.length < end + 4 + length) return;
        const body = received.slice(end + 4, end + 4 + length);
        const isPost = received.startsWith('POST');
        received = received.slice(end + 4 + length);
        if (isPost) respond(socket, body);
        else socket.write('HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n');
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onEnd(async () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const address = server.address();
  return { url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/mcp`, methods };
}

function writeResponse(socket: Socket, status: number, head: string, body: string | Buffer): void {
  socket.write(`HTTP/1.1 ${status} X\r\n${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`);
  socket.write(body);
}

const json =
  (type: string): Form =>
  (text) => [type === '' ? '' : `Content-Type: ${type}\r\n`, text];
const EVENTS = 'Content-Type: text/event-stream\r\n';

const FORMS: readonly (readonly [string, Form])[] = [
  ['no content type', json('')],
  ['text/plain', json('text/plain; charset=utf-8')],
  ['application/json-rpc', json('application/json-rpc')],
  ['application/vnd.api+json', json('application/vnd.api+json')],
  ['a list of content types', json('application/json, application/json')],
  ['two content types', (text) => ['Content-Type: application/json\r\nContent-Type: application/json\r\n', text]],
  ['text/html', json('text/html')],
  ['another case', json('Application/JSON;charset=UTF-8')],
  ['a byte order mark', (text) => ['Content-Type: application/json\r\n', `\ufeff${text}`]],
  ['white space around', (text) => ['Content-Type: application/json\r\n', `\r\n\t ${text}\n\n`]],
  [
    'an array',
    (text) => ['Content-Type: application/json\r\n', `[{"jsonrpc":"2.0","method":"notifications/x"},${text}]`],
  ],
  ['JSON as an event stream', json('text/event-stream')],
  ['an array as an event stream', (text) => [EVENTS, `\r\n [${text}]`]],
  ['an event stream as JSON', (text) => ['Content-Type: application/json\r\n', `event: message\ndata: ${text}\n\n`]],
  ['an event stream without a type', (text) => ['', `: hi\n\ndata: ${text}\n\n`]],
  ['an event stream as text', (text) => ['Content-Type: text/plain\r\n', `id: 1\r\ndata: ${text}\r\n\r\n`]],
  [
    'events that are not JSON-RPC',
    (text) => [
      EVENTS,
      `event: ping\ndata: 2026-11-28T10:00:00Z\n\nevent: endpoint\ndata: /messages?id=1\n\ndata: keep-alive\n\ndata: {"type":"ping"}\n\ndata: [1]\n\ndata: ${text}\n\ndata: [DONE]\n\n`,
    ],
  ],
  ['an id as a string', (text) => ['Content-Type: application/json\r\n', text.replace(/"id":(\d+)/, '"id":"$1"')]],
  ['an id with a fraction', (text) => ['Content-Type: application/json\r\n', text.replace(/"id":(\d+)/, '"id":$1.0')]],
];

const CLIENTS = [
  ['legacy', (url: string) => legacyClient(url)],
  ['modern', (url: string) => modernClient(url)],
] as const;

describe.each(FORMS)('a response with %s', (_name, form) => {
  it.each(CLIENTS)('is read by discovery and by calls of a %s client alike', async (_era, open) => {
    const upstream = await upstreamWith(form);
    const client = await open(await register(upstream.url));
    expect(reply(await client.call('tools/list'))).toContain('"name":"a"');
    expect(reply(await client.call('tools/call', '{"name":"a"}'))).toContain('"text":"done a"');
    expect(upstream.methods.filter((method) => method === 'tools/call')).toHaveLength(1);
  });
});

it('a notification is accepted by the head of its response, which may never end', async () => {
  const upstream = await upstreamWith(
    json('application/json'),
    'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n',
  );
  const client = await legacyClient(await register(upstream.url));
  expect(reply(await client.call('tools/call', '{"name":"a"}'))).toContain('"text":"done a"');
});

const UNUSABLE: readonly (readonly [string, Form, RegExp])[] = [
  [
    'a web page',
    () => ['Content-Type: text/html\r\n', '<html><head><title>Sign in</title></head></html>'],
    /a web page \(HTTP 200, text\/html\): "Sign in"; check the URL path/,
  ],
  [
    'a web page as an event stream',
    () => [EVENTS, '<html><head><title>Sign in</title></head></html>'],
    /a web page \(HTTP 200, text\/event-stream\): "Sign in"; check the URL path/,
  ],
  [
    'bytes',
    () => ['Content-Type: application/octet-stream\r\n', Buffer.from([1, 2, 3, 0, 255, 254])],
    /binary data \(HTTP 200, application\/octet-stream\); /,
  ],
  ['nothing', () => ['', ''], /without answering it \(HTTP 200\)/],
  [
    'an event stream without a response',
    () => [EVENTS, 'data: [DONE]\n\n'],
    /ended the event stream of tools\/call before the response, and another event: "\[DONE\]"/,
  ],
  [
    'another response',
    () => ['Content-Type: application/json\r\n', '{"jsonrpc":"2.0","id":0,"result":{}}'],
    /JSON that is not the JSON-RPC response, with the members jsonrpc, id, result/,
  ],
];

it.each(UNUSABLE)(
  'a call that is answered with %s fails with what came and what to do',
  async (_name, form, message) => {
    let isBroken = false;
    const upstream = await upstreamWith((text) => (isBroken ? form(text) : json('application/json')(text)));
    const client = await legacyClient(await register(upstream.url));
    await client.call('tools/call', '{"name":"a"}');
    isBroken = true;
    expect(errorOf(await client.call('tools/call', '{"name":"a"}')).message).toMatch(message);
  },
);
