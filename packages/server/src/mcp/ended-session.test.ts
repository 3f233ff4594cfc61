import { randomBytes } from 'node:crypto';
import { TokenSealer } from '@sluice/protocol/seal';
import { expect, it } from 'vitest';
import { liveTests } from '../../testing/live-tests.ts';
import { sessionClient } from '../../testing/session-client.ts';
import { EventStore } from './sessions/event-store.ts';
import { streamTarget } from './sessions/fixtures/stream-target.ts';

const { live } = liveTests();

it('a server request after the end of the session is rejected', async () => {
  const { upstream, url } = await live();
  const client = await sessionClient(url, { capabilities: '{"elicitation":{}}' });
  const reading = client.call('"c"', '"progressToken":"p"');
  const call = await upstream.calls.next();
  call.begin();
  call.progress(1);
  expect(await client.end()).toBe(204);
  call.request('7', 'elicitation/create');
  await expect.poll(() => upstream.answers()).toEqual([expect.stringMatching(/"id":7,"error":/)]);
  call.end('done');
  await reading.ended;
  expect(reading.text).not.toContain('elicitation/create');
  await expect.poll(() => upstream.sessions.has(call.session)).toBe(false);
});

it('a call whose upstream session expired is not retried after the client session ended', async () => {
  const { upstream, url } = await live();
  const client = await sessionClient(url);
  const reading = client.call('"c"');
  const call = await upstream.calls.next();
  const opened = upstream.of('initialize').length;
  upstream.forgetSessions();
  expect(await client.end()).toBe(204);
  call.reject(404);
  await reading.ended;
  expect(reading.text).toContain('the session of the client has ended');
  expect(upstream.of('initialize').length).toBe(opened);
  expect(upstream.sessions.size).toBe(0);
});

it('unread streams are removed with their session; active streams and those of other sessions remain', () => {
  const store = new EventStore(new TokenSealer(randomBytes(32)), 'replica');
  try {
    const gone: string[] = [];
    const opened = (session: string, id: string) => {
      const stream = store.open({ id: session, holder: { namespace: 'n', name: 'u' } }, id);
      const target = streamTarget();
      stream?.attach(target);
      stream?.sendInitialEventId();
      if (stream) stream.onDropped = () => gone.push(id);
      return target;
    };
    opened('ended', 'left').leave();
    opened('other', 'of another').leave();
    const read = opened('ended', 'read');
    store.dropSession('ended');
    expect(gone).toEqual(['left']);
    expect(store.size).toBe(2);
    expect(read.ended).toBe(false);
  } finally {
    store.close();
  }
});
