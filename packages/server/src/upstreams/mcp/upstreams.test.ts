import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterEach, expect, it } from 'vitest';
import { type RawUpstream, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { Upstreams } from './upstreams.ts';

const MINUTE_MS = 60_000;
let upstream: RawUpstream | undefined;
const addressed = new Upstreams({ clientInfo: { name: 'test', version: '1' }, hasLegacyClients: () => false });
afterEach(async () => {
  for (const left of addressed) await left.close(0);
  await upstream?.close();
});

it('an address has one upstream until it was idle for long, then its sessions are closed', async () => {
  upstream = await startRawUpstream({ eras: ['legacy'] });
  const first = addressed.at(upstream.url);
  expect(addressed.at(upstream.url)).toBe(first);
  expect([...addressed]).toEqual([first]);
  const owner = { key: 'a', protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {}, headers: [] };
  const session = await first.sessions.open(owner);
  session.use.inFlight++;
  const later = performance.now() + 10 * MINUTE_MS;
  addressed.closeIdle(later);
  expect([...addressed], 'a request is in flight').toEqual([first]);
  first.sessions.release(session, later - 4 * MINUTE_MS);
  addressed.closeIdle(later);
  expect([...addressed], 'its session was used of late').toEqual([first]);
  addressed.closeIdle(later + 5 * MINUTE_MS);
  expect([...addressed]).toEqual([]);
  await expect.poll(() => upstream?.sessions()).toBe(0);
  expect(addressed.at(upstream.url)).not.toBe(first);
});

it('an upstream that does not respond to the probe delays one call briefly and is not probed again', async () => {
  let probes = 0;
  const silent = createServer(() => probes++).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const bound = silent.address();
  const address = `http://127.0.0.1:${typeof bound === 'object' ? bound?.port : 0}/mcp`;
  try {
    const began = performance.now();
    await addressed.ensureEraKnown(address);
    expect(performance.now() - began).toBeLessThan(10_000);
    // In both eras.
    await expect.poll(() => probes).toBe(2);
    silent.closeAllConnections();
    await expect.poll(() => addressed.ensureEraKnown(address) === undefined).toBe(true);
  } finally {
    silent.close();
  }
});
