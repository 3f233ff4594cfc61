import type { TokenIssuerSettings } from '@sluice/contract';
import { compileGlob } from '@sluice/protocol/glob';
import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { type Invalid, invalid, type PrincipalSource, principalOf } from './claims.ts';
import type { Principal } from './principal.ts';

/** Which claims of an issuer mean what. */
export type ClaimSettings = Pick<TokenIssuerSettings, 'user' | 'groups' | 'person' | 'service_account'>;

const GROUPS_ELSEWHERE = invalid('the groups are not in the token, but at its issuer');
const NO_USER = invalid('the claim with the id is missing, not a text, or an address that is not verified');
const NO_GROUPS = invalid('a claim with groups is not a list of texts');
const NO_PERSON = invalid('the claim with the person is not a text');
const NO_SCOPES = invalid('the claim with the scopes is not a list of texts');
const NO_ACTOR = invalid('the claim act does not name the actor');

/**
 * Returns a function that reads the principal of verified claims: those of an access token, or of the ID token of a sign-in. Each
 * claim is read by its exact name or, if there is none, by a path with dots. A claim that cannot be read makes all of them invalid:
 * without one of its groups, a principal could do what is forbidden to the group.
 */
export function claimReader(
  settings: ClaimSettings,
  source: PrincipalSource,
): (claims: JsonObject) => Principal | Invalid {
  const isNamedServiceAccount = serviceAccountMatcher(settings);
  return (claims) => {
    // An issuer that has too many groups for a token names where they are.
    if ('_claim_names' in claims || 'hasgroups' in claims) return GROUPS_ELSEWHERE;
    const id = claimAt(claims, settings.user);
    if (typeof id !== 'string') return NO_USER;
    const groups = settings.groups.map((path) => textsOf(claimAt(claims, path)));
    if (!groups.every((texts) => texts !== undefined)) return NO_GROUPS;
    const person = settings.person === undefined ? undefined : claimAt(claims, settings.person);
    if (person !== undefined && typeof person !== 'string') return NO_PERSON;
    const scopes = scopesOf(claims);
    if (!scopes) return NO_SCOPES;
    const actor = actorOf(claims);
    if (actor === null) return NO_ACTOR;
    const kind = isServiceAccount(claims) || isNamedServiceAccount(claims) ? 'service_account' : 'user';
    const principal = principalOf(source, { kind, id, groups: groups.flat(), person, actor });
    if (principal.kind === 'invalid') return principal;
    const named = new Map<string, JsonValue>();
    for (const name of Object.keys(claims)) named.set(name, claims[name] ?? null);
    return { ...principal, scopes, claims: named };
  };
}

/** Returns the claim with this name or, if there is none, at this path; undefined if it is missing or does not count. */
function claimAt(claims: JsonObject, path: string): JsonValue | undefined {
  const value = memberAt(claims, path);
  // Everybody can claim an address at an issuer that does not verify it.
  const isAddress = path === 'email' || path.endsWith('.email');
  if (value === null || (isAddress && memberAt(claims, `${path}_verified`) !== true)) return undefined;
  return value;
}

/** Names of claims have dots themselves: those in front of any dot may be one name. */
function memberAt(claims: JsonObject, path: string): JsonValue | undefined {
  if (Object.hasOwn(claims, path)) return claims[path];
  for (let dot = path.indexOf('.'); dot !== -1; dot = path.indexOf('.', dot + 1)) {
    const name = path.slice(0, dot);
    const inner = Object.hasOwn(claims, name) ? claims[name] : undefined;
    const value = isJsonObject(inner) ? memberAt(inner, path.slice(dot + 1)) : undefined;
    if (value !== undefined) return value;
  }
  return undefined;
}

/** Returns the texts of a claim that has none, one or a list of them; undefined for other values. */
function textsOf(value: JsonValue | undefined): readonly string[] | undefined {
  if (value === undefined || value === null) return [];
  const values = Array.isArray(value) ? value : [value];
  return values.every((each) => typeof each === 'string') ? values : undefined;
}

/** Scopes have spaces between them in one claim or the other, or are a list. */
function scopesOf({ scope, scp }: JsonObject): readonly string[] | undefined {
  const given = scope ?? scp;
  const texts = typeof given === 'string' ? given.split(' ') : textsOf(given)?.flatMap((text) => text.split(' '));
  return texts && [...new Set(texts)].filter((text) => text !== '');
}

/** The actor (RFC 8693 4.1): undefined without one, null if it has no name. Inner ones acted before, and have no effect. */
function actorOf({ act }: JsonObject): string | undefined | null {
  if (act === undefined || act === null) return undefined;
  const name = isJsonObject(act) ? (act.sub ?? act.client_id) : undefined;
  return typeof name === 'string' ? name : null;
}

/** Whether a client has got the token for itself. Issuers say that in different ways. */
function isServiceAccount(claims: JsonObject): boolean {
  const { sub, client_id, azp, appid, cid, tid, oid, idtyp, gty, preferred_username: name } = claims;
  const clients = [client_id, azp, appid, cid, tid === undefined ? undefined : oid];
  return (
    (typeof sub === 'string' && clients.includes(sub)) ||
    idtyp === 'app' ||
    gty === 'client-credentials' ||
    'kubernetes.io' in claims ||
    (typeof name === 'string' && name.startsWith('service-account-'))
  );
}

function serviceAccountMatcher({ service_account: named }: ClaimSettings): (claims: JsonObject) => boolean {
  if (!named) return () => false;
  const globs = named.values.map(compileGlob);
  return (claims) => {
    const texts = textsOf(claimAt(claims, named.claim)) ?? [];
    return texts.some((text) => globs.some((glob) => glob.matches(text)));
  };
}
