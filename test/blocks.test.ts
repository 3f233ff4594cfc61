import { type IncomingMessage, request } from 'node:http';
import { expect, type TestContext, test } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { legacyClient, modernClient, post, reply, send } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

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

/** Opens the notification stream of a session; returns the messages on it so far, and whether it has ended. */
async function listen(url: string, headers: Readonly<Record<string, string>>) {
  const stream = { text: '', isOver: false };
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const sent = request(url, { headers: { ...headers, accept: 'text/event-stream' }, agent: false }, resolve);
    sent.on('error', reject).end();
  });
  response.on('data', (chunk) => {
    stream.text += String(chunk);
  });
  response
    .on('error', () => undefined)
    .on('close', () => {
      stream.isOver = true;
    });
  return stream;
}

test('a blocked forward is unknown, and back when it is unblocked', async (context) => {
  const { service, crm } = await start(context);
  const url = service.url();
  const client = await legacyClient(url);
  const stream = await listen(url, client.headers);
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
