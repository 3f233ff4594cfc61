import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from '../../test/fixtures/free-port.ts';
import { ChildProcesses } from '../demo/children.ts';
import { startChatBackend, startModel } from './model.ts';
import { SAMPLE_SERVERS, startSampleServer } from './upstreams.ts';

const root = new URL('../../', import.meta.url);
const pathOf = (relative: string): string => fileURLToPath(new URL(relative, root));
const HOST = '127.0.0.1';
/** Time in which the service passes an hour with calls. */
const PAST_MS = 90_000;
/** Pauses of agents then, and afterwards, with as many calls per minute of the service. */
const PAUSE_MS = { past: 150, present: 15_000 } as const;

/** A service with an hour of calls behind it. */
export interface Scenario {
  /** URL of the management listener. */
  readonly management: string;
  close(): Promise<void>;
}

/**
 * Starts the service with upstreams, a capability service, evaluators, a plugin and a legacy backend, all real, and lets agents
 * use it for an hour, which takes a minute and a half. With `isEmpty`, the service has none of that.
 */
export async function startScenario(isEmpty: boolean): Promise<Scenario> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-screenshots-'));
  const children = new ChildProcesses();
  const open = new AsyncDisposableStack();
  open.defer(() => rm(folder, { recursive: true, force: true }));
  open.defer(() => children.stop());
  try {
    const [model, chat] = await Promise.all([startModel(), startChatBackend()]);
    open.defer(() => model.close());
    open.defer(() => chat.close());
    const settings = isEmpty ? {} : await settingsOf(folder, model.url, chat.url);
    const started = performance.now();
    const service = await startService(children, folder, settings);
    if (!isEmpty) {
      const names = ['ledger', 'tickets', 'warehouse'] as const;
      for (const name of names) {
        const server = await startSampleServer(SAMPLE_SERVERS[name]);
        open.defer(() => server.close());
        await send(service.management, 'POST', '/forwards', { name, address: server.url, ...FORWARDS[name] });
      }
      await register(service.management, children, folder);
      await work(service, PAUSE_MS.past, () => performance.now() >= started + PAST_MS);
      let isClosed = false;
      open.defer(() => {
        isClosed = true;
      });
      // Fails with the end of the service.
      void work(service, PAUSE_MS.present, () => isClosed).catch(() => undefined);
    }
    const end = open.move();
    return { management: service.management, close: () => end.disposeAsync() };
  } finally {
    await open.disposeAsync();
  }
}

/** Members of the forwards besides name and address. */
const FORWARDS = {
  ledger: { namespace: 'finance', labels: { team: 'accounting' } },
  tickets: { namespace: 'support', labels: { team: 'service-desk' } },
  warehouse: { namespace: 'support', expose: { tools: { deny: ['delete_*'], new: 'disabled' } } },
} as const;

/** Addresses of the listeners. */
interface Service {
  readonly management: string;
  readonly mcp: string;
  readonly inference: string;
}

/** Environment and arguments of the service. */
interface ServiceSettings {
  readonly env?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
}

async function settingsOf(folder: string, model: string, chat: string): Promise<ServiceSettings> {
  await Promise.all(['safety-gate', 'spend-rate'].map((name) => buildAction(folder, name)));
  const file = join(folder, 'service.json');
  const connections = ['local', 'hosted'].map((name) => ({ name, model: 'small-8b', url: `${model}/v1` }));
  await writeFile(file, JSON.stringify({ llm_connections: connections, evaluators: EVALUATORS }));
  return {
    args: ['--service-config', file, '--plugins-path', pathOf('examples/console-plugin/plugins')],
    env: {
      FAST_CLOCK_MS: String(PAST_MS),
      NODE_OPTIONS: `--import=${pathOf('scripts/screenshots/fast-clock.ts')}`,
      SERVICE_INFERENCE_UPSTREAM: new URL(model).host,
      SERVICE_CLASSIC_URL: chat,
    },
  };
}

async function buildAction(folder: string, name: string): Promise<void> {
  const args = ['action', 'build', pathOf(`packages/actions/examples/${name}.ts`), '-o', join(folder, `${name}.wasm`)];
  await promisify(execFile)(process.execPath, [pathOf('packages/cli/bin/sluice.mjs'), ...args]);
}

const EVALUATORS = [
  {
    name: 'safety-gate',
    trigger: { method: 'tools/call', namespace: 'finance' },
    llm: {
      operation: 'classify',
      connection: 'local',
      prompt:
        'You review tool calls before they are executed. Answer with JSON only:\n{"verdict": "allow" or "block", "reason": "one sentence"}.\nBlock transfers above 1000 EUR.',
      result_schema: {
        type: 'object',
        required: ['verdict'],
        properties: { verdict: { enum: ['allow', 'block'] }, reason: { type: 'string', maxLength: 500 } },
        additionalProperties: false,
      },
    },
    processor: { path: 'safety-gate.wasm' },
    on_error: 'block',
  },
  {
    name: 'catalog-review',
    trigger: { method: 'tools/list', namespace: 'support' },
    llm: { operation: 'filter', connection: 'hosted', prompt: 'Name the tools that fit the conversation.' },
    processor: { path: 'catalog-review.wasm' },
    on_error: 'continue',
  },
];

async function startService(
  children: ChildProcesses,
  folder: string,
  { env, args = [] }: ServiceSettings,
): Promise<Service> {
  const { value } = await children.start({
    name: 'sluice',
    args: [pathOf('packages/server/src/main.ts'), ...args],
    env: {
      PATH: process.env.PATH,
      SERVICE_MGMT_LISTEN: `${HOST}:0`,
      SERVICE_MCP_LISTEN: `${HOST}:0`,
      SERVICE_INFERENCE_LISTEN: `${HOST}:0`,
      SERVICE_PERSIST_PATH: join(folder, 'registry'),
      ...env,
    },
    folder,
    ready: (line) => {
      const [, management, mcp, inference] =
        /"msg":"listening","management":"([^"]+)","mcp":"([^"]+)","inference":"([^"]+)"/.exec(line) ?? [];
      return management && mcp && inference ? { management, mcp, inference } : undefined;
    },
  });
  return {
    management: `http://${value.management}`,
    mcp: `http://${value.mcp}`,
    inference: `http://${value.inference}`,
  };
}

/** Sends a management request; throws unless it succeeds. */
async function send(management: string, method: string, path: string, body: object): Promise<void> {
  const response = await fetch(`${management}/api/v1${path}`, { method, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
}

/** What operators have set up besides the forwards. */
async function register(management: string, children: ChildProcesses, folder: string): Promise<void> {
  const post = (path: string, body: object): Promise<void> => send(management, 'POST', path, body);
  await post('/forwards', { name: 'archive', address: `http://${HOST}:${await freePort()}/mcp`, namespace: 'finance' });
  await post('/tools/enabled', { forward: 'warehouse', names: ['reserve'], enabled: false });
  await post('/namespaces', { name: 'public', labels: { purpose: 'demonstration' } });
  await send(management, 'PUT', '/evaluators/namespaces/support', { conversation_id: 'shift-2' });
  await send(management, 'PUT', '/tools/get_balance?namespace=finance', {
    name: 'get_balance',
    namespace: 'finance',
    description: 'Get the balance of an account at the end of a day. Ask for the account number first.',
  }).catch(() => undefined);
  await children.start({
    name: 'the sample capability service',
    args: ['--disable-sigusr1', pathOf('examples/capability-service/main.ts')],
    env: { PATH: process.env.PATH, SLUICE_HOST: management, SAMPLE_LISTEN: `${HOST}:0` },
    folder,
    ready: (line) => (line.startsWith('capability service at ') ? true : undefined),
  });
}

/** A call of an agent: namespace, tool and arguments. */
type Call = readonly [namespace: string, tool: string, args: object];

const CALLS: readonly Call[] = [
  ['finance', 'get_balance', { account: '1200' }],
  ['finance', 'search_transactions', { query: 'invoice 2291' }],
  ['finance', 'transfer', { from: '1000', to: '1600', amount: 89.9 }],
  ['finance', 'transfer', { from: '1000', to: '1600', amount: 12_000 }],
  ['support', 'search', { query: 'label printer' }],
  ['support', 'get_ticket', { id: 5102 }],
  ['support', 'get_ticket', { id: 5102 }],
  ['support', 'add_comment', { id: 5102, body: 'Labels are in stock at dock 3.' }],
  ['support', 'create_ticket', { title: 'Scanner loses connection', body: 'At dock 5 since 09:15.' }],
  ['support', 'stock_level', { article: '7734' }],
  ['support', 'stock_level', { article: '7734' }],
  ['sample', 'echo', { message: 'ready' }],
  ['finance', 'list_invoices', {}],
];
const USERS = ['accounting-agent', 'night-run', 'service-desk-agent'];

/** Lets agents work until `isDone`. */
async function work(service: Service, pauseMs: number, isDone: () => boolean): Promise<void> {
  for (let round = 0; !isDone(); round++) {
    const conversation = `shift-${1 + (Math.floor(round / 40) % 3)}`;
    const id = await complete(service, conversation, round);
    const busy = 2 + Math.round(3 * Math.sin(round / 25) ** 2);
    const calls = Array.from({ length: busy }, (_, at) => CALLS[(round * 7 + at * 3) % CALLS.length] ?? CALLS[0]);
    await Promise.all(calls.map((call) => call && callTool(service, call, { conversation, id, round })));
    await delay(pauseMs, undefined, { ref: false });
  }
}

/** Asks the model; returns the id of the completion. */
async function complete({ inference }: Service, conversation: string, round: number): Promise<string> {
  const content =
    round % 2 === 0 ? 'Is there an open ticket about the label printer at dock 3?' : 'What is left to do?';
  const response = await fetch(`${inference}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-conversation-id': conversation },
    body: JSON.stringify({
      model: round % 3 === 0 ? 'large-70b' : 'small-8b',
      messages: [
        { role: 'system', content: 'You help the service desk of a warehouse.' },
        { role: 'user', content },
      ],
    }),
  });
  const { id }: { id?: string } = Object(await response.json());
  return id ?? '';
}

interface Caller {
  readonly conversation: string;
  readonly id: string;
  readonly round: number;
}

async function callTool({ mcp }: Service, [namespace, name, args]: Call, caller: Caller): Promise<void> {
  const response = await fetch(`${mcp}/${namespace}/mcp`, {
    method: 'POST',
    headers: {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'x-conversation-id': caller.conversation,
      'x-request-id': caller.id,
      'x-forwarded-user': USERS[caller.round % USERS.length] ?? '',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } }),
  });
  await response.text();
}
