import { type Bench, startNamed } from './bench.ts';
import { type Caller, makeCaller, openSession } from './caller.ts';
import { type Gateway, startUpstream } from './gateway.ts';
import { type LoadPlan, loadWorkload } from './load.ts';
import { asUser, callMessage, type Era, listMessage, type Message } from './messages.ts';
import { makeLane, measureRounds } from './rounds.ts';
import { costTable, type Report } from './tables.ts';
import { gatewayTarget } from './targets.ts';

/** Name of the case with many users and tools. */
export const mixedUsersName = 'mixed-users';

const users = 20;
const servers = ['crm', 'billing', 'search', 'wiki'] as const;
const toolsPerServer = 5;
const namespace = 'mixed';
const eras = ['legacy', 'modern'] as const;

/** Of this many requests of a user, one is a list. */
const listEvery = 5;
const rounds = (servers.length * toolsPerServer * listEvery) / (listEvery - 1);

/** Addresses of the upstreams by name. */
type Addresses = Readonly<Record<(typeof servers)[number], URL>>;

/** Starts the upstreams, two of each era. */
export async function startMixedUpstreams(folder: string, owned: AsyncDisposableStack): Promise<Addresses> {
  const start = async (era: Era) => owned.use(await startUpstream(folder, era, toolsPerServer, toolsPerServer));
  const [legacy, modern] = [await start('legacy'), await start('modern')];
  return {
    crm: legacy.endpoint('crm'),
    billing: modern.endpoint('billing'),
    search: legacy.endpoint('search'),
    wiki: modern.endpoint('wiki'),
  };
}

/** Registers the upstreams in one namespace. */
export async function connectMixedUsers(gateway: Gateway, addresses: Addresses): Promise<void> {
  for (const name of servers) await gateway.addForward(name, addresses[name], namespace, toolsPerServer);
}

const tools = servers.flatMap((name) =>
  Array.from({ length: toolsPerServer }, (_, index) => `${name}_lookup_customer_${index}`),
);

/** One of each era. */
const fewTools = [tools[0] ?? '', tools[toolsPerServer] ?? ''];

/** A client of the load: a user in one era, and its session if that is the legacy one. */
interface Client {
  readonly era: Era;
  readonly user: string;
  readonly session: string | undefined;
}

/** Each client calls each tool once and lists all in between; consecutive requests are of different clients. */
function messagesOf(clients: readonly Client[], called: readonly string[]): Message[] {
  const calls = clients.map(() => 0);
  return Array.from({ length: rounds * clients.length }, (_, at) => {
    const index = at % clients.length;
    const { era, user, session } = clients[index] ?? { era: 'modern', user: '', session: undefined };
    const isList = (Math.floor(at / clients.length) + index) % listEvery === 0;
    if (isList) return asUser(user, listMessage(era, session));
    const next = calls[index] ?? 0;
    calls[index] = next + 1;
    return asUser(user, callMessage(era, session, { tool: called[(index + next) % called.length] ?? '' }));
  });
}

/** Returns the load of many users and tools, or of one user and one tool of each era, after each response was as expected. */
export async function planMixedUsers(
  caller: Caller,
  gateway: Gateway,
  folder: string,
  { userCount = users, called = tools }: { readonly userCount?: number; readonly called?: readonly string[] } = {},
): Promise<LoadPlan> {
  const url = gateway.endpoint(namespace);
  const clients: Client[] = [];
  for (let index = 0; index < userCount; index++) {
    const [user, era] = [`user-${index}`, index % 2 === 0 ? 'legacy' : 'modern'] as const;
    clients.push({ era, user, session: era === 'legacy' ? await openSession(caller, url, user) : undefined });
  }
  const messages = messagesOf(clients, called);
  let bytes = 0;
  for (const message of messages) {
    const { status, body } = await caller.post(url, message);
    const isComplete = message.body.includes('tools/list')
      ? tools.every((name) => body.includes(`"${name}"`))
      : body.includes('"content":[{');
    if (status !== 200 || !isComplete || body.includes('"isError":true')) {
      throw new Error(`${mixedUsersName} at ${url}: status ${status}, not the expected answer: ${body.slice(0, 300)}`);
    }
    bytes += body.length;
  }
  return { script: `${folder}/load.lua`, url, messages, answerBytes: bytes / messages.length, pid: gateway.child.pid };
}

/** Measures the load of many users and tools and that of few, on one gateway. */
export async function measureMixedUsers(bench: Bench): Promise<Report> {
  const { plan, folder, log } = bench;
  await using owned = new AsyncDisposableStack();
  const upstreams = await startMixedUpstreams(folder, owned);
  const gateway = owned.use(await startNamed(bench, mixedUsersName));
  await connectMixedUsers(gateway, upstreams);
  const caller = owned.use(makeCaller());
  const workload = async (clients?: { readonly userCount: number; readonly called: readonly string[] }) =>
    loadWorkload(await planMixedUsers(caller, gateway, folder, clients), gatewayTarget(gateway), plan);
  const lanes = [
    makeLane(`${users} users, ${tools.length} tools`, await workload()),
    makeLane('one of each era', await workload({ userCount: eras.length, called: fewTools })),
  ];
  const measured = { title: `calls and lists, ${servers.length} upstreams of both eras`, lanes };
  await measureRounds([measured], plan, log);
  return {
    block: mixedUsersName,
    measured: `${plan.rounds} rounds of ${plan.seconds} s`,
    tables: [costTable('CPU µs per response', [measured])],
  };
}
