import { expect, it } from 'vitest';
import { liveTests, movedTo, notification } from '../../../testing/live.ts';
import { clientOf, sessionClient } from '../../../testing/session-client.ts';

const tests = liveTests();

it('what a client listens to is held although a call’s attempt to open the session upstream fails', async () => {
  const { service, restart } = await tests.kept();
  const { upstream, url } = await tests.live({ uris: ['a://1'] }, service);
  const client = await sessionClient(url);
  await client.ask('resources/subscribe', '{"uri":"a://1"}');
  const moved = clientOf(movedTo(await restart(), url), client.headers);
  const before = upstream.of('initialize').length;
  const initialized = String(upstream.results.initialize);
  const refused = Promise.withResolvers<string>();
  upstream.results.initialize = () => refused.promise;
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
  refused.resolve('"error":{"code":-32603,"message":"not now"}');
  await calling.over;
  expect(calling.text).toContain('not now');
  await expect.poll(() => listening.messages).toEqual([notification('resources/updated', '{"uri":"a://1"}')]);
  listening.leave();
});
