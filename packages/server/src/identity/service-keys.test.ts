import { identity } from '@sluice/contract';
import { createServiceKey, hashServiceKey } from '@sluice/contract/service-key';
import { describe, expect, it, test } from 'vitest';
import { authenticated } from './authenticator.ts';
import { invalid } from './claims.ts';
import { ANONYMOUS } from './principal.ts';
import { ServiceKeys } from './service-keys.ts';

const KEY = createServiceKey();
const NEXT = createServiceKey();
const hashOf = (key: string) => hashServiceKey(key) ?? '';
const settings = (...keys: object[]) => identity.parse({ keys }).keys;
const NIGHT = { name: 'night', sha256: [hashOf(KEY), hashOf(NEXT)], groups: ['reporting'], for: ['finance'] };

test('a key is that of a service account, whose groups are those of keys', () => {
  const keys = new ServiceKeys(settings(NIGHT));
  const principal = {
    ...ANONYMOUS,
    kind: 'service_account',
    id: 'keys/night',
    key: 'service_account:keys/night',
    groups: ['keys/reporting'],
    source: 'keys',
  } as const;
  const provenBy = (hash: string) =>
    authenticated({ ...ANONYMOUS, ...principal }, { kind: 'key', hash, header: 'authorization' });
  const expected = { hash: hashOf(KEY), settings: { for: ['finance'], management: false } };
  expect(keys.authenticate(KEY)).toMatchObject({ ...expected, authenticated: provenBy(hashOf(KEY)) });
  expect(keys.authenticate(NEXT)).toMatchObject({ authenticated: provenBy(hashOf(NEXT)), hash: hashOf(NEXT) });
  expect(keys.find(hashOf(KEY))).toBe(keys.authenticate(KEY));
});

describe('anything else is not accepted', () => {
  const keys = new ServiceKeys(settings(NIGHT));
  const last = KEY.at(-1) ?? '';
  // The last character has two unused bits: the same bytes in another notation.
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const sameBytes = KEY.slice(0, -1) + (alphabet[alphabet.indexOf(last) ^ 1] ?? '');
  it.each([
    [createServiceKey(), 'the key is unknown'],
    [sameBytes, 'the key is unknown'],
    ['', 'the key is malformed'],
    ['slk_', 'the key is malformed'],
    [KEY.slice(0, -1), 'the key is malformed'],
    [`${KEY}A`, 'the key is malformed'],
    [`${KEY}=`, 'the key is malformed'],
    [`${KEY}\n`, 'the key is malformed'],
    [` ${KEY}`, 'the key is malformed'],
    [KEY.replace('slk_', 'SLK_'), 'the key is malformed'],
    [KEY.slice(4), 'the key is malformed'],
    [`slk_${'+'.repeat(43)}`, 'the key is malformed'],
    [hashOf(KEY), 'the key is malformed'],
    ['slk_'.repeat(4_096), 'the key is malformed'],
  ])('case %#', (text, reason) => {
    expect(keys.authenticate(text)).toEqual(invalid(reason));
  });

  it.each(['', '__proto__', KEY, hashOf(KEY).toUpperCase()])('as a hash, case %#', (hash) => {
    expect(keys.find(hash)).toEqual(invalid('the key is unknown'));
  });
});

test('a key is accepted until the end of its last day, in UTC', () => {
  let time = Date.parse('2027-06-30T23:59:59.999Z');
  const keys = new ServiceKeys(settings({ ...NIGHT, expires: '2027-06-30' }), () => time);
  expect(keys.authenticate(KEY)).toMatchObject({ authenticated: { expiresAt: time + 1 }, lastUsedAt: time });
  time++;
  const expired = invalid('the key has expired');
  expect([keys.authenticate(KEY), keys.find(hashOf(KEY))]).toEqual([expired, expired]);
  expect(keys.all.map(({ lastUsedAt }) => lastUsedAt)).toEqual([time - 1, undefined]);
});

test('the last use is that of each hash, so that an exchanged key can be removed', () => {
  let time = 1;
  const keys = new ServiceKeys(settings(NIGHT), () => time);
  keys.find(hashOf(KEY));
  keys.authenticate(createServiceKey());
  expect(keys.all.map(({ lastUsedAt }) => lastUsedAt)).toEqual([undefined, undefined]);
  keys.authenticate(KEY);
  time = 2;
  keys.authenticate(NEXT);
  expect(keys.all.map(({ hash, lastUsedAt }) => [hash, lastUsedAt])).toEqual([
    [hashOf(KEY), 1],
    [hashOf(NEXT), 2],
  ]);
});

test('the last use of a key counts for an equal one that replaces it', () => {
  const earlier = new ServiceKeys(settings(NIGHT), () => 7);
  earlier.authenticate(KEY);
  const day = { ...NIGHT, name: 'day', sha256: [hashOf(createServiceKey())] };
  const keys = new ServiceKeys(settings(day, { ...NIGHT, groups: [] }), () => 8, earlier.all);
  expect(keys.all.map(({ lastUsedAt }) => lastUsedAt)).toEqual([undefined, 7, undefined]);
  expect(keys.find(hashOf(KEY))).toMatchObject({ authenticated: { principal: { groups: [] } } });
});

test('names and groups that cannot be those of a principal, and equal hashes, are errors', () => {
  expect(() => new ServiceKeys(settings({ ...NIGHT, groups: ['a\nb'] }))).toThrow(
    'key "night" of identity.keys: a group has control characters',
  );
  expect(() => new ServiceKeys(settings(NIGHT, { ...NIGHT, name: 'day' }))).toThrow('have the same hash');
});
