import { beforeAll, expect, test } from 'vitest';
import { modernClient, type RawClient, reply } from '../../../../../test/fixtures/raw-client.ts';
import type { ReceivedMessage } from '../../../../../test/fixtures/raw-upstream/message.ts';
import { toolList, toolText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { startTestService, type TestService } from '../../../testing/service.ts';

let service: TestService;
let upstream: RawUpstream;
beforeAll(async () => {
  service = await startTestService({ SERVICE_CLIENT_DISCOVERIES_PER_MINUTE: '1000' });
  upstream = await startRawUpstream({ eras: ['modern'], scripts: { 'tools/list': toolList(toolText('plain')) } });
  await service.register('forwards', { name: 'f', address: upstream.url });
  return () => Promise.all([service.stop(), upstream.close()]);
});

let sets = 0;
/** A client with a set of capabilities that no other client has declared; returns it with a text of that set. */
function newClient(): { readonly client: RawClient; readonly set: string } {
  const set = `x/${sets++}`;
  return { client: modernClient(service.url(), `{"extensions":{"${set}":{}}}`), set };
}

/** The requests for lists of tools since the last call. */
let seen = 0;
function requests(): ReceivedMessage[] {
  const all = upstream.seen.filter(({ method }) => method === 'tools/list');
  const added = all.slice(seen);
  seen = all.length;
  return added;
}

async function toolsOf(client: RawClient): Promise<string[]> {
  const text = reply(await client.call('tools/list'));
  return [...text.matchAll(/{"name":"([^"]+)","description"/g)].map(([, name = '']) => name).sort();
}

async function status(): Promise<unknown> {
  return (await service.manage('GET', '/forwards/f')).data;
}

test('for new client capabilities, only their lists are read', async () => {
  for (let count = 0; count < 3; count++) {
    requests();
    const { client, set } = newClient();
    expect(await toolsOf(client)).toEqual(['plain']);
    expect(requests().map(({ body }) => body.includes(set))).toEqual([true]);
  }
});

test('lists of new client capabilities that differ are served to their clients only', async () => {
  const plain = modernClient(service.url());
  const before = newClient();
  expect(await toolsOf(before.client)).toEqual(['plain']);
  const { client, set } = newClient();
  upstream.scripts['tools/list'] = ({ body }) =>
    body.includes(`"${set}"`) ? toolList(toolText('plain'), toolText('special')) : toolList(toolText('plain'));
  expect(await toolsOf(client)).toEqual(['plain', 'special']);
  const after = newClient();
  expect(await toolsOf(after.client)).toEqual(['plain']);
  for (const other of [plain, before.client, after.client]) expect(await toolsOf(other)).toEqual(['plain']);
  expect(await toolsOf(client)).toEqual(['plain', 'special']);
  await service.manage('POST', '/forwards/f/refreshes');
  expect(await toolsOf(client)).toEqual(['plain', 'special']);
  expect(await toolsOf(before.client)).toEqual(['plain']);
  upstream.scripts['tools/list'] = toolList(toolText('plain'));
  await service.manage('POST', '/forwards/f/refreshes');
  expect(await toolsOf(client)).toEqual(['plain']);
});

test('all lists are read again if those of new client capabilities cannot be read', async () => {
  requests();
  const { client, set } = newClient();
  let failures = 1;
  upstream.scripts['tools/list'] = ({ body }) =>
    body.includes(`"${set}"`) && failures-- > 0
      ? { kind: 'http', status: 503, type: 'text/plain', body: 'busy' }
      : toolList(toolText('plain'), toolText('later'));
  expect(await toolsOf(client)).toEqual(['later', 'plain']);
  expect(requests().length).toBeGreaterThan(3);
  expect(await status()).toMatchObject({ available: true });
  expect(await toolsOf(modernClient(service.url()))).toEqual(['later', 'plain']);
});
