import type { IncomingHttpHeaders } from 'node:http';
import { detach } from '@sluice/protocol/text';
import type { Authenticate } from './authenticator.ts';
import { ANONYMOUS, createUser, type Principal } from './principal.ts';

/** Users that are cached, and longest cached name in characters. */
const MAX_CACHED = 1_000;
const MAX_CACHED_CHARACTERS = 256;

/**
 * Creates the authenticator by the headers of an authenticating proxy. A request without them, or with empty ones, is
 * anonymous. If the headers name different users, the client may have sent the one that its proxy does not set: the id consists
 * of both values then, and equals that of neither user.
 */
export function proxyHeaders(): Authenticate {
  const cached = new Map<string, Principal>();
  return ({ headers: { 'x-forwarded-user': forwarded, 'x-auth-request-user': requested } }) => {
    if (forwarded === undefined && requested === undefined) return ANONYMOUS;
    const isSame = forwarded === undefined || requested === undefined || forwarded === requested;
    const id = isSame ? String(forwarded ?? requested) : JSON.stringify([forwarded, requested]);
    if (id === '') return ANONYMOUS;
    const known = cached.get(id);
    if (known) return known;
    if (id.length > MAX_CACHED_CHARACTERS) return createUser(id, 'proxy');
    // A header value retains the whole head.
    const user = createUser(detach(id), 'proxy');
    if (cached.size >= MAX_CACHED) cached.clear();
    cached.set(user.id, user);
    return user;
  };
}

const USER_HEADERS = ['x-forwarded-user', 'x-auth-request-user'] as const;
const PROXY_HEADERS = ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', ...USER_HEADERS] as const;

/** Returns the names of the headers that an authenticating proxy has added, and whether one of them names a user. */
export function describeProxyHeaders(headers: IncomingHttpHeaders): {
  readonly names: readonly string[];
  readonly hasUser: boolean;
} {
  const names = PROXY_HEADERS.filter((name) => headers[name] !== undefined);
  return { names, hasUser: USER_HEADERS.some((name) => names.includes(name)) };
}
