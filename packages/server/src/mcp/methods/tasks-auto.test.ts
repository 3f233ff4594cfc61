import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modernClient, reply } from '../../../../../test/fixtures/raw-client.ts';
import type { ScriptedResponse } from '../../../../../test/fixtures/raw-upstream/message.ts';
import { textResultText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { ALL_CAPABILITIES, InteractiveClient } from '../../../testing/interactive-client.ts';
import { liveTests } from '../../../testing/live-tests.ts';
import { client as clientOf, eras, lastCall, relayTests } from '../../../testing/relay.ts';
import { startTestService, type TestService } from '../../../testing/service.ts';
import { taskClient } from '../../../testing/task-client.ts';
import { eventsAt } from '../../../testing/tool-call-events.ts';
import { startWorkingService } from '../../upstreams/grpc/fixtures/working-service.ts';

const tests = relayTests();
let service: TestService;
beforeAll(async () => {
  service = await startTestService({
    SERVICE_TASK_AUTO_AFTER_MS: '50',
    SERVICE_MAX_TASK_RESULT_BYTES: '1048576',
    SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '60000',
  });
});
afterAll(() => service.stop());

/** Responses of the tool `a`, one for each call, that a test gives later. */
class PendingCalls {
  readonly #calls: { readonly respond: (response: string | ScriptedResponse) => void }[] = [];

  readonly script = () => new Promise<string | ScriptedResponse>((respond) => void this.#calls.push({ respond }));

  get count(): number {
    return this.#calls.length;
  }

  /** Responds to the latest call, or to another one. */
  respond(response: string | ScriptedResponse, at = -1): void {
    this.#calls.at(at)?.respond(response);
  }
}

/** A namespace with the tool `a`, whose long calls become tasks. */
async function withAuto(at = service) {
  const calls = new PendingCalls();
  const upstream = await tests.upstreamWith({ 'tools/call': calls.script });
  const url = await tests.register(upstream.url, {}, at);
  const name = new URL(url).pathname.split('/')[1] ?? '';
  await label(name, 'a', at);
  return { url, name, upstream, calls };
}

/** Sets the label by the same change that operators make. */
async function label(namespace: string, tool: string, at = service): Promise<void> {
  const { data } = await at.manage('GET', `/tools/${tool}?namespace=${namespace}`);
  const { forward: _, upstreamName: __, shadowed: ___, ...entry } = Object(data);
  const changed = { ...entry, labels: { ...entry.labels, 'service.task': 'auto' } };
  expect((await at.manage('PUT', `/tools/${tool}?namespace=${namespace}`, changed)).status).toBe(200);
}

/** Capabilities of a client that can be asked everything. */
const CAPABLE = `${ALL_CAPABILITIES.slice(0, -1)},"extensions":{"io.modelcontextprotocol/tasks":{}}}`;

const text = (value: string) => ({ content: [{ type: 'text', text: value }] });

describe('a call of a tool with the label service.task=auto', () => {
  it('becomes a task when it takes long, with the result of the call', async () => {
    const { url, name, upstream, calls } = await withAuto();
    const client = taskClient(url, 'ann');
    const { result } = await client.request('tools/call', { name: 'a', arguments: { x: 'S3CRET' } });
    const { taskId } = result;
    expect(result).toMatchObject({ resultType: 'task', status: 'working', ttlMs: 7_200_000, pollIntervalMs: 1_000 });
    const state = await client.request('tasks/get', { taskId });
    expect(state.result).toMatchObject({ taskId, resultType: 'complete', status: 'working' });
    const { data: listed } = await service.manage('GET', `/tasks?namespace=${name}`);
    expect(listed).toMatchObject([{ id: taskId, kind: 'call', tool: 'a', forward: name, user: 'ann' }]);

    calls.respond(textResultText('9007199254740993'));
    const end = await client.until(String(taskId), 'completed');
    expect(end.result.result).toMatchObject(text('9007199254740993'));
    expect((await client.until(String(taskId), 'completed')).result).toEqual(end.result);
    expect(upstream.count('tools/call')).toBe(1);
    expect((await taskClient(url, 'ben').request('tasks/get', { taskId })).error?.code).toBe(-32602);

    const events = await eventsAt(service, url);
    expect(events).toMatchObject([
      { eventType: 'STARTED' },
      // Recorded before the task has ended, like the events of all calls that no client waits for.
      { eventType: 'COMPLETED', content: ['9007199254740993'], task: { id: taskId, states: [{ status: 'working' }] } },
    ]);
    const { data } = await service.manage('GET', `/tasks/${taskId}`);
    expect(data).toMatchObject({ status: 'completed', eventId: events[0]?.eventId });
    expect(JSON.stringify([data, listed])).not.toContain('S3CRET');
  });

  it('stays a plain one while it is short, and for clients that do not declare the extension', async () => {
    const patient = await startTestService({ SERVICE_TASK_AUTO_AFTER_MS: '60000' });
    tests.onEnd(() => patient.stop());
    const short = await withAuto(patient);
    short.upstream.scripts['tools/call'] = textResultText('quick');
    expect((await taskClient(short.url).request('tools/call', { name: 'a', arguments: {} })).result).toMatchObject(
      text('quick'),
    );
    const { url, calls } = await withAuto();
    for (const era of eras) {
      const at = calls.count;
      const plain = (await clientOf(era, url)).call('tools/call', '{"name":"a","arguments":{}}');
      await expect.poll(() => calls.count).toBe(at + 1);
      // A later call has become a task meanwhile.
      const taskId = await taskClient(url).create('a');
      calls.respond(textResultText('plain'), at);
      expect(JSON.parse(reply(await plain)).result).toMatchObject(text('plain'));
      await service.manage('POST', `/tasks/${taskId}/cancel`);
    }
  });

  it('advertises the extension, and tasks can be requested', async () => {
    const { url } = await withAuto();
    const other = await tests.upstreamWith();
    const without = await tests.register(other.url, {}, service);
    const capabilities = async (at: string) =>
      JSON.parse(reply(await modernClient(at, '{}').call('server/discover', '{}'))).result.capabilities;
    expect((await capabilities(url)).extensions).toEqual({ 'io.modelcontextprotocol/tasks': {} });
    expect((await capabilities(without)).extensions).toBeUndefined();
    expect((await taskClient(url).request('tasks/get', { taskId: 'A'.repeat(22) })).error?.code).toBe(-32602);
    expect((await taskClient(url, undefined, '{}').request('tasks/get', { taskId: 'x' })).error?.code).toBe(-32021);
  });

  it('fails as the call does', async () => {
    const { url, calls } = await withAuto();
    const client = taskClient(url);
    const taskId = await client.create('a');
    calls.respond({ kind: 'error', text: '{"code":-32007,"message":"no","data":{"a":1.0}}' });
    const failed = await client.until(taskId, 'failed');
    expect(failed.text).toContain('"error":{"code":-32007,"message":"no","data":{"a":1.0}}');
    const unlucky = await client.create('a');
    calls.respond('{"content":[{"type":"text","text":"bad"}],"isError":true,"resultType":"complete"}');
    expect((await client.until(unlucky, 'completed')).result.result).toMatchObject({ isError: true });
  });

  it('is canceled upstream by its client, by an operator, and with its forward', async () => {
    const { url, name, upstream } = await withAuto();
    const client = taskClient(url);
    const one = await client.create('a');
    expect((await client.request('tasks/cancel', { taskId: one })).result).toEqual({ resultType: 'complete' });
    await expect.poll(() => lastCall(upstream).isDisconnected).toBe(true);
    for (const _ of [1, 2])
      expect((await client.request('tasks/get', { taskId: one })).result.status).toBe('cancelled');
    expect((await client.request('tasks/cancel', { taskId: one })).error).toBeUndefined();

    const two = await client.create('a');
    expect((await service.manage('POST', `/tasks/${two}/cancel`)).status).toBe(200);
    await expect.poll(() => lastCall(upstream).isDisconnected).toBe(true);
    expect((await client.request('tasks/get', { taskId: two })).result.status).toBe('cancelled');

    const three = await client.create('a');
    await service.manage('DELETE', `/forwards/${name}`);
    await expect.poll(() => lastCall(upstream).isDisconnected).toBe(true);
    expect((await client.request('tasks/get', { taskId: three })).error?.code).toBe(-32601);
  });

  it('is canceled when its client disconnects before it is a task', async () => {
    const slow = await startTestService({ SERVICE_TASK_AUTO_AFTER_MS: '60000' });
    tests.onEnd(() => slow.stop(0));
    const calls = new PendingCalls();
    const upstream = await tests.upstreamWith({ 'tools/call': calls.script }, { eras: ['modern'] });
    const url = await tests.register(upstream.url, {}, slow);
    const { data } = await slow.manage('GET', `/tools/a?namespace=${new URL(url).pathname.split('/')[1]}`);
    const { forward: _, ...entry } = Object(data);
    await slow.manage('PUT', `/tools/a?namespace=${entry.namespace}`, { ...entry, labels: { 'service.task': 'auto' } });
    const reader = new InteractiveClient(url, CAPABLE).send({ params: '"name":"a"' });
    await expect.poll(() => calls.count).toBe(1);
    reader.disconnect();
    await expect.poll(() => lastCall(upstream).isDisconnected).toBe(true);
  });

  it('asks for input, a part at a time, in as many rounds as its upstream requires', async () => {
    const { url, upstream, calls } = await withAuto();
    const client = taskClient(url);
    const { result } = await client.request('tools/call', { name: 'a', arguments: { x: 1 } });
    const taskId = String(result.taskId);
    const ask = (...keys: string[]) =>
      `{"resultType":"input_required","requestState":"state","inputRequests":{${keys.map((key) => `"${key}":{"method":"roots/list"}`)}}}`;
    calls.respond(ask('one', 'two'));
    const asked = await client.until(taskId, 'input_required');
    expect(asked.result.inputRequests).toEqual({ one: { method: 'roots/list' }, two: { method: 'roots/list' } });
    const answer = (inputResponses: object) => client.request('tasks/update', { taskId, inputResponses });
    expect((await answer({ two: { roots: [2] }, other: { x: 1 } })).result).toEqual({ resultType: 'complete' });
    expect(Object.keys(Object((await client.request('tasks/get', { taskId })).result.inputRequests))).toEqual(['one']);
    expect((await answer({ one: 5 })).error?.code).toBe(-32602);
    await answer({ one: { roots: [1] } });
    await expect.poll(() => calls.count).toBe(2);
    expect(lastCall(upstream).params).toMatchObject({
      name: 'a',
      arguments: { x: 1 },
      requestState: 'state',
      inputResponses: { one: { roots: [1] }, two: { roots: [2] } },
    });
    calls.respond(ask('one'));
    const again = await client.until(taskId, 'input_required');
    const [key = ''] = Object.keys(Object(again.result.inputRequests));
    expect(key).not.toBe('one');
    await answer({ [key]: { roots: [3] } });
    await expect.poll(() => calls.count).toBe(3);
    expect(lastCall(upstream).params.inputResponses).toEqual({ one: { roots: [3] } });
    calls.respond(textResultText('done'));
    expect((await client.until(taskId, 'completed')).result.result).toMatchObject(text('done'));
  });

  it('cannot be polled without pause', async () => {
    const { url } = await withAuto();
    const client = taskClient(url);
    const taskId = await client.create('a');
    const rejected = Array.from({ length: 40 }, async () => {
      const { error } = await client.request('tasks/get', { taskId });
      return error ?? Promise.reject(new Error('not rejected'));
    });
    expect(await Promise.any(rejected)).toMatchObject({ code: -32000 });
    await client.request('tasks/cancel', { taskId });
  });

  it('withholds its result while its tool is disabled, and can still be canceled', async () => {
    const { url, name, calls, upstream } = await withAuto();
    const client = taskClient(url);
    const taskId = await client.create('a');
    await service.manage('POST', '/tools/enabled', { enabled: false, names: ['a'], namespace: name });
    calls.respond(textResultText('done'));
    const { error } = await client.request('tasks/get', { taskId });
    expect(error).toEqual({ code: -32602, message: 'tool not found: a' });
    await service.manage('POST', '/tools/enabled', { enabled: true, names: ['a'], namespace: name });
    await client.until(taskId, 'completed');
    const other = await client.create('a');
    await service.manage('POST', '/tools/enabled', { enabled: false, names: ['a'], namespace: name });
    expect((await client.request('tasks/cancel', { taskId: other })).error).toBeUndefined();
    await expect.poll(() => lastCall(upstream).isDisconnected).toBe(true);
  });

  it('has no result if its user has too many, and keeps nobody else from having one', async () => {
    const { url, name, calls } = await withAuto();
    const client = taskClient(url, 'ann');
    const first = await client.create('a');
    calls.respond(textResultText('x'.repeat(600_000)));
    await client.until(first, 'completed');
    const second = await client.create('a');
    calls.respond(textResultText('y'.repeat(250_000)));
    const failed = await client.until(second, 'failed');
    expect(failed.result.error).toMatchObject({ message: expect.stringContaining('no room for its result') });
    const ben = taskClient(url, 'ben');
    const third = await ben.create('a');
    calls.respond(textResultText('z'.repeat(250_000)));
    await ben.until(third, 'completed');
    const { result } = await client.request('tasks/get', { taskId: first });
    expect(result).toMatchObject({ status: 'completed' });
    expect((await service.manage('DELETE', `/forwards/${name}`)).status).toBe(200);
  });

  it('keeps what it has while it waits for input, whatever others need', async () => {
    const { url, name, calls } = await withAuto();
    const client = taskClient(url, 'ann', CAPABLE);
    const taskId = await client.create('a');
    const requestState = 's'.repeat(500_000);
    calls.respond(
      `{"resultType":"input_required","requestState":"${requestState}","inputRequests":{"q":{"method":"roots/list"}}}`,
    );
    await client.until(taskId, 'input_required');
    const ben = taskClient(url, 'ben');
    const other = await ben.create('a');
    calls.respond(textResultText('z'.repeat(350_000)));
    await ben.until(other, 'completed');
    const { result } = await client.request('tasks/update', { taskId, inputResponses: { q: { roots: [] } } });
    expect(result).toEqual({ resultType: 'complete' });
    await expect.poll(() => calls.count).toBe(3);
    calls.respond(textResultText('done'));
    await client.until(taskId, 'completed');
    expect((await service.manage('DELETE', `/forwards/${name}`)).status).toBe(200);
  });

  it('keeps no more of errors, input and messages than there is room for', async () => {
    const { url, calls, upstream } = await withAuto();
    const client = taskClient(url, 'cem', CAPABLE);
    const reporting = modernClient(url, CAPABLE, '"progressToken":"p"');
    const long = await reporting.call('tools/call', '{"name":"a","arguments":{}}', { 'x-forwarded-user': 'cem' });
    const { progressToken } = Object(lastCall(upstream).params._meta);
    const params = JSON.stringify({ progressToken, progress: 1, message: 'm'.repeat(3_000_000) });
    const before = [`{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`];
    calls.respond({ kind: 'result', text: textResultText('done'), before });
    const { result } = await client.until(JSON.parse(reply(long)).result.taskId, 'completed');
    expect(result.statusMessage).toHaveLength(1_000);

    const fail = async (data: string) => {
      const taskId = await client.create('a');
      calls.respond({ kind: 'error', text: `{"code":-32007,"message":"no","data":"${data}"}` });
      return (await client.until(taskId, 'failed')).result.error;
    };
    expect(await fail('x'.repeat(690_000))).toMatchObject({ code: -32007 });
    expect(await fail('y'.repeat(20_000))).toMatchObject({
      message: expect.stringContaining('no room for its result'),
    });
    // Without that, its client would not know what has failed.
    expect(await fail('small')).toEqual({ code: -32007, message: 'no', data: 'small' });

    const other = taskClient(url, 'dan', CAPABLE);
    const ask = async (requestState: string) => {
      const taskId = await other.create('a');
      const inputRequests = '{"one":{"method":"roots/list"},"two":{"method":"roots/list"}}';
      calls.respond(
        `{"resultType":"input_required","requestState":"${requestState}","inputRequests":${inputRequests}}`,
      );
      return taskId;
    };
    const tooMuch = await other.until(await ask('s'.repeat(1_100_000)), 'failed');
    expect(tooMuch.result.error).toMatchObject({ message: expect.stringContaining('no room for its requests') });
    const taskId = await ask('small');
    await other.until(taskId, 'input_required');
    const inputResponses = { one: { roots: [], _meta: { x: 'z'.repeat(1_100_000) } } };
    expect((await other.request('tasks/update', { taskId, inputResponses })).result).toEqual({
      resultType: 'complete',
    });
    const failed = await other.until(taskId, 'failed');
    expect(failed.result.error).toMatchObject({ message: expect.stringContaining('no room for its input') });
  });
});

describe('a call of a legacy upstream that becomes a task', () => {
  const { live } = liveTests();

  it('asks for the input that its upstream requests, and ends with its result', async () => {
    const { upstream, url } = await live({}, service);
    await label(new URL(url).pathname.split('/')[1] ?? '', 'work');
    const client = taskClient(url, undefined, CAPABLE);
    const taskId = await client.create('work');
    const call = await upstream.calls.next();
    call.begin();
    call.request('"q"', 'elicitation/create', '{"message":"m","requestedSchema":{"type":"object","properties":{}}}');
    const asked = await client.until(taskId, 'input_required');
    const [key = ''] = Object.keys(Object(asked.result.inputRequests));
    await client.request('tasks/update', { taskId, inputResponses: { [key]: { action: 'decline' } } });
    await expect.poll(upstream.answers).toEqual(['{"jsonrpc":"2.0","id":"q","result":{"action":"decline"}}']);
    call.end('done');
    expect((await client.until(taskId, 'completed')).result.result).toMatchObject(text('done'));
    expect(upstream.calls.all).toHaveLength(1);
  });
});

it('a call of a capability service becomes a task too', async () => {
  const worker = await startWorkingService({ tool: () => undefined });
  tests.onEnd(async () => worker.close());
  const entry = { name: 'worker', serviceType: 'tool-invoker', address: worker.address };
  expect((await service.manage('POST', '/services', entry)).status).toBe(201);
  await service.register('tools', {
    name: 'weigh',
    description: 'd',
    uri: 'x:1',
    toolType: 'worker',
    input_schema: { type: 'object' },
    labels: { 'service.task': 'auto' },
  });
  const client = taskClient(service.url());
  const taskId = await client.create('weigh');
  // A call may have become a task before the service has it.
  await expect.poll(() => worker.tools.length).toBe(1);
  const other = await client.create('weigh');
  await expect.poll(() => worker.tools.length).toBe(2);
  worker.tools[0]?.reply(['7 kg']);
  expect((await client.until(taskId, 'completed')).result.result).toMatchObject(text('7 kg'));
  await client.request('tasks/cancel', { taskId: other });
  await expect.poll(() => worker.tools[1]?.canceled).toBe(true);
  expect(worker.tools).toHaveLength(2);
});
