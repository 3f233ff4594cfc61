import { describe, expect, it, test } from 'vitest';
import { createSource, invalid, type PrincipalFacts, principalOf } from './claims.ts';
import { ANONYMOUS } from './principal.ts';

const ISSUERS = ['corp', 'partner'];
const CORP = createSource('corp', false, ISSUERS);
const BARE = createSource('corp', true, ISSUERS);
const ANN: PrincipalFacts = { kind: 'user', id: 'ann', groups: [], person: undefined };
const idOf = (id: string, source = CORP) => principalOf(source, { ...ANN, id });

test('ids and groups have the name of their source, a person does not', () => {
  const facts = {
    kind: 'service_account',
    id: 'night',
    groups: ['sre', 'ops', 'sre'],
    person: 'ann@example.com',
  } as const;
  expect(principalOf(CORP, facts)).toEqual({
    ...ANONYMOUS,
    kind: 'service_account',
    id: 'corp/night',
    key: 'service_account:corp/night',
    groups: ['corp/sre', 'corp/ops'],
    source: 'corp',
    person: 'ann@example.com',
  });
  expect(principalOf(BARE, facts)).toMatchObject({
    id: 'night',
    key: 'service_account:night',
    groups: ['sre', 'ops'],
    source: 'corp',
    person: 'ann@example.com',
  });
});

describe('a value that cannot be a name makes the credential invalid, as id, group and person', () => {
  it.each([
    ['', 'is empty'],
    ['x'.repeat(257), 'has more than 256 bytes'],
    ['ä'.repeat(129), 'has more than 256 bytes'],
    ['x'.repeat(1_000_000), 'has more than 256 bytes'],
    ['a\u0000', 'has control characters'],
    ['a\nb', 'has control characters'],
    ['a\tb', 'has control characters'],
    ['\u007f', 'has control characters'],
    ['a\u0085b', 'has control characters'],
    ['a\ud800', 'is not valid Unicode'],
    ['\udc00a', 'is not valid Unicode'],
  ])('%j', (value, problem) => {
    expect(idOf(value)).toEqual(invalid(`the id ${problem}`));
    expect(idOf(value, BARE)).toEqual(invalid(`the id ${problem}`));
    expect(principalOf(CORP, { ...ANN, groups: ['a', value] })).toEqual(invalid(`a group ${problem}`));
    expect(principalOf(CORP, { ...ANN, person: value })).toEqual(invalid(`the person ${problem}`));
  });

  it.each(['x'.repeat(256), 'ä'.repeat(128), '😀', ' a ', '*', '__proto__', 'corp/ann', '..', 'user:ann'])(
    'others are accepted: %j',
    (value) => {
      const facts = { ...ANN, id: value, groups: [value], person: value };
      expect(principalOf(BARE, facts)).toMatchObject({
        id: value,
        key: `user:${value}`,
        groups: [value],
        person: value,
      });
      expect(principalOf(CORP, facts)).toMatchObject({ id: `corp/${value}`, groups: [`corp/${value}`], person: value });
    },
  );
});

describe('the bare source cannot make a principal or a group of another source', () => {
  it.each(['partner/ann', 'partner/', 'proxy/ann', 'keys/night'])('%s', (value) => {
    expect(idOf(value, BARE)).toEqual(invalid('the id begins with the name of another source'));
    expect(principalOf(BARE, { ...ANN, groups: ['a', value] })).toEqual(
      invalid('a group begins with the name of another source'),
    );
    expect(idOf(value)).toMatchObject({ id: `corp/${value}` });
  });

  it.each(['Partner/ann', 'partner', 'partners/ann', '/partner/ann', ' partner/ann'])(
    'but %s is no such value',
    (value) => {
      expect(idOf(value, BARE)).toMatchObject({ id: value });
    },
  );

  it('nor can the proxy, which may use its own name', () => {
    const proxy = createSource('proxy', true, ISSUERS);
    expect(idOf('corp/ann', proxy)).toMatchObject({ kind: 'invalid' });
    expect(idOf('keys/night', proxy)).toMatchObject({ kind: 'invalid' });
    expect(idOf('proxy/ann', proxy)).toMatchObject({ id: 'proxy/ann' });
  });

  it('and no principal has the id of a blocked forward', () => {
    expect(idOf('forward:crm', BARE)).toEqual(invalid('the id begins with "forward:"'));
    expect(idOf('forward:crm')).toMatchObject({ id: 'corp/forward:crm' });
  });
});

test('principals of different sources, kinds or ids have different keys', () => {
  const sources = [createSource('keys', false), createSource('proxy', false), BARE, createSource('partner', false)];
  const values = ['ann', 'corp/ann', 'proxy/ann', 'keys/ann', 'partner/ann', 'user:ann', 'keys/keys/ann'];
  const keys = sources.flatMap((source) =>
    values.flatMap((id) =>
      (['user', 'service_account'] as const).flatMap((kind) => {
        const principal = principalOf(source, { ...ANN, kind, id });
        return principal.kind === 'invalid' ? [] : [principal.key];
      }),
    ),
  );
  expect(keys).toHaveLength((4 * 7 - 4) * 2);
  expect(new Set(keys).size).toBe(keys.length);
});

test.each([
  [Array.from({ length: 256 }, (_, n) => `group ${n}`), undefined],
  [Array.from({ length: 257 }, (_, n) => `group ${n}`), 'more than 256 groups'],
  [Array.from({ length: 64 }, (_, n) => String(n).padEnd(256)), undefined],
  [[...Array.from({ length: 64 }, (_, n) => String(n).padEnd(256)), 'x'], 'the groups have more than 16384 bytes'],
])('no principal loses groups: there are as many as it has, or none (case %#)', (groups, reason) => {
  const expected = reason === undefined ? { groups: groups.map((group) => `corp/${group}`) } : invalid(reason);
  expect(principalOf(CORP, { ...ANN, groups })).toMatchObject(expected);
});
