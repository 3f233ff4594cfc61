import { afterEach, beforeEach, expect, it } from 'vitest';
import { type RawUpstream, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { type UpstreamTransport } from '../../http/client/client.ts';
import { createTransport } from '../../http/client/pool.ts';
import { type LinkOwner, type UpstreamSession, UpstreamSessionPool } from './upstream.ts';

let upstream: RawUpstream;
let transport: UpstreamTransport;
let links: UpstreamSessionPool;
beforeEach(async () => {
  upstream = await startRawUpstream({ eras: ['legacy'] });
  transport = createTransport(upstream.url);
  links = new UpstreamSessionPool(transport);
});
afterEach(async () => {
  await transport.destroy();
  await upstream.close();
});

function owner(key: string, more: Partial<LinkOwner> = {}): LinkOwner {
  return {
    key,
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: key, version: '1' },
    headers: [],
    ...more,
  };
}

function linkOf(from: UpstreamSessionPool, asked: LinkOwner): UpstreamSession | Promise<UpstreamSession> {
  return from.get(asked.key) ?? from.open(asked);
}

/** Uses a link for a request that has not ended yet. */
function begin(link: UpstreamSession): UpstreamSession {
  link.active++;
  return link;
}

it('a session is opened once per owner, in the owner’s own words', async () => {
  const ann = owner('ann', { capabilities: { sampling: {} }, headers: ['x-tenant', 'a'] });
  const [one, two, bob] = await Promise.all([linkOf(links, ann), linkOf(links, ann), linkOf(links, owner('bob'))]);
  expect(one).toBe(two);
  expect(linkOf(links, ann)).toBe(one);
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

it('an opening that fails fails for all who wait for it, and is tried anew by the next', async () => {
  upstream.fault = { kind: 'http', status: 503, type: 'text/plain', body: 'later' };
  const waiting = [linkOf(links, owner('a')), linkOf(links, owner('a'))];
  for (const outcome of await Promise.allSettled(waiting)) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: { kind: 'http', status: 503 } });
  }
  upstream.fault = undefined;
  expect((await linkOf(links, owner('a'))).sessionId).toBeDefined();
});

it('a session that was lost is forgotten once, whoever says so how often', async () => {
  const lost = await linkOf(links, owner('a'));
  links.forget(lost);
  const next = await linkOf(links, owner('a'));
  expect(next.sessionId).not.toBe(lost.sessionId);
  links.forget(lost);
  expect(linkOf(links, owner('a'))).toBe(next);
});

it('sessions that nobody uses are ended upstream, others stay', async () => {
  const idle = await linkOf(links, owner('idle'));
  const busy = begin(await linkOf(links, owner('busy')));
  const recent = await linkOf(links, owner('recent'));
  idle.usedAt = busy.usedAt = 0;
  recent.usedAt = 500;
  links.closeIdle(1_000, 1_499);
  await expect.poll(() => upstream.sessions()).toBe(2);
  expect(linkOf(links, owner('busy'))).toBe(busy);
  expect(linkOf(links, owner('recent'))).toBe(recent);
  expect(linkOf(links, owner('idle'))).not.toBe(idle);
});

it('ending an owner’s session ends its own alone', async () => {
  await Promise.all([linkOf(links, owner('a')), linkOf(links, owner('b'))]);
  await links.close('a');
  await links.close('unknown');
  expect(upstream.sessions()).toBe(1);
});

it('a session that is still being opened is ended when it is there', async () => {
  const opening = linkOf(links, owner('a'));
  await links.close('a');
  await opening;
  expect(upstream.count('initialize')).toBe(1);
  expect(upstream.sessions()).toBe(0);
});

it('a session is not ended below a request that is under way, but after it', async () => {
  const link = begin(await linkOf(links, owner('a')));
  const closing = links.close('a');
  await linkOf(links, owner('b'));
  expect(upstream.sessions()).toBe(2);
  links.release(link, 0);
  await closing;
  expect(upstream.sessions()).toBe(1);
});

it('ending all ends all, whatever becomes of one', async () => {
  await Promise.all([linkOf(links, owner('a')), linkOf(links, owner('b'))]);
  await links.closeAll();
  expect(upstream.sessions()).toBe(0);
  upstream.fault = { kind: 'cut' };
  const failing = linkOf(links, owner('c'));
  await links.closeAll();
  await expect(failing).rejects.toMatchObject({ kind: 'dropped' });
});

it('ids are never given twice', () => {
  const ids = Array.from({ length: 1_000 }, () => links.nextId());
  expect(new Set(ids).size).toBe(1_000);
});

it('modern requests need nothing opened', () => {
  expect(links.modern).toBe(links.modern);
  expect(links.modern.sessionId).toBeUndefined();
  expect(links.modern.headers.join('\n')).toContain('mcp-protocol-version\n2026-07-28');
  expect(upstream.seen).toEqual([]);
});
