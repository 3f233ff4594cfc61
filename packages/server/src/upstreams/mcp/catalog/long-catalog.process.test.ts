import { afterAll, beforeAll, expect, test } from 'vitest';
import { modernClient, reply } from '../../../../../../test/fixtures/raw-client.ts';
import { toolList, toolText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { startTestService, type TestService } from '../../../../testing/service.ts';

const COUNT = 12_000;
const MAX_MS = 50;

let service: TestService;
let upstream: RawUpstream;
beforeAll(async () => {
  service = await startTestService();
  upstream = await startRawUpstream({ eras: ['modern'] });
});
afterAll(async () => {
  await service.stop();
  await upstream.close();
});

/** The longest CPU time of this thread between two turns of the event loop while `work` is done, in milliseconds. */
async function longestTurn(work: () => Promise<unknown>): Promise<number> {
  let last = process.threadCpuUsage();
  let longest = 0;
  const timer = setInterval(() => {
    const now = process.threadCpuUsage();
    longest = Math.max(longest, (now.user + now.system - last.user - last.system) / 1000);
    last = now;
  }, 1);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return longest;
}

test('a long catalog never holds the event loop for long', async () => {
  upstream.scripts['tools/list'] = toolList(...Array.from({ length: COUNT }, (_, index) => toolText(`t${index}`)));
  const first = await longestTurn(() => service.register('forwards', { name: 'f', address: upstream.url }));
  const again = await longestTurn(() => service.manage('POST', '/forwards/f/refreshes'));
  const renamed = await longestTurn(() => service.manage('PATCH', '/forwards/f', { namespace: 'ops', prefix: 'p_' }));
  let listed = '';
  const client = modernClient(service.url('ops'));
  const listing = await longestTurn(async () => {
    listed = reply(await client.call('tools/list'));
  });
  expect(listed).toContain(`"name":"p_t${COUNT - 1}"`);
  expect([first, again, renamed, listing].filter((ms) => ms > MAX_MS)).toEqual([]);
});
