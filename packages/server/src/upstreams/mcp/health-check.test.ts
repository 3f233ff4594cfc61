import { afterEach, describe, expect, it, vi } from 'vitest';
import { type RawUpstreamOptions, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { createTransport } from '../../http/client/pool.ts';
import { checkHealth } from './forward-controller.ts';

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
    options: { transport, clientInfo: { name: 'sluice', version: '1' }, capabilities: {}, timeoutMs: 5_000 },
  };
}

describe('checkHealth', () => {
  it('pings a legacy upstream in a session that it closes, and lists nothing', async () => {
    const { upstream, options } = await start({ eras: ['legacy'] });
    await checkHealth(options, 'legacy');
    expect(upstream.count('ping')).toBe(1);
    expect(upstream.count('tools/list')).toBe(0);
    await expect.poll(upstream.sessions).toBe(0);
  });

  it('accepts an error in response to ping', async () => {
    const ping = { kind: 'error', text: '{"code":-32601,"message":"Method not found"}' } as const;
    const { upstream, options } = await start({ eras: ['legacy'], scripts: { ping } });
    await expect(checkHealth(options, 'legacy')).resolves.toBeUndefined();
    expect(upstream.count('ping')).toBe(1);
  });

  it('sends server/discover to a modern upstream', async () => {
    const { upstream, options } = await start({ eras: ['modern'] });
    await checkHealth(options, 'modern');
    expect(upstream.seen.map(({ method }) => method)).toEqual(['server/discover']);
  });

  it('fails for an upstream that does not answer, is down, or no longer supports the era', async () => {
    const { upstream, options } = await start({ eras: ['legacy'] });
    await expect(checkHealth(options, 'modern')).rejects.toMatchObject({ kind: 'rpc' });
    upstream.scripts.ping = { kind: 'silence' };
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const failed = expect(checkHealth(options, 'legacy')).rejects.toMatchObject({ kind: 'timeout' });
    await expect.poll(() => upstream.count('ping')).toBe(1);
    vi.advanceTimersByTime(5_000);
    await failed;
    vi.useRealTimers();
    await upstream.down();
    await expect(checkHealth(options, 'legacy')).rejects.toMatchObject({
      kind: expect.stringMatching(/refused|dropped/),
    });
  });
});
