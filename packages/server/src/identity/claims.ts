import { CONTROL_CHARACTERS } from '@sluice/contract';
import { FORWARD_PREFIX } from './blocks.ts';
import { ANONYMOUS, type AuthenticatedKind, type Principal, withKey } from './principal.ts';

/** Why a credential is not accepted. */
export interface Invalid {
  readonly kind: 'invalid';
  /** For the log: a constant text, which has no part of the credential. */
  readonly reason: string;
}

/** Returns an {@link Invalid}. */
export function invalid(reason: string): Invalid {
  return { kind: 'invalid', reason };
}

/** Names of the sources that are no token issuers. They are reserved also while such a source is not configured. */
export const PROXY_SOURCE = 'proxy';
export const KEYS_SOURCE = 'keys';
export const RECOVERY_SOURCE = 'recovery';

/** What proves principals: the proxy, the keys, or an issuer of tokens. */
export interface PrincipalSource {
  readonly name: string;
  /** Beginning of all its ids and groups; empty for the bare source. */
  readonly prefix: string;
  /** Prefixes of the other sources, with which no value of the bare source may begin. */
  readonly reserved: readonly string[];
}

/**
 * Returns the source of this name, which has no slash. `bare`: its ids and groups have no prefix, which is allowed for one source;
 * `issuers` are then the names of all token issuers.
 */
export function createSource(name: string, bare: boolean, issuers: readonly string[] = []): PrincipalSource {
  if (!bare) return { name, prefix: `${name}/`, reserved: [] };
  const others = [PROXY_SOURCE, KEYS_SOURCE, RECOVERY_SOURCE, ...issuers].filter((other) => other !== name);
  return { name, prefix: '', reserved: others.map((other) => `${other}/`) };
}

/** What a credential says about its principal, with the names of its source. The texts are stored: no slices of a longer one. */
export interface PrincipalFacts {
  readonly kind: AuthenticatedKind;
  readonly id: string;
  readonly groups: readonly string[];
  readonly person: string | undefined;
  /** Id of the party that acts on its behalf, of the same source. */
  readonly actor?: string | undefined;
}

/** Longest id, group or person, in bytes of UTF-8. */
const MAX_BYTES = 256;
/** Groups of a principal, and bytes of all their names. */
const MAX_GROUPS = 256;
const MAX_GROUPS_BYTES = 16 * 1024;

const CONTROL = new RegExp(`[${CONTROL_CHARACTERS}]`);

/**
 * Returns the principal with ids and groups as policies name them: `<source>/<value>`. The ids of two sources never equal each other,
 * since only the bare source has values without prefix, which may not begin with that of another one. A value that cannot be a name
 * makes the whole credential invalid: without one of its groups, a principal could do what is forbidden to the group.
 */
export function principalOf(source: PrincipalSource, facts: PrincipalFacts): Principal | Invalid {
  const { kind, id, groups, person, actor } = facts;
  const problem =
    problemOfId(id, source) ??
    problemOfGroups(groups, source) ??
    (person === undefined ? undefined : problemOf('the person', person)) ??
    (actor === undefined ? undefined : (problemOf('the actor', actor) ?? problemOfPrefix('the actor', actor, source)));
  if (problem !== undefined) return invalid(problem);
  const { name, prefix } = source;
  return withKey({
    ...ANONYMOUS,
    kind,
    id: prefix + id,
    groups: [...new Set(groups)].map((group) => prefix + group),
    source: name,
    person,
    actor: actor === undefined ? undefined : prefix + actor,
  });
}

function problemOfId(id: string, source: PrincipalSource): string | undefined {
  if (source.prefix === '' && id.startsWith(FORWARD_PREFIX)) return `the id begins with "${FORWARD_PREFIX}"`;
  return problemOf('the id', id) ?? problemOfPrefix('the id', id, source);
}

function problemOfGroups(groups: readonly string[], source: PrincipalSource): string | undefined {
  if (groups.length > MAX_GROUPS) return `more than ${MAX_GROUPS} groups`;
  let bytes = 0;
  for (const group of groups) {
    const problem = problemOf('a group', group) ?? problemOfPrefix('a group', group, source);
    if (problem !== undefined) return problem;
    bytes += Buffer.byteLength(group);
  }
  return bytes > MAX_GROUPS_BYTES ? `the groups have more than ${MAX_GROUPS_BYTES} bytes` : undefined;
}

function problemOf(what: string, value: string): string | undefined {
  if (value === '') return `${what} is empty`;
  if (value.length > MAX_BYTES || Buffer.byteLength(value) > MAX_BYTES) {
    return `${what} has more than ${MAX_BYTES} bytes`;
  }
  if (CONTROL.test(value)) return `${what} has control characters`;
  return value.isWellFormed() ? undefined : `${what} is not valid Unicode`;
}

function problemOfPrefix(what: string, value: string, { reserved }: PrincipalSource): string | undefined {
  return reserved.some((prefix) => value.startsWith(prefix))
    ? `${what} begins with the name of another source`
    : undefined;
}
