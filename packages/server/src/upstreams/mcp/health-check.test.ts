import { afterEach, describe, expect, it, vi } from 'vitest';
import { type RawUpstreamOptions, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { createTransport } from '../../http/client/pool.ts';
import { HealthCheck } from './health-check.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(options: RawUpstreamOptions) {
  const upstream = await startRawUpstream(options);
  const transport = createTransport(upstream.url);
  closers.push(
    () => upstream.close(),
    () => transport.destroy(),
  );
  return {
    upstream,
    check: new HealthCheck({
      transport,
      clientInfo: { name: 'sluice', version: '1' },
      capabilities: {},
      timeoutMs: 5_000,
    }),
  };
}

describe('a health check', () => {
  it('is one ping to a legacy upstream, in a session that is kept for it', async () => {
    const { upstream, check } = await start({ eras: ['legacy'] });
    await check.run('legacy');
    const before = upstream.seen.length;
    for (let round = 0; round < 5; round++) await check.run('legacy');
    expect(upstream.seen.slice(before).map(({ method }) => method)).toEqual(Array(5).fill('ping'));
    expect([upstream.count('initialize'), upstream.count('tools/list'), upstream.sessions()]).toEqual([1, 0, 1]);
    await check.close();
    expect(upstream.sessions()).toBe(0);
    await check.close();
  });

  it('opens another session if the upstream has discarded it', async () => {
    const { upstream, check } = await start({ eras: ['legacy'] });
    await check.run('legacy');
    upstream.forgetSessions();
    await check.run('legacy');
    await check.run('legacy');
    expect([upstream.count('initialize'), upstream.sessions()]).toEqual([2, 1]);
  });

  it('opens another session if the upstream says in words of its own that it has discarded it', async () => {
    const { upstream, check } = await start({ eras: ['legacy'] });
    await check.run('legacy');
    const [first] = upstream.seen.filter(({ method }) => method === 'ping');
    upstream.scripts.ping = ({ session }) =>
      session === first?.session ? { kind: 'error', text: '{"code":-32000,"message":"Where were we?"}' } : '{}';
    await check.run('legacy');
    const before = upstream.count('initialize');
    await check.run('legacy');
    expect([upstream.count('initialize'), upstream.seen.at(-1)?.method]).toEqual([before, 'ping']);
    expect(upstream.seen.at(-1)?.session).not.toBe(first?.session);
  });

  it('keeps the session of an upstream that answers every ping with an error of its own', async () => {
    const ping = { kind: 'error', text: '{"code":-32000,"message":"ping is disabled"}' } as const;
    const { upstream, check } = await start({ eras: ['legacy'], scripts: { ping } });
    await check.run('legacy');
    const first = upstream.seen.find(({ method }) => method === 'ping')?.session;
    for (let round = 0; round < 2; round++) {
      const before = upstream.seen.length;
      await check.run('legacy');
      expect(upstream.seen[before]).toMatchObject({ method: 'ping', session: first });
      await expect.poll(upstream.sessions).toBe(1);
    }
  });

  it('accepts an error in response to ping', async () => {
    const ping = { kind: 'error', text: '{"code":-32601,"message":"Method not found"}' } as const;
    const { upstream, check } = await start({ eras: ['legacy'], scripts: { ping } });
    await expect(check.run('legacy')).resolves.toBeUndefined();
    await expect(check.run('legacy')).resolves.toBeUndefined();
    expect(upstream.count('ping')).toBe(2);
  });

  it('sends server/discover to a modern upstream', async () => {
    const { upstream, check } = await start({ eras: ['modern'] });
    await check.run('modern');
    expect(upstream.seen.map(({ method }) => method)).toEqual(['server/discover']);
  });

  it('closes the session of an upstream that has become modern', async () => {
    const { upstream, check } = await start({});
    await check.run('legacy');
    await check.run('modern');
    await expect.poll(upstream.sessions).toBe(0);
  });

  it('fails for an upstream that does not answer, is down, or no longer supports the era', async () => {
    const { upstream, check } = await start({ eras: ['legacy'] });
    await expect(check.run('modern')).rejects.toMatchObject({ kind: 'rpc' });
    await check.run('legacy');
    upstream.scripts.ping = { kind: 'silence' };
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const failed = expect(check.run('legacy')).rejects.toMatchObject({ kind: 'timeout' });
    await expect.poll(() => upstream.count('ping')).toBe(2);
    vi.advanceTimersByTime(5_000);
    await failed;
    vi.useRealTimers();
    await upstream.down();
    await expect(check.run('legacy')).rejects.toMatchObject({ kind: expect.stringMatching(/refused|dropped/) });
  });
});
