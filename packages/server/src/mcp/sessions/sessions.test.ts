import { randomBytes } from 'node:crypto';
import { TokenSealer } from '@sluice/protocol/seal';
import { expect, it } from 'vitest';
import { ANONYMOUS, createUser } from '../../identity/principal.ts';
import { parseNamespace } from '../../registry/entries.ts';
import { Registry } from '../../registry/registry.ts';
import { memoryLog } from '../../registry/store/record-log.ts';
import { ClientProfiles } from '../client-profile.ts';
import { ActiveSessions } from './active-sessions.ts';
import { EventStore } from './event-store.ts';
import { memorySessions } from './fixtures/memory-sessions.ts';
import { ClientSessions, type SessionOpening } from './sessions.ts';

const DAY_MS = 24 * 3600 * 1000;
const START = 1_700_000_000_000;
const KEY = randomBytes(32);

function namespaceOf(name: string) {
  const namespace = parseNamespace(name);
  if (namespace === undefined) throw new Error(name);
  return namespace;
}
const DEFAULT = namespaceOf('default');
const FINANCE = namespaceOf('finance');

/** Sessions with a clock that the test controls. */
function setUp(key = KEY) {
  const clock = { now: START };
  const profiles = new ClientProfiles(new Registry(memoryLog()), { name: 'n', title: 't', version: '1' });
  const now = () => clock.now;
  const sealer = new TokenSealer(key);
  const active = new ActiveSessions(new EventStore(sealer, 'replica'), 'replica');
  return { clock, sealer, sessions: new ClientSessions(sealer, profiles, memorySessions({ now }), active, now) };
}

const ANN = createUser('ann', 'proxy');

function opening(more: Partial<SessionOpening> = {}): SessionOpening {
  return {
    namespace: DEFAULT,
    protocolVersion: '2025-06-18',
    clientInfo: { name: 'client', version: '1', title: 'T' },
    capabilities: { sampling: {} },
    principal: ANONYMOUS,
    address: '192.0.2.1',
    ...more,
  };
}

function created(sessions: ClientSessions, more: Partial<SessionOpening> = {}): string {
  const token = sessions.create(opening(more));
  if (token === undefined) throw new Error('no session');
  return token;
}

it('the id contains the whole session, so that another process with the key can open it', () => {
  const token = created(setUp().sessions, { principal: ANN });
  const session = setUp().sessions.open(token, DEFAULT, ANN);
  expect(session).toMatchObject({
    namespace: 'default',
    protocolVersion: '2025-06-18',
    clientInfo: { name: 'client', version: '1', title: 'T' },
    holder: { namespace: 'default', name: 'user:ann' },
    profile: { era: 'legacy', capabilities: { sampling: {} } },
  });
  expect(setUp(randomBytes(32)).sessions.open(token, DEFAULT, ANN)).toBeUndefined();
});

it('two clients with the same clientInfo have different sessions', () => {
  const { sessions } = setUp();
  const [one, two] = [created(sessions), created(sessions)];
  expect(sessions.open(one, DEFAULT, ANONYMOUS)?.id).not.toBe(sessions.open(two, DEFAULT, ANONYMOUS)?.id);
});

it('a session is bound to its namespace and principal, also when it is cached', () => {
  const { sessions } = setUp();
  const token = created(sessions, { principal: ANN });
  for (let round = 0; round < 2; round++) {
    expect(sessions.open(token, FINANCE, ANN)).toBeUndefined();
    expect(sessions.open(token, DEFAULT, createUser('bob', 'proxy'))).toBeUndefined();
    expect(sessions.open(token, DEFAULT, ANONYMOUS)).toBeUndefined();
    expect(sessions.open(token, DEFAULT, { key: 'service_account:ann' })).toBeUndefined();
    expect(sessions.open(token, DEFAULT, ANN)).toBeDefined();
  }
});

it('a session expires after seven days, whether it was in use or not', () => {
  const { sessions, clock } = setUp();
  const used = created(sessions);
  const unused = created(sessions);
  clock.now = START + 7 * DAY_MS - 1;
  expect(sessions.open(used, DEFAULT, ANONYMOUS)).toBeDefined();
  clock.now = START + 7 * DAY_MS;
  expect(sessions.open(used, DEFAULT, ANONYMOUS)).toBeUndefined();
  expect(sessions.open(unused, DEFAULT, ANONYMOUS)).toBeUndefined();
});

it('an ended session stays ended, and others stay open', async () => {
  const { sessions } = setUp();
  const [one, two] = [created(sessions), created(sessions)];
  const session = sessions.open(one, DEFAULT, ANONYMOUS);
  if (!session) throw new Error('not opened');
  await session.change('end');
  expect(sessions.open(one, DEFAULT, ANONYMOUS)).toBeUndefined();
  expect(sessions.open(two, DEFAULT, ANONYMOUS)).toBeDefined();
});

it('a client whose capabilities do not fit into an id gets no session', () => {
  const { sessions } = setUp();
  expect(sessions.create(opening({ clientInfo: { name: 'x'.repeat(4096) } }))).toBeUndefined();
  // Around the limit, ids that are issued are valid and fit a header.
  for (let length = 2500; length < 3100; length += 7) {
    const token = sessions.create(opening({ clientInfo: { name: 'x'.repeat(length) } }));
    if (token === undefined) continue;
    expect(token.length).toBeLessThanOrEqual(4096);
    expect(sessions.open(token, DEFAULT, ANONYMOUS)).toBeDefined();
  }
});

it.each(['', 'x', 'null', 'A'.repeat(100_000)])('%j, which was never issued, is invalid', (token) => {
  expect(setUp().sessions.open(token.slice(0, 5000), DEFAULT, ANONYMOUS)).toBeUndefined();
});

it.each([
  'null',
  '[]',
  '{}',
  '{"id":1,"ns":"default","v":"2025-06-18","info":{},"caps":{},"principal":"","iat":1700000000000}',
  '{"id":"a","ns":"default","v":"2025-06-18","info":{},"caps":[],"principal":"","iat":1700000000000}',
  '{"id":"a","ns":"default","v":"2025-06-18","info":{},"caps":{},"iat":1700000000000}',
])('%s is invalid although it was sealed here', (text) => {
  const { sessions, sealer } = setUp();
  expect(sessions.open(sealer.seal('session', text), DEFAULT, ANONYMOUS)).toBeUndefined();
});

it('a text that was sealed for another purpose is invalid', () => {
  const { sessions, sealer } = setUp();
  const text = '{"id":"a","ns":"default","v":"2025-06-18","info":{},"caps":{},"principal":"","iat":1700000000000}';
  expect(sessions.open(sealer.seal('session', text), DEFAULT, ANONYMOUS)).toBeDefined();
  expect(sessions.open(sealer.seal('requestState', text), DEFAULT, ANONYMOUS)).toBeUndefined();
});

it('more sessions than the cache holds all stay open', () => {
  const { sessions } = setUp();
  const tokens = Array.from({ length: 10_050 }, () => created(sessions));
  for (const token of tokens) expect(sessions.open(token, DEFAULT, ANONYMOUS)).toBeDefined();
  expect(sessions.open(tokens[0] ?? '', DEFAULT, ANONYMOUS)).toBeDefined();
});
