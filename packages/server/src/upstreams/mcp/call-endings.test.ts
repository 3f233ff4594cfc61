import { afterEach, beforeEach, expect, it } from 'vitest';
import { type LiveCall, type LiveUpstream, startLiveUpstream } from '../../../testing/live-upstream.ts';
import { type LoneCall, loneCall, NOTHING } from './fixtures/lone-call.ts';
import { RelayedCall } from './relay/relayed-call.ts';
import type { UpstreamSession } from './upstream.ts';

let live: LiveUpstream;
let lone: LoneCall;
let link: UpstreamSession;
/** Calls are looked at often, and are late only when a test says so. */
let limits: { silenceMs: number; totalMs: number };

beforeEach(async () => {
  live = await startLiveUpstream();
  limits = { silenceMs: 40, totalMs: 60_000 };
  lone = loneCall(live.url, limits);
  limits.silenceMs = 60_000;
  const owner = { key: 's', protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {}, headers: [] };
  link = await lone.upstream.links.open(owner);
});
afterEach(async () => {
  await lone.close();
  await live.close();
});

/** A call that has reached the upstream; a legacy client's unless `modern`. */
async function underWay(modern = false): Promise<LiveCall> {
  const plan = lone.plan(link, modern ? { era: 'modern', session: undefined } : {});
  new RelayedCall(lone.parts, plan, lone.answer(plan)).start();
  return await live.calls.next();
}

/** The question that is open, as the client got it. */
async function asked(call: LiveCall): Promise<string> {
  call.begin();
  call.ask('1', 'roots/list');
  await expect.poll(() => lone.target.events().length).toBe(1);
  return lone.target.events()[0]?.data ?? '';
}

const held = () => lone.holds(link);

it.each<[string, (call: LiveCall) => unknown]>([
  ['answered with JSON', (call) => call.json('x')],
  [
    'answered on a stream',
    (call) => {
      call.begin();
      call.end('x');
    },
  ],
  ['cut off', (call) => call.response.destroy()],
  [
    'cut off in the middle of a stream',
    (call) => {
      call.begin();
      call.progress(1);
      call.response.destroy();
    },
  ],
  ['cancelled', () => lone.cancel()],
  [
    'silent for too long',
    () => {
      limits.silenceMs = 0;
    },
  ],
  [
    'answered with a question open',
    async (call) => {
      await asked(call);
      expect(held()).toEqual({ calls: true, active: 1, lives: 1 });
      call.end('x');
    },
  ],
  [
    'cancelled with a question open',
    async (call) => {
      await asked(call);
      lone.cancel();
    },
  ],
  [
    'answered after its question was',
    async (call) => {
      await lone.reply(await asked(call));
      expect(held().lives).toBe(0);
      call.end('x');
    },
  ],
  [
    'refused the rest of its stream',
    async (call) => {
      call.begin();
      call.send('', { id: 'e1', retry: 100 });
      call.response.end();
      (await live.resumptions.next()).refuse(405);
    },
  ],
])('a call holds nothing any more once it was %s', async (_how, end) => {
  const call = await underWay();
  expect(held()).toMatchObject({ calls: true, active: 1 });
  await end(call);
  await expect.poll(held).toEqual(NOTHING);
  expect(lone.target.writableEnded).toBe(true);
});

it('a call holds nothing any more once its modern client has left', async () => {
  await underWay(true);
  lone.target.leave();
  await expect.poll(held).toEqual(NOTHING);
});

it('a question whose client can no longer come back is not waited for', async () => {
  const call = await underWay();
  await asked(call);
  lone.target.leave();
  lone.events.sweep(performance.now() + 60_000);
  expect(held().lives).toBe(1);
  lone.events.sweep(performance.now() + 6 * 60_000);
  expect(held().lives).toBe(0);
  await expect
    .poll(() => live.answers().map((answer) => JSON.parse(answer)))
    .toEqual([{ jsonrpc: '2.0', id: 1, error: { code: -32603, message: expect.any(String) } }]);
  // One more is not put to nobody.
  call.ask('2', 'roots/list');
  await expect.poll(() => live.answers().length).toBe(2);
  expect(JSON.parse(live.answers()[1] ?? '')).toMatchObject({ id: 2, error: { code: -32601 } });
  limits.silenceMs = 0;
  await expect.poll(held).toEqual(NOTHING);
});
