import { createServer } from 'node:https';
import { join } from 'node:path';
import type { Replica, ToolCallEvent } from '@sluice/contract';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { peerKey, peerServerTls } from '../packages/server/src/http/peer-client.ts';
import { rpc } from '../packages/server/testing/listener.ts';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { type ChatServer, startChatServer } from './fixtures/chat/server.ts';
import {
  type EvaluatedService,
  errorOf,
  evaluator,
  recordCompletion,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { listen } from './fixtures/http-server.ts';
import { post, send } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { replicaEnvironment } from './fixtures/replicas.ts';

// What each replica has in memory is asked of all of them (docs/replicas.md).

let postgres: TestPostgres;
let upstream: RawUpstream;
let models: ChatServer;
let a: EvaluatedService;
let replicas: readonly TestService[];
let environment: Record<string, string>;

beforeAll(async () => {
  postgres = await startPostgres();
  models = await startChatServer();
  upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('known')), 'tools/call': textResultText('done') },
  });
  environment = {
    ...replicaEnvironment(await postgres.createDatabase()),
    SERVICE_PEER_LISTEN: '127.0.0.1:0',
    SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${models.port}`,
  };
  a = await startEvaluatedService(environment);
  const argv = ['--service-config', join(a.folder, 'service.json')];
  const [b, c] = await Promise.all([startTestService(environment, argv), startTestService(environment, argv)]);
  replicas = [a.service, b, c];
  await a.service.register('forwards', { name: 'up', address: upstream.url });
  await vi.waitFor(expectAskingEachOther, { timeout: 20_000 });
}, 120_000);

afterAll(async () => {
  await Promise.all(replicas.slice(1).map((service) => service.stop(0)));
  await a.close();
  await upstream.close();
  await models.close();
  await postgres[Symbol.asyncDispose]();
});

beforeEach(async () => {
  await a.apply();
  expect((await a.service.manage('DELETE', '/interactions')).status).toBe(200);
});

/** The envelope of a management response. */
async function envelope({ management }: TestService, method: string, path: string) {
  const response = await fetch(`${management}/api/v1${path}`, { method, headers: { connection: 'close' } });
  return JSON.parse(await response.text());
}

/** Waits until a replica can ask the others, whose addresses it reads once a second. */
async function expectKnown(replica: TestService, count: number): Promise<void> {
  const check = async () => {
    expect((await envelope(replica, 'GET', '/replicas')).data).toHaveLength(count);
    expect(await envelope(replica, 'GET', '/tool-calls')).not.toHaveProperty('unanswered');
  };
  await vi.waitFor(check, { timeout: 10_000 });
}

const call = (service: TestService, headers = {}) =>
  post(service.url(), rpc('tools/call', { name: 'known', arguments: {} }), headers);

/** Fails until each replica lists a call of all of them: until then, it may not know whom to ask. */
async function expectAskingEachOther(): Promise<void> {
  const callers = replicas.map(({ addresses }) => addresses.mcp ?? '');
  for (const service of replicas) await call(service, { 'x-request-id': service.addresses.mcp ?? '' });
  for (const replica of replicas) {
    const events: ToolCallEvent[] = (await envelope(replica, 'GET', '/tool-calls?toolName=known')).data;
    expect(new Set(events.map(({ requestId }) => requestId))).toEqual(new Set(callers));
  }
}

interface ListedInteraction {
  readonly request_body?: { readonly messages: readonly { readonly content: string }[] };
}

async function listed(service: TestService, query = '') {
  const { data } = await envelope(service, 'GET', `/interactions${query}`);
  return data.map(({ request_body: body }: ListedInteraction) => body?.messages.at(-1)?.content);
}

/** Records a completion at a replica. */
const say = (replica: TestService | undefined, content: string, conversation = 'talk') =>
  recordCompletion(replica ?? a.service, [{ role: 'user', content }], { 'x-conversation-id': conversation });

test('tool-call events of all replicas are listed by each of them, newest first', async () => {
  for (const service of replicas) {
    const before = Date.now();
    // Events of the same millisecond have no order.
    await vi.waitUntil(() => Date.now() > before, { interval: 1 });
    await call(service, { 'x-request-id': service.addresses.mcp ?? '' });
  }
  const callers = replicas.map(({ addresses }) => addresses.mcp).toReversed();
  for (const replica of replicas) {
    const events: ToolCallEvent[] = (await envelope(replica, 'GET', '/tool-calls?limit=6&toolName=known')).data;
    expect(events.filter(({ eventType }) => eventType === 'COMPLETED').map(({ requestId }) => requestId)).toEqual(
      callers,
    );
    expect((await envelope(replica, 'GET', '/tool-calls?limit=2')).data).toEqual(events.slice(0, 2));
    expect((await envelope(replica, 'GET', '/tool-calls?toolName=other')).data).toEqual([]);
  }
});

test('interactions of all replicas are listed by each of them in order of arrival, and deleted by each for all', async () => {
  for (const [at, replica] of [...replicas, ...replicas].entries()) await say(replica, `m${at}`);
  await say(replicas[1], 'other', 'another');
  for (const replica of replicas) {
    expect(await listed(replica)).toEqual(['m0', 'm1', 'm2', 'm3', 'm4', 'm5', 'other']);
    expect(await listed(replica, '?conversation_id=talk&limit=2')).toEqual(['m4', 'm5']);
    expect(await listed(replica, '?conversation_id=talk&bodies=false')).toEqual(Array(6).fill(undefined));
  }
  await replicas[2]?.manage('DELETE', '/interactions');
  for (const replica of replicas) expect(await listed(replica)).toEqual([]);
});

test('large interactions of several replicas are merged', async () => {
  const large = 'x'.repeat(300_000);
  for (const [at, replica] of [...replicas, ...replicas].entries()) await say(replica, `${at}${large}`);
  expect((await listed(a.service)).map((content: string | undefined) => content?.[0])).toEqual([
    '0',
    '1',
    '2',
    '3',
    '4',
    '5',
  ]);
});

test('evaluators see a conversation whose completions other replicas have recorded', async () => {
  const completion = await say(replicas[1], 'first');
  await say(replicas[0], 'second');
  await say(replicas[2], 'third');
  await say(replicas[2], 'not this', 'another');
  await a.apply(evaluator('gate', { llmOutput: 'pass' }));
  const promptAt = async (replica: TestService, conversation: string) => {
    const before = a.llm.requests.length;
    await call(replica, { 'x-conversation-id': conversation });
    return a.llm.requests.at(before)?.messages.at(-1)?.content ?? '';
  };
  const own = await promptAt(a.service, 'talk');
  expect(own).toMatch(/first[\s\S]*second[\s\S]*third/);
  expect(own).not.toContain('not this');
  for (const replica of replicas) {
    expect(await promptAt(replica, 'talk')).toBe(own);
    // The completion is known to one replica alone.
    expect(await promptAt(replica, completion)).toBe(own);
  }
});

test('an action reads the whole conversation from all replicas', async () => {
  for (let at = 0; at < 12; at++) await say(replicas[at % 3], `m${at}`);
  await a.apply(evaluator('reader', { llmOutput: 'history:talk' }));
  const read = async (replica: TestService) => (await call(replica)).text;
  const first = await read(a.service);
  for (let at = 0; at < 12; at++) expect(first).toContain(`m${at}`);
  for (const replica of replicas) expect(await read(replica)).toBe(first);
});

test('a replica that does not answer is named, in bounded time, and the others are listed', async () => {
  const argv = ['--service-config', join(a.folder, 'service.json')];
  // Alive, but others cannot reach it.
  const lost = await startTestService({ ...environment, SERVICE_PEER_ADVERTISE: '127.0.0.1:9' }, argv);
  const { data: known } = await envelope(lost, 'GET', '/replicas');
  const unanswered = known.filter((replica: Replica) => replica.self).map(({ id }: Replica) => id);
  await say(replicas[1], 'known');
  await say(lost, 'unknown');
  const missing = async (path: string) => (await envelope(a.service, 'GET', path)).unanswered;
  await expect.poll(() => missing('/tool-calls'), { timeout: 5_000 }).toEqual(unanswered);
  expect(await missing('/interactions')).toEqual(unanswered);
  expect(await listed(a.service)).toEqual(['known']);
  // It reaches the others.
  await expect.poll(() => listed(lost), { timeout: 5_000 }).toEqual(['known', 'unknown']);
  expect((await envelope(a.service, 'DELETE', '/interactions')).unanswered).toEqual(unanswered);
  await lost.stop(0);
  for (const replica of replicas) await expectKnown(replica, 3);
});

test('a replica that answers in another form is named, and one that fails to read a conversation fails the action', async () => {
  const answers = new Map<string | undefined, string>();
  const key = peerKey(Buffer.from(environment.SERVICE_SESSION_KEY ?? '', 'hex'));
  const server = createServer(peerServerTls(key), ({ url = '' }, response) => {
    response.end(answers.get(url.split('?')[0]) ?? '{"of":"another release"}\n');
  });
  const advertised = `127.0.0.1:${await listen(server, 0)}`;
  const argv = ['--service-config', join(a.folder, 'service.json')];
  const other = await startTestService({ ...environment, SERVICE_PEER_ADVERTISE: advertised }, argv);
  const { data: known } = await envelope(other, 'GET', '/replicas');
  const unanswered = known.filter((replica: Replica) => replica.self).map(({ id }: Replica) => id);
  await expect.poll(async () => (await envelope(a.service, 'GET', '/tool-calls')).unanswered).toEqual(unanswered);
  expect((await envelope(a.service, 'GET', '/interactions')).unanswered).toEqual(unanswered);
  await say(a.service, 'known');
  await a.apply(evaluator('reader', { llmOutput: 'history:talk', on_error: 'block' }));
  expect((await call(a.service)).text).toContain('known');
  const failure = { fault: 'memory', message: 'the conversation exceeds 32 MiB' };
  answers.set('/conversation', `${JSON.stringify({ failure })}\n`);
  expect(errorOf(await call(a.service))).toMatchObject({ code: -32603 });
  await other.stop(0);
  server.close();
  for (const replica of replicas) await expectKnown(replica, 3);
});

test('nobody else can ask a replica for what it has in memory', async () => {
  for (const listener of ['mcp', 'inference', 'management']) {
    const address = a.service.addresses[listener];
    const headers = { 'sluice-peer-listener': '(views)' };
    const { text } = await send(`http://${address}/tool-calls`, 'GET', headers);
    expect(text).not.toContain('eventId');
  }
});
