import { beforeAll, expect, it } from 'vitest';
import { modernClient, send } from './fixtures/raw-client.ts';
import { toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import type { HostileTarget } from './hostile/hostile-case.ts';
import { type MeasuredGateway, startMeasuredGateway } from './hostile/measured-gateway.ts';
import { discovered } from './hostile/table-cases.ts';

// The largest catalogs that are allowed, in a service with a heap of 1 GiB.

const ENTRIES = 100_000;
const MIB = 1024 * 1024;

let measured: MeasuredGateway;
let target: HostileTarget;
/** What the young generation grows by with the first large messages, whatever the catalog, in MiB. */
const YOUNG_GENERATION = 32;

/** Of a service with a small catalog, which has just given back what loading its modules has used. */
let initialRss: number;
/** CPU time of a turn in which the service parses 4 MiB of small values at once, in milliseconds. */
let blockedMs: number;

beforeAll(async () => {
  measured = await startMeasuredGateway({ nodeArgs: ['--max-old-space-size=1024'] });
  const { gateway } = measured;
  target = { mcp: gateway.url().replace('/default/mcp', ''), management: `http://${gateway.management()}` };
  const small = await startRawUpstream({ eras: ['modern'], scripts: { 'tools/list': toolList(toolText('small')) } });
  expect(await discovered(target, 'small', small.url)).toMatch(/^available/);
  await list('small');
  await measured.peakRss();
  initialRss = await measured.peakRss();
  ({ longestMs: blockedMs } = await measured.blockedTurns());
  return async () => {
    await measured[Symbol.asyncDispose]();
    await small.close();
  };
}, 120_000);

function upstreamWith(bytesPerEntry: number): Promise<RawUpstream> {
  const text = (at: number, padding: number) =>
    toolText(`t${String(at).padStart(6, '0')}`, `,"x":"${'p'.repeat(padding)}"`);
  const padding = bytesPerEntry - text(0, 0).length;
  const tools = Array.from({ length: ENTRIES }, (_, at) => text(at, padding)).join(',');
  return startRawUpstream({ eras: ['modern'], scripts: { 'tools/list': toolList(tools) } });
}

async function list(namespace: string, capabilities = '{}'): Promise<number> {
  const { status, text } = await modernClient(`${target.mcp}/${namespace}/mcp`, capabilities).call('tools/list');
  expect(status).toBe(200);
  return text.length;
}

/** Growth of the memory at its peak since the last call, in MiB. */
async function growth(): Promise<number> {
  return Math.round(((await measured.peakRss()) - initialRss) / MIB) - YOUNG_GENERATION;
}

it('the discovery of 30 MiB, and its lists, need at most four times its bytes and 2 KiB for each entry', async () => {
  const upstream = await upstreamWith(314);
  const limit = (4 * 314 + 2_048) * (ENTRIES / MIB);
  try {
    await growth();
    await measured.turns();
    await discovered(target, 'crowded', upstream.url);
    await available('crowded');
    expect(await list('crowded')).toBeGreaterThan(29 * MIB);
    expect(await growth()).toBeLessThan(limit);
    // Restored and discovered again.
    await measured.gateway.kill();
    await measured.gateway.restart();
    expect(await growth()).toBeLessThan(limit);
    await measured.turns();
    await available('crowded');
    expect(await growth()).toBeLessThan(limit);
    expect(await list('crowded')).toBeGreaterThan(29 * MIB);
    expect(await growth()).toBeLessThan(limit);
    expect((await measured.turns()).longestMs).toBeLessThan(blockedMs / 2);
  } finally {
    await send(`${target.management}/api/v1/namespaces/crowded?cascade=true`, 'DELETE');
    await upstream.close();
  }
}, 300_000);

/** Waits longer than the requests do, for machines that are busy. */
async function available(name: string): Promise<void> {
  const status = async () => {
    const { text } = await send(`${target.management}/api/v1/forwards/${name}`, 'GET');
    return Object(Object(JSON.parse(text)).data);
  };
  await expect.poll(status, { timeout: 60_000, interval: 100 }).toMatchObject({ available: true });
}

it('catalogs of 62 MiB are discovered, listed for new capabilities, refreshed and restored with a heap of 1 GiB', async () => {
  const upstream = await upstreamWith(650);
  try {
    await measured.turns();
    await discovered(target, 'large', upstream.url);
    await available('large');
    for (let round = 0; round < 3; round++) {
      expect(await list('large', `{"extensions":{"x/${round}":{}}}`)).toBeGreaterThan(61 * MIB);
      const refreshed = await send(`${target.management}/api/v1/forwards/large/refreshes`, 'POST');
      expect(refreshed.status).toBe(200);
    }
    expect((await measured.turns()).longestMs).toBeLessThan(blockedMs / 2);
    await measured.gateway.kill();
    await measured.gateway.restart();
    await available('large');
    expect(await list('large')).toBeGreaterThan(61 * MIB);
  } finally {
    await upstream.close();
  }
}, 300_000);
