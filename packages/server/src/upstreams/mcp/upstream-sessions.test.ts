import { afterEach, beforeEach, expect, it } from 'vitest';
import { type RawUpstream, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import type { UpstreamTransport } from '../../http/client/client.ts';
import { createTransport } from '../../http/client/pool.ts';
import { type SessionOwner, type UpstreamSession, UpstreamSessionPool } from './upstream-sessions.ts';

let upstream: RawUpstream;
let transport: UpstreamTransport;
let pool: UpstreamSessionPool;
beforeEach(async () => {
  upstream = await startRawUpstream({ eras: ['legacy'] });
  transport = createTransport(upstream.url);
  pool = new UpstreamSessionPool(transport);
});
afterEach(async () => {
  await transport.destroy();
  await upstream.close();
});

function owner(key: string, more: Partial<SessionOwner> = {}): SessionOwner {
  return {
    key,
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: key, version: '1' },
    headers: [],
    ...more,
  };
}

function sessionFor(from: UpstreamSessionPool, owner: SessionOwner): UpstreamSession | Promise<UpstreamSession> {
  return from.get(owner.key) ?? from.open(owner);
}

/** Starts a request in the session. */
function begin(session: UpstreamSession): UpstreamSession {
  session.use.inFlight++;
  return session;
}

it('a session is opened once per owner, with the owner’s identity', async () => {
  const ann = owner('ann', { capabilities: { sampling: {} }, headers: ['x-tenant', 'a'] });
  const [one, two, bob] = await Promise.all([
    sessionFor(pool, ann),
    sessionFor(pool, ann),
    sessionFor(pool, owner('bob')),
  ]);
  expect(one).toBe(two);
  expect(sessionFor(pool, ann)).toBe(one);
  expect(bob.sessionId).not.toBe(one.sessionId);
  expect(upstream.count('initialize')).toBe(2);
  expect(upstream.count('notifications/initialized')).toBe(2);
  const opening = upstream.seen.find(({ session }) => session === one.sessionId);
  expect(opening?.params).toEqual({
    protocolVersion: '2025-06-18',
    capabilities: { sampling: {} },
    clientInfo: { name: 'ann', version: '1' },
  });
  expect(opening?.headers['x-tenant']).toBe('a');
  expect(one.headers.join('\n')).toContain(`mcp-session-id\n${one.sessionId}`);
  expect(one.headers.join('\n')).toContain('mcp-protocol-version\n2025-06-18');
});

it('a failed opening fails for all waiting callers and is retried by the next', async () => {
  upstream.fault = { kind: 'http', status: 503, type: 'text/plain', body: 'later' };
  const waiting = [sessionFor(pool, owner('a')), sessionFor(pool, owner('a'))];
  for (const outcome of await Promise.allSettled(waiting)) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: { kind: 'http', status: 503 } });
  }
  upstream.fault = undefined;
  expect((await sessionFor(pool, owner('a'))).sessionId).toBeDefined();
});

it('a lost session is discarded once, however often it is reported', async () => {
  const lost = await sessionFor(pool, owner('a'));
  pool.discard(lost);
  const next = await sessionFor(pool, owner('a'));
  expect(next.sessionId).not.toBe(lost.sessionId);
  pool.discard(lost);
  expect(sessionFor(pool, owner('a'))).toBe(next);
});

it('idle sessions are closed, others stay open', async () => {
  const idle = await sessionFor(pool, owner('idle'));
  const busy = begin(await sessionFor(pool, owner('busy')));
  const recent = await sessionFor(pool, owner('recent'));
  idle.use.lastAt = busy.use.lastAt = 0;
  recent.use.lastAt = 500;
  pool.closeIdle(1_000, 1_499);
  await expect.poll(() => upstream.sessions()).toBe(2);
  expect(sessionFor(pool, owner('busy'))).toBe(busy);
  expect(sessionFor(pool, owner('recent'))).toBe(recent);
  expect(sessionFor(pool, owner('idle'))).not.toBe(idle);
});

it('closing an owner’s session closes no other', async () => {
  await Promise.all([sessionFor(pool, owner('a')), sessionFor(pool, owner('b'))]);
  await pool.close('a');
  await pool.close('unknown');
  expect(upstream.sessions()).toBe(1);
});

it('a session that is still opening is closed once it is open', async () => {
  const opening = sessionFor(pool, owner('a'));
  await pool.close('a');
  await opening;
  expect(upstream.count('initialize')).toBe(1);
  expect(upstream.sessions()).toBe(0);
});

it('a session is closed only after its in-flight requests', async () => {
  const session = begin(await sessionFor(pool, owner('a')));
  const closing = pool.close('a');
  await sessionFor(pool, owner('b'));
  expect(upstream.sessions()).toBe(2);
  pool.release(session, 0);
  await closing;
  expect(upstream.sessions()).toBe(1);
});

it('closing all sessions continues after a failure', async () => {
  await Promise.all([sessionFor(pool, owner('a')), sessionFor(pool, owner('b'))]);
  await pool.closeAll();
  expect(upstream.sessions()).toBe(0);
  upstream.fault = { kind: 'cut' };
  const failing = sessionFor(pool, owner('c'));
  await pool.closeAll();
  await expect(failing).rejects.toMatchObject({ kind: 'dropped' });
});

it('modern requests need no session', () => {
  expect(pool.modern).toBe(pool.modern);
  expect(pool.modern.sessionId).toBeUndefined();
  expect(pool.modern.headers.join('\n')).toContain('mcp-protocol-version\n2026-07-28');
  expect(upstream.seen).toEqual([]);
});
