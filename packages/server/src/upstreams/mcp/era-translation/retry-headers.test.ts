import { expect, it } from 'vitest';
import { event } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { InteractiveClient, inputRequired, resultText } from '../../../../testing/interactive-client.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import { startTestService } from '../../../../testing/service.ts';
import { inputResponses } from './fixtures/suspended-call.ts';

const { live, onEnd } = liveTests();

const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

it('messages to the upstream after a retry have the forwarded headers of the retry', async () => {
  const on = await startTestService({ SERVICE_FORWARD_HEADERS: 'authorization' });
  onEnd(() => on.stop(0));
  const { upstream, url } = await live({}, on);
  const client = new InteractiveClient(url);
  const first = client.send(as('one'));
  const call = await upstream.calls.next();
  expect(call.headers.authorization).toBe('Bearer one');
  const received = () => upstream.posted.filter(({ method }) => method === undefined);
  call.begin();
  const serverRequests = ['1', '2'].map((id) => event(`{"jsonrpc":"2.0","id":${id},"method":"roots/list"}`));
  call.response.write(serverRequests.join(''));
  const pending = await inputRequired(first);
  const [one] = pending.keys;
  const second = client.retry(
    pending.state,
    inputResponses(pending, '{"roots":[]}', pending.keys.slice(0, 1)),
    as('two'),
  );
  const again = await inputRequired(second);
  expect(again.keys).not.toContain(one);
  await expect.poll(received).toHaveLength(1);
  const last = client.retry(again.state, inputResponses(again), as('three'));
  await expect
    .poll(() => received().map(({ headers }) => headers.authorization))
    .toEqual(['Bearer two', 'Bearer three']);
  expect(new Set(received().map(({ session }) => session))).toEqual(new Set([call.session]));
  // The same applies to rejections and cancellations.
  call.request('3', 'example.com/ask');
  await expect.poll(received).toHaveLength(3);
  last.disconnect();
  await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
  const [cancelled] = upstream.of('notifications/cancelled');
  expect([received()[2]?.headers.authorization, cancelled?.headers.authorization]).toEqual([
    'Bearer three',
    'Bearer three',
  ]);
});

it('a retry without forwarded headers sends none', async () => {
  const on = await startTestService({ SERVICE_FORWARD_HEADERS: 'authorization' });
  onEnd(() => on.stop(0));
  const { upstream, url } = await live({}, on);
  const client = new InteractiveClient(url);
  const first = client.send(as('one'));
  const call = await upstream.calls.next();
  call.begin();
  call.request('1', 'roots/list');
  const pending = await inputRequired(first);
  const last = client.retry(pending.state, inputResponses(pending));
  await expect.poll(upstream.answers).toHaveLength(1);
  expect(upstream.posted.find(({ method }) => method === undefined)?.headers).not.toHaveProperty('authorization');
  call.end('done');
  expect(await resultText(last)).toBe('done');
});
