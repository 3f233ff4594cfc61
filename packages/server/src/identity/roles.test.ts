import type { Right } from '@sluice/contract';
import { expect, test } from 'vitest';
import { ANONYMOUS, createUser, type Principal } from './principal.ts';
import { type May, mayOf } from './roles.ts';

const RIGHTS = ['open', 'read', 'read_bodies', 'change_registry', 'administer'] as const;

function member(...groups: readonly string[]): Principal {
  return { ...createUser('ann', 'corp'), groups };
}

function rightsOf(may: May, principal: Principal): readonly Right[] {
  return RIGHTS.filter((right) => may(principal, right));
}

const ROLES = { viewer: ['staff'], operator: ['sre'], auditor: ['security'], admin: ['platform', 'keys/root'] };

test.for<[readonly string[], readonly Right[]]>([
  [[], ['open']],
  [['other', 'STAFF', 'staff ', '*', 'admin', 'constructor'], ['open']],
  [['staff'], ['open', 'read']],
  [['sre'], ['open', 'read', 'change_registry']],
  [['security'], ['open', 'read', 'read_bodies']],
  [['platform'], RIGHTS],
  [['other', 'keys/root'], RIGHTS],
  [
    ['sre', 'security'],
    ['open', 'read', 'read_bodies', 'change_registry'],
  ],
  [
    ['staff', 'sre'],
    ['open', 'read', 'change_registry'],
  ],
])('the groups %j have the rights %j', ([groups, rights]) => {
  for (const anonymous of ['allow', 'deny'] as const) {
    expect(rightsOf(mayOf(ROLES, anonymous), member(...groups))).toEqual(rights);
  }
});

test('a service account has the roles of its groups', () => {
  const account: Principal = { ...member('sre'), kind: 'service_account' };
  expect(rightsOf(mayOf(ROLES, 'deny'), account)).toEqual(['open', 'read', 'change_registry']);
});

test('a group with several roles has the rights of all of them', () => {
  const may = mayOf({ operator: ['ops'], auditor: ['ops'] }, 'allow');
  expect(rightsOf(may, member('ops'))).toEqual(['open', 'read', 'read_bodies', 'change_registry']);
});

test('a role of `*` is that of every authenticated principal, not of anonymous ones', () => {
  const may = mayOf({ ...ROLES, viewer: ['*'] }, 'allow');
  expect(rightsOf(may, member())).toEqual(['open', 'read']);
  expect(rightsOf(may, member('security'))).toEqual(['open', 'read', 'read_bodies']);
  expect(rightsOf(may, ANONYMOUS)).toEqual(['open']);
});

test('with roles, anonymous principals have none, whatever their groups', () => {
  for (const anonymous of ['allow', 'deny'] as const) {
    expect(rightsOf(mayOf(ROLES, anonymous), { ...ANONYMOUS, groups: ['platform'] })).toEqual(['open']);
  }
});

test('with an empty object of roles, nobody has one', () => {
  expect(rightsOf(mayOf({}, 'allow'), member('platform'))).toEqual(['open']);
});

test('without roles everybody has all rights, anonymous principals unless they are denied', () => {
  expect(rightsOf(mayOf(undefined, 'allow'), ANONYMOUS)).toEqual(RIGHTS);
  expect(rightsOf(mayOf(undefined, 'allow'), member())).toEqual(RIGHTS);
  expect(rightsOf(mayOf(undefined, 'deny'), member())).toEqual(RIGHTS);
  expect(rightsOf(mayOf(undefined, 'deny'), ANONYMOUS)).toEqual(['open']);
});
