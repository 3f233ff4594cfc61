import { expect, test } from 'vitest';
import { authenticated } from './authenticator.ts';
import { encodePrincipal, fromPeer, MAX_PRINCIPAL_BYTES, PEER_PRINCIPAL } from './peer.ts';
import { ANONYMOUS, createUser, serializePrincipal } from './principal.ts';

const received = (headers: Record<string, string>) => fromPeer({ target: '/', headers, address: '192.0.2.1' });

test.each([ANONYMOUS, createUser('ann', 'proxy'), createUser('\xe4"'.repeat(1_000), 'proxy')])(
  'believes the other replica, and no header of the client (case %#)',
  (principal) => {
    const headers = { [PEER_PRINCIPAL]: encodePrincipal(principal) ?? '', 'x-forwarded-user': 'eve' };
    expect(received(headers)).toEqual(authenticated(principal));
  },
);

test.each<Record<string, string>>([
  {},
  { [PEER_PRINCIPAL]: '' },
  { [PEER_PRINCIPAL]: Buffer.from('{"kind":"anonymous"}').toString('base64url') },
  { 'x-forwarded-user': 'ann' },
])('rejects a request without a principal, which is not the same as an anonymous one (case %#)', (headers) => {
  expect(received(headers)).toMatchObject({ kind: 'rejected', status: 400 });
});

test('a principal that the other replica would not accept is not sent', () => {
  const overhead = Buffer.byteLength(serializePrincipal(createUser('', 'proxy')));
  const longest = (MAX_PRINCIPAL_BYTES / 4) * 3 - overhead;
  expect(encodePrincipal(createUser('x'.repeat(longest), 'proxy'))).toHaveLength(MAX_PRINCIPAL_BYTES);
  expect(encodePrincipal(createUser('x'.repeat(longest + 1), 'proxy'))).toBeUndefined();
});
