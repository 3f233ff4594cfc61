import { expect, it } from 'vitest';
import { post } from '../../../../../test/fixtures/raw-client.ts';
import { liveTests, notification } from '../../../testing/live-tests.ts';
import { type LiveUpstream, startLiveUpstream } from '../../../testing/live-upstream.ts';
import { startTestService } from '../../../testing/service.ts';
import { type SessionClient, sessionClient } from '../../../testing/session-client.ts';

const { live, onEnd } = liveTests();

const ROOTS = '{ "method":"notifications/roots/list_changed","params":{"_meta":{"n":1.0}},"jsonrpc":"2.0" }';

async function link(client: SessionClient, upstream: LiveUpstream, tool: string): Promise<string> {
  const calling = client.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${tool}"}}`);
  const call = await upstream.calls.next();
  call.json('x');
  await calling;
  return call.session;
}

it('a client notification is forwarded unchanged to every upstream of its session', async () => {
  const service = await startTestService({ SERVICE_FORWARD_HEADERS: 'x-tenant' });
  onEnd(() => service.stop(0));
  const { upstream, url } = await live({}, service);
  const [second, third] = [await startLiveUpstream({ tool: 'second' }), await startLiveUpstream({ tool: 'third' })];
  const namespace = new URL(url).pathname.split('/')[1];
  for (const [name, other] of [
    ['second', second],
    ['third', third],
  ] as const) {
    onEnd(other.close);
    await service.register('forwards', { name, address: other.url, namespace });
  }
  const [client, otherClient] = [await sessionClient(url), await sessionClient(url)];
  const sessions = [await link(client, upstream, 'work'), await link(client, second, 'second')];
  await link(otherClient, upstream, 'work');
  const response = await client.post(ROOTS, { 'x-tenant': 't-1', 'x-other': 'o' });
  expect([response.status, response.text]).toEqual([202, '']);
  const arrived = (at: LiveUpstream) => at.of('notifications/roots/list_changed');
  for (const [at, each] of [upstream, second].entries()) {
    await expect
      .poll(() => arrived(each))
      .toMatchObject([{ body: ROOTS, session: sessions[at], headers: { 'x-tenant': 't-1', 'x-service-hops': '1' } }]);
    expect(arrived(each)[0]?.headers).not.toHaveProperty('x-other');
  }
  expect(arrived(third)).toEqual([]);
  // Sent without a session, and addressed to the service only.
  expect((await post(url, ROOTS)).status).toBe(202);
  const before = upstream.of('notifications/initialized').length;
  await client.post(notification('initialized'));
  await link(client, upstream, 'work');
  expect(upstream.of('notifications/initialized')).toHaveLength(before);
  expect(arrived(upstream)).toHaveLength(1);
  // An unreachable upstream does not fail the others.
  await second.down();
  expect((await client.post(ROOTS)).status).toBe(202);
  await expect.poll(() => arrived(upstream).length).toBe(2);
});

it('a notification that only servers may send is not forwarded', async () => {
  const { upstream, url } = await live();
  const client = await sessionClient(url);
  await link(client, upstream, 'work');
  const before = upstream.posted.length;
  for (const method of [
    'message',
    'tools/list_changed',
    'resources/list_changed',
    'resources/updated',
    'prompts/list_changed',
    'elicitation/complete',
  ]) {
    expect((await client.post(notification(method))).status).toBe(202);
  }
  // A message with no id and a request's method name: no evaluator has allowed it.
  for (const method of ['tools/call', 'resources/read', 'example.com/own', 'Notifications/x']) {
    expect((await client.post(`{"jsonrpc":"2.0","method":"${method}","params":{"name":"work"}}`)).status).toBe(202);
  }
  await client.post(ROOTS);
  await client.post(notification('example.com/own'));
  const arrived = () => upstream.posted.slice(before).flatMap(({ method }) => (method === undefined ? [] : [method]));
  await expect
    .poll(() =>
      arrived()
        .filter((method) => !method.endsWith('/initialized'))
        .sort(),
    )
    .toEqual(['notifications/example.com/own', 'notifications/roots/list_changed']);
});
