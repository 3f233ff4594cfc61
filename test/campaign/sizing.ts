import { readFile, stat, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { NODE_FLAGS } from '@sluice/server/node-flags';
import { startChatServer } from '../fixtures/chat/server.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import { LEGACY, legacyClient, MODERN } from '../fixtures/raw-client.ts';
import type { Script } from '../fixtures/raw-upstream/message.ts';
import { LIST_END, textResultText } from '../fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import type { Campaign } from './campaign.ts';
import { INSPECTOR_ARGS, ProcessProbe } from './process-probe.ts';

/** Requests of a round, after as many for the warm-up, and connections that send them. */
const REQUESTS = 10_000;
const ROUNDS = 5;
const CONNECTIONS = 32;
/** Tools, sessions, streams and completions whose memory is divided by their number. */
const COUNTS = { tools: 50_000, sessions: 5_000, streams: 2_000, completions: 1_000 };
const LISTED_TOOLS = 100;
const KIB = 1024;
const MIB = 1024 * KIB;
const PROMPT = 'x'.repeat(4 * KIB);

/** Measures what docs/operations.md says about sizing, with the default settings, access log included. */
export const sizingCampaign: Campaign = {
  name: 'sizing',
  title: 'Sizing',
  page: 'docs/operations.md',
  async run(print) {
    const throughput = await measureThroughput(print);
    const memory = await measureMemory(print);
    const table = (head: string, rows: readonly (readonly string[])[]) =>
      `${head}\n${rows.map((cells) => `| ${cells.join(' | ')} |`).join('\n')}`;
    const report = [
      table('| Request | CPU time | Requests per second and core |\n|---|---|---|', throughput),
      table('| Memory | |\n|---|---|', memory),
    ];
    return { passed: true, report: report.join('\n\n') };
  },
};

async function measureThroughput(print: (line: string) => void): Promise<string[][]> {
  await using service = await startSized({ 'tools/list': listTools(LISTED_TOOLS) });
  const { gateway, upstream } = service;
  await gateway.forward('sized', upstream.url);
  const url = gateway.url();
  const legacy = await legacyClient(url);
  const inference = service.inference('/v1/chat/completions');
  const json = { 'content-type': 'application/json' };
  const mcp = { ...json, accept: 'application/json, text/event-stream' };
  const call = { name: toolEntry(1).name, arguments: { region: 'north' } };
  const completion = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: PROMPT }] });
  let registered = 0;
  const workloads: [string, () => Load][] = [
    [`\`tools/list\` with ${LISTED_TOOLS} tools`, () => ({ url, ...modern('tools/list', {}), mcp })],
    ['`tools/call`, modern client', () => ({ url, ...modern('tools/call', call), mcp })],
    ['`tools/call`, legacy client', () => ({ url, headers: legacy.headers, body: rpc('tools/call', call), mcp })],
    [
      `completion with a prompt of ${PROMPT.length / KIB} KiB, recorded`,
      () => ({ url: inference, headers: json, body: completion }),
    ],
    [
      'registration of a tool (`POST /api/v1/tools`), durable',
      () => ({
        url: `http://${gateway.management()}/api/v1/tools`,
        headers: json,
        body: JSON.stringify(toolEntry(LISTED_TOOLS + registered++)),
      }),
    ],
  ];
  const rows: string[][] = [];
  for (const [name, next] of workloads) {
    const count = name.startsWith('registration') ? REQUESTS / 5 : REQUESTS;
    await send(next, count);
    // Other programs on the machine make it slower, never faster.
    let us = Number.POSITIVE_INFINITY;
    for (let round = 0; round < ROUNDS; round++) {
      const before = await cpuSeconds(gateway);
      await send(next, count);
      us = Math.min(us, (((await cpuSeconds(gateway)) - before) * 1e6) / count);
    }
    rows.push([name, `${us.toFixed(0)} µs`, rounded(1e6 / us)]);
    print(`${name}: ${us.toFixed(0)} µs`);
  }
  return rows;
}

async function measureMemory(print: (line: string) => void): Promise<string[][]> {
  const rows: string[][] = [];
  const add = (name: string, value: string): void => {
    rows.push([name, value]);
    print(`${name}: ${value}`);
  };
  {
    await using service = await startSized({ 'tools/list': listTools(COUNTS.tools) });
    const { gateway, upstream, probe } = service;
    const empty = await probe.memory();
    add('after the start (resident)', size(empty.rss));
    await gateway.forward('sized', upstream.url);
    const discovered = await probe.memory();
    add('per tool of an upstream, 0.7 KiB of JSON each', size((discovered.used - empty.used) / COUNTS.tools));
    // A process with an open inspector does not exit.
    probe.close();
    await gateway.stop();
    const file = join(gateway.folder, 'registry.json');
    add('per tool of an upstream, in `registry.json`', size((await stat(file)).size / COUNTS.tools));
    const tools = Array.from({ length: COUNTS.tools }, (_, index) => toolEntry(index));
    await writeFile(file, JSON.stringify({ version: 1, tools }));
    await gateway.restart();
    const again = await ProcessProbe.connect(gateway);
    const registered = await again.memory();
    add('per registered tool', size((registered.used - empty.used) / COUNTS.tools));
    again.close();
  }
  await using service = await startSized({ 'tools/list': listTools(LISTED_TOOLS) });
  const { gateway, upstream, probe } = service;
  await gateway.forward('sized', upstream.url);
  const url = gateway.url();
  await (await legacyClient(url)).call('tools/list');
  const body = (index: number) =>
    JSON.stringify({ model: 'm', messages: [{ role: 'user', content: `${index} ${PROMPT}` }] });
  const beforeCompletions = await probe.memory();
  let completions = 0;
  const next = () => ({
    url: service.inference('/v1/chat/completions'),
    headers: { 'content-type': 'application/json' },
    body: body(completions++),
  });
  await send(next, COUNTS.completions);
  const afterCompletions = await probe.memory();
  const perCompletion = (afterCompletions.used - beforeCompletions.used) / COUNTS.completions;
  add(`per recorded completion, with a prompt of ${PROMPT.length / KIB} KiB`, size(perCompletion));
  const before = await probe.memory();
  const sessions: Readonly<Record<string, string>>[] = [];
  while (sessions.length < COUNTS.sessions) {
    const opened = await Promise.all(Array.from({ length: CONNECTIONS }, () => legacyClient(url)));
    sessions.push(...opened.map(({ headers }) => headers));
  }
  const withSessions = await probe.memory();
  add('per session of a legacy client', size((withSessions.used - before.used) / sessions.length));
  const streams = await openStreams(url, sessions.slice(0, COUNTS.streams));
  const withStreams = await probe.memory();
  add('per open stream of notifications', size((withStreams.used - withSessions.used) / COUNTS.streams));
  add('the same, resident', size((withStreams.rss - withSessions.rss) / COUNTS.streams));
  streams.destroy();
  return rows;
}

/** A service with an upstream and a model, measured from outside. */
async function startSized(scripts: RawUpstream['scripts']) {
  await using open = new AsyncDisposableStack();
  const upstream = await startRawUpstream({ scripts: { 'tools/call': textResultText('done'), ...scripts } });
  open.defer(() => upstream.close());
  const model = await startChatServer();
  open.defer(() => model.close());
  const gateway = await startGateway({
    nodeArgs: [...NODE_FLAGS, ...INSPECTOR_ARGS],
    env: {
      SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${model.port}`,
      SERVICE_FORWARD_HEALTHCHECK_INTERVAL: '0',
    },
  });
  open.defer(() => gateway.close());
  const probe = await ProcessProbe.connect(gateway);
  open.defer(() => probe.close());
  const listening = gateway.logs.find(({ msg }) => msg === 'listening');
  const resources = open.move();
  return {
    upstream,
    gateway,
    probe,
    inference: (path: string) => `http://${String(listening?.inference)}${path}`,
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** A request that is sent many times. */
interface Load {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Further headers of MCP requests. */
  readonly mcp?: Readonly<Record<string, string>>;
}

/** Sends requests over all connections, one after the other on each. Throws unless all of them succeed. */
async function send(next: () => Load, count: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  let left = count;
  const worker = async (): Promise<void> => {
    while (left-- > 0) await sendOne(next(), agent);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
  agent.destroy();
}

function sendOne({ url, headers, body, mcp = {} }: Load, agent: Agent): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  request(url, { method: 'POST', agent, headers: { ...mcp, ...headers } }, (response) => {
    const { statusCode = 0 } = response;
    if (statusCode >= 300) reject(new Error(`${url}: ${statusCode}`));
    response.resume().on('end', resolve).on('error', reject);
  })
    .on('error', reject)
    .end(body);
  return promise;
}

function rpc(method: string, params: object): string {
  return JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
}

/** A request of a modern client. */
function modern(method: string, params: object): Pick<Load, 'headers' | 'body'> {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': { name: 'sizing', version: '1' },
  };
  const name: Record<string, string> = 'name' in params ? { 'mcp-name': String(params.name) } : {};
  return {
    headers: { 'mcp-protocol-version': MODERN, 'mcp-method': method, ...name },
    body: rpc(method, { ...params, _meta }),
  };
}

/** Lists tools in pages of 1,000. */
function listTools(count: number): Script {
  return ({ params }) => {
    const from = Number(params.cursor ?? 0);
    const to = Math.min(from + 1_000, count);
    const tools = Array.from({ length: to - from }, (_, index) => {
      const { name, description, input_schema: inputSchema } = toolEntry(from + index);
      return { name, description, inputSchema };
    });
    const next = to < count ? `"nextCursor":"${to}",` : '';
    return `{"tools":${JSON.stringify(tools)},${next}${LIST_END}`;
  };
}

/** A tool of a typical size, 0.7 KiB. */
function toolEntry(index: number) {
  const property = (description: string) => ({ type: 'string', description });
  return {
    name: `crm-customers-search-${index}`,
    description: `Searches the customers of one region. ${'Returns at most 50 of them, ordered by name. '.repeat(8)}`,
    uri: 'http://127.0.0.1:9/mcp',
    toolType: 'search',
    input_schema: {
      type: 'object',
      properties: { region: property('Region of the customer'), name: property('Part of the name, any case') },
      required: ['region'],
    },
  };
}

/** Opens a notification stream for each session. */
async function openStreams(url: string, sessions: readonly Readonly<Record<string, string>>[]): Promise<Agent> {
  const agent = new Agent();
  for (let at = 0; at < sessions.length; at += CONNECTIONS) {
    const opening = sessions.slice(at, at + CONNECTIONS).map((session) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const headers = { accept: 'text/event-stream', 'mcp-protocol-version': LEGACY, ...session };
      request(url, { agent, headers }, (response) => {
        if (response.statusCode !== 200) reject(new Error(`a stream got ${response.statusCode}`));
        response.resume().on('error', () => {});
        resolve();
      })
        .on('error', reject)
        .end();
      return promise;
    });
    await Promise.all(opening);
  }
  return agent;
}

/** CPU time of the service. */
async function cpuSeconds(gateway: Gateway): Promise<number> {
  const stats = await readFile(`/proc/${gateway.pid()}/stat`, 'utf8');
  const fields = stats.slice(stats.lastIndexOf(')') + 2).split(' ');
  // Ticks of user and system time, 100 per second on Linux.
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function size(bytes: number): string {
  return bytes >= MIB ? `${(bytes / MIB).toFixed(0)} MiB` : `${(bytes / KIB).toFixed(1)} KiB`;
}

/** Two significant digits. */
function rounded(value: number): string {
  return Number(value.toPrecision(2)).toLocaleString('en-US');
}
