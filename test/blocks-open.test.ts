import { createServer, type ServerResponse } from 'node:http';
import { beforeAll, expect, test } from 'vitest';
import { startStreamingService, type TestService } from '../packages/server/testing/service.ts';
import { listen } from './fixtures/http-server.ts';
import { OpenRequest, openModern, openPost } from './fixtures/open-request.ts';
import { legacyClient, modernClient, post } from './fixtures/raw-client.ts';
import type { ReceivedMessage, ScriptedResponse } from './fixtures/raw-upstream/message.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { startTasksUpstream, type TasksUpstream } from './fixtures/tasks-upstream.ts';

// A principal is blocked while everything that a client can have open is: nothing of it is answered after the acknowledgement.

const ANN = { 'x-forwarded-user': 'ann' };
const BOB = { 'x-forwarded-user': 'bob' };

const QUESTION = JSON.stringify({
  jsonrpc: '2.0',
  id: 'q1',
  method: 'elicitation/create',
  params: { message: 'Sure?', requestedSchema: { type: 'object', properties: {} } },
});

let service: TestService;
let upstream: RawUpstream;
let tasks: TasksUpstream;
let model: { readonly open: Set<ServerResponse>; close(): void };
/** Lets the upstream answer the calls that wait. */
let release: () => void;

beforeAll(async () => {
  const gate = Promise.withResolvers<void>();
  release = () => gate.resolve();
  const progress = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"progress"}}';
  const call = async ({ params }: ReceivedMessage): Promise<ScriptedResponse> => {
    // Without a message before it, the upstream answers as soon as it has the result.
    if (params.name === 'wait') await gate.promise;
    const before = params.name === 'ask' ? [QUESTION] : params.name === 'report' ? [progress] : [];
    return { kind: 'result', text: textResultText('late'), before, until: gate.promise };
  };
  upstream = await startRawUpstream({
    eras: ['legacy'],
    scripts: { 'tools/list': toolList(toolText('wait'), toolText('ask'), toolText('report')), 'tools/call': call },
  });
  tasks = await startTasksUpstream();
  const open = new Set<ServerResponse>();
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: {"choices":[]}\n\n');
    open.add(response);
    response.on('close', () => open.delete(response));
  });
  const port = await listen(server, 0);
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  model = { open, close };
  service = await startStreamingService({ SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${port}` });
  await service.register('forwards', { name: 'up', address: upstream.url });
  await service.register('forwards', { name: 'tasks', address: tasks.url });
  return async () => {
    await service.stop(0);
    await upstream.close();
    await tasks.close();
    model.close();
  };
});

/** Opens everything that the user can have open. */
async function openAll(user: Readonly<Record<string, string>>) {
  const url = service.url();
  const { headers } = await legacyClient(url, '{"elicitation":{}}', user);
  const batches = await legacyClientOf('2025-03-26', user);
  const callText = (name: string, id = 1) =>
    JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name } });
  const batch = `[${callText('wait', 7)},${callText('wait', 8)}]`;
  const get = (name: string, target: string, more = {}) =>
    new OpenRequest(name, target, 'GET', { ...user, accept: 'text/event-stream', ...more }).end();
  const calls = { method: 'tools/call', headers: user };
  const opened = {
    legacyCall: openPost('legacy call', url, headers).end(callText('wait', 11)),
    streamedCall: openPost('streamed call', url, headers).end(callText('report', 12)),
    modernCall: openModern('modern call', url, { ...calls, params: { name: 'wait' } }),
    notifications: get('notification stream', url, headers),
    subscriptions: openModern('listen', url, {
      method: 'subscriptions/listen',
      headers: user,
      params: { notifications: { toolsListChanged: true } },
    }),
    batch: openPost('batch', url, batches).end(batch),
    halfBatch: openPost('half a batch', url, { ...batches, 'content-length': String(batch.length) }),
    halfCall: openPost('half a call', url, { ...headers, 'content-length': String(callText('wait').length) }),
    inference: new OpenRequest('inference', `http://${service.addresses.inference}/v1/chat/completions`, 'POST', {
      ...user,
      'content-type': 'application/json',
    }).end('{"model":"m","stream":true,"messages":[]}'),
    events: get('events', `${service.management}/api/v1/events`),
    halfChange: new OpenRequest('half a change', `${service.management}/api/v1/namespaces`, 'POST', {
      ...user,
      'content-length': '17',
    }).write('{"name":'),
  };
  opened.halfBatch.write(batch.slice(0, 20));
  opened.halfCall.write(callText('wait').slice(0, 20));
  const suspended = await modernClient(url, '{"elicitation":{}}').call('tools/call', '{"name":"ask"}', user);
  const { result } = JSON.parse(suspended.text);
  expect(result.resultType).toBe('input_required');
  const declared = '{"extensions":{"io.modelcontextprotocol/tasks":{}}}';
  const created = await modernClient(url, declared).call('tools/call', '{"name":"endless"}', user);
  const { taskId } = JSON.parse(created.text).result;
  return { opened, batch, callText, headers, state: String(result.requestState), taskId: String(taskId) };
}

async function legacyClientOf(version: string, user: Readonly<Record<string, string>>) {
  const params = { protocolVersion: version, capabilities: {}, clientInfo: { name: 'raw', version: '1' } };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params });
  const { headers } = await post(service.url(), body, user);
  return { ...user, 'mcp-protocol-version': version, 'mcp-session-id': String(headers['mcp-session-id']) };
}

const countOf = (method: string) => upstream.count(method);

test('nothing of a blocked principal is answered after the acknowledgement', async () => {
  const ann = await openAll(ANN);
  const bob = await openAll(BOB);
  const open = Object.values(ann.opened);
  const others = Object.values(bob.opened);
  // Both have: a legacy, a streamed, a modern and two calls of a batch, and one that is suspended.
  await expect.poll(() => countOf('tools/call')).toBe(12);
  await expect.poll(() => model.open.size).toBe(2);
  await expect.poll(() => tasks.tasks.length).toBe(2);
  await expect.poll(() => ann.opened.notifications.status).toBe(200);
  await expect.poll(() => ann.opened.events.status).toBe(200);
  await expect.poll(() => ann.opened.streamedCall.text).toContain('progress');

  expect(await service.manage('PUT', '/blocks/ann', { for: '1h' })).toMatchObject({ status: 200 });
  const acknowledged = open.map(({ text }) => text);
  // What the rest of a body, and the upstream, could still cause.
  ann.opened.halfBatch.end(ann.batch.slice(20));
  ann.opened.halfCall.end(ann.callText('wait').slice(20));
  ann.opened.halfChange.end('"annwas"}');
  await expect.poll(() => open.filter(({ isOver }) => !isOver).map(({ name }) => name)).toEqual([]);

  // Canceled upstream: the calls of legacy sessions by a notification, the others by the end of the connection.
  await expect.poll(() => model.open.size).toBe(1);
  const ended = () => upstream.seen.filter(({ method, isDisconnected }) => method === 'tools/call' && isDisconnected);
  await expect.poll(() => ended().length).toBe(6);
  await expect.poll(() => countOf('notifications/cancelled')).toBe(6);
  await expect.poll(() => tasks.count('tasks/cancel')).toBe(1);

  release();
  await expect.poll(() => bob.opened.legacyCall.text).toContain('late');
  for (const [at, request] of open.entries()) {
    const answered = request.text.slice(acknowledged[at]?.length ?? 0);
    expect([request.name, [undefined, 200, 401]]).toEqual([request.name, expect.arrayContaining([request.status])]);
    if (answered !== '') expect(answered, request.name).toMatch(/not accepted|access is blocked/);
    expect(request.text, request.name).not.toContain('late');
  }
  expect(countOf('tools/call')).toBe(12);
  expect((await service.manage('GET', '/namespaces/annwas')).status).toBe(404);

  // Others have noticed nothing.
  expect(bob.opened.notifications.isOver).toBe(false);
  await expect.poll(() => bob.opened.batch.text).toContain('late');
  await expect.poll(() => bob.opened.modernCall.text).toContain('late');
  expect(others.filter(({ status }) => status === 401)).toEqual([]);
  bob.opened.halfCall.end(bob.callText('wait').slice(20));
  await expect.poll(() => bob.opened.halfCall.text).toContain('late');

  // After the block: new sessions only, and neither the suspended call nor the task continues.
  const retry = (user: typeof ANN, state: string) =>
    modernClient(service.url(), '{"elicitation":{}}').call(
      'tools/call',
      JSON.stringify({ name: 'ask', requestState: state, inputResponses: {} }),
      user,
    );
  expect((await retry(ANN, ann.state)).status).toBe(401);
  await service.manage('DELETE', '/blocks/ann');
  expect((await retry(ANN, ann.state)).text).toContain('not_held');
  const declared = '{"extensions":{"io.modelcontextprotocol/tasks":{}}}';
  const get = (user: typeof ANN, taskId: string) =>
    modernClient(service.url(), declared).call('tasks/get', JSON.stringify({ taskId }), user);
  expect((await get(ANN, ann.taskId)).text).toContain('task not found');
  expect((await get(BOB, bob.taskId)).text).toContain('working');
  expect((await post(service.url(), '{"jsonrpc":"2.0","id":1,"method":"ping"}', ann.headers)).status).toBe(404);
  for (const request of others) request.close();
}, 30_000);
