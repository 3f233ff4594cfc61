import { writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { toolchains } from '../../packages/server/src/policy/sandbox/fixtures/ordinary-actions.ts';
import { startChatCompletions } from '../../packages/server/testing/chat-completions.ts';
import { freePort } from '../fixtures/free-port.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import { LEGACY } from '../fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../fixtures/raw-upstream.ts';
import type { Campaign } from './campaign.ts';

/** Files that the service may open. */
const OPEN_FILES = 256;
/** Time in which every kind of request must work after the clients have gone. */
const RECOVERY_MS = 5_000;

/** Workload of {@link exhaustDescriptors}. */
export interface DescriptorPlan {
  /** Connections that clients try to have open. */
  readonly clients: number;
  /** Time of the flood in milliseconds. */
  readonly ms: number;
}

/** Result. */
export interface DescriptorResult {
  /** Connections that the clients have opened, and how many of them were open at most. */
  readonly opened: number;
  readonly peak: number;
  /** Requests on connections from before the flood, by kind; all succeeded, unless `failures` says otherwise. */
  readonly requests: Readonly<Record<string, number>>;
  /** Responses to requests on new connections during the flood, by status; 0 for none. */
  readonly refused: Readonly<Record<string, number>>;
  /** Milliseconds after the flood until the kind of request worked that took longest. */
  readonly recoveredAfter: number;
  readonly acknowledged: number;
  readonly failures: readonly string[];
}

/**
 * Clients open more connections than the service may have files, idle, with half a request and with whole ones. Meanwhile, calls,
 * evaluations, registry writes and completions continue on connections that were there before; afterwards everything works on new
 * ones, and a restarted service has every acknowledged write.
 */
export async function exhaustDescriptors({ clients, ms }: DescriptorPlan): Promise<DescriptorResult> {
  const result = { tools: toolList(toolText('work')), call: textResultText('done') };
  const upstream = await startRawUpstream({
    records: false,
    scripts: { 'tools/list': result.tools, 'tools/call': result.call },
  });
  const llm = await startChatCompletions();
  llm.defaultResult = 'pass';
  const [management, mcp, inference] = await Promise.all([freePort(), freePort(), freePort()]);
  const gateway = await startGateway({
    openFiles: OPEN_FILES,
    management: `127.0.0.1:${management}`,
    mcp: `127.0.0.1:${mcp}`,
    env: { SERVICE_INFERENCE_LISTEN: `127.0.0.1:${inference}`, SERVICE_INFERENCE_UPSTREAM: new URL(llm.url).origin },
    args: ['--service-config', 'service.json'],
    prepare: async (folder) => {
      const connections = [{ name: 'llm', model: 'scripted', url: llm.url }];
      await writeFile(join(folder, 'service.json'), JSON.stringify({ llm_connections: connections }));
      await writeFile(join(folder, 'action.wasm'), await toolchains.wat());
    },
  });
  try {
    const run = new Run(gateway, `http://127.0.0.1:${inference}`);
    await run.prepare(upstream.url);
    const flood = new Flood([management, mcp, inference], clients);
    const endsAt = performance.now() + ms;
    await Promise.all([run.work(endsAt), run.tryNewConnections(endsAt), flood.run(endsAt)]);
    const recoveredAfter = await run.recover();
    await run.compare();
    const { requests, refused, failures, names } = run;
    const { opened, peak } = flood;
    return { opened, peak, requests, refused, recoveredAfter, acknowledged: names.size, failures };
  } finally {
    await gateway.close();
    await llm.close();
    await upstream.close();
  }
}

/** Connections of hostile clients. */
class Flood {
  opened = 0;
  peak = 0;
  readonly #ports: readonly number[];
  readonly #clients: number;
  readonly #sockets = new Set<Socket>();

  constructor(ports: readonly number[], clients: number) {
    this.#ports = ports;
    this.#clients = clients;
  }

  async run(endsAt: number): Promise<void> {
    while (performance.now() < endsAt) {
      while (this.#sockets.size < this.#clients) this.#open();
      await delay(20);
    }
    for (const socket of this.#sockets) socket.destroy();
  }

  #open(): void {
    const socket = connect(this.#ports[this.opened % this.#ports.length] ?? 0, '127.0.0.1');
    const texts = [
      '',
      'POST /default/mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le',
      'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n',
    ];
    const text = texts[this.opened++ % texts.length] ?? '';
    this.#sockets.add(socket);
    this.peak = Math.max(this.peak, this.#sockets.size);
    socket.on('connect', () => socket.write(text));
    socket.on('error', () => undefined);
    socket.on('close', () => this.#sockets.delete(socket));
    socket.resume();
  }
}

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly session: string | undefined;
}

/** Sends a request. Rejects without a response. */
async function send(
  agent: Agent,
  method: string,
  url: string,
  body?: object,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const types = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const sent = request(url, { agent, method, headers: { ...types, ...headers } }, (response) => {
    let text = '';
    response.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    response.on('error', reject).on('end', () => {
      const session = response.headers['mcp-session-id'];
      resolve({ status: response.statusCode ?? 0, text, session: typeof session === 'string' ? session : undefined });
    });
  });
  sent.setTimeout(30_000, () => sent.destroy(new Error('no response within 30 s')));
  sent.on('error', reject).end(body && JSON.stringify(body));
  return promise;
}

class Run {
  readonly requests: Record<string, number> = {};
  readonly refused: Record<string, number> = {};
  readonly failures: string[] = [];
  /** Namespaces whose creation was acknowledged. */
  readonly names = new Set<string>();
  readonly #gateway: Gateway;
  readonly #inference: string;
  #written = 0;
  #session: Record<string, string> = {};
  #evaluators: object = {};

  constructor(gateway: Gateway, inference: string) {
    this.#gateway = gateway;
    this.#inference = inference;
  }

  async prepare(upstream: string): Promise<void> {
    await this.#gateway.forward('up', upstream);
    const evaluator = {
      name: 'judge',
      trigger: { method: 'tools/call', namespace: null },
      llm: { operation: 'classify', prompt: 'Classify the request.', connection: 'llm' },
      processor: { path: 'action.wasm' },
      on_error: 'block',
    };
    this.#evaluators = { evaluators: [evaluator] };
    await this.#evaluate(new Agent());
    const clientInfo = { name: 'raw', version: '1' };
    const params = { protocolVersion: LEGACY, capabilities: {}, clientInfo };
    const opened = await send(new Agent(), 'POST', this.#gateway.url(), {
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params,
    });
    this.#session = { 'mcp-protocol-version': LEGACY, 'mcp-session-id': opened.session ?? '' };
    while (!(await this.#list(new Agent()))) await delay(50);
  }

  /** All kinds of requests on connections of their own, from before the flood, until `endsAt`. */
  async work(endsAt: number): Promise<void> {
    const kinds = this.#kinds();
    const agents = kinds.map(() => new Agent({ keepAlive: true, maxSockets: 1 }));
    const once = async ([name, run]: readonly [string, Kind], agent: Agent): Promise<void> => {
      const error = await run(agent).then((isGood) => (isGood ? undefined : 'unexpected response'), String);
      if (error === undefined) this.requests[name] = (this.requests[name] ?? 0) + 1;
      else this.#fail(`${name} on an open connection: ${error}`);
    };
    await Promise.all(
      kinds.map(async (kind, at) => {
        const agent = agents[at] ?? new Agent();
        while (performance.now() < endsAt) {
          await once(kind, agent);
          await delay(20);
        }
        agent.destroy();
      }),
    );
  }

  /** Requests on new connections, which may be rejected. */
  async tryNewConnections(endsAt: number): Promise<void> {
    while (performance.now() < endsAt) {
      await delay(50);
      const answer = await send(new Agent(), 'GET', `http://${this.#gateway.management()}/api/v1/namespaces`).catch(
        () => undefined,
      );
      const status = answer?.status ?? 0;
      this.refused[status] = (this.refused[status] ?? 0) + 1;
      if (status !== 0 && status !== 200 && status !== 503) this.#fail(`a new connection got ${status}`);
    }
  }

  /** Returns the time in which every kind of request worked on a new connection. */
  async recover(): Promise<number> {
    const startedAt = performance.now();
    for (const [name, run] of this.#kinds()) {
      for (;;) {
        const isGood = await run(new Agent()).catch(() => false);
        if (isGood) break;
        if (performance.now() - startedAt > 10 * RECOVERY_MS) throw new Error(`${name} does not work after the flood`);
        await delay(20);
      }
    }
    const after = Math.round(performance.now() - startedAt);
    if (after > RECOVERY_MS) this.#fail(`not all requests worked within ${RECOVERY_MS} ms, but after ${after} ms`);
    return after;
  }

  /** Restarts the service, and compares its registry with the acknowledged writes. */
  async compare(): Promise<void> {
    const { logs } = this.#gateway;
    for (const line of logs) {
      // Lines that are not JSON come from Node.js.
      if (line.level === undefined || line.level === 'error') this.#fail(`log: ${JSON.stringify(line)}`);
    }
    const code = await this.#gateway.stop();
    if (code !== 0) this.#fail(`exit code ${code}`);
    await this.#gateway.restart();
    const { body } = await this.#gateway.api('GET', '/api/v1/namespaces');
    const found = new Set(Object(body).data.map(({ name }: { name: string }) => name));
    for (const name of this.names) if (!found.has(name)) this.#fail(`${name} is lost`);
  }

  #kinds(): (readonly [string, Kind])[] {
    return [
      ['list', (agent) => this.#list(agent)],
      ['call with an evaluator', (agent) => this.#call(agent)],
      ['write', (agent) => this.#write(agent)],
      ['completion', (agent) => this.#complete(agent)],
      ['new evaluators', (agent) => this.#evaluate(agent)],
    ];
  }

  async #rpc(agent: Agent, method: string, params: object): Promise<string> {
    const message = { jsonrpc: '2.0', id: 1, method, params };
    return (await send(agent, 'POST', this.#gateway.url(), message, this.#session)).text;
  }

  async #list(agent: Agent): Promise<boolean> {
    return (await this.#rpc(agent, 'tools/list', {})).includes('"work"');
  }

  async #call(agent: Agent): Promise<boolean> {
    return (await this.#rpc(agent, 'tools/call', { name: 'work', arguments: {} })).includes('"done"');
  }

  async #write(agent: Agent): Promise<boolean> {
    const name = `n${++this.#written}`;
    const { status } = await send(agent, 'POST', this.#api('namespaces'), { name });
    if (status === 201) this.names.add(name);
    return status === 201;
  }

  async #complete(agent: Agent): Promise<boolean> {
    const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
    return (await send(agent, 'POST', `${this.#inference}/v1/chat/completions`, body)).status === 200;
  }

  async #evaluate(agent: Agent): Promise<boolean> {
    return (await send(agent, 'PUT', this.#api('evaluators'), this.#evaluators)).status === 200;
  }

  #api(path: string): string {
    return `http://${this.#gateway.management()}/api/v1/${path}`;
  }

  #fail(line: string): void {
    if (this.failures.length < 20) this.failures.push(line);
  }
}

type Kind = (agent: Agent) => Promise<boolean>;

export const descriptorsCampaign: Campaign = {
  name: 'descriptors',
  title: 'More connections than the process may have open files',
  async run(_print, rounds = 10) {
    const plan = { clients: 400, ms: rounds * 60_000 };
    const result = await exhaustDescriptors(plan);
    return { passed: result.failures.length === 0, report: report(plan, result) };
  },
};

function report({ clients, ms }: DescriptorPlan, result: DescriptorResult): string {
  const { opened, peak, requests, refused, recoveredAfter, acknowledged, failures } = result;
  const list = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .map(([name, count]) => `${name}: ${count}`)
      .join(', ');
  const rows: [string, number | string][] = [
    ['minutes; files that the service may open', `${ms / 60_000}; ${OPEN_FILES}`],
    ['clients; connections that they opened; most at once', `${clients}; ${opened}; ${peak}`],
    ['requests that succeeded meanwhile, on connections from before', list(requests)],
    ['responses on new connections by status (0: closed)', list(refused)],
    ['all kinds of requests worked on new connections after', `${recoveredAfter} ms`],
    ['acknowledged writes', acknowledged],
    ['**failed requests, lost writes, errors in the log, exits**', `**${failures.length}**`],
  ];
  const lines = failures.map((line) => `- ${line}\n`);
  return `| | |\n|---|---|\n${rows.map(([label, value]) => `| ${label} | ${value} |\n`).join('')}${lines.join('')}`;
}
