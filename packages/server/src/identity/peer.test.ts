import { expect, test } from 'vitest';
import { type Authenticated, authenticated } from './authenticator.ts';
import { createSource, type PrincipalFacts, principalOf } from './claims.ts';
import { encodeAuthenticated, fromPeer, MAX_PRINCIPAL_BYTES, PEER_PRINCIPAL } from './peer.ts';
import { ANONYMOUS, createUser, type Principal } from './principal.ts';

const received = (headers: Record<string, string>) => fromPeer({ target: '/', headers, address: '192.0.2.1' });
const sent = (by: Authenticated) => received({ [PEER_PRINCIPAL]: encodeAuthenticated(by) ?? '' });
const ANN = createUser('ann', 'corp');
const CLAIMS = { sub: 'ann', groups: ['a', 1, null], nested: { __proto__: 'x' } };

test.each<Authenticated>([
  authenticated(ANONYMOUS),
  authenticated(ANN),
  authenticated(createUser('\xe4"'.repeat(1_000), 'proxy')),
  authenticated(ANN, { kind: 'key', hash: '5c1f', header: 'x-sluice-authorization' }, 1_800_000_000_000),
  authenticated(ANN, { kind: 'proxy', headers: new Map([['x-user', ['ann']]]), peer: '10.0.0.1' }),
  authenticated(ANN, { kind: 'proxy', headers: new Map(), peer: undefined }),
  authenticated(ANN, { kind: 'sign_in', id: 'random' }, 5),
  authenticated(
    { ...ANN, claims: new Map(Object.entries(CLAIMS)) },
    { kind: 'token', source: 'corp', claims: CLAIMS, algorithm: 'ES256', key: '{}', header: 'authorization' },
    7,
  ),
])(
  'believes the other replica, what has proven the principal included, and no header of the client (case %#)',
  (by) => {
    const headers = { [PEER_PRINCIPAL]: encodeAuthenticated(by) ?? '', 'x-forwarded-user': 'eve' };
    expect(received(headers)).toEqual({ ...by, isHandedOff: true });
  },
);

test('claims are sent once', () => {
  const text = 'x'.repeat(1_000);
  const token = { source: 'corp', claims: { text }, algorithm: 'ES256', key: '', header: 'authorization' } as const;
  const by = authenticated({ ...ANN, claims: new Map([['text', text]]) }, { kind: 'token', ...token });
  expect(encodeAuthenticated(by)?.length).toBeLessThan(2_000);
});

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
test.each<Record<string, string>>([
  {},
  { [PEER_PRINCIPAL]: '' },
  { [PEER_PRINCIPAL]: 'null' },
  { [PEER_PRINCIPAL]: encode(null) },
  { [PEER_PRINCIPAL]: encode({ kind: 'anonymous' }) },
  { [PEER_PRINCIPAL]: encode({ principal: { ...ANN, claims: [] } }) },
  { [PEER_PRINCIPAL]: encode({ principal: { ...ANN, claims: [] }, proof: { kind: 'key' } }) },
  { 'x-forwarded-user': 'ann' },
])('rejects a request without a principal, which is not the same as an anonymous one (case %#)', (headers) => {
  expect(received(headers)).toMatchObject({ kind: 'rejected', status: 400 });
});

test.each(['"', 'ä', '\\', 'x'])('the principal with the longest groups fits (%s)', (character) => {
  const name = (n: number) => `${n}`.padStart(3, '0') + character.repeat(61 / Buffer.byteLength(character));
  const groups = Array.from({ length: 256 }, (_, n) => name(n));
  const facts: PrincipalFacts = { kind: 'user', id: character.repeat(128), groups, person: character.repeat(128) };
  const asReceived = Buffer.from(groups.join(',')).toString('latin1');
  const headers = new Map([['x-groups', [asReceived.slice(0, 16 * 1024)]]]);
  const own = principalOf(createSource('proxy', false), facts) as Principal;
  expect(own.groups).toHaveLength(256);
  const by = authenticated(own, { kind: 'proxy', headers, peer: '2001:db8::1' });
  expect(sent(by)).toEqual({ ...by, isHandedOff: true });
  const longest = principalOf(createSource('x'.repeat(64), false), facts) as Principal;
  expect(sent(authenticated(longest))).toEqual({ ...authenticated(longest), isHandedOff: true });
});

test('a principal that the other replica would not accept is not sent', () => {
  const withId = (length: number) => encodeAuthenticated(authenticated(createUser('x'.repeat(length), 'proxy')));
  const longest = (MAX_PRINCIPAL_BYTES / 4) * 3 - Buffer.from(withId(0) ?? '', 'base64url').length;
  expect(withId(longest)).toHaveLength(MAX_PRINCIPAL_BYTES);
  expect(withId(longest + 1)).toBeUndefined();
});
