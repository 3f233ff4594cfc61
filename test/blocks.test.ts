import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hashServiceKey } from '@sluice/contract/service-key';
import { expect, type TestContext, test } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { OpenRequest } from './fixtures/open-request.ts';
import { legacyClient, modernClient, post, reply, send } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { startTasksUpstream } from './fixtures/tasks-upstream.ts';

// "Block now": principals and forwards, without `identity`, where a header names the user.

type Finishing = Pick<TestContext, 'onTestFinished'>;

const ANN = { 'x-forwarded-user': 'ann' };
const BOB = { 'x-forwarded-user': 'bob' };
const BLOCKED = { status: 401, text: expect.stringContaining('access is blocked') };

/** A service with two forwards in the namespace `default`, whose tools have their names. */
async function start(context: Finishing): Promise<{ service: TestService; crm: RawUpstream; wiki: RawUpstream }> {
  const service = await startTestService();
  context.onTestFinished(() => service.stop(0));
  const upstream = async (name: string): Promise<RawUpstream> => {
    const scripts = { 'tools/list': toolList(toolText(name)), 'tools/call': textResultText('done') };
    const started = await startRawUpstream({ scripts });
    context.onTestFinished(started.close);
    await service.register('forwards', { name, address: started.url });
    return started;
  };
  const upstreams = { crm: await upstream('crm'), wiki: await upstream('wiki') };
  expect(await toolsOf(service)).toEqual(['crm', 'wiki']);
  return { service, ...upstreams };
}

async function toolsOf(service: TestService): Promise<string[]> {
  const { result } = JSON.parse(reply(await modernClient(service.url()).call('tools/list')));
  return result.tools.map(({ name }: { name: string }) => name);
}

test('a blocked forward is unknown, and back when it is unblocked', async (context) => {
  const { service, crm } = await start(context);
  const url = service.url();
  const client = await legacyClient(url);
  const stream = new OpenRequest('notifications', url, 'GET', { ...client.headers, accept: 'text/event-stream' }).end();
  await expect.poll(() => stream.status).toBe(200);
  const call = (name: string) => modernClient(url).call('tools/call', JSON.stringify({ name }));
  expect((await call('crm')).text).toContain('done');
  const calls = crm.count('tools/call');

  expect(await service.manage('PUT', '/blocks/forward:crm')).toMatchObject({ status: 200 });
  expect(await toolsOf(service)).toEqual(['wiki']);
  const unknown = await call('none');
  const blocked = await call('crm');
  expect(blocked.status).toBe(unknown.status);
  expect(JSON.parse(blocked.text).error.message).toBe('tool not found: crm');
  expect((await client.call('tools/call', '{"name":"crm"}')).text).toContain('tool not found: crm');
  expect((await call('wiki')).text).toContain('done');
  await expect.poll(() => stream.text).toContain('notifications/tools/list_changed');
  expect(crm.count('tools/call')).toBe(calls);
  const { data: viewed } = await service.manage('GET', '/namespaces/default/view');
  expect(viewed).toMatchObject([
    { name: 'crm', offered: false, reason: 'blocked' },
    { name: 'wiki', offered: true },
  ]);
  // Administrators still see it, and a change of it does not unblock it.
  expect((await service.manage('GET', '/tools/crm')).status).toBe(200);
  await service.manage('PATCH', '/forwards/crm', { labels: { team: 'a' } });
  await service.manage('POST', '/forwards/crm/refreshes');
  expect(await toolsOf(service)).toEqual(['wiki']);

  stream.text = '';
  expect((await service.manage('DELETE', '/blocks/forward:crm')).status).toBe(200);
  expect(await toolsOf(service)).toEqual(['crm', 'wiki']);
  expect((await call('crm')).text).toContain('done');
  await expect.poll(() => stream.text).toContain('notifications/tools/list_changed');
});

test('the block of a forward ends by itself', async (context) => {
  const { service } = await start(context);
  await service.manage('PUT', '/blocks/forward:crm', { for: '1s' });
  expect(await toolsOf(service)).toEqual(['wiki']);
  await expect.poll(() => toolsOf(service), { timeout: 5_000 }).toEqual(['crm', 'wiki']);
});

test('sessions of a blocked principal do not continue after it was unblocked', async (context) => {
  const { service } = await start(context);
  const url = service.url();
  const client = await legacyClient(url, '{}', ANN);
  const other = await legacyClient(url, '{}', BOB);
  await service.manage('PUT', '/blocks/ann');
  expect(await client.call('ping')).toMatchObject(BLOCKED);
  expect(await post(url, '{"jsonrpc":"2.0","id":1,"method":"ping"}', ANN)).toMatchObject(BLOCKED);
  expect(await send(`${service.management}/api/v1/tools`, 'GET', ANN)).toMatchObject(BLOCKED);
  const inference = `http://${service.addresses.inference}/v1/models`;
  expect(await send(inference, 'GET', ANN)).toMatchObject({ status: 401 });
  expect((await other.call('ping')).status).toBe(200);

  await service.manage('DELETE', '/blocks/ann');
  expect((await client.call('ping')).status).toBe(404);
  expect((await other.call('ping')).status).toBe(200);
  const again = await legacyClient(url, '{}', ANN);
  expect((await again.call('ping')).status).toBe(200);
  expect(service.log.join('\n')).toContain('the principal is blocked');
});

test('the command line blocks, lists and unblocks', async (context) => {
  const { service } = await start(context);
  const access = async (...argv: string[]) => {
    const terminal = scriptedTerminal({});
    const code = await run(['access', ...argv, '--no-auth', '--host', service.management], terminal);
    return { code, out: terminal.out(), err: terminal.err() };
  };
  expect(await access('blocks')).toMatchObject({ code: 0, err: expect.stringContaining('nothing is blocked') });
  const blocked = await access('block', 'corp/ann', '--for', '1h', '--reason', 'laptop stolen');
  expect(blocked).toMatchObject({ code: 0, out: expect.stringMatching(/^blocked corp\/ann until \d{4}-/) });
  expect(await access('block', 'forward:crm')).toMatchObject({ code: 0, out: 'blocked forward:crm\n' });
  const listed = await access('blocks');
  expect(listed.out).toMatch(/^ID +SINCE +UNTIL +BY +REASON\ncorp\/ann .* laptop stolen\nforward:crm .*\n$/);
  expect(await access('unblock', 'corp/ann')).toMatchObject({ code: 0, out: 'unblocked corp/ann\n' });
  expect(await access('unblock', 'corp/ann')).toMatchObject({
    code: 1,
    err: expect.stringContaining('block not found: corp/ann'),
  });
  expect(await access('block', 'ann', '--for', 'ever')).toMatchObject({
    code: 1,
    err: 'sluice: invalid block\n  for: must be a duration such as 30m, 1h or 7d\n',
  });
});

test('calls to a blocked forward end, also upstream, and its tasks are canceled', async (context) => {
  const service = await startTestService();
  context.onTestFinished(() => service.stop(0));
  const never = new Promise<never>(() => undefined);
  const [crm, wiki] = await Promise.all(
    ['crm', 'wiki'].map(async (name) => {
      const scripts = { 'tools/list': toolList(toolText(name)), 'tools/call': () => never };
      const upstream = await startRawUpstream({ scripts, eras: ['legacy'] });
      context.onTestFinished(upstream.close);
      await service.register('forwards', { name, address: upstream.url });
      return upstream;
    }),
  );
  const tasks = await startTasksUpstream();
  context.onTestFinished(tasks.close);
  await service.register('forwards', { name: 'tasks', address: tasks.url });
  const client = await legacyClient(service.url());
  const ended = client.call('tools/call', '{"name":"crm"}');
  const other = new OpenRequest('other', service.url(), 'POST', {
    ...client.headers,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  }).end('{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"wiki"}}');
  const declared = '{"extensions":{"io.modelcontextprotocol/tasks":{}}}';
  const created = await modernClient(service.url(), declared).call('tools/call', '{"name":"endless"}');
  const { taskId } = JSON.parse(created.text).result;
  await expect.poll(() => [crm?.count('tools/call'), wiki?.count('tools/call')]).toEqual([1, 1]);

  await service.manage('PUT', '/blocks/forward:crm');
  await service.manage('PUT', '/blocks/forward:tasks');
  expect(JSON.parse(reply(await ended)).error.message).toBe('the call was ended: access is blocked');
  await expect.poll(() => crm?.count('notifications/cancelled')).toBe(1);
  await expect.poll(() => tasks.count('tasks/cancel')).toBe(1);
  expect(wiki?.count('notifications/cancelled')).toBe(0);
  expect(other.isOver).toBe(false);
  const get = await modernClient(service.url(), declared).call('tasks/get', JSON.stringify({ taskId }));
  expect(JSON.parse(reply(get)).error.message).toMatch(/not found/);
  other.close();
});

test('with identity, a key is blocked by its name, on every listener, and others are not', async (context) => {
  const keys = ['nightly', 'other'].map((name) => ({ name, key: `slk_${randomBytes(32).toString('base64url')}` }));
  const folder = await mkdtemp(join(tmpdir(), 'sluice-blocks-'));
  context.onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, 'service.yaml');
  const settings = keys.map(({ name, key }) => ({ name, sha256: [hashServiceKey(key)], management: true }));
  await writeFile(file, JSON.stringify({ identity: { keys: settings } }));
  const service = await startTestService({}, ['--service-config', file]);
  context.onTestFinished(() => service.stop(0));
  const statuses = async ({ key }: { readonly key: string }) => {
    const bearer = { authorization: `Bearer ${key}` };
    const inference = `http://${service.addresses.inference}/v1/models`;
    return [
      (await post(service.url(), '{"jsonrpc":"2.0","id":1,"method":"initialize"}', bearer)).status,
      (await send(`${service.management}/api/v1/tools`, 'GET', bearer)).status,
      (await send(inference, 'GET', { 'x-sluice-authorization': `Bearer ${key}` })).status,
    ].map((status) => status === 401);
  };
  const [nightly, other] = keys;
  if (!nightly || !other) throw new Error('there are two keys');
  expect(await statuses(nightly)).toEqual([false, false, false]);
  expect((await service.manage('PUT', '/blocks/keys%2Fnightly')).status).toBe(200);
  expect(await statuses(nightly)).toEqual([true, true, true]);
  expect(await statuses(other)).toEqual([false, false, false]);
  await service.manage('DELETE', '/blocks/keys%2Fnightly');
  expect(await statuses(nightly)).toEqual([false, false, false]);
});

test.for([
  ['the principal', 'ann'],
  ['the forward', 'forward:crm'],
] as const)('a call that became a task ends with a block of %s', async ([, id], context) => {
  const service = await startTestService({ SERVICE_TASK_AUTO_AFTER_MS: '1' });
  context.onTestFinished(() => service.stop(0));
  const never = new Promise<never>(() => undefined);
  const scripts = { 'tools/list': toolList(toolText('crm')), 'tools/call': () => never };
  const crm = await startRawUpstream({ scripts, eras: ['legacy'] });
  context.onTestFinished(crm.close);
  await service.register('forwards', { name: 'crm', address: crm.url });
  const { data } = await service.manage('GET', '/tools/crm');
  const { forward: _, upstreamName: __, shadowed: ___, ...entry } = Object(data);
  await service.manage('PUT', '/tools/crm', { ...entry, labels: { 'service.task': 'auto' } });
  const client = modernClient(service.url(), '{"extensions":{"io.modelcontextprotocol/tasks":{}}}');
  const { result } = JSON.parse(reply(await client.call('tools/call', '{"name":"crm"}', ANN)));
  expect(result).toMatchObject({ resultType: 'task', status: 'working' });
  await expect.poll(() => crm.count('tools/call')).toBe(1);

  await service.manage('PUT', `/blocks/${id}`);
  await expect.poll(() => crm.count('notifications/cancelled')).toBe(1);
  expect((await service.manage('GET', '/tasks')).data).toEqual([]);
  await service.manage('DELETE', `/blocks/${id}`);
  const { text } = await client.call('tasks/get', JSON.stringify({ taskId: result.taskId }), ANN);
  expect(text).toMatch(/task not found|access is blocked|is not accepted any more/);
});
