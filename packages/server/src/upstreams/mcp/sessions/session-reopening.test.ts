import { expect, it } from 'vitest';
import { atService, liveTests, notification } from '../../../../testing/live-tests.ts';
import { clientOf, sessionClient } from '../../../../testing/session-client.ts';

const tests = liveTests();

it('a client’s subscriptions are restored although a call fails to open the upstream session', async () => {
  const { service, restart } = await tests.persistent();
  const { upstream, url } = await tests.live({ uris: ['a://1'] }, service);
  const client = await sessionClient(url);
  await client.request('resources/subscribe', '{"uri":"a://1"}');
  const moved = clientOf(atService(await restart(), url), client.headers);
  const before = upstream.of('initialize').length;
  const initialized = String(upstream.results.initialize);
  const rejected = Promise.withResolvers<string>();
  upstream.results.initialize = () => rejected.promise;
  const calling = moved.call('1');
  const opening = () =>
    upstream
      .of('initialize')
      .slice(before)
      .filter(({ body }) => body.includes('"name":"raw"'));
  await expect.poll(() => opening().length).toBe(1);
  const listening = moved.listen();
  await listening.event(0);
  upstream.results.initialize = initialized;
  rejected.resolve('"error":{"code":-32603,"message":"not now"}');
  await calling.ended;
  expect(calling.text).toContain('not now');
  await expect.poll(() => listening.messages).toEqual([notification('resources/updated', '{"uri":"a://1"}')]);
  listening.disconnect();
});
