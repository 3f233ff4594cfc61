import type { JsonValue } from '@sluice/protocol/json/parse';
import { z } from 'zod';

/** Kinds of the principals that a credential proves. */
export const AUTHENTICATED_KINDS = ['user', 'service_account'] as const;
export type AuthenticatedKind = (typeof AUTHENTICATED_KINDS)[number];
const KINDS = ['anonymous', ...AUTHENTICATED_KINDS] as const;

const members = {
  /** `anonymous`: nobody has authenticated the caller. */
  kind: z.enum(KINDS),
  /** Empty if anonymous. */
  id: z.string(),
  groups: z.array(z.string()).readonly(),
  /** What has authenticated it: `proxy`, or the name of a token issuer; empty if anonymous. */
  source: z.string(),
  /** The human behind it, across sources; undefined if unknown. */
  person: z.string().optional(),
  /** The party that acts on its behalf, such as an agent; undefined if it acts itself. */
  actor: z.string().optional(),
  /** What its token may be used for, by the words of its issuer; empty for other credentials. */
  scopes: z.array(z.string()).readonly(),
};

/** A principal without its claims, and never with a credential: what tasks store of it. Its `key` is derived, never read. */
export const storedPrincipal = z.object(members).refine(isConsistent).transform(withKey);
/** See {@link storedPrincipal}. */
export type StoredPrincipal = z.output<typeof storedPrincipal>;

/** Who makes a request. */
export interface Principal extends StoredPrincipal {
  /** Verified claims of its token, by name. */
  readonly claims: ReadonlyMap<string, JsonValue>;
}

const NO_NAMES: readonly string[] = [];
const NO_CLAIMS: ReadonlyMap<string, JsonValue> = new Map();

/** The caller that nobody has authenticated. */
export const ANONYMOUS: Principal = {
  kind: 'anonymous',
  id: '',
  key: '',
  groups: NO_NAMES,
  source: '',
  person: undefined,
  actor: undefined,
  scopes: NO_NAMES,
  claims: NO_CLAIMS,
};

/** Returns the user with this id, which is not empty. */
export function createUser(id: string, source: string): Principal {
  return withKey({ ...ANONYMOUS, kind: 'user', id, source });
}

/** Returns the part of a principal that may be stored. */
export function toStored({ kind, id, key, groups, source, person, actor, scopes }: StoredPrincipal): StoredPrincipal {
  return { kind, id, key, groups, source, person, actor, scopes };
}

/** A principal with its claims, as another replica gets it: see {@link toTransferred}. */
export const transferredPrincipal = z
  .object({ ...members, claims: z.array(z.tuple([z.string(), z.json()])) })
  .refine(isConsistent)
  .transform(withKey)
  .transform(({ claims, ...principal }): Principal => ({ ...principal, claims: new Map(claims) }));

/** Returns the input of {@link transferredPrincipal}, which can be JSON. */
export function toTransferred(principal: Principal): object {
  // `key` is derived.
  return { ...principal, key: undefined, claims: [...principal.claims] };
}

function isConsistent({ kind, id }: { readonly kind: string; readonly id: string }): boolean {
  return (kind === 'anonymous') === (id === '');
}

/** Sets what sessions, tasks, quotas and stored states compare: two principals are the same if their keys are. */
export function withKey<Members extends { readonly kind: string; readonly id: string }>(
  principal: Members,
): Members & { readonly key: string } {
  const { kind, id } = principal;
  return { ...principal, key: kind === 'anonymous' ? '' : `${kind}:${id}` };
}
