import { describe, expect, it, test } from 'vitest';
import {
  ANONYMOUS,
  createUser,
  type Principal,
  storedPrincipal,
  toStored,
  toTransferred,
  transferredPrincipal,
} from './principal.ts';

const textOf = (principal: Principal) => JSON.stringify(toTransferred(principal));
const parse = (text: string) => transferredPrincipal.safeParse(JSON.parse(text)).data;

const AGENT: Principal = {
  kind: 'service_account',
  id: 'corp/night:1 "ü"',
  key: 'service_account:corp/night:1 "ü"',
  groups: ['corp/sre', ''],
  source: 'corp',
  person: 'ann@example.com',
  actor: 'corp/assistant',
  scopes: ['refund:write'],
  claims: new Map<string, unknown>([
    ['aud', ['a', 'b']],
    ['__proto__', { a: null }],
    ['exp', 1],
  ]) as Principal['claims'],
};

test.each([
  ['anonymous', ANONYMOUS],
  ['a user', createUser('ann', 'proxy')],
  ['a service account', AGENT],
] as const)('a text has the whole principal: %s', (_, principal) => {
  expect(parse(textOf(principal))).toEqual(principal);
});

test('principals of different kinds or ids have different keys', () => {
  const ids = ['a', 'A', 'user:a', 'anonymous'];
  const users = ids.map((id) => createUser(id, 'proxy').key);
  const accounts = ids.map((id) => storedPrincipal.parse({ ...AGENT, id }).key);
  const keys = [ANONYMOUS.key, ...users, ...accounts];
  expect(new Set(keys).size).toBe(keys.length);
});

test('what is stored of a principal has no claims, and its key is derived when it is read', () => {
  const { claims: _, ...rest } = AGENT;
  const stored = JSON.parse(JSON.stringify(toStored(AGENT)));
  expect(stored).toEqual(rest);
  expect(storedPrincipal.parse({ ...stored, key: 'user:eve' })).toEqual(rest);
});

describe('a text that is no principal is rejected', () => {
  it.each([
    'null',
    '{}',
    textOf({ ...ANONYMOUS, id: 'ann' }),
    textOf(createUser('', 'proxy')),
    textOf(AGENT).replace('service_account', 'root'),
    textOf(AGENT).replace('["corp/sre",""]', '"corp/sre"'),
    textOf(AGENT).replace(/"claims":.*$/, '"x":1}'),
  ])('%s', (text) => {
    expect(parse(text)).toBeUndefined();
  });
});
