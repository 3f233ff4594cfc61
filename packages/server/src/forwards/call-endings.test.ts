import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ClientAnswer } from '../answer/client-answer.ts';
import { DEFAULT_LOG_FILTER } from '../config/log-directives.ts';
import { ClientProfiles } from '../mcp/client-profile.ts';
import { type NotificationMessage, parseMessage, type RequestMessage, type ResponseMessage } from '../mcp/message.ts';
import { DEFAULT_NAMESPACE } from '../registry/names.ts';
import { Registry } from '../registry/registry.ts';
import { memoryStore } from '../registry/store/memory.ts';
import { EventStore } from '../sessions/event-store.ts';
import { type StreamTarget, streamTarget } from '../sessions/fixtures/stream-target.ts';
import { keptInMemory } from '../sessions/kept-sessions.ts';
import { LiveSessions } from '../sessions/live-sessions.ts';
import { Sealer } from '../sessions/seal.ts';
import { ClientSessions } from '../sessions/sessions.ts';
import { createLogger } from '../telemetry/log.ts';
import { notification } from '../testing/live.ts';
import { type LiveCall, type LiveUpstream, startLiveUpstream } from '../testing/live-upstream.ts';
import { callText } from '../testing/session-client.ts';
import type { CallUnderWay } from './call-under-way.ts';
import { CallsUnderWay } from './calls-under-way.ts';
import { LinkedResources } from './linked-resources.ts';
import type { UpstreamLink } from './links.ts';
import { RelayedCall } from './relayed-call.ts';
import { Upstream } from './upstream.ts';

let live: LiveUpstream;
let upstream: Upstream;
let link: UpstreamLink;
let events: EventStore;
let lives: LiveSessions;
let calls: CallsUnderWay<CallUnderWay>;
let target: StreamTarget;

beforeEach(async () => {
  live = await startLiveUpstream();
  upstream = new Upstream(live.url, { failed() {}, succeeded() {}, changed() {} });
  const owner = { key: 's', protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {}, headers: [] };
  link = await upstream.links.open(owner);
  events = new EventStore(new Sealer(randomBytes(32)), 'replica');
  lives = new LiveSessions(events, 'replica');
  calls = new CallsUnderWay({ silenceMs: 250, totalMs: 10_000 });
  target = streamTarget();
});
afterEach(async () => {
  calls.close();
  events.close();
  await upstream.destroy();
  await live.close();
});

function parsed<Kind extends 'request' | 'notification' | 'response'>(text: string, kind: Kind) {
  const message = parseMessage(Buffer.from(text));
  if (message.kind !== kind) throw new Error(`a ${message.kind}`);
  return message as Extract<RequestMessage | NotificationMessage | ResponseMessage, { kind: Kind }>;
}

/** A call of session `s` that has reached the upstream; `legacy` unless its client is modern. */
async function underWay(era: 'legacy' | 'modern' = 'legacy'): Promise<{ relayed: RelayedCall; call: LiveCall }> {
  const profiles = new ClientProfiles(new Registry(memoryStore()), { name: 'x', title: 'X', version: '1' });
  const session = {
    id: 's',
    namespace: DEFAULT_NAMESPACE,
    protocolVersion: '2025-11-25',
    clientInfo: {},
    profile: profiles.of('legacy', {}),
    user: undefined,
    expires: Number.POSITIVE_INFINITY,
  };
  const legacy = era === 'legacy';
  const plan = {
    upstream,
    message: parsed(callText('"c"'), 'request'),
    edits: [],
    rewriting: undefined,
    crosses: false,
    questions: undefined,
    capabilities: {},
    progressToken: undefined,
    headers: [],
    link: () => link,
    failure: 'failed',
    streams: true,
    json: true,
    era,
    session: legacy ? session : undefined,
    forward: undefined,
    namespace: undefined,
  };
  const log = createLogger(DEFAULT_LOG_FILTER, () => undefined).target('service::forward');
  const sessions = new ClientSessions(new Sealer(randomBytes(32)), profiles, keptInMemory());
  const parts = {
    calls,
    lives,
    sessions,
    linkedResources: new LinkedResources(() => true),
    maxResponseBytes: 1_000_000,
    log,
  };
  const answer = new ClientAnswer(target, [], '"c"', legacy ? (idText) => events.open('s', idText) : undefined);
  const relayed = new RelayedCall(parts, plan, answer);
  relayed.start();
  return { relayed, call: await live.calls.next() };
}

/** The question that is open, as the client got it. */
async function asked(call: LiveCall): Promise<string> {
  call.begin();
  call.ask('1', 'roots/list');
  await expect.poll(() => target.events().length).toBe(1);
  return target.events()[0]?.data ?? '';
}

const held = () => ({ calls: calls.find(() => true) !== undefined, active: link.active, lives: lives.size });
const NOTHING = { calls: false, active: 0, lives: 0 };

it.each<[string, (call: LiveCall, relayed: RelayedCall) => unknown]>([
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
  [
    'cancelled',
    (_call, relayed) => relayed.cancel(parsed(notification('cancelled', '{"requestId":"c"}'), 'notification')),
  ],
  ['silent for too long', () => undefined],
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
    async (call, relayed) => {
      await asked(call);
      relayed.cancel(parsed(notification('cancelled', '{"requestId":"c"}'), 'notification'));
    },
  ],
  [
    'answered after its question was',
    async (call) => {
      const id = JSON.stringify(JSON.parse(await asked(call)).id);
      await lives.find('s')?.answer(parsed(`{"jsonrpc":"2.0","id":${id},"result":{}}`, 'response'));
      expect(lives.size).toBe(0);
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
  const { relayed, call } = await underWay();
  expect(held()).toMatchObject({ calls: true, active: 1 });
  await end(call, relayed);
  await expect.poll(held).toEqual(NOTHING);
  expect(target.writableEnded).toBe(true);
});

it('a call holds nothing any more once its modern client has left', async () => {
  await underWay('modern');
  target.leave();
  await expect.poll(held).toEqual(NOTHING);
});

it('a question whose client can no longer come back is not waited for', async () => {
  const { call } = await underWay();
  await asked(call);
  target.leave();
  events.sweep(performance.now() + 60_000);
  expect(lives.size).toBe(1);
  events.sweep(performance.now() + 6 * 60_000);
  expect(lives.size).toBe(0);
  await expect
    .poll(() => live.answers().map((answer) => JSON.parse(answer)))
    .toEqual([{ jsonrpc: '2.0', id: 1, error: { code: -32603, message: expect.any(String) } }]);
  // One more is not put to nobody.
  call.ask('2', 'roots/list');
  await expect.poll(() => live.answers().length).toBe(2);
  expect(JSON.parse(live.answers()[1] ?? '')).toMatchObject({ id: 2, error: { code: -32601 } });
  await expect.poll(held).toEqual(NOTHING);
});
