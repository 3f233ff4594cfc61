import { afterAll, beforeAll, expect, it } from 'vitest';
import { post, reply } from '../../../../test/fixtures/raw-client.ts';
import { LISTEN_HEADERS, listenText, listenTo } from '../../testing/listening-client.ts';
import { liveTests } from '../../testing/live-tests.ts';
import type { LiveUpstream } from '../../testing/live-upstream.ts';
import { startTestService, type TestService } from '../../testing/service.ts';
import { type SessionClient, sessionClient } from '../../testing/session-client.ts';

const { live } = liveTests();
let service: TestService;
beforeAll(async () => {
  service = await startTestService({
    SERVICE_MAX_RESUMABLE_BYTES: String(1024 * 1024),
    SERVICE_MAX_SUBSCRIPTIONS: '12',
    SERVICE_MAX_SUBSCRIPTION_BYTES: '4096',
    SERVICE_MAX_ENDED_SESSIONS: '4',
  });
});
afterAll(() => service.stop(0));

/** Leaves a call whose response of 250 kB arrives later. Returns the id of its last event before that. */
async function leaveCall(client: SessionClient, upstream: LiveUpstream, id: string): Promise<string> {
  const reading = client.call(id, '"progressToken":1');
  const call = await upstream.calls.next();
  call.begin();
  call.progress(1);
  await reading.message(0);
  reading.disconnect();
  await reading.ended;
  call.end('x'.repeat(250_000));
  return reading.lastId;
}

it('resumable streams of one namespace leave room for the response of another', async () => {
  const [many, few] = [await live({}, service), await live({}, service)];
  const [client, other] = [await sessionClient(many.url), await sessionClient(few.url)];
  const waiting = await leaveCall(other, few.upstream, '7');
  const left: string[] = [];
  for (let id = 1; id <= 6; id++) left.push(await leaveCall(client, many.upstream, String(id)));
  const again = other.listen(waiting);
  expect(await again.ended).toBe(true);
  expect(JSON.parse(again.messages[0] ?? '')).toMatchObject({ id: 7, result: { content: [{ type: 'text' }] } });
  const lost = client.listen(left[0]);
  expect(await lost.ended).toBe(true);
  expect(JSON.parse(lost.messages[0] ?? '')).toEqual({
    jsonrpc: '2.0',
    id: 1,
    error: { code: -32603, message: 'the response is no longer stored' },
  });
  const latest = client.listen(left.at(-1));
  expect(await latest.ended).toBe(true);
  expect(JSON.parse(latest.messages[0] ?? '')).toMatchObject({ id: 6, result: {} });
});

const subscribe = (client: SessionClient, uri: string) =>
  client.request('resources/subscribe', JSON.stringify({ uri }));
const REFUSED = {
  error: { code: -32600, message: expect.stringContaining('too many resource subscriptions at once') },
};

it('resource subscriptions of one namespace keep those of others from nothing, and are not ended for them', async () => {
  const uris = Array.from({ length: 10 }, (_, at) => `r://${at}`);
  const [many, few] = [await live({ uris }, service), await live({ uris }, service)];
  const [client, other] = [await sessionClient(many.url), await sessionClient(few.url)];
  for (const uri of uris.slice(0, 8)) expect(await subscribe(client, uri)).toMatchObject({ result: {} });
  expect(await subscribe(client, 'r://8')).toMatchObject(REFUSED);
  const unsubscribed = () => many.upstream.of('resources/unsubscribe').map(({ params }) => params.uri);
  // A refused one is not left upstream.
  await expect.poll(unsubscribed).toEqual(['r://8']);

  for (const uri of uris.slice(0, 2)) expect(await subscribe(other, uri)).toMatchObject({ result: {} });
  expect(await subscribe(other, 'r://3')).toMatchObject(REFUSED);

  // Those of `subscriptions/listen` count with them.
  const third = await live({ uris }, service);
  const stream = await listenTo(third.url, { resourceSubscriptions: ['r://1'] });
  await stream.first(1);
  const long = { resourceSubscriptions: [`r://${'x'.repeat(4096)}`] };
  for (const filter of [{ resourceSubscriptions: ['r://2'] }, long]) {
    const refused = await post(third.url, listenText(filter), LISTEN_HEADERS);
    expect(JSON.parse(reply(refused)).error.message).toContain('too many resource subscriptions at once');
  }
  expect(unsubscribed()).toEqual(['r://8']);
  expect(await client.end()).toBe(204);
  const again = await listenTo(third.url, { resourceSubscriptions: ['r://2', 'r://3'] });
  await again.first(1);
  expect(await other.end()).toBe(204);
});

it('a client that ends many sessions has to renew its own older ones, and ended ones never become valid again', async () => {
  const isValid = async (client: SessionClient) =>
    (await client.post('{"jsonrpc":"2.0","id":1,"method":"ping"}')).status === 200;
  const [own, foreign] = ['ending', 'other'].map((namespace) => service.url(namespace));
  if (!own || !foreign) throw new Error('no urls');
  for (const namespace of ['ending', 'other']) await service.register('namespaces', { name: namespace });
  const [older, other] = [await sessionClient(own), await sessionClient(foreign)];
  const ended: SessionClient[] = [];
  for (let number = 0; number < 10; number++) {
    const client = await sessionClient(own);
    expect(await client.end()).toBe(204);
    ended.push(client);
  }
  const latest = await sessionClient(own);
  for (const client of ended) expect(await isValid(client)).toBe(false);
  expect(await isValid(older)).toBe(false);
  expect([await isValid(other), await isValid(latest)]).toEqual([true, true]);
});

it('a request to listen has at most 1,000 uris', async () => {
  const { url } = await live({}, service);
  const resourceSubscriptions = Array.from({ length: 1_001 }, (_, at) => `r://${at}`);
  const refused = await post(url, listenText({ resourceSubscriptions }), LISTEN_HEADERS);
  expect(JSON.parse(reply(refused)).error).toMatchObject({
    code: -32602,
    message: expect.stringContaining('more than 1000 uris'),
  });
});
