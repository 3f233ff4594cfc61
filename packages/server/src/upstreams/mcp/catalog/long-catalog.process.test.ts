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

/** A pause that the service causes is in each attempt; one that the machine causes is not. */
const ATTEMPTS = 4;

test('a long catalog never holds the event loop for long', async () => {
  upstream.scripts['tools/list'] = toolList(...Array.from({ length: COUNT }, (_, index) => toolText(`t${index}`)));
  let shortest: number[] = Array(4).fill(Number.POSITIVE_INFINITY);
  for (let attempt = 0; attempt < ATTEMPTS && shortest.some((ms) => ms > MAX_MS); attempt++) {
    const pauses = await longestPauses();
    shortest = shortest.map((ms, step) => Math.min(ms, pauses[step] ?? Number.POSITIVE_INFINITY));
  }
  expect(shortest.filter((ms) => ms > MAX_MS)).toEqual([]);
});

/** Registers the forward, discovers it again, renames its tools, lists them and removes it: the longest turn of each step. */
async function longestPauses(): Promise<readonly number[]> {
  const first = await longestTurn(() => service.register('forwards', { name: 'f', address: upstream.url }));
  const again = await longestTurn(() => service.manage('POST', '/forwards/f/refreshes'));
  const renamed = await longestTurn(() => service.manage('PATCH', '/forwards/f', { namespace: 'ops', prefix: 'p_' }));
  let listed = '';
  const client = modernClient(service.url('ops'));
  const listing = await longestTurn(async () => {
    listed = reply(await client.call('tools/list'));
  });
  expect(listed).toContain(`"name":"p_t${COUNT - 1}"`);
  await service.manage('DELETE', '/forwards/f');
  return [first, again, renamed, listing];
}
