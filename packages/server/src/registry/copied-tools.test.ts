import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type RawClient, reply } from '../../../../test/fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { client, eras, relayTests } from '../../testing/relay.ts';
import { startTestService } from '../../testing/service.ts';
import { DEFAULT_NAMESPACE, parseNamespace } from './entries.ts';
import { commit } from './fixtures/commit.ts';
import { copyTools } from './operations-topology.ts';
import { Registry } from './registry.ts';
import { openRegistryLog } from './store/fixtures/registry-log.ts';

const { upstreamWith, onEnd } = relayTests();

/** Copies tools between two runs of the service, as an action would while it runs. */
async function copyInFolder(folder: string, names: readonly string[], target: string): Promise<void> {
  const log = await openRegistryLog({ folder });
  const registry = new Registry(log);
  await registry.load();
  const targetNamespace = parseNamespace(target) ?? DEFAULT_NAMESPACE;
  const tools = registry.current.entries('tool').filter(({ key }) => names.includes(key));
  await commit(registry, (draft) =>
    copyTools(
      draft,
      tools.map((tool) => ({ tool, targetNamespace })),
    ),
  );
  await registry.close();
  await log.close();
}

const listed = async (of: RawClient): Promise<string[]> =>
  JSON.parse(reply(await of.call('tools/list'))).result.tools.map((tool: unknown) => JSON.stringify(tool));

test.each(eras)("a copied tool is its upstream's, after a restart too, for a %s client", async (era) => {
  const upstream = await upstreamWith({ 'tools/call': ({ params }) => textResultText(`called ${params.name}`) });
  const folder = await mkdtemp(join(tmpdir(), 'sluice-copies-'));
  onEnd(() => rm(folder, { recursive: true, force: true }));
  const start = () => startTestService({ SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: folder });
  const first = await start();
  await first.register('forwards', { name: 'up', address: upstream.url, namespace: 'crm', prefix: 'crm.' });
  await first.stop(0);
  await copyInFolder(folder, ['crm.a'], 'desk');

  const service = await start();
  onEnd(() => service.stop(0));
  const { status, data } = await service.manage('GET', '/tools?namespace=desk');
  expect([status, data]).toEqual([
    200,
    [
      expect.objectContaining({
        name: 'crm.a',
        namespace: 'desk',
        forward: 'up',
        upstreamName: 'a',
        uri: upstream.url,
      }),
    ],
  ]);
  const copyClient = await client(era, service.url('desk'));
  expect(await listed(copyClient)).toEqual([toolText('crm.a')]);
  expect(reply(await copyClient.call('tools/call', '{"name":"crm.a"}'))).toContain('"text":"called a"');
  const other = JSON.parse(reply(await copyClient.call('tools/call', '{"name":"crm.grüße"}')));
  expect(other.error).toMatchObject({ code: -32602, message: 'tool not found: crm.grüße' });

  // The next one would share the discovery of the start if that were in progress.
  await service.manage('POST', '/forwards/up/refreshes');
  upstream.scripts['tools/list'] = toolList(toolText('new'), toolText('a', ',"title":"Second"'));
  const refreshed = await service.manage('POST', '/forwards/up/refreshes');
  expect(refreshed.data).toMatchObject({ tools_discovered: 2 });
  expect(await listed(copyClient)).toEqual([toolText('crm.a', ',"title":"Second"')]);
  expect(await listed(await client(era, service.url('crm')))).toEqual([
    toolText('crm.new'),
    toolText('crm.a', ',"title":"Second"'),
  ]);

  expect((await service.manage('DELETE', '/forwards/up')).status).toBe(200);
  expect(await listed(copyClient)).toEqual([]);
  expect((await service.manage('GET', '/tools')).data).toEqual([]);
});
