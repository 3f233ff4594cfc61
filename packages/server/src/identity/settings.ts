import { type IdentitySettings, isProtocolHeader, type ProxySettings, type ValidationIssue } from '@sluice/contract';
import type { CredentialHeader } from './authenticator.ts';
import { createSource, PROXY_SOURCE, type PrincipalSource } from './claims.ts';
import { PEER_HEADER_PREFIX } from './peer.ts';
import { USER_HEADERS } from './proxy-headers.ts';
import { EVERYBODY } from './roles.ts';
import { tokenIssues } from './token-settings.ts';
import { TrustedProxies } from './trusted-proxies.ts';

/** Credential of a client where `Authorization` has that of a model: on the inference listener. */
export const OWN_AUTHORIZATION = 'x-sluice-authorization' satisfies CredentialHeader;

/** Headers of a proxy or a client with another meaning than who calls. */
const OTHER_MEANING: ReadonlySet<string> = new Set([
  'authorization',
  OWN_AUTHORIZATION,
  'cookie',
  'origin',
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
]);

/**
 * Returns the names of the headers that say who calls, in lower case and with `-` for `_`: they are never sent to an upstream,
 * whoever sets them. Those that name the user by default are among them whatever the proxy sets: other services believe them.
 */
export function identityHeaders({ proxy }: IdentitySettings): ReadonlySet<string> {
  const { user, groups, person } = proxy ?? {};
  return new Set([OWN_AUTHORIZATION, ...USER_HEADERS, user, groups, person].filter((name) => name !== undefined));
}

/** Returns {@link identityHeaders} and the header with the credential of clients: none is copied from them to an upstream. */
export function receivedHeaders(settings: IdentitySettings): ReadonlySet<string> {
  const names = identityHeaders(settings);
  return settings.keys.length + settings.tokens.length === 0 ? names : new Set([...names, 'authorization']);
}

/** Returns who can change everything on the management listener, since nobody needs a role there; undefined with roles. */
export function unrestrictedCallers({ anonymous, roles }: IdentitySettings): string | undefined {
  if (roles) return undefined;
  return anonymous === 'allow'
    ? 'whoever reaches the management port'
    : 'every authenticated caller of the management port';
}

/** Returns what is wrong between the members of valid settings. */
export function identityIssues(settings: IdentitySettings): readonly ValidationIssue[] {
  return [
    ...anonymousIssues(settings),
    ...headerIssues(settings.proxy),
    ...tokenIssues(settings),
    ...keyIssues(settings),
    ...adminIssues(settings),
  ];
}

/** Returns what is allowed between members of valid settings, but lets in more than most want. */
export function identityWarnings({ proxy, tokens }: IdentitySettings): readonly ValidationIssue[] {
  const ranges = (proxy?.trusted ?? []).map((range, at) => [`proxy.trusted.${at}`, range] as const);
  const audiences = tokens.flatMap(({ audiences: all }, issuer) =>
    all.map(({ for: namespaces }, at) => [`tokens.${issuer}.audiences.${at}.for`, namespaces] as const),
  );
  return [
    ...ranges.filter(([, range]) => isEveryAddress(range)).map(([path]) => ({ path, message: EVERY_ADDRESS })),
    ...audiences.filter(([, names]) => names.includes('*')).map(([path]) => ({ path, message: EVERY_NAMESPACE })),
  ];
}

const EVERY_ADDRESS =
  'is every address: whoever reaches a listener can send the headers of any user; list the addresses of the proxy only';
const EVERY_NAMESPACE =
  'is every namespace: whoever gets a token from a client of one of them can use it in all others; list the namespaces';

/** A range that has the first and the last address of IPv4 or IPv6 has all of them. */
function isEveryAddress(range: string): boolean {
  const trusted = new TrustedProxies([range]);
  const ends = [
    ['0.0.0.0', '255.255.255.255'],
    ['::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ];
  return ends.some((addresses) => addresses.every((address) => trusted.isTrusted(address)));
}

function anonymousIssues({ anonymous, inference, proxy, keys, tokens }: IdentitySettings): ValidationIssue[] {
  if (anonymous === 'allow') {
    const message = 'has no effect without "anonymous: deny"; set it too, or remove this member';
    return inference ? [{ path: 'inference', message }] : [];
  }
  const message = 'rejects every request: nobody can authenticate; configure proxy, tokens or keys, or set it to allow';
  return !proxy && keys.length + tokens.length === 0 ? [{ path: 'anonymous', message }] : [];
}

/** Clients choose the values of headers with another meaning, also behind a proxy. */
function headerIssues(proxy: Partial<ProxySettings> = {}): ValidationIssue[] {
  const seen = new Set<string>();
  return (['user', 'groups', 'person'] as const).flatMap((member) => {
    const name = proxy[member];
    if (name === undefined) return [];
    const path = `proxy.${member}`;
    const isDuplicate = seen.has(name);
    seen.add(name);
    if (OTHER_MEANING.has(name) || name.startsWith(PEER_HEADER_PREFIX) || isProtocolHeader(name)) {
      return [
        { path, message: `must not be ${name}, which has another meaning; name a header that only the proxy sets` },
      ];
    }
    const message = `is ${name} a second time; user, groups and person need headers of their own`;
    return isDuplicate ? [{ path, message }] : [];
  });
}

function keyIssues({ keys }: IdentitySettings): ValidationIssue[] {
  const names = keys.map(({ name }, at) => [`keys.${at}.name`, name] as const);
  const hashes = keys.flatMap(({ sha256 }, at) => sha256.map((hash, n) => [`keys.${at}.sha256.${n}`, hash] as const));
  return [
    ...duplicates(names, 'has the name of another key; each needs its own, since it is the id of the service account'),
    ...duplicates(hashes, 'is the hash of another key; create a key for each service account with sluice keys create'),
  ];
}

/** Returns an issue for each value that an earlier one equals. */
function duplicates(values: readonly (readonly [path: string, value: string])[], message: string): ValidationIssue[] {
  const seen = new Set<string>();
  return values.flatMap(([path, value]) => {
    const isDuplicate = seen.has(value);
    seen.add(value);
    return isDuplicate ? [{ path, message }] : [];
  });
}

/**
 * Nobody could change the settings again. An expired key counts here: otherwise a service that has run for long would not start
 * again.
 */
function adminIssues({ proxy, tokens, keys, roles }: IdentitySettings): ValidationIssue[] {
  if (!roles) return [];
  const { admin = [] } = roles;
  const names = tokens.map(({ name }) => name);
  const own = keys.filter(({ management }) => management);
  const issuers = tokens.filter((issuer) => issuer.management_audiences.length > 0 || issuer.sign_in);
  const ofKeys = new Set(own.flatMap(({ groups }) => groups.map((group) => `keys/${group}`)));
  const hasSource = proxy !== undefined || own.length + issuers.length > 0;
  const isGiven = (group: string): boolean =>
    group === EVERYBODY
      ? hasSource
      : ofKeys.has(group) ||
        isListed(proxy?.groups === undefined ? '' : nameIn(group, createSource(PROXY_SOURCE, proxy.bare, names))) ||
        issuers.some(
          ({ name, bare, groups }) => groups.length > 0 && nameIn(group, createSource(name, bare, names)) !== '',
        );
  if (admin.some(isGiven)) return [];
  const problem = admin.length === 0 ? 'has no group' : 'has no group that a source gives on the management listener';
  const proxied = proxy?.bare ? 'a group of the proxy' : '"proxy/<group>"';
  const remedy = `expected ${proxied} (with proxy.groups), "keys/<group>" of a key with "management: true", a group of a token issuer (with groups, and management_audiences or sign_in), or "${EVERYBODY}" for everyone whom a source authenticates there`;
  return [{ path: 'roles.admin', message: `${problem}, so that nobody could administer: ${remedy}` }];
}

/** Returns the name that a group has at its source; empty for a group that is none of the source. */
function nameIn(group: string, { prefix, reserved }: PrincipalSource): string {
  const isOther = !group.startsWith(prefix) || reserved.some((other) => group.startsWith(other));
  return isOther || /\p{Cc}/u.test(group) ? '' : group.slice(prefix.length);
}

/** Whether the header of a proxy can have the name: it is a list, which has neither commas nor spaces around names. */
function isListed(name: string): boolean {
  return name !== '' && name === name.trim() && !name.includes(',');
}
