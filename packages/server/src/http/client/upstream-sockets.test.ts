import type { Socket } from 'node:net';
import { expect, it, vi } from 'vitest';
import { pool, Sent, startUpstream, stopTime } from './pool.fixture.ts';
import { UpstreamSockets } from './upstream-sockets.ts';

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

/** An upstream that responds when the test says so, unless `isFast`. */
async function startSlow(isFast = false) {
  const pending: Socket[] = [];
  const upstream = await startUpstream((socket) => (isFast ? socket.write(OK) : pending.push(socket)));
  return { upstream, respond: () => pending.shift()?.write(OK) };
}

it('a request waits for a socket that another one returns, also to another upstream', async () => {
  const sockets = new UpstreamSockets(2);
  const [one, other] = [await startSlow(), await startSlow(true)];
  const [first, second] = [pool(one.upstream, { sockets }), pool(other.upstream, { sockets })];
  const busy = [new Sent(first), new Sent(first)];
  await one.upstream.requested(2);
  const waiting = [new Sent(second), new Sent(second)];
  await vi.waitUntil(() => sockets.areScarce);
  expect(other.upstream.sockets).toEqual([]);
  one.respond();
  expect(await Promise.all(waiting.map(({ done }) => done))).toMatchObject([{ body: 'ok' }, { body: 'ok' }]);
  one.respond();
  expect(await Promise.all(busy.map(({ done }) => done))).toMatchObject([{ body: 'ok' }, { body: 'ok' }]);
});

it('an idle connection is closed for a request to another upstream', async () => {
  const sockets = new UpstreamSockets(1);
  const [one, other] = [await startSlow(true), await startSlow(true)];
  const [first, second] = [pool(one.upstream, { sockets }), pool(other.upstream, { sockets })];
  for (const to of [first, second, first, second]) expect((await new Sent(to).done).body).toBe('ok');
  expect([one.upstream.sockets.length, other.upstream.sockets.length]).toEqual([2, 2]);
});

it('a request without a socket fails after a second, with the reason', async () => {
  stopTime();
  const sockets = new UpstreamSockets(1);
  const { upstream, respond } = await startSlow();
  const to = pool(upstream, { sockets });
  const busy = new Sent(to);
  await upstream.requested(1);
  const waiting = new Sent(to);
  await vi.waitUntil(() => sockets.areScarce);
  vi.advanceTimersByTime(1_000);
  expect((await waiting.done).error).toMatchObject({
    kind: 'aborted',
    message: expect.stringMatching(/ is unreachable: no local sockets available \(limit of open files\)$/),
  });
  respond();
  expect((await busy.done).body).toBe('ok');
});

it('a request that was canceled, and those of a transport that is closed, leave the socket to others', async () => {
  const sockets = new UpstreamSockets(1);
  const [one, other] = [await startSlow(), await startSlow(true)];
  const [first, closing, last] = [1, 2, 3].map((at) => pool(at === 1 ? one.upstream : other.upstream, { sockets }));
  if (!first || !closing || !last) throw new Error('no pools');
  const busy = new Sent(first);
  await one.upstream.requested(1);
  const [canceled, failed, served] = [new Sent(first), new Sent(closing), new Sent(last)];
  await vi.waitUntil(() => sockets.areScarce);
  canceled.call.abort();
  const closed = closing.destroy();
  one.respond();
  expect((await failed.done).error).toMatchObject({
    kind: 'aborted',
    message: expect.stringContaining('no longer used'),
  });
  await closed;
  expect((await served.done).body).toBe('ok');
  expect((await busy.done).body).toBe('ok');
});
