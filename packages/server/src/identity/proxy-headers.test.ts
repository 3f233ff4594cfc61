import { describe, expect, it, test } from 'vitest';
import { ANONYMOUS, createUser } from './principal.ts';
import { describeProxyHeaders, proxyHeaders } from './proxy-headers.ts';

const authenticate = proxyHeaders();
const headersOf = (forwarded: string | undefined, requested: string | undefined) => ({
  ...(forwarded !== undefined && { 'x-forwarded-user': forwarded }),
  ...(requested !== undefined && { 'x-auth-request-user': requested }),
});
const principalOf = (headers: Record<string, string>, using = authenticate) =>
  using({ target: '/', headers, address: undefined });

describe('the headers of an authenticating proxy name the user, and different values neither', () => {
  it.each<[forwarded: string | undefined, requested: string | undefined, id: string]>([
    [undefined, undefined, ''],
    [undefined, '', ''],
    [undefined, 'a', 'a'],
    ['', undefined, ''],
    ['', '', ''],
    ['', 'a', '["","a"]'],
    ['a', undefined, 'a'],
    ['a', '', '["a",""]'],
    ['a', 'a', 'a'],
    ['a', 'b', '["a","b"]'],
    ['a', 'A', '["a","A"]'],
    ['x'.repeat(300), undefined, 'x'.repeat(300)],
  ])('%j and %j', (forwarded, requested, id) => {
    const headers = headersOf(forwarded, requested);
    expect(principalOf(headers)).toEqual(id === '' ? ANONYMOUS : createUser(id, 'proxy'));
  });
});

test('a user has one principal, which is forgotten when there are many others', () => {
  const own = proxyHeaders();
  const ann = principalOf(headersOf('ann', undefined), own);
  expect(principalOf(headersOf(undefined, 'ann'), own)).toBe(ann);
  for (let n = 0; n < 1_000; n++) principalOf(headersOf(`user ${n}`, undefined), own);
  const again = principalOf(headersOf('ann', undefined), own);
  expect(again).not.toBe(ann);
  expect(again).toEqual(ann);
});

test.each([
  [{}, [], false],
  [{ 'x-forwarded-for': '::1', 'x-forwarded-user': 'a', cookie: 'c' }, ['x-forwarded-for', 'x-forwarded-user'], true],
  [{ 'x-forwarded-host': 'h', 'x-forwarded-proto': 'https' }, ['x-forwarded-host', 'x-forwarded-proto'], false],
  [{ 'x-auth-request-user': '' }, ['x-auth-request-user'], true],
])('names the headers of a proxy, without values (case %#)', (headers, names, hasUser) => {
  expect(describeProxyHeaders(headers)).toEqual({ names, hasUser });
});
