import { afterEach, expect, it, vi } from 'vitest';
import { modernClient, reply } from '../../../../../../test/fixtures/raw-client.ts';
import { toolList, toolText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { client } from '../../../../testing/relay.ts';
import { startTestService } from '../../../../testing/service.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

/** In one era only. */
const HEADER =
  '{"name":"header","inputSchema":{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}}';

it('entries that are the same for other capabilities, or as before, are not parsed again', async (context) => {
  const service = await startTestService();
  const upstream = await startRawUpstream({
    scripts: {
      'tools/list': ({ params }) => {
        const { experimental } = Object(Object(params._meta)['io.modelcontextprotocol/clientCapabilities']);
        const own = Object.keys(experimental ?? {}).map((name) => toolText(`own-${name}`));
        return toolList(...own, toolText('a'), '{"name":"unusable"}', HEADER, toolText('b'));
      },
    },
  });
  context.onTestFinished(async () => {
    await service.stop();
    await upstream.close();
  });
  const parse = vi.spyOn(JSON, 'parse');
  /** Names of the tools of the upstream that are parsed while `work` is done. */
  const parsed = async (work: () => Promise<unknown>) => {
    parse.mockClear();
    await work();
    const names = parse.mock.calls.map(
      ([text]) => /^\{"name":"([^"]*)"(?!,"(?:address|version)")/.exec(String(text))?.[1],
    );
    return names.filter((name) => name !== undefined);
  };
  const listFor = async (capabilities: string) =>
    reply(await modernClient(service.url(), capabilities).call('tools/list'));

  const registering = () => service.register('forwards', { name: 'f', address: upstream.url });
  expect(await parsed(registering)).toEqual(['a', 'unusable', 'header', 'b']);
  expect(await parsed(() => service.manage('POST', '/forwards/f/refreshes'))).toEqual([]);
  let list = '';
  const declaring = async () => {
    list = await listFor('{"experimental":{"one":{}}}');
  };
  expect(await parsed(declaring)).toEqual(['own-one']);
  expect(list).toContain('"name":"own-one"');

  upstream.scripts['tools/list'] = toolList(toolText('a'), toolText('b', ',"title":"B"'));
  expect(await parsed(() => service.manage('POST', '/forwards/f/refreshes'))).toEqual(['b']);
  expect(await listFor('{}')).toContain('"title":"B"');
});

it('what is usable in one era is not taken for usable in the other', async (context) => {
  const service = await startTestService();
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(HEADER, toolText('a')) } });
  context.onTestFinished(async () => {
    await service.stop();
    await upstream.close();
  });
  await service.register('forwards', { name: 'f', address: upstream.url });
  const legacy = await client('legacy', service.url());
  await expect.poll(async () => reply(await legacy.call('tools/list'))).toContain('"name":"header"');
  expect(reply(await modernClient(service.url()).call('tools/list'))).not.toContain('"name":"header"');
});
