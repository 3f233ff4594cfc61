import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { inChunks } from '../fixtures/chunks.ts';
import { legacyClient, post } from '../fixtures/raw-client.ts';
import type { Era, ReceivedMessage } from '../fixtures/raw-upstream/message.ts';
import type { HostileCase, HostilePeers, HostileTarget } from './hostile-case.ts';
import { callTool, responseWith, summaryOf } from './traffic.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
/** Calls of clients that have gone before the upstream responds. */
const GONE_CLIENTS = 20;

/** Methods whose bodies the management listener reads, and one whose body it discards. */
const METHODS = ['POST', 'PUT', 'PATCH', 'DELETE', 'QUERY', 'GET'];

/** Messages in many small pieces: chunks of a few bytes, and short lines of event streams. */
export function pieceCases(): HostileCase[] {
  return [...uploadCases(), ...streamCases(), ...bodyCases(), ...compressedCases(), ...modelCases()];
}

function pieceCase(name: string, send: HostileCase['send']): HostileCase {
  return { name, group: 'small pieces', isComparable: false, send };
}

/** Sends a chunked request at once, without waiting for a response to its head, and returns the first line of the response. */
async function upload(url: string, body: Buffer, chunkBytes: number, method = 'POST'): Promise<string> {
  const { hostname, port, pathname } = new URL(url);
  const socket = connect(Number(port), hostname);
  const head = [
    `${method} ${pathname} HTTP/1.1`,
    'Host: localhost',
    'Content-Type: application/json',
    'Accept: application/json, text/event-stream',
    'Transfer-Encoding: chunked',
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  socket.write(inChunks(body, chunkBytes));
  return firstLine(socket);
}

async function firstLine(socket: Socket): Promise<string> {
  const [first] = await once(socket, 'data');
  socket.destroy();
  return String(first).split('\r\n')[0] ?? '';
}

function uploadCases(): HostileCase[] {
  const call = (bytes: number) =>
    Buffer.from(
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":"${'a'.repeat(bytes)}"}}}`,
    );
  const uploaded = (
    name: string,
    bytes: number,
    chunkBytes: number,
    url: (target: HostileTarget) => string,
    method?: string,
  ) =>
    pieceCase(`${Math.round(bytes / 1000)} kB ${name}, in chunks of ${chunkBytes} B`, (_peers, target) =>
      upload(url(target), call(bytes), chunkBytes, method),
    );
  const mcp = ({ mcp: base }: HostileTarget) => `${base}/legacy/mcp`;
  const managed = [400_000, 1_000_000].flatMap((bytes) => [
    ...METHODS.map((method) =>
      uploaded(
        `with ${method} to the management listener`,
        bytes,
        1,
        ({ management }) => `${management}/api/v1/tools`,
        method,
      ),
    ),
    uploaded(
      'to an MCP endpoint of the management listener',
      bytes,
      1,
      ({ management }) => `${management}/api/v1/namespaces/legacy/mcp`,
    ),
    uploaded('to the legacy backend', bytes, 1, ({ management }) => `${management}/api/v1/chat`),
  ]);
  return [
    uploaded('to the MCP listener', 400_000, 1, mcp),
    uploaded('to the MCP listener', 3_900_000, 1, mcp),
    uploaded('to the MCP listener', 3_900_000, 7, mcp),
    uploaded('to the MCP listener', 3_900_000, 300, mcp),
    uploaded('to a namespace that does not exist', 3_900_000, 1, ({ mcp: base }) => `${base}/nowhere/mcp`),
    ...managed,
    uploaded('to the inference listener', 400_000, 1, ({ inference }) => `${inference}/v1/chat/completions`),
    uploaded('to the inference listener', 3_900_000, 1, ({ inference }) => `${inference}/v1/chat/completions`),
    pieceCase('20 uploads of 400 kB in chunks of 1 B', async (_peers, target) => {
      const sent = Array.from({ length: 20 }, () => upload(mcp(target), call(400_000), 1));
      return (await Promise.all(sent))[0] ?? '';
    }),
  ];
}

/** Lines that an event stream may have between events, and the bytes of them that are sent. */
const LINES: Readonly<Record<string, string>> = {
  'empty lines': '\n',
  'empty lines that end with CR': '\r',
  'empty lines that end with CR LF': '\r\n',
  comments: ':\n',
  'empty ids': 'id:\n',
  'events with an id only': 'id: 1\n\n',
  'events with a time only': 'retry: 1\n\n',
  types: 'event: x\n',
  'unknown fields': 'a\n',
  'events of other types': 'event: x\ndata:\n\n',
};

function streamCases(): HostileCase[] {
  const end = (era: Era) =>
    `data: ${responseWith(`{"content":[]${era === 'modern' ? ',"resultType":"complete"' : ''}}`)}\n\n`;
  const streamed = (name: string, era: Era, body: string, chunkBytes?: number) =>
    pieceCase(`${name} of a ${era} upstream`, (peers, target) => {
      answerInPieces(peers, era, 'text/event-stream', body, chunkBytes);
      return era === 'modern' ? callTool(target, era) : callInSession(target);
    });
  const lines = Object.entries(LINES).flatMap(([name, line]) =>
    (['legacy', 'modern'] as const).map((era) =>
      streamed(`4 MiB of ${name}`, era, `\n${line.repeat((4 * MIB) / line.length)}\n\n${end(era)}`),
    ),
  );
  const padded = (separator: string) => responseWith(`{"content":[]${separator.repeat((2 * MIB) / separator.length)}}`);
  const spread = (line: string) => `data: ${padded(line)}\n\n`;
  const notification = '{"jsonrpc":"2.0","method":"notifications/x"}';
  return [
    ...lines,
    streamed('a message in empty data lines', 'legacy', spread('\ndata:')),
    streamed('a message in short data lines', 'modern', spread('\ndata:  ')),
    streamed('a message in data lines that end with CR', 'legacy', spread('\rdata:')),
    ...(['legacy', 'modern'] as const).flatMap((era) =>
      [5_000, 24_000].flatMap((count) =>
        [notification, '{"method":"x"}', '0'].map((message) => {
          const messages = Array.from({ length: count }, () => message).join();
          return streamed(`an event with ${count} times ${message}`, era, `data:[${messages}]\n\n${end(era)}`);
        }),
      ),
    ),
    streamed('4 MiB of notifications', 'legacy', `data:${notification}\n\n`.repeat(80_000) + end('legacy')),
    streamed('4 MiB of notifications', 'modern', `data:${notification}\n\n`.repeat(80_000) + end('modern')),
    streamed('a stream in chunks of 1 B', 'legacy', `: ${'c'.repeat(MIB)}\n\n${end('legacy')}`, 1),
    streamed('a stream of comments in chunks of 1 B', 'modern', `${':\n'.repeat(MIB / 2)}\n\n${end('modern')}`, 1),
    ...[':\n', 'id: 1\n\n', `data:${notification}\n\n`].map((line) =>
      pieceCase(
        `calls of ${GONE_CLIENTS} clients that have gone, with streams of ${JSON.stringify(line)}`,
        (peers, target) => callAndGo(peers, target, `\n${line.repeat((4 * MIB) / line.length)}\n\n${end('legacy')}`),
      ),
    ),
  ];
}

/** Compressed bodies, of which few bytes become many. */
function compressedCases(): HostileCase[] {
  const compressed = (name: string, era: Era, type: 'application/json' | 'text/event-stream', body: string) =>
    [1, 64 * KIB].map((chunkBytes) =>
      pieceCase(`${name} of a ${era} upstream, compressed, in chunks of ${chunkBytes} B`, (peers, target) => {
        peers.upstreams[era].scripts['tools/call'] = {
          ...{ kind: 'http', status: 200, type, body, chunkBytes },
          isCompressed: true,
        };
        return callTool(target, era);
      }),
    );
  const notifications = 'data:{"jsonrpc":"2.0","method":"notifications/x"}\n\n'.repeat(80_000);
  return (['legacy', 'modern'] as const).flatMap((era) => [
    ...compressed('4 MiB of a text', era, 'application/json', responseWith(`{"content":["${'a'.repeat(4 * MIB)}"]}`)),
    ...compressed('60 MiB of a text', era, 'application/json', responseWith(`{"content":["${'a'.repeat(60 * MIB)}"]}`)),
    ...compressed('4 MiB of notifications', era, 'text/event-stream', notifications),
    ...compressed('4 MiB of comments', era, 'text/event-stream', ':\n'.repeat(2 * MIB)),
  ]);
}

function bodyCases(): HostileCase[] {
  const answered = (name: string, era: Era, text: string, chunkBytes: number) =>
    pieceCase(`${name} of a ${era} upstream, in chunks of ${chunkBytes} B`, (peers, target) => {
      const body = responseWith(`{"content":[{"type":"text","text":"${text}"}],"resultType":"complete"}`);
      answerInPieces(peers, era, 'application/json', body, chunkBytes);
      return callTool(target, era);
    });
  return [
    answered('a result', 'modern', 'a'.repeat(MIB), 1),
    answered('a result', 'legacy', 'a'.repeat(MIB), 1),
    answered('a result', 'modern', 'a'.repeat(4 * MIB), 9),
    answered('escapes', 'modern', '\\n'.repeat(MIB / 2), 1),
  ];
}

function modelCases(): HostileCase[] {
  const chunk = 'data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n';
  const completion = (body: string) => ({ body, headers: { 'content-type': 'text/event-stream' } });
  const completed = (name: string, body: string, chunkBytes?: number) =>
    pieceCase(`${name} of a model`, async ({ llm }, { inference }) => {
      llm.defaultResult = { ...completion(body), ...(chunkBytes !== undefined && { chunkBytes }) };
      return summaryOf(await post(`${inference}/v1/chat/completions`, '{"model":"m","messages":[],"stream":true}'));
    });
  return [
    ...Object.entries(LINES).map(([name, line]) =>
      completed(`4 MiB of ${name}`, `${line.repeat((4 * MIB) / line.length)}\n\ndata: [DONE]\n\n`),
    ),
    completed('4 MiB of events', `${chunk.repeat((4 * MIB) / chunk.length)}data: [DONE]\n\n`),
    completed('1 MiB of events in chunks of 1 B', `${chunk.repeat(MIB / chunk.length)}data: [DONE]\n\n`, 1),
    pieceCase('an evaluation in chunks of 1 B', (peers, target) => {
      const body = JSON.stringify({ choices: [{ message: { content: 'pass' } }], x: 'a'.repeat(900 * KIB) });
      peers.llm.defaultResult = { body, chunkBytes: 1 };
      return callTool(target, 'evaluated');
    }),
  ];
}

function answerInPieces(
  { upstreams }: HostilePeers,
  era: Era,
  type: 'application/json' | 'text/event-stream',
  body: string,
  chunkBytes?: number,
): void {
  upstreams[era].scripts['tools/call'] = {
    kind: 'http',
    status: 200,
    type,
    body,
    ...(chunkBytes !== undefined && { chunkBytes }),
  };
}

async function callInSession(target: HostileTarget): Promise<string> {
  const client = await legacyClient(`${target.mcp}/legacy/mcp`);
  return summaryOf(await client.call('tools/call', '{"name":"a"}'));
}

/** Sends calls in a session and disconnects; the upstream responds to all of them then. */
async function callAndGo({ upstreams }: HostilePeers, target: HostileTarget, body: string): Promise<string> {
  const { legacy } = upstreams;
  const arrived = Promise.withResolvers<void>();
  const gone = Promise.withResolvers<void>();
  const calls: ReceivedMessage[] = [];
  legacy.scripts['tools/call'] = async (call) => {
    if (calls.push(call) === GONE_CLIENTS) arrived.resolve();
    await gone.promise;
    return { kind: 'http', status: 200, type: 'text/event-stream', body, chunkBytes: 64 * KIB };
  };
  const { headers } = await legacyClient(`${target.mcp}/legacy/mcp`);
  const { hostname, port } = new URL(target.mcp);
  const accepted = { Accept: 'application/json, text/event-stream', 'Content-Type': 'application/json' };
  const fields = Object.entries({ Host: 'localhost', ...accepted, ...headers }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  const sockets = Array.from({ length: GONE_CLIENTS }, (_, id) => {
    const socket = connect(Number(port), hostname);
    const message = `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"a"}}`;
    const head = ['POST /legacy/mcp HTTP/1.1', ...fields, `Content-Length: ${message.length}`];
    socket.write(`${head.join('\r\n')}\r\n\r\n${message}`);
    return socket;
  });
  await arrived.promise;
  for (const socket of sockets) socket.destroy();
  gone.resolve();
  // The upstream closes its side with the response, and the service when it has read that.
  const deadline = performance.now() + 60_000;
  while (!calls.every(({ isDisconnected }) => isDisconnected) && performance.now() < deadline) await delay(20);
  return `${calls.filter(({ isDisconnected }) => isDisconnected).length} responses read`;
}
