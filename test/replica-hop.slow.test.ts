import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createHttpsServer } from 'node:https';
import { connect as connectTcp, createServer as createTcpServer, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PEER_LISTENER, peerKey, peerServerTls } from '../packages/server/src/http/peer-client.ts';
import { authenticated } from '../packages/server/src/identity/authenticator.ts';
import { encodeAuthenticated, PEER_PRINCIPAL } from '../packages/server/src/identity/peer.ts';
import { createUser } from '../packages/server/src/identity/principal.ts';
import { connectingTo, openFaultyProxy } from '../packages/server/testing/faulty-proxy.ts';
import {
  failure,
  InteractiveClient,
  inputRequired,
  resultText,
} from '../packages/server/testing/interactive-client.ts';
import { type LiveUpstream, startLiveUpstream } from '../packages/server/testing/live-upstream.ts';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { clientOf, sessionClient } from '../packages/server/testing/session-client.ts';
import { taskClient } from '../packages/server/testing/task-client.ts';
import { listen } from './fixtures/http-server.ts';
import { type Replicas, replicaEnvironment, startReplicas } from './fixtures/replicas.ts';
import { startTasksUpstream } from './fixtures/tasks-upstream.ts';

// What only one replica has, and clients reach through any other (docs/replicas.md).

let postgres: TestPostgres;
let replicas: Replicas;
let upstream: LiveUpstream;
let a: TestService;
let b: TestService;

beforeAll(async () => {
  postgres = await startPostgres();
  upstream = await startLiveUpstream({ capabilities: '{"tools":{},"logging":{}}' });
  replicas = await startReplicas(await postgres.createDatabase(), {
    count: 2,
    env: { SERVICE_PEER_LISTEN: '127.0.0.1:0' },
  });
  const [first, second] = replicas.services;
  if (!first || !second) throw new Error('there are two replicas');
  [a, b] = [first, second];
  await a.register('forwards', { name: 'live', address: upstream.url });
});

afterAll(async () => {
  await replicas[Symbol.asyncDispose]();
  await upstream.close();
  await postgres[Symbol.asyncDispose]();
});

/** A session, as a client that sends to one replica, and the same client when it sends to the other one. */
async function bothClients(capabilities = '{}') {
  const onA = await sessionClient(a.url(), { capabilities });
  return { onA, onB: clientOf(b.url(), onA.headers) };
}

/** The next call at the upstream, which has asked the client for a completion. */
async function nextSamplingCall() {
  const call = await upstream.calls.next();
  call.begin();
  call.request('"q"', 'sampling/createMessage', '{"messages":[],"maxTokens":1}');
  return call;
}

/** A call on A whose server request the client answers on B. */
async function callAnsweredByB({ onA, onB }: Awaited<ReturnType<typeof bothClients>>): Promise<void> {
  const response = onA.call('1');
  const call = await nextSamplingCall();
  const asked = JSON.parse(await response.message(0));
  const answered = await onB.post(JSON.stringify({ jsonrpc: '2.0', id: asked.id, result: { role: 'assistant' } }));
  expect(answered.status).toBe(202);
  call.end('done');
  expect(await response.message(1)).toContain('done');
}

test('the response to a server request reaches the call on another replica', async () => {
  await callAnsweredByB(await bothClients('{"sampling":{}}'));
  expect(upstream.answers().at(-1)).toContain('"role":"assistant"');
});

test('a cancellation reaches the call on another replica', async () => {
  const { onA, onB } = await bothClients();
  onA.call('"c1"');
  await upstream.calls.next();
  const before = upstream.of('notifications/cancelled').length;
  await onB.post('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c1"}}');
  await expect.poll(() => upstream.of('notifications/cancelled').length).toBe(before + 1);
});

test('responses and cancellations in one batch reach the calls on different replicas', async () => {
  const onA = await sessionClient(a.url(), { version: '2025-03-26', capabilities: '{"sampling":{}}' });
  const onB = clientOf(b.url(), onA.headers);
  const asking: ReturnType<typeof onA.call>[] = [];
  const asked: unknown[] = [];
  const calls = [];
  for (const [client, id] of [
    [onA, '"q1"'],
    [onB, '"q2"'],
  ] as const) {
    const response = client.call(id);
    asking.push(response);
    calls.push(await nextSamplingCall());
    asked.push(JSON.parse(await response.message(0)).id);
  }
  onA.call('"c1"');
  const canceled = await upstream.calls.next();
  const before = upstream.of('notifications/cancelled').length;
  const answers = asked.map((id, at) => ({ jsonrpc: '2.0', id, result: { role: `assistant ${at}` } }));
  const cancellation = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'c1' } };
  const ping = { jsonrpc: '2.0', method: 'ping', id: 'p' };
  const answered = await onB.post(JSON.stringify([...answers, cancellation, ping]));
  expect(answered.status).toBe(200);
  expect(answered.text).toContain('"id":"p"');
  for (const at of [0, 1]) await expect.poll(() => upstream.answers().join()).toContain(`"role":"assistant ${at}"`);
  await expect.poll(() => upstream.of('notifications/cancelled').length).toBe(before + 1);
  await expect.poll(() => canceled.isDisconnected).toBe(true);
  for (const call of calls) call.end('done');
  for (const response of asking) expect(await response.message(1)).toContain('done');
});

test('a stream is resumed through another replica, with what was sent meanwhile', async () => {
  const { onA, onB } = await bothClients();
  const response = onA.call('2', '"progressToken":"p"');
  const call = await upstream.calls.next();
  call.begin();
  call.progress(1);
  await response.message(0);
  response.disconnect();
  call.progress(2);
  const resumed = onB.listen(response.lastId);
  expect(await resumed.message(0)).toContain('"progress":2');
  call.end('done');
  expect(await resumed.message(1)).toContain('done');
});

test('a suspended call is resumed through another replica', async () => {
  const asking = new InteractiveClient(a.url()).send();
  const call = await nextSamplingCall();
  const { state, keys } = await inputRequired(asking);
  const retried = new InteractiveClient(b.url()).retry(state, `{"${keys[0]}":{"role":"assistant","model":"m"}}`);
  await expect.poll(() => upstream.answers().at(-1)).toContain('"model":"m"');
  call.end('done');
  expect(await resultText(retried)).toBe('done');
});

test('calls of one client session reach the upstream in one session, whichever replica they arrive at', async () => {
  const { onA, onB } = await bothClients();
  const before = upstream.sessions.size;
  onA.call('1');
  const first = await upstream.calls.next();
  onB.call('2');
  const second = await upstream.calls.next();
  expect(second.session).toBe(first.session);
  expect(upstream.sessions.size).toBe(before + 1);
  for (const call of [first, second]) call.json(call.answerText('done'));
  expect(await onB.end()).toBe(204);
  await expect.poll(() => upstream.sessions.has(first.session)).toBe(false);
});

test('simultaneous first calls at two replicas open one session for both', async () => {
  const { onA, onB } = await bothClients();
  const before = upstream.sessions.size;
  onA.call('1');
  onB.call('2');
  const [first, second] = [await upstream.calls.next(), await upstream.calls.next()];
  expect(second.session).toBe(first.session);
  await expect.poll(() => upstream.sessions.size).toBe(before + 1);
  for (const call of [first, second]) call.json(call.answerText('done'));
});

test('a client that listens at one replica gets what the upstream sends in a session that another one has opened', async () => {
  const { onA, onB } = await bothClients();
  const stream = onA.listen();
  await stream.head;
  onB.call('1');
  const call = await upstream.calls.next();
  const opened = () => upstream.streams.all.find(({ session }) => session === call.session);
  await expect.poll(opened).toBeDefined();
  opened()?.send('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"hot"}}');
  await stream.matching(/"data":"hot"/);
  call.json(call.answerText('done'));
});

test.each([
  ['user', 'ann'],
  // With its principal, the head of the request to the other replica is longer than that of a client may be.
  ['user with a long name', 'ann'.repeat(2_500)],
])('what one replica knows of the call of a %s is reached through another one by that user only', async (_, name) => {
  const user = { 'x-forwarded-user': name };
  const asking = new InteractiveClient(a.url(), undefined, user).send();
  const call = await nextSamplingCall();
  const { state, keys } = await inputRequired(asking);
  const answer = `{"${keys[0]}":{"role":"assistant","model":"m3"}}`;
  const forged = {
    [PEER_PRINCIPAL]: encodeAuthenticated(authenticated(createUser('ann', 'proxy'))) ?? '',
    [PEER_LISTENER]: 'mcp',
  };
  for (const headers of [forged, { ...forged, 'x-forwarded-user': 'ben' }]) {
    const foreign = new InteractiveClient(b.url(), undefined, headers).retry(state, answer);
    expect(await failure(foreign)).toMatchObject({ code: -32602 });
  }
  const retried = new InteractiveClient(b.url(), undefined, user).retry(state, answer);
  await expect.poll(() => upstream.answers().at(-1)).toContain('"model":"m3"');
  call.end('done');
  expect(await resultText(retried)).toBe('done');
});

test('the principal with the longest name that a client can have reaches another replica', async () => {
  const asking = new InteractiveClient(a.url()).send();
  const call = await nextSamplingCall();
  const { state, keys } = await inputRequired(asking);
  const answer = `{"${keys[0]}":{"role":"assistant","model":"m4"}}`;
  const large = { 'x-forwarded-user': '"'.repeat(7_000), 'x-auth-request-user': '"'.repeat(6_000) };
  const foreign = new InteractiveClient(b.url(), undefined, large).retry(state, answer);
  expect(await failure(foreign)).toMatchObject({ code: -32602 });
  const retried = new InteractiveClient(b.url()).retry(state, answer);
  await expect.poll(() => upstream.answers().at(-1)).toContain('"model":"m4"');
  call.end('done');
  expect(await resultText(retried)).toBe('done');
});

test('a task that was created at one replica is polled and canceled through another', async () => {
  const tasks = await startTasksUpstream();
  await a.register('forwards', { name: 'tasks', address: tasks.url, namespace: 'tasks' });
  const [onA, onB] = [taskClient(a.url('tasks'), 'ann'), taskClient(b.url('tasks'), 'ann')];
  const [endless, polled] = [await onA.create('endless'), await onA.create('polled', { polls: 2 })];
  const status = async (client: typeof onA, taskId: string) =>
    (await client.request('tasks/get', { taskId })).result?.status;
  expect(await status(onB, endless)).toBe('working');
  await expect.poll(() => status(onB, polled)).toBe('completed');
  expect(await status(onA, polled)).toBe('completed');
  expect((await onB.request('tasks/cancel', { taskId: endless })).error).toBeUndefined();
  await expect.poll(() => status(onA, endless)).toBe('cancelled');
  const foreign = taskClient(b.url('tasks'), 'ben');
  expect((await foreign.request('tasks/get', { taskId: endless })).error?.code).toBe(-32602);
  await tasks.close();
});

test('a session that is ended at one replica has no streams at the others', async () => {
  const { onA, onB } = await bothClients();
  const stream = onA.listen();
  await stream.head;
  expect(await onB.end()).toBe(204);
  expect(await stream.ended).toBe(true);
});

test('whoever does not prove the key gets no response from the listener of replicas', async () => {
  const port = Number(a.addresses.peer?.split(':').at(-1));
  const request = 'GET /default/mcp HTTP/1.1\r\nhost: x\r\n\r\n';
  const plain = connectTcp(port, '127.0.0.1');
  plain.write(request);
  const received = await new Promise<string>((resolve) => {
    let text = '';
    plain.on('data', (bytes) => {
      text += bytes.toString('latin1');
    });
    plain.on('error', () => undefined).on('close', () => resolve(text));
  });
  expect(received).not.toContain('HTTP');
  const handshake = (key: Buffer) =>
    new Promise<string>((resolve) => {
      const socket = connectTls({
        port,
        host: '127.0.0.1',
        ciphers: 'ECDHE-PSK-CHACHA20-POLY1305',
        maxVersion: 'TLSv1.2',
        minVersion: 'TLSv1.2',
        checkServerIdentity: () => undefined,
        pskCallback: () => ({ psk: key, identity: 'sluice' }),
      });
      socket.on('secureConnect', () => resolve('connected')).on('error', () => resolve('rejected'));
    });
  expect(await handshake(peerKey(Buffer.from('5d'.repeat(32), 'hex')))).toBe('rejected');
  expect(await handshake(peerKey(Buffer.from('5c'.repeat(32), 'hex')))).toBe('connected');
});

test('whoever cannot prove the key stops no replica that does, however many connections it opens', async () => {
  const port = Number(a.addresses.peer?.split(':').at(-1));
  const idle = Array.from({ length: 300 }, () => connectTcp(port, '127.0.0.1').on('error', () => undefined));
  const closed = Promise.all(idle.map((socket) => once(socket.resume(), 'close')));
  for (const socket of idle.slice(150)) socket.write(randomBytes(500));
  await callAnsweredByB(await bothClients('{"sampling":{}}'));
  await closed;
});

test.each(['says nothing', 'has another key'])(
  'a replica whose address leads to a listener that %s gets no request there, and stops no other one',
  async (kind) => {
    const received: Buffer[] = [];
    let connections = 0;
    const read = (socket: Socket) => void socket.on('data', (bytes: Buffer) => received.push(bytes));
    const tls = peerServerTls(peerKey(Buffer.from('5d'.repeat(32), 'hex')));
    const server = kind === 'says nothing' ? createTcpServer(read) : createTlsServer(tls, read);
    server.on('connection', (socket) => {
      connections++;
      socket.on('error', () => undefined);
    });
    const liar = await startTestService({
      ...replicaEnvironment(replicas.database),
      SERVICE_PEER_LISTEN: '127.0.0.1:0',
      SERVICE_PEER_ADVERTISE: `127.0.0.1:${await listen(server, 0)}`,
    });
    const asking = new InteractiveClient(liar.url()).send();
    await nextSamplingCall();
    const { state, keys } = await inputRequired(asking);
    const retried = new InteractiveClient(a.url()).retry(state, `{"${keys[0]}":{"role":"assistant","model":"m"}}`);
    expect(await failure(retried)).toMatchObject({
      status: 503,
      message: expect.stringContaining('cannot be reached'),
    });
    expect(connections).toBeGreaterThan(0);
    expect(Buffer.concat(received).includes('tools/call')).toBe(false);
    const other = await sessionClient(a.url());
    expect(await other.request('ping')).toHaveProperty('result');
    await liar.stop(0);
    server.close();
  },
);

test('a request that is passed on to a replica that does not answer ends once that is no longer live', async () => {
  const received = Promise.withResolvers<void>();
  const key = peerKey(Buffer.from(replicaEnvironment('').SERVICE_SESSION_KEY ?? '', 'hex'));
  const server = createHttpsServer(peerServerTls(key), () => received.resolve());
  const stuck = await startTestService({
    ...replicaEnvironment(replicas.database),
    SERVICE_PEER_LISTEN: '127.0.0.1:0',
    SERVICE_PEER_ADVERTISE: `127.0.0.1:${await listen(server, 0)}`,
  });
  const asking = new InteractiveClient(stuck.url()).send();
  const call = await upstream.calls.next();
  call.begin();
  call.request('"q"', 'sampling/createMessage', '{"messages":[],"maxTokens":1}');
  const { state, keys } = await inputRequired(asking);
  const retried = new InteractiveClient(a.url()).retry(state, `{"${keys[0]}":{"role":"assistant","model":"m"}}`);
  await received.promise;
  await stuck.stop(0);
  expect(await failure(retried)).toMatchObject({ status: 503, message: expect.stringContaining('cannot be reached') });
  server.close();
});

test('a replica that has announced the address of another one gets nothing from there', async () => {
  const liar = await startTestService({
    ...replicaEnvironment(replicas.database),
    SERVICE_PEER_LISTEN: '127.0.0.1:0',
    SERVICE_PEER_ADVERTISE: b.addresses.peer ?? '',
  });
  const asking = new InteractiveClient(liar.url()).send();
  await nextSamplingCall();
  const { state, keys } = await inputRequired(asking);
  const answer = `{"${keys[0]}":{"role":"assistant","model":"m"}}`;
  // Passed on once: the other one does not look further.
  for (const service of [a, b]) {
    const retried = new InteractiveClient(service.url()).retry(state, answer);
    expect(await failure(retried)).toMatchObject({ status: 200, data: { kind: 'not_held' } });
  }
  await liar.stop(0);
});

test('a replica that has lost its database still reaches the others', async () => {
  const database = new URL(replicas.database);
  const proxy = await openFaultyProxy(connectingTo(Number(database.port)));
  database.port = String(proxy.port);
  const cut = await startTestService({ ...replicaEnvironment(database.href), SERVICE_PEER_LISTEN: '127.0.0.1:0' });
  const asking = new InteractiveClient(a.url()).send();
  const call = await nextSamplingCall();
  const { state, keys } = await inputRequired(asking);
  proxy.setHandler((near) => near.resetAndDestroy());
  proxy.cut();
  await expect
    .poll(async () => Object(await (await fetch(`${cut.management}/readyz`)).json()).data, { timeout: 10_000 })
    .toEqual({ status: 'ready', database: 'unreachable' });
  const retried = new InteractiveClient(cut.url()).retry(state, `{"${keys[0]}":{"role":"assistant","model":"m2"}}`);
  await expect.poll(() => upstream.answers().at(-1)).toContain('"model":"m2"');
  call.end('done');
  expect(await resultText(retried)).toBe('done');
  await cut.stop(0);
  proxy.close();
}, 30_000);
