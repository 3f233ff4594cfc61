import type { Replica } from '@sluice/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { failure, InteractiveClient, inputRequired } from '../packages/server/testing/interactive-client.ts';
import { rpc } from '../packages/server/testing/listener.ts';
import { type LiveUpstream, startLiveUpstream } from '../packages/server/testing/live-upstream.ts';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { clientOf, sessionClient } from '../packages/server/testing/session-client.ts';
import { freePort } from './fixtures/free-port.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { post } from './fixtures/raw-client.ts';
import { replicaEnvironment } from './fixtures/replicas.ts';

// Replicas as processes that are killed and stopped (docs/replicas.md).

/** Reports modules for PostgreSQL, replicas and capability services when they are loaded. */
const REPORT_MODULES = [
  "import { registerHooks } from 'node:module';",
  "const report = (url) => console.error(JSON.stringify({ msg: 'loaded', url }));",
  'registerHooks({ load(url, context, next) { if (/postgres|[/]pg[/]|[/](?:shared-|replica[-.]|peer-|peers|other-conversations|grpc-js|protobufjs)/.test(url)) report(url); return next(url, context); } });',
].join('\n');
const nodeArgs = ['--import', `data:text/javascript,${encodeURIComponent(REPORT_MODULES)}`];

let postgres: TestPostgres;
let upstream: LiveUpstream;
let a: Gateway;
let b: Gateway;

beforeAll(async () => {
  postgres = await startPostgres();
  upstream = await startLiveUpstream({ capabilities: '{"tools":{},"logging":{}}' });
  const database = await postgres.createDatabase();
  const start = async () =>
    await startGateway({
      mcp: `127.0.0.1:${await freePort()}`,
      env: { ...replicaEnvironment(database), SERVICE_PEER_LISTEN: '127.0.0.1:0' },
      nodeArgs,
    });
  [a, b] = await Promise.all([start(), start()]);
  await a.forward('live', upstream.url);
}, 120_000);

afterAll(async () => {
  await Promise.all([a.close(), b.close()]);
  await upstream.close();
  await postgres[Symbol.asyncDispose]();
});

/** A replica as it lists itself. */
async function selfOf(gateway: Gateway): Promise<Replica | undefined> {
  const { body } = await gateway.api('GET', '/api/v1/replicas');
  return (Object(body).data as Replica[]).find(({ self }) => self);
}

/** Waits until a replica discovers the forward. */
async function holdsLease(gateway: Gateway): Promise<void> {
  await expect.poll(async () => (await selfOf(gateway))?.forwards, { timeout: 10_000 }).toBe(1);
}

function loadedModules({ logs }: Gateway): unknown[] {
  return logs.filter(({ msg }) => msg === 'loaded').map(({ url }) => url);
}

test('without PostgreSQL and capability services, nothing that they need is loaded', async ({ onTestFinished }) => {
  expect(loadedModules(a).length).toBeGreaterThan(10);
  const alone = await startGateway({ nodeArgs });
  onTestFinished(alone.close);
  expect((await alone.api('POST', '/api/v1/namespaces', { name: 'team' })).status).toBe(201);
  expect(loadedModules(alone)).toEqual([]);
});

test('when a replica is killed, the others serve its clients, and answer for what it had as after a restart', async () => {
  const onA = await sessionClient(a.url());
  const onB = clientOf(b.url(), onA.headers);
  const listening = onB.listen();
  await listening.head;
  const inFlight = onA.call('"c"');
  const call = await upstream.calls.next();
  const asking = new InteractiveClient(a.url()).send();
  const suspended = await upstream.calls.next();
  suspended.begin();
  suspended.request('"q"', 'sampling/createMessage', '{"messages":[],"maxTokens":1}');
  const { state, keys } = await inputRequired(asking);

  await a.kill();
  const killedAt = performance.now();
  expect(await inFlight.ended).toBe(false);
  expect(await onB.request('ping')).toHaveProperty('result');
  onB.call('"d"');
  const next = await upstream.calls.next();
  expect(next.session).toBe(call.session);
  next.json(next.answerText('done'));
  expect(performance.now() - killedAt).toBeLessThan(2_000);

  const streams = () =>
    upstream.streams.all.filter(({ session, isDisconnected }) => session === call.session && !isDisconnected);
  await expect.poll(() => streams().length).toBe(1);
  streams()[0]?.send('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"hot"}}');
  await listening.matching(/"data":"hot"/);

  const answer = `{"${keys[0]}":{"role":"assistant","model":"m"}}`;
  const retry = async () => (await failure(new InteractiveClient(b.url()).retry(state, answer))).data;
  await expect.poll(retry, { timeout: 10_000 }).toEqual({ kind: 'not_held' });
  await holdsLease(b);
  await a.restart();
}, 120_000);

test('a replica that was stopped neither calls what was disabled meanwhile, nor commits what another one has discovered since', async () => {
  const { results } = upstream;
  const listOf = (...names: readonly string[]) =>
    JSON.stringify({ tools: names.map((name) => ({ name, inputSchema: { type: 'object' } })) });
  const held = Promise.withResolvers<string>();
  const asked = Promise.withResolvers<void>();
  results['tools/list'] = () => {
    results['tools/list'] = listOf('work', 'newer');
    asked.resolve();
    return held.promise;
  };
  const refreshed = a.api('POST', '/api/v1/forwards/live/refreshes');
  await asked.promise;
  const stopped = await selfOf(a);
  process.kill(a.pid() ?? 0, 'SIGSTOP');
  const stoppedAt = performance.now();
  const disabled = await b.api('POST', '/api/v1/tools/enabled', { names: ['work'], enabled: false });
  expect(disabled.status).toBe(200);
  expect(Object(disabled.body).unconfirmed).toContain(stopped?.id);
  const called = post(a.url(), rpc('tools/call', { name: 'work', arguments: {} }));
  await holdsLease(b);
  expect(performance.now() - stoppedAt).toBeLessThan(10_000);
  const names = async (gateway: Gateway) => {
    const { data } = Object((await gateway.api('GET', '/api/v1/tools')).body);
    return data.map(({ name }: { name: string }) => name).toSorted();
  };
  await expect.poll(() => names(b)).toEqual(['newer', 'work']);

  // What it was waiting for has arrived when it goes on.
  held.resolve(listOf('older'));
  await held.promise;
  process.kill(a.pid() ?? 0, 'SIGCONT');
  expect(JSON.parse((await called).text)).toHaveProperty('error');
  await refreshed;
  for (const gateway of [a, b]) expect(await names(gateway)).toEqual(['newer', 'work']);
}, 120_000);
