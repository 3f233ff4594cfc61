import { expect, it } from 'vitest';
import { event } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { AskableClient, inputRequired, resultText } from '../../../../testing/askable-client.ts';
import { liveTests } from '../../../../testing/live.ts';
import { startTestService } from '../../../../testing/service.ts';
import { answering } from './fixtures/calling.ts';

const { live, onEnd } = liveTests();

const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

it('what goes upstream after a retry has the headers of the retry, where the operator lets them through', async () => {
  const on = await startTestService({ SERVICE_FORWARD_HEADERS: 'authorization' });
  onEnd(() => on.stop(0));
  const { upstream, url } = await live({}, on);
  const client = new AskableClient(url);
  const first = client.send(as('one'));
  const call = await upstream.calls.next();
  expect(call.headers.authorization).toBe('Bearer one');
  const told = () => upstream.posted.filter(({ method }) => method === undefined);
  call.begin();
  const asks = ['1', '2'].map((id) => event(`{"jsonrpc":"2.0","id":${id},"method":"roots/list"}`));
  call.response.write(asks.join(''));
  const asked = await inputRequired(first);
  const [one] = asked.keys;
  const second = client.retry(asked.state, answering(asked, '{"roots":[]}', asked.keys.slice(0, 1)), as('two'));
  const again = await inputRequired(second);
  expect(again.keys).not.toContain(one);
  await expect.poll(told).toHaveLength(1);
  const last = client.retry(again.state, answering(again), as('three'));
  await expect.poll(() => told().map(({ headers }) => headers.authorization)).toEqual(['Bearer two', 'Bearer three']);
  expect(new Set(told().map(({ session }) => session))).toEqual(new Set([call.session]));
  // What is refused goes the same way, and so does that nobody waits any more.
  call.ask('3', 'example.com/ask');
  await expect.poll(told).toHaveLength(3);
  last.leave();
  await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
  const [cancelled] = upstream.of('notifications/cancelled');
  expect([told()[2]?.headers.authorization, cancelled?.headers.authorization]).toEqual([
    'Bearer three',
    'Bearer three',
  ]);
});

it('a retry without them sends none', async () => {
  const on = await startTestService({ SERVICE_FORWARD_HEADERS: 'authorization' });
  onEnd(() => on.stop(0));
  const { upstream, url } = await live({}, on);
  const client = new AskableClient(url);
  const first = client.send(as('one'));
  const call = await upstream.calls.next();
  call.begin();
  call.ask('1', 'roots/list');
  const asked = await inputRequired(first);
  const last = client.retry(asked.state, answering(asked));
  await expect.poll(upstream.answers).toHaveLength(1);
  expect(upstream.posted.find(({ method }) => method === undefined)?.headers).not.toHaveProperty('authorization');
  call.end('done');
  expect(await resultText(last)).toBe('done');
});
