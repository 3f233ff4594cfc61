import { afterAll, beforeAll, expect, it } from 'vitest';
import { type SessionClient, sessionClient } from '../packages/server/testing/session-client.ts';
import { taskClient } from '../packages/server/testing/task-client.ts';
import { type CoreTasksUpstream, startCoreTasksUpstream } from './fixtures/core-tasks-upstream.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { startTasksUpstream, type TasksUpstream } from './fixtures/tasks-upstream.ts';

let gateway: Gateway;
let upstreams: { readonly modern: TasksUpstream; readonly core: CoreTasksUpstream };
beforeAll(async () => {
  upstreams = { modern: await startTasksUpstream(), core: await startCoreTasksUpstream() };
  gateway = await startGateway();
  await gateway.forward('modern', upstreams.modern.url);
  await gateway.forward('core', upstreams.core.url, 'legacy');
});
afterAll(async () => {
  await gateway?.close();
  await Promise.all([upstreams?.modern.close(), upstreams?.core.close()]);
});

/** Creates a core task of the tool `endless`. */
async function createCore(client: SessionClient): Promise<string> {
  const { text } = await client.post(
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"endless","arguments":{},"task":{}}}',
  );
  return /"taskId":"([\w-]+)"/.exec(text)?.[1] ?? '';
}

it('tasks outlive a gateway that is killed or stopped, between their creation and each later step', async () => {
  const client = taskClient(gateway.url(), 'ann');
  const inLegacy = await sessionClient(gateway.url('legacy'));
  const core = async (method: string, taskId: string): Promise<string> => {
    const params = JSON.stringify({ taskId });
    return (await inLegacy.post(`{"jsonrpc":"2.0","id":2,"method":"${method}","params":${params}}`)).text;
  };
  const asking = await client.create('confirm_delete');
  const endless = await client.create('endless');
  const polled = await client.create('polled', { polls: 2 });
  const [one, two, three] = [await createCore(inLegacy), await createCore(inLegacy), await createCore(inLegacy)];
  expect(await core('tasks/cancel', two)).toContain('"status":"cancelled"');

  await gateway.kill();
  await gateway.restart();
  expect((await client.request('tasks/get', { taskId: asking })).result.status).toBe('input_required');
  expect((await taskClient(gateway.url(), 'ben').request('tasks/get', { taskId: asking })).error?.code).toBe(-32602);
  expect((await client.request('tasks/get', { taskId: polled })).result.status).toBe('working');
  const inputResponses = { confirm: { action: 'accept', content: { name: 'x' } } };
  expect((await client.request('tasks/update', { taskId: asking, inputResponses })).error).toBeUndefined();
  expect((await client.request('tasks/cancel', { taskId: endless })).error).toBeUndefined();
  expect(await core('tasks/get', one)).toContain(`"taskId":"${one}","status":"working"`);
  expect(await core('tasks/get', two)).toContain('"status":"cancelled"');
  await upstreams.core.finish(upstreams.core.tasks[0] ?? '', 'after all');

  await gateway.stop();
  await gateway.restart();
  expect((await client.request('tasks/get', { taskId: asking })).result.status).toBe('completed');
  expect((await client.request('tasks/get', { taskId: endless })).result.status).toBe('cancelled');
  expect((await client.request('tasks/get', { taskId: polled })).result.status).toBe('completed');
  expect(upstreams.modern.tasks).toHaveLength(3);
  expect(await core('tasks/result', one)).toContain('after all');
  expect(await core('tasks/cancel', three)).toContain('"status":"cancelled"');
  const { result } = await inLegacy.request('tasks/list');
  const listed = Object(result).tasks.map(({ taskId, status }: Record<string, unknown>) => [taskId, status]);
  expect(listed).toEqual([
    [one, 'working'],
    [two, 'cancelled'],
    [three, 'cancelled'],
  ]);
}, 120_000);
