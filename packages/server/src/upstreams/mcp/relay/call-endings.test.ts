import { once } from 'node:events';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { notification } from '../../../../testing/live-tests.ts';
import { type LiveCall, type LiveUpstream, startLiveUpstream } from '../../../../testing/live-upstream.ts';
import { type IsolatedCall, isolatedCall, NO_OPEN_RESOURCES } from '../fixtures/isolated-call.ts';
import type { UpstreamSession } from '../upstream-sessions.ts';
import { RelayedCall } from './relayed-call.ts';

let live: LiveUpstream;
let isolated: IsolatedCall;
let upstreamSession: UpstreamSession;
/** Checked often; calls time out only on request of a test. */
let limits: { idleMs: number; totalMs: number };

beforeEach(async () => {
  live = await startLiveUpstream();
  limits = { idleMs: 40, totalMs: 60_000 };
  isolated = isolatedCall(live.url, limits);
  limits.idleMs = 60_000;
  const owner = { key: 's', protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {}, headers: [] };
  upstreamSession = await isolated.upstream.sessions.open(owner);
});
afterEach(async () => {
  await isolated.close();
  await live.close();
});

const MODERN = { era: 'modern', session: undefined } as const;

/** Starts a call and waits until it has reached the upstream; of a legacy client unless `modern`. */
async function startCall(modern = false): Promise<LiveCall> {
  const spec = isolated.spec(upstreamSession);
  new RelayedCall(isolated.parts, spec, isolated.answer(modern ? MODERN : {})).start();
  return await live.calls.next();
}

/** Sends a server request and returns it as received by the client. */
async function sendServerRequest(call: LiveCall): Promise<string> {
  call.begin();
  call.request('1', 'roots/list');
  await expect.poll(() => isolated.connection.events().length).toBe(1);
  return isolated.connection.events()[0]?.data ?? '';
}

const pending = () => isolated.openResources(upstreamSession);

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
  ['canceled', () => isolated.cancel()],
  [
    'silent for too long',
    () => {
      limits.idleMs = 0;
    },
  ],
  [
    'answered with a pending server request',
    async (call) => {
      await sendServerRequest(call);
      expect(pending()).toEqual({ calls: true, inFlight: 1, activeSessions: 1 });
      call.end('x');
    },
  ],
  [
    'canceled with a pending server request',
    async (call) => {
      await sendServerRequest(call);
      isolated.cancel();
    },
  ],
  [
    'answered after its server request',
    async (call) => {
      await isolated.reply(await sendServerRequest(call));
      expect(pending().activeSessions).toBe(0);
      call.end('x');
    },
  ],
  [
    'denied the rest of its stream',
    async (call) => {
      call.begin();
      call.send('', { id: 'e1', retry: 100 });
      call.response.end();
      (await live.resumptions.next()).reject(405);
    },
  ],
])('a call holds no resources once it was %s', async (_how, end) => {
  const call = await startCall();
  expect(pending()).toMatchObject({ calls: true, inFlight: 1 });
  await end(call);
  await expect.poll(pending).toEqual(NO_OPEN_RESOURCES);
  expect(isolated.connection.writableEnded).toBe(true);
});

it('a call holds no resources once its modern client has disconnected', async () => {
  await startCall(true);
  isolated.connection.leave();
  await expect.poll(pending).toEqual(NO_OPEN_RESOURCES);
});

it.each(['in chunks', 'in one piece'])(
  'a slow client gets a response %s after the notifications before it, and the session is resumed',
  async (how) => {
    const resume = vi.fn();
    upstreamSession.bridge = { pinned: false, resume, close() {} };
    const spec = isolated.spec(upstreamSession);
    const relayed = new RelayedCall(isolated.parts, spec, isolated.answer(MODERN));
    relayed.start();
    const call = await live.calls.next();
    isolated.connection.full = true;
    relayed.attempt?.response.onProgress(notification('progress', '{}'));
    const text = call.answerText('x');
    const length = how === 'in chunks' ? {} : { 'content-length': Buffer.byteLength(text) };
    call.response.writeHead(200, { 'content-type': 'application/json', ...length }).end(text);
    await once(call.response, 'finish');
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    expect(pending().calls).toBe(true);
    isolated.connection.full = false;
    isolated.connection.drain();
    await expect.poll(pending).toEqual(NO_OPEN_RESOURCES);
    expect(isolated.connection.events().map(({ data }) => JSON.parse(data))).toMatchObject([
      { method: 'notifications/progress' },
      { result: {} },
    ]);
    expect(resume).toHaveBeenCalledOnce();
  },
);

it('a server request is abandoned when its client can no longer reconnect', async () => {
  const call = await startCall();
  await sendServerRequest(call);
  isolated.connection.leave();
  isolated.events.sweep(performance.now() + 60_000);
  expect(pending().activeSessions).toBe(1);
  isolated.events.sweep(performance.now() + 6 * 60_000);
  expect(pending().activeSessions).toBe(0);
  await expect
    .poll(() => live.answers().map((response) => JSON.parse(response)))
    .toEqual([{ jsonrpc: '2.0', id: 1, error: { code: -32603, message: expect.any(String) } }]);
  // Another one is not sent.
  call.request('2', 'roots/list');
  await expect.poll(() => live.answers().length).toBe(2);
  expect(JSON.parse(live.answers()[1] ?? '')).toMatchObject({ id: 2, error: { code: -32601 } });
  limits.idleMs = 0;
  await expect.poll(pending).toEqual(NO_OPEN_RESOURCES);
});
