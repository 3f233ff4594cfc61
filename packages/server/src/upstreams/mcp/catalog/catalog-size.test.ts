import { afterAll, beforeAll, expect, test } from 'vitest';
import { reply } from '../../../../../../test/fixtures/raw-client.ts';
import { LIST_END, pagedTools, toolList, toolText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { client } from '../../../../testing/relay.ts';
import { startTestService, type TestService } from '../../../../testing/service.ts';

const ENTRIES = 'lists more than 20 entries, the limit SERVICE_MAX_CATALOG_ENTRIES';
const BYTES = 'has lists of more than 8192 bytes, the limit SERVICE_MAX_CATALOG_BYTES';

let service: TestService;
let upstream: RawUpstream;
beforeAll(async () => {
  service = await startTestService({ SERVICE_MAX_CATALOG_ENTRIES: '20', SERVICE_MAX_CATALOG_BYTES: '8192' });
  upstream = await startRawUpstream();
});
afterAll(async () => {
  await service.stop();
  await upstream.close();
});

const prompts = (count: number) =>
  `{"prompts":[${Array.from({ length: count }, (_, index) => `{"name":"p${index}"}`).join(',')}],${LIST_END}`;
const good = toolList(toolText('good'));
/** A tool of this many bytes. */
const sized = (name: string, bytes: number) =>
  toolText(name, `,"x":"${'x'.repeat(bytes - toolText(name).length - 7)}"`);
let calls = 0;

test.each([
  [
    'entries on one page',
    { 'tools/list': toolList(...Array.from({ length: 21 }, (_, n) => toolText(`t${n}`))) },
    ENTRIES,
  ],
  ['entries on several pages', { 'tools/list': pagedTools(21, 4) }, ENTRIES],
  ['entries in several lists', { 'tools/list': pagedTools(11, 20), 'prompts/list': prompts(10) }, ENTRIES],
  ['entries that are left out', { 'tools/list': toolList(...Array.from({ length: 21 }, () => '7')) }, ENTRIES],
  ['bytes on one page', { 'tools/list': toolList(sized('t', 8192)) }, BYTES],
  ['bytes on several pages', { 'tools/list': pagedTools(20, 1, 'x'.repeat(400)) }, BYTES],
  [
    'pages without end',
    {
      'tools/list': ({ params }: { params: Record<string, unknown> }) =>
        `{"tools":[],"nextCursor":"${Number(params.cursor ?? 0) + 1}",${LIST_END}`,
    },
    BYTES,
  ],
  ['bytes that differ for every client', { 'tools/list': () => toolList(sized(`t${++calls}`, 5000)) }, BYTES],
])('a discovery with too many %s fails, and the last good catalog stays', async (_what, scripts, problem) => {
  upstream.scripts['tools/list'] = good;
  await service.register('forwards', { name: 'f', address: upstream.url });
  Object.assign(upstream.scripts, scripts);
  const refreshed = await service.manage('POST', '/forwards/f/refreshes');
  expect(refreshed.status).toBe(502);
  const { data } = await service.manage('GET', '/forwards/f');
  expect(data).toMatchObject({
    available: false,
    statusMessage: expect.stringContaining(problem),
    tools_discovered: 1,
  });
  expect(reply(await (await client('modern', service.url())).call('tools/list'))).toContain('"name":"good"');
  await service.manage('DELETE', '/forwards/f');
  delete upstream.scripts['prompts/list'];
});

test('a catalog at the limits is accepted, and equal entries count once for all clients', async () => {
  upstream.scripts['tools/list'] = toolList(...Array.from({ length: 10 }, (_, index) => sized(`t${index}`, 700)));
  upstream.scripts['prompts/list'] = prompts(10);
  await service.register('forwards', { name: 'f', address: upstream.url });
  const { data } = await service.manage('GET', '/forwards/f');
  expect(data).toMatchObject({ available: true, tools_discovered: 10, prompts_discovered: 10 });
});
