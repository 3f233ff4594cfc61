import { mkdtemp, rm, writeFile } from 'node:fs/promises';
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

const stateOf = ({ url }: RawUpstream, label: string) =>
  `forwards: [{ name: up, address: "${url}", labels: { team: ${label} } }]`;

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
