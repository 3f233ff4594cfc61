import { isUtf8 } from 'node:buffer';
import type { ProxySettings } from '@sluice/contract';
import { compileGlob, type Glob } from '@sluice/protocol/glob';
import { detach } from '@sluice/protocol/text';
import {
  ANONYMOUS_CALLER,
  type Authenticate,
  type Authenticated,
  authenticated,
  type Credentials,
  type ReceivedHead,
} from './authenticator.ts';
import { createSource, type Invalid, invalid, PROXY_SOURCE, type PrincipalSource, principalOf } from './claims.ts';
import { createUser, type Principal } from './principal.ts';
import type { TrustedProxies } from './trusted-proxies.ts';

/** Users that are cached, and longest cached name in characters. */
const MAX_CACHED = 1_000;
const MAX_CACHED_CHARACTERS = 256;

/**
 * Creates the authenticator of a service without the setting `identity`, by the headers of an authenticating proxy, which it believes
 * from every peer. A request without them, or with empty ones, is anonymous. If the headers name different users, the client may have
 * sent the one that its proxy does not set: the id consists of both values then, and equals that of neither user.
 */
export function proxyHeaders(): Authenticate {
  const cached = new Map<string, Authenticated>();
  return ({ headers: { 'x-forwarded-user': forwarded, 'x-auth-request-user': requested } }) => {
    if (forwarded === undefined && requested === undefined) return ANONYMOUS_CALLER;
    const isSame = forwarded === undefined || requested === undefined || forwarded === requested;
    const id = isSame ? String(forwarded ?? requested) : JSON.stringify([forwarded, requested]);
    if (id === '') return ANONYMOUS_CALLER;
    const known = cached.get(id);
    if (known) return known;
    if (id.length > MAX_CACHED_CHARACTERS) return authenticated(createUser(id, 'proxy'));
    // A header value retains the whole head.
    const user = authenticated(createUser(detach(id), 'proxy'));
    if (cached.size >= MAX_CACHED) cached.clear();
    cached.set(user.principal.id, user);
    return user;
  };
}

/** Principals with more text in their headers are not cached. */
const MAX_CACHED_TEXT = 4_096;

/** Values of the headers of a user. */
interface UserHeaders {
  readonly id: string;
  readonly groups: string;
  readonly person: string;
}

/** What was made of them, for the latest peer. */
interface CachedUser extends UserHeaders {
  readonly peer: string | undefined;
  readonly authenticated: Authenticated;
}

/**
 * Authenticates by the headers of the proxies that the setting `identity.proxy` trusts. Part of the hot path: the latest
 * headers of a user are cached.
 */
export class ProxyHeaders {
  readonly #settings: ProxySettings;
  readonly #trusted: TrustedProxies;
  readonly #source: PrincipalSource;
  readonly #serviceAccounts: readonly Glob[];
  /** By the header with the id. */
  readonly #cached = new Map<string, CachedUser>();
  #ignored = 0;

  /** `issuers`: names of all token issuers. */
  constructor(settings: ProxySettings, trusted: TrustedProxies, issuers: readonly string[]) {
    this.#settings = settings;
    this.#trusted = trusted;
    this.#source = createSource(PROXY_SOURCE, settings.bare, issuers);
    this.#serviceAccounts = settings.service_accounts.map(compileGlob);
  }

  /** Number of requests with identity headers from other peers. */
  get ignored(): number {
    return this.#ignored;
  }

  /**
   * Returns the principal of a request from the peer with this address. Anonymous without an id, or if the peer is not trusted:
   * headers of others mean nothing. A header of a trusted peer that occurs twice is invalid: its client may have sent one of the lines.
   */
  authenticate(credentials: Credentials, peer: string | undefined): Authenticated | Invalid {
    const { user, groups, person } = this.#settings;
    const users = credentials.get(user) ?? NO_LINES;
    const groupLists = groups === undefined ? NO_LINES : (credentials.get(groups) ?? NO_LINES);
    const persons = person === undefined ? NO_LINES : (credentials.get(person) ?? NO_LINES);
    const isOtherNotation = credentials.keys().some((name) => name.includes('_'));
    if (users.length + groupLists.length + persons.length === 0 && !isOtherNotation) return ANONYMOUS_CALLER;
    if (!this.#trusted.isTrusted(peer)) {
      this.#ignored++;
      return ANONYMOUS_CALLER;
    }
    if (isOtherNotation) return NOTATION;
    if (users.length > 1 || groupLists.length > 1 || persons.length > 1) return REPEATED;
    const [id = ''] = users;
    if (id === '') return ANONYMOUS_CALLER;
    return this.#authenticate({ id, groups: groupLists[0] ?? '', person: persons[0] ?? '' }, peer);
  }

  #authenticate(received: UserHeaders, peer: string | undefined): Authenticated | Invalid {
    const cached = this.#cached.get(received.id);
    const known = cached?.groups === received.groups && cached.person === received.person ? cached : undefined;
    if (known && known.peer === peer) return known.authenticated;
    const principal =
      known?.authenticated.principal ??
      this.#createPrincipal(decode(received.id), decode(received.groups), decode(received.person));
    if (principal.kind === 'invalid') return principal;
    // Values of headers retain the whole head.
    const headers = { id: detach(received.id), groups: detach(received.groups), person: detach(received.person) };
    const user = authenticated(principal, { kind: 'proxy', headers: this.#linesOf(headers), peer });
    const { id, groups, person } = headers;
    if (id.length + groups.length + person.length > MAX_CACHED_TEXT) return user;
    if (this.#cached.size >= MAX_CACHED) this.#cached.clear();
    this.#cached.set(id, { ...headers, peer, authenticated: user });
    return user;
  }

  #linesOf({ id, groups, person }: UserHeaders): Credentials {
    const { user: idName, groups: groupsName, person: personName } = this.#settings;
    const lines = new Map([[idName, [id]]]);
    if (groupsName !== undefined && groups !== '') lines.set(groupsName, [groups]);
    if (personName !== undefined && person !== '') lines.set(personName, [person]);
    return lines;
  }

  #createPrincipal(
    id: string | undefined,
    groups: string | undefined,
    person: string | undefined,
  ): Principal | Invalid {
    if (id === undefined || groups === undefined || person === undefined) return NOT_UTF8;
    return principalOf(this.#source, {
      kind: this.#serviceAccounts.some((glob) => glob.matches(id)) ? 'service_account' : 'user',
      id,
      groups: groups
        .split(',')
        .map(trimBlanks)
        .filter((group) => group !== ''),
      person: person === '' ? undefined : person,
    });
  }
}

const NO_LINES: readonly string[] = [];
/** A proxy that sets these headers may remove them in its own notation only. */
const NOTATION = invalid('an identity header has "_" in place of "-"');
const REPEATED = invalid('an identity header occurs twice');
const NOT_UTF8 = invalid('an identity header is not valid UTF-8');

/**
 * Returns a copy of the text that a proxy has sent as UTF-8, of a value that was decoded as latin1 and retains the whole head;
 * undefined if it is not valid.
 */
function decode(value: string): string | undefined {
  const bytes = Buffer.from(value, 'latin1');
  return isUtf8(bytes) ? bytes.toString() : undefined;
}

/** Removes spaces and tabs, as lists in headers have them. Other white space is part of a name, which `trim` would change. */
function trimBlanks(text: string): string {
  let [start, end] = [0, text.length];
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (start < end && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** Headers that name the user, unless `identity` names others. */
export const USER_HEADERS = ['x-forwarded-user', 'x-auth-request-user'] as const;
const PROXY_HEADERS = ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', ...USER_HEADERS] as const;

/** Returns the names of the headers that an authenticating proxy has added, and whether one of them names a user. */
export function describeProxyHeaders(
  { headers, credentials }: Required<Pick<ReceivedHead, 'headers' | 'credentials'>>,
  proxy: ProxySettings | undefined,
): { readonly names: readonly string[]; readonly hasUser: boolean } {
  const users = proxy ? [proxy.user] : USER_HEADERS;
  const all = new Set([...PROXY_HEADERS, ...users]);
  const names = [...all].filter((name) => headers[name] !== undefined || credentials.has(name));
  return { names, hasUser: users.some((name) => names.includes(name)) };
}
