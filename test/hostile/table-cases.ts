import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { legacyClient, modernClient, post, send } from '../fixtures/raw-client.ts';
import { toolList, toolText } from '../fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../fixtures/raw-upstream.ts';
import { grpcReplies } from './grpc-replies.ts';
import type { HostileCase, HostilePeers, HostileTarget } from './hostile-case.ts';
import { quotaCases } from './quota-cases.ts';
import { hostileText } from './texts.ts';
import { answerWith, callTool, grpcContent, responseWith, summaryOf } from './traffic.ts';

const MIB = 1024 * 1024;
/** Size of a request just below the limit of a body. */
const REQUEST_BYTES = 4 * MIB - 64 * 1024;

/** The cases of the known attacks, by what they send. */
export function tableCases(): HostileCase[] {
  return [
    ...requestCases(),
    ...responseCases(),
    ...catalogCases(),
    ...serviceCases(),
    ...connectionCases(),
    ...quotaCases(discovered),
  ];
}

function requestCases(): HostileCase[] {
  const sending = (name: string, sent: (target: HostileTarget) => Promise<string>): HostileCase => ({
    name,
    group: 'one request of 4 MiB',
    isComparable: true,
    send: (_peers, target) => sent(target),
  });
  const capabilities = (name: string, form: string) =>
    sending(`${name} as client capabilities`, (target) =>
      callTool(target, 'modern', { capabilities: hostileText(form, REQUEST_BYTES) }),
    );
  return [
    capabilities('2 million nested brackets', 'nested arrays'),
    capabilities('350,000 members', 'many members'),
    sending('350,000 members of params', (target) =>
      post(
        `${target.mcp}/modern/mcp`,
        `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${hostileText('many members', REQUEST_BYTES)}}`,
      ).then(summaryOf),
    ),
    sending('a nested argument', (target) =>
      callTool(target, 'modern', { params: `"arguments":{"x":${hostileText('nested objects', REQUEST_BYTES)}}` }),
    ),
    sending('one escaped key before many small values', (target) =>
      callTool(target, 'modern', { params: `"arguments":${hostileText('one escaped key', REQUEST_BYTES)}` }),
    ),
    sending('short escaped strings, evaluated', (target) =>
      callTool(target, 'evaluated', {
        params: `"arguments":{"x":${hostileText('short escaped strings', REQUEST_BYTES)}}`,
      }),
    ),
  ];
}

function responseCases(): HostileCase[] {
  const answered = (name: string, form: string, bytes: number, calls = 1): HostileCase => ({
    name,
    group: 'an answer of an upstream',
    isComparable: true,
    async send({ upstreams }, target) {
      const result = `{"content":[],"structuredContent":{"x":${hostileText(form, bytes)}},"resultType":"complete"}`;
      answerWith(upstreams.modern, 'application/json', responseWith(result));
      const answers = await Promise.all(Array.from({ length: calls }, () => callTool(target, 'modern')));
      return answers[0] ?? '';
    },
  });
  const event = (name: string, upstream: 'legacy' | 'modern'): HostileCase => ({
    name,
    group: 'an answer of an upstream',
    isComparable: true,
    async send({ upstreams }, target) {
      const result = `{"content":[],"structuredContent":{"x":${hostileText('empty arrays', 30 * MIB)}},"resultType":"complete"}`;
      answerWith(upstreams[upstream], 'text/event-stream', `data: ${responseWith(result)}\n\n`);
      return await callTool(target, upstream);
    },
  });
  return [
    answered('60 MiB of `[],`', 'empty arrays', 60 * MIB),
    answered('60 MiB of nested `[`', 'nested arrays', 60 * MIB),
    answered('20 MiB with one escaped key', 'one escaped key', 20 * MIB),
    answered('five of 20 MiB at once', 'empty arrays', 20 * MIB, 5),
    event('an event of 30 MiB', 'modern'),
    event('an event of 30 MiB, for a client of the other era', 'legacy'),
    {
      ...answered('60 MiB of `[],`, for a client of the other era', 'empty arrays', 60 * MIB),
      async send({ upstreams }, target) {
        const result = `{"content":[],"structuredContent":{"x":${hostileText('empty arrays', 60 * MIB)}}}`;
        answerWith(upstreams.legacy, 'application/json', responseWith(result));
        return await callTool(target, 'legacy');
      },
    },
  ];
}

/** Registers an upstream, and returns the state of its forward once it is available or has failed. */
export async function discovered(target: HostileTarget, name: string, address: string): Promise<string> {
  const api = `${target.management}/api/v1/forwards`;
  const body = JSON.stringify({ name, address, namespace: name });
  await send(api, 'POST', { 'content-type': 'application/json' }, body);
  for (let attempt = 0; attempt < 600; attempt++) {
    const { text } = await send(`${api}/${name}`, 'GET');
    const { available, statusMessage } = Object(Object(JSON.parse(text)).data);
    if (available === true || (typeof statusMessage === 'string' && statusMessage !== '')) {
      return `${available ? 'available' : 'unavailable'} ${String(statusMessage ?? '').slice(0, 120)}`;
    }
    await delay(100);
  }
  return 'not discovered';
}

/** Starts an upstream with one page of many tools, and returns its response to a request of a client. */
async function withCatalog(
  target: HostileTarget,
  name: string,
  tools: readonly string[],
  request: (url: string) => Promise<string>,
): Promise<string> {
  const upstream = await startRawUpstream({ eras: ['modern'], scripts: { 'tools/list': toolList(tools.join(',')) } });
  try {
    const outcome = await discovered(target, name, upstream.url);
    return `${outcome} ${await request(`${target.mcp}/${name}/mcp`)}`;
  } finally {
    await send(`${target.management}/api/v1/namespaces/${name}?cascade=true`, 'DELETE');
    await upstream.close();
  }
}

const TINY_TOOL_BYTES = toolText('t000000').length + 1;

function tinyTools(bytes: number): string[] {
  return Array.from({ length: bytes / TINY_TOOL_BYTES }, (_, at) => toolText(`t${String(at).padStart(6, '0')}`));
}

function catalogCases(): HostileCase[] {
  return [
    {
      name: '30 MiB of tiny tools in one page',
      group: 'the catalog of an upstream',
      isComparable: false,
      send: (_peers, target) => withCatalog(target, 'crowded', tinyTools(30 * MIB), async () => ''),
    },
    {
      name: '30 MiB of 100,000 tools, listed',
      group: 'the catalog of an upstream',
      isComparable: false,
      send: (_peers, target) => {
        const padding = `,"x":"${'p'.repeat(250)}"`;
        const tools = Array.from({ length: 100_000 }, (_, at) => toolText(`t${at}`, padding));
        return withCatalog(target, 'long', tools, async (url) => summaryOf(await modernClient(url).call('tools/list')));
      },
    },
    {
      name: '4 MiB of tiny tools, and ten new sets of capabilities',
      group: 'the catalog of an upstream',
      isComparable: false,
      send: (_peers, target) =>
        withCatalog(target, 'profiled', tinyTools(4 * MIB), async (url) => {
          let last = '';
          for (let at = 0; at < 10; at++) {
            const response = await modernClient(url, `{"extensions":{"x/${at}":{}}}`).call('tools/list');
            last = `${response.status}, ${response.text.length} bytes`;
          }
          return last;
        }),
    },
    {
      name: 'batches of 100 requests for 4 MiB of tools, unread and read',
      group: 'the catalog of an upstream',
      isComparable: false,
      send: (_peers, target) => withCatalog(target, 'batched', tinyTools(4 * MIB), requestInBatches),
    },
  ];
}

/** Sends batches that are not read for a while, then one that is. Returns how much of that was received. */
async function requestInBatches(url: string): Promise<string> {
  const params = '{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"h","version":"1"}}';
  const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`;
  const { headers } = await post(url, initialize);
  const requests = Array.from({ length: 100 }, (_, id) => `{"jsonrpc":"2.0","id":${id},"method":"tools/list"}`);
  const fetched = () =>
    fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-session-id': String(headers['mcp-session-id']),
      },
      body: `[${requests.join(',')}]`,
    });
  const unread = await Promise.all([fetched(), fetched(), fetched()]);
  await delay(2_000);
  let bytes = 0;
  for await (const chunk of (await fetched()).body ?? []) bytes += chunk.length;
  await Promise.all(unread.map(({ body }) => body?.cancel()));
  return `${Math.floor(bytes / MIB / 100)} MiB each`;
}

/** Calls a tool of the namespace `default`. */
async function callService(target: HostileTarget, name: string): Promise<string> {
  const client = modernClient(`${target.mcp}/default/mcp`, '{}', '"progressToken":1');
  return summaryOf(await client.call('tools/call', `{"name":"${name}","arguments":{"code":"x"}}`));
}

function serviceCases(): HostileCase[] {
  const capability = (name: string, tool: string, replies: Parameters<typeof grpcReplies>): HostileCase => ({
    name,
    group: 'a capability service, and the management API',
    isComparable: false,
    send(peers, target) {
      peers.onGrpcCall = grpcReplies(...replies);
      return callService(target, tool);
    },
  });
  return [
    capability('a reply with 900,000 empty contents', 'work', [1, Buffer.alloc(1_800_000, Buffer.from([0x12, 0]))]),
    capability('a reply of 4 MB of escapes', 'work', [1, grpcContent('\u0001'.repeat(4_000_000))]),
    capability('a code stream of 64 MiB', 'run', [64, grpcContent('a'.repeat(MIB - 64))]),
    capability('a code stream of 64 MiB in small replies', 'run', [600_000, grpcContent('a'.repeat(40))]),
    {
      name: 'a management body of 1 MiB',
      group: 'a capability service, and the management API',
      isComparable: false,
      async send(_peers, target) {
        const schema = `{"type":"object","x-hostile":${hostileText('many small objects', MIB - 2_000)}}`;
        const body = `{"name":"large","description":"","uri":"http://large","toolType":"http","input_schema":${schema}}`;
        const api = `${target.management}/api/v1/tools`;
        const created = await send(api, 'POST', { 'content-type': 'application/json' }, body);
        await send(`${api}/large`, 'DELETE');
        return summaryOf(created);
      },
    },
  ];
}

/** Begins uploads that never end; returns the number of those that were rejected. */
async function upload(target: HostileTarget, count: number, path: string): Promise<string> {
  const { hostname, port } = new URL(target.mcp);
  const bytes = Buffer.alloc(4_000_000, ' ');
  const sockets = Array.from({ length: count }, () => connect(Number(port), hostname));
  let rejected = 0;
  for (const socket of sockets) {
    socket.on('error', () => undefined);
    socket.once('data', () => rejected++);
    socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${bytes.length + 1}\r\n\r\n`);
    socket.write(bytes);
  }
  await delay(3_000);
  for (const socket of sockets) socket.destroy();
  return `${rejected} of ${count} rejected`;
}

async function openAndEnd(target: HostileTarget): Promise<string> {
  const url = `${target.mcp}/legacy/mcp`;
  for (let round = 0; round < 1_000; round++) {
    const { headers } = await legacyClient(url);
    await send(url, 'DELETE', headers);
  }
  return '1000 sessions';
}

function connectionCases(): HostileCase[] {
  const group = 'many connections and sessions';
  return [
    {
      name: '150 uploads of 4 MB that never end',
      group,
      isComparable: true,
      send: (_peers, target) => upload(target, 150, '/modern/mcp'),
    },
    {
      name: '150 uploads of 4 MB to a namespace that does not exist',
      group,
      isComparable: true,
      send: (_peers, target) => upload(target, 150, '/nowhere/mcp'),
    },
    {
      name: '1000 sessions opened and ended',
      group,
      isComparable: false,
      send: (_peers: HostilePeers, target) => openAndEnd(target),
    },
  ];
}
