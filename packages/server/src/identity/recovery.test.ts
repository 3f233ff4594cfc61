import { identity as schema } from '@sluice/contract';
import { createServiceKey, hashServiceKey } from '@sluice/contract/service-key';
import { expect, test } from 'vitest';
import type { Authenticated, ReceivedHead } from './authenticator.ts';
import { Identity } from './identity.ts';
import { RECOVERY_MS, RecoveryKeys } from './recovery.ts';

const KEY = createServiceKey();
const START = 1_800_000_000_000;

/** An identity for which a recovery key was made at {@link START}. */
function recoverable(settings: object) {
  let now = START;
  const used: unknown[] = [];
  const recovery = new RecoveryKeys({
    find: async (sha256) => (sha256 === hashServiceKey(KEY) ? START + RECOVERY_MS : undefined),
    onUse: (address) => used.push(address),
  });
  const identity = new Identity(schema.parse(settings), { now: () => now, recovery });
  const namespaceOf = (target: string) => (target.includes('/mcp') ? 'finance' : undefined);
  return {
    identity,
    used,
    after: (ms: number) => {
      now = START + ms;
    },
    send: async (more: Partial<ReceivedHead> = {}, served: 'management' | 'mcp' | 'inference' = 'management') => {
      const credentials = new Map([['authorization', [`Bearer ${KEY}`]]]);
      const head = { target: '/', headers: {}, credentials, peer: '127.0.0.1', address: '127.0.0.1', ...more };
      return identity.forListener(served, namespaceOf).authenticate(head);
    },
  };
}

const PROXY = { proxy: { trusted: ['127.0.0.1/32'], groups: 'x-groups' }, roles: { admin: ['proxy/admins'] } };
const KEYS = {
  keys: [{ name: 'k', sha256: ['0'.repeat(64)], groups: ['g'], management: true }],
  roles: { admin: ['keys/g'] },
};

test.for([
  ['proxy', PROXY],
  ['proxy alone', { ...PROXY, proxy: { ...PROXY.proxy, ignore_authorization: true } }],
  ['keys', KEYS],
  ['nobody without a credential', { ...KEYS, anonymous: 'deny' }],
] as const)('a recovery key administers with %s, once per use in the log', async ([_name, settings]) => {
  const { identity, send, used } = recoverable(settings);
  for (const peer of ['127.0.0.1', '127.0.0.9', '::1', '::ffff:127.0.0.1']) {
    const found = (await send({ peer, address: peer })) as Authenticated;
    expect(found, peer).toMatchObject({ kind: 'authenticated', expiresAt: START + RECOVERY_MS });
    expect(found.principal).toMatchObject({ kind: 'service_account', id: 'recovery/admin' });
    expect(identity.may?.(found.principal, 'administer')).toBe(true);
    expect(identity.reassess(found, 'management', undefined)).toBe(found);
  }
  expect(used).toEqual(['127.0.0.1']);
});

const headers = (name: string) => ({ headers: { [name]: '127.0.0.1' } });
test.for([
  ['from another machine', { peer: '192.0.2.1', address: '192.0.2.1' }],
  ['of another machine, through a trusted proxy', { address: '192.0.2.1' }],
  ['from a proxy on another machine', { peer: '192.0.2.1' }],
  ['without an address', { peer: undefined, address: undefined }],
  ...[
    'forwarded',
    'via',
    'x-forwarded-for',
    'x-forwarded-proto',
    'x_forwarded_host',
    'x-real-ip',
    'cf-connecting-ip',
    'true-client-ip',
  ].map((name) => [`with ${name}`, headers(name)] as const),
  [
    'with an identity header of the proxy',
    {
      credentials: new Map([
        ['authorization', [`Bearer ${KEY}`]],
        ['x-forwarded-user', ['ann']],
      ]),
    },
  ],
  ['twice', { credentials: new Map([['authorization', [`Bearer ${KEY}`, `Bearer ${KEY}`]]]) }],
  ['that is another one', { credentials: new Map([['authorization', [`Bearer ${createServiceKey()}`]]]) }],
  ['at the endpoint of a namespace', { target: '/finance/mcp' }],
] as const)('it does not count %s', async ([_where, head]) => {
  for (const settings of [PROXY, KEYS]) {
    const { send, used } = recoverable(settings);
    const found = await send(head);
    if (found.kind === 'authenticated') expect(found.principal.id).not.toBe('recovery/admin');
    expect(used).toEqual([]);
  }
});

test('it counts on the management listener only', async () => {
  const { send } = recoverable(KEYS);
  for (const served of ['mcp', 'inference'] as const)
    expect(await send({}, served)).toMatchObject({ kind: 'rejected' });
});

test('it ends after 15 minutes, and what it has opened', async () => {
  const { identity, send, after } = recoverable(KEYS);
  const found = (await send()) as Authenticated;
  after(RECOVERY_MS - 1);
  expect(await send()).toMatchObject({ kind: 'authenticated' });
  after(RECOVERY_MS);
  expect(await send()).toMatchObject({ kind: 'rejected', status: 401 });
  expect(identity.reassess(found, 'management', undefined)).toBeUndefined();
  // Nor does a key count whose end is farther away: the clock was set back, or somebody has written it.
  after(-1);
  expect(await send()).toMatchObject({ kind: 'rejected', status: 401 });
});

test('no other source can have its id and groups', () => {
  const tokens = [{ name: 'recovery', issuer: 'https://id.example' }];
  expect(schema.safeParse({ tokens }).success).toBe(true);
  const { identity } = recoverable({ proxy: { trusted: ['127.0.0.1/32'], bare: true, groups: 'x-groups' } });
  const head = (user: string, groups: string) => ({
    target: '/',
    headers: {},
    credentials: new Map([
      ['x-forwarded-user', [user]],
      ['x-groups', [groups]],
    ]),
    peer: '127.0.0.1',
    address: '127.0.0.1',
  });
  const { authenticate } = identity.forListener('management');
  expect(authenticate(head('recovery/admin', 'g'))).toMatchObject({ kind: 'rejected' });
  expect(authenticate(head('ann', 'g,recovery/admin'))).toMatchObject({ kind: 'rejected' });
});
