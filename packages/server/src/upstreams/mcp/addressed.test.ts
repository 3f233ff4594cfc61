import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterEach, expect, it } from 'vitest';
import { type RawUpstream, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { UnregisteredUpstreams } from './unregistered-upstreams.ts';

let upstream: RawUpstream | undefined;
const addressed = new UnregisteredUpstreams({ name: 'test', version: '1' }, () => false);
afterEach(async () => {
  for (const left of addressed) await left.destroy();
  await upstream?.close();
});

it('an address has one upstream until nobody has used it for long, and then its sessions are ended', async () => {
  upstream = await startRawUpstream({ eras: ['legacy'] });
  const first = addressed.at(upstream.url);
  expect(addressed.at(upstream.url)).toBe(first);
  expect([...addressed]).toEqual([first]);
  const owner = { key: 'a', protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {}, headers: [] };
  const link = await first.links.open(owner);
  link.active++;
  const later = performance.now() + 10_000;
  addressed.closeIdle(5_000, later);
  expect([...addressed], 'a request is under way').toEqual([first]);
  first.links.release(link, later - 4_000);
  addressed.closeIdle(5_000, later);
  expect([...addressed], 'its session was used of late').toEqual([first]);
  addressed.closeIdle(5_000, later + 5_000);
  expect([...addressed]).toEqual([]);
  await expect.poll(() => upstream?.sessions()).toBe(0);
  expect(addressed.at(upstream.url)).not.toBe(first);
});

it('a server that does not say which eras it speaks holds up one call, for a moment, and is left alone then', async () => {
  let asked = 0;
  const silent = createServer(() => asked++).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const bound = silent.address();
  const address = `http://127.0.0.1:${typeof bound === 'object' ? bound?.port : 0}/mcp`;
  try {
    const began = performance.now();
    await addressed.asking(address);
    expect(performance.now() - began).toBeLessThan(10_000);
    // In both eras.
    await expect.poll(() => asked).toBe(2);
    silent.closeAllConnections();
    await expect.poll(() => addressed.asking(address) === undefined).toBe(true);
  } finally {
    silent.close();
  }
});
