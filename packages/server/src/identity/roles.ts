import type { IdentitySettings, Right } from '@sluice/contract';
import { RECOVERY_SOURCE } from './claims.ts';
import type { Principal } from './principal.ts';

/** Whether a principal has a right on the management listener. Everybody has `open`. */
export type May = (principal: Principal, right: Right) => boolean;

type Roles = NonNullable<IdentitySettings['roles']>;

/** The rights of each role besides `open`. An auditor changes nothing, an operator reads no bodies. */
const RIGHTS: Readonly<Record<keyof Roles, readonly Right[]>> = {
  viewer: ['read'],
  operator: ['read', 'change_registry'],
  auditor: ['read', 'read_bodies'],
  admin: ['read', 'read_bodies', 'change_registry', 'administer'],
};

const ROLES = ['viewer', 'operator', 'auditor', 'admin'] as const satisfies readonly (keyof Roles)[];

/** Element of a role: every authenticated principal. */
export const EVERYBODY = '*';

/** Group of the principal that recovers the access of administrators: no other source can give it. */
export const RECOVERY_GROUP = `${RECOVERY_SOURCE}/admin`;

/**
 * Returns a function that decides by the roles of the principal's groups: it has the rights of all of them, and an anonymous one
 * has none. Without `roles` everybody has all rights, unless `anonymous` is `deny`: then all but anonymous principals.
 */
export function mayOf(roles: IdentitySettings['roles'], anonymous: IdentitySettings['anonymous']): May {
  if (!roles) return ({ kind }, right) => right === 'open' || kind !== 'anonymous' || anonymous === 'allow';
  const granted = groupsByRight(roles);
  return ({ kind, groups }, right) => {
    if (right === 'open') return true;
    if (kind === 'anonymous') return false;
    const allowed = granted.get(right);
    if (!allowed) return false;
    return allowed.has(EVERYBODY) || groups.some((group) => allowed.has(group));
  };
}

/** The groups that have each right. */
function groupsByRight(roles: Roles): ReadonlyMap<Right, ReadonlySet<string>> {
  const granted = new Map<Right, Set<string>>();
  for (const role of ROLES) {
    for (const right of RIGHTS[role]) {
      const groups = granted.getOrInsertComputed(right, () => new Set());
      for (const group of roles[role] ?? []) groups.add(group);
      if (role === 'admin') groups.add(RECOVERY_GROUP);
    }
  }
  return granted;
}
