import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, type TestContext, test } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { freePort } from './fixtures/free-port.ts';
import { modernClient, reply } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

// A tool that was moved out of `default` used to come back there, callable, in each of these ways.

type Finishing = Pick<TestContext, 'onTestFinished'>;

async function startUpstream(context: Finishing): Promise<RawUpstream> {
  const upstream = await startRawUpstream({
    port: await freePort(),
    scripts: {
      'tools/list': toolList(toolText('echo'), toolText('delete_database')),
      'tools/call': textResultText('deleted'),
    },
  });
  context.onTestFinished(upstream.close);
  return upstream;
}

/** Moves the tool to the namespace `vault`. */
async function hide(service: TestService, address: string): Promise<void> {
  const { status } = await service.manage('PUT', '/tools/delete_database?namespace=default', {
    description: 'd',
    uri: address,
    toolType: 'mcp-forward',
    input_schema: { type: 'object' },
    namespace: 'vault',
  });
  expect(status).toBe(200);
}

async function toolsIn(service: TestService, namespace = 'default'): Promise<string[]> {
  const { result } = JSON.parse(reply(await modernClient(service.url(namespace)).call('tools/list')));
  return result.tools.map(({ name }: { name: string }) => name);
}

async function call(service: TestService): Promise<unknown> {
  const response = await modernClient(service.url()).call('tools/call', '{"name":"delete_database"}');
  return JSON.parse(reply(response)).error?.message;
}

/** Runs `sluice apply` and returns the tools of `default` after each response of the management API. */
async function apply(context: Finishing, service: TestService, state: string): Promise<string[][]> {
  const seen: string[][] = [];
  const proxy = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method = 'GET', url = '', headers } = request;
    const { 'content-type': contentType, 'if-match': ifMatch } = headers;
    const answer = await fetch(`${service.management}${url}`, {
      method,
      headers: {
        connection: 'close',
        ...(contentType !== undefined && { 'content-type': contentType }),
        ...(ifMatch !== undefined && { 'if-match': ifMatch }),
      },
      ...(chunks.length > 0 && { body: Buffer.concat(chunks) }),
    });
    const text = await answer.text();
    if (method !== 'GET' && !url.includes('dry_run=true')) seen.push(await toolsIn(service));
    const etag = answer.headers.get('etag');
    response.writeHead(answer.status, { 'content-type': 'application/json', ...(etag !== null && { etag }) }).end(text);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  context.onTestFinished(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  const address = proxy.address();
  const host = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  const terminal = scriptedTerminal({ input: state });
  const argv = ['apply', '-f', '-', '--yes', '--allow-widening', '--no-auth', '--host', host];
  expect(await run(argv, terminal), terminal.err()).toBe(0);
  return seen;
}

const stateOf = ({ url }: RawUpstream, label: string, tools = '') =>
  `forwards: [{ name: up, address: "${url}", labels: { team: ${label} } }]${tools}`;

test('apply changes a label of its forward while the upstream is down', async (context) => {
  const upstream = await startUpstream(context);
  const service = await startTestService();
  context.onTestFinished(() => service.stop());
  await apply(context, service, stateOf(upstream, 'a'));
  await hide(service, upstream.url);
  await upstream.down();
  await apply(context, service, stateOf(upstream, 'b'));
  await upstream.up();
  await service.manage('POST', '/forwards/up/refreshes');
  expect(await toolsIn(service)).toEqual(['echo']);
  expect(await toolsIn(service, 'vault')).toEqual(['delete_database']);
  expect(await call(service)).toBe('tool not found: delete_database');
  expect((await service.manage('GET', '/forwards/up')).data).toMatchObject({ labels: { team: 'b' } });
});

test('apply changes its forward, for a moment', async (context) => {
  const upstream = await startUpstream(context);
  const service = await startTestService();
  context.onTestFinished(() => service.stop());
  const tools = '\ntools: [{ forward: up, upstreamName: delete_database, namespace: vault }]';
  const state = (label: string) => stateOf(upstream, label, tools);
  await service.register('forwards', { name: 'up', address: upstream.url, labels: { team: 'a' } });
  await hide(service, upstream.url);
  const seen = await apply(context, service, state('b'));
  expect(seen).toEqual([['echo']]);
});

test('apply changes namespace and prefix of its forward', async (context) => {
  const upstream = await startUpstream(context);
  const service = await startTestService();
  context.onTestFinished(() => service.stop());
  await service.register('forwards', { name: 'up', address: upstream.url });
  await service.manage('POST', '/tools/enabled', { enabled: false, names: ['delete_database'] });
  const forward = `{ name: up, address: "${upstream.url}", namespace: ops, prefix: p_ }`;
  await upstream.down();
  expect(await apply(context, service, `forwards: [${forward}]`)).toEqual([[]]);
  expect(await toolsIn(service, 'ops')).toEqual(['p_echo']);
  await upstream.up();
  await service.manage('POST', '/forwards/up/refreshes');
  expect(await toolsIn(service, 'ops')).toEqual(['p_echo']);
  expect((await service.manage('GET', '/tools/p_delete_database')).data).toMatchObject({ enabled: false });
});

test('apply moves its forward to a namespace that it is to stay out of', async (context) => {
  const upstream = await startUpstream(context);
  const service = await startTestService();
  context.onTestFinished(() => service.stop());
  await service.register('forwards', { name: 'up', address: upstream.url, namespace: 'vault' });
  const tools = '\ntools: [{ forward: up, upstreamName: delete_database, namespace: vault, title: T }]';
  const seen = await apply(context, service, stateOf(upstream, 'a', tools));
  expect(seen.flat()).not.toContain('delete_database');
  expect(await toolsIn(service)).toEqual(['echo']);
  expect(await toolsIn(service, 'vault')).toEqual(['delete_database']);
});

test('a label of its forward is changed in the bootstrap file', async (context) => {
  const upstream = await startUpstream(context);
  const folder = await mkdtemp(join(tmpdir(), 'sluice-hidden-'));
  context.onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, 'service.yaml');
  const start = async (label: string) => {
    await writeFile(file, stateOf(upstream, label));
    const env = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: join(folder, 'server') };
    return startTestService(env, ['--service-config', file]);
  };
  const isUp = async (service: TestService) => Object((await service.manage('GET', '/forwards/up')).data).available;
  const first = await start('a');
  await expect.poll(() => isUp(first)).toBe(true);
  await hide(first, upstream.url);
  await first.stop();
  const second = await start('b');
  context.onTestFinished(() => second.stop());
  // Before and after the first discovery.
  expect(await toolsIn(second)).toEqual(['echo']);
  await expect.poll(() => isUp(second)).toBe(true);
  expect(await toolsIn(second)).toEqual(['echo']);
  expect(await call(second)).toBe('tool not found: delete_database');
});

test('the namespace that it was moved to is deleted', async (context) => {
  const upstream = await startUpstream(context);
  const service = await startTestService();
  context.onTestFinished(() => service.stop());
  await service.register('forwards', { name: 'up', address: upstream.url });
  await hide(service, upstream.url);
  const terminal = scriptedTerminal();
  const argv = ['namespaces', 'delete', 'vault', '--cascade', '--no-auth', '--host', service.management];
  expect(await run(argv, terminal)).toBe(0);
  expect(terminal.err()).toBe('disabled, because they had been moved to vault: tool delete_database in default\n');
  await service.manage('POST', '/forwards/up/refreshes');
  expect(await toolsIn(service)).toEqual(['echo']);
  expect(await call(service)).toBe('tool not found: delete_database');
});
