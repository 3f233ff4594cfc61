import { LOOPBACK_ADDRESS } from '../../http/address.ts';
import { isLoopback, splitHost } from '../../http/host-rule.ts';
import type { PublicUrl } from '../../http/public-url.ts';
import type { ServerRequest } from '../../http/server/request.ts';
import type { OwnCookie } from '../../identity/own-cookies.ts';

/** Why there is no sign-in at the address of a console. */
export interface NoSignIn {
  readonly reason: string;
}

const NOT_SECURE: NoSignIn = {
  reason:
    'people sign in over https only, except on the machine of the service: set SERVICE_CONSOLE_URL to an https URL',
};
const UNKNOWN_ADDRESS: NoSignIn = {
  reason:
    'the address of the console is unknown: set SERVICE_CONSOLE_URL, or open it on the machine of the service, without a proxy',
};

/** Headers by which a proxy says that it has forwarded a request. */
const FORWARDED = ['forwarded', 'via', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto'];

/**
 * Returns the URL of the console, without trailing slash, for the browser that makes this request. Cookies are safe over https, and
 * on the loopback interface of this machine.
 */
export function consoleAddress(
  publicUrl: PublicUrl | undefined,
  { headers, socket }: Pick<ServerRequest, 'headers' | 'socket'>,
): { readonly href: string } | NoSignIn {
  if (publicUrl) return isSecure(publicUrl) || isLoopback(publicUrl.host) ? publicUrl : NOT_SECURE;
  const { host = '' } = headers;
  const isLocal = LOOPBACK_ADDRESS.test(socket.localAddress ?? '') && isLoopback(splitHost(host)?.host ?? '');
  const isForwarded = FORWARDED.some((name) => headers[name] !== undefined);
  return isLocal && !isForwarded ? { href: `http://${host}` } : UNKNOWN_ADDRESS;
}

function isSecure({ href }: PublicUrl): boolean {
  return href.startsWith('https:');
}

/** Names of the cookies of a sign-in, and how they are set. */
export class SignInCookies {
  /** That of a sign-in, and of one that has begun. */
  readonly session: OwnCookie;
  readonly login: OwnCookie;
  readonly #attributes: string;

  constructor(publicUrl: PublicUrl | undefined) {
    const secure = publicUrl !== undefined && isSecure(publicUrl);
    this.session = secure ? '__Host-sluice' : 'sluice';
    this.login = `${this.session}-login`;
    this.#attributes = `; Path=/; HttpOnly${secure ? '; Secure' : ''}`;
  }

  /** Returns the values of `Set-Cookie` for a sign-in, and to delete its cookie. */
  setSession(value: string, seconds: number): string {
    return this.#set(this.session, value, `Strict; Max-Age=${Math.floor(seconds)}`);
  }

  deleteSession(): string {
    return this.setSession('', 0);
  }

  /** Returns them for a sign-in that has begun: the page of the issuer leads the browser back here, so that it cannot be Strict. */
  setLogin(value: string, seconds: number): string {
    return this.#set(this.login, value, `Lax; Max-Age=${seconds}`);
  }

  deleteLogin(): string {
    return this.setLogin('', 0);
  }

  #set(name: string, value: string, rest: string): string {
    return `${name}=${value}${this.#attributes}; SameSite=${rest}`;
  }
}
