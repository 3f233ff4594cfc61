import { randomBytes } from 'node:crypto';
import type { Session } from '@sluice/contract';
import { tryParseJson } from '@sluice/protocol/json/parse';
import type { TokenSealer } from '@sluice/protocol/seal';
import { z } from 'zod';
import type { PublicUrl } from '../../http/public-url.ts';
import type { ServerRequest } from '../../http/server/request.ts';
import type { Invalid } from '../../identity/claims.ts';
import type { Identity } from '../../identity/identity.ts';
import type { FetchIssuer } from '../../identity/issuer-keys.ts';
import { ownCookie } from '../../identity/own-cookies.ts';
import type { Principal } from '../../identity/principal.ts';
import type { SignIn } from '../../identity/sign-ins.ts';
import { StoreError } from '../../registry/store/store.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import type { ApiResponse } from '../responses.ts';
import { consoleAddress, SignInCookies } from './console-address.ts';
import { IssuerClient, IssuerError, type SignInIssuer, signInIssuer, type TokenResponse } from './issuer-client.ts';
import { failurePage, redirectTo } from './page.ts';
import { type Refreshed, StoredSignIns, TooManySignInsError } from './stored-sign-ins.ts';

/** What the sign-in to the console needs. */
export interface ConsoleSignInParts {
  /** Where browsers reach the console. */
  readonly consoleUrl: PublicUrl | undefined;
  readonly sealer: TokenSealer;
  readonly fetch: FetchIssuer;
  readonly identity: () => Pick<Identity, 'settings' | 'signIns' | 'tokens'>;
  readonly log: TargetLogger;
  readonly now?: (() => number) | undefined;
}

/** What a browser stores of a sign-in that has begun, sealed. */
const begunSignIn = z.object({
  issuer: z.string(),
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  redirectUri: z.string(),
  returnTo: z.string(),
  until: z.number(),
});

const LOGIN_PATH = '/api/v1/session/login';
const CALLBACK_PATH = '/api/v1/session/callback';
/** Time for a sign-in at the issuer. */
const BEGUN_SECONDS = 600;
/** Exchanges of codes at once: nobody is authenticated yet. */
const MAX_EXCHANGES = 20;
const HOUR_MS = 60 * 60 * 1_000;

/** A page of the console: it has one path, and its routes are in the fragment. */
const CONSOLE_PAGE = /^\/admin\/(?:#[\x21-\x7e]{0,1500})?$/;

const NO_ISSUER = 'no issuer of identity.tokens has sign_in';
const BY_PROXY = 'the proxy in front of the console has signed you in';
const NOT_BEGUN = 'No sign-in has begun in this browser in the last 10 minutes: open the console, and sign in there';
const OTHER_SIGN_IN = 'This belongs to another sign-in than the last one of this browser: sign in again';
const NOT_ACCEPTED =
  'The identity provider did not accept the sign-in: sign in again. The log of the service has the cause';
const UNREACHABLE = 'The identity provider does not answer now: try again later. The log of the service has the cause';
const NOT_STORED = 'The sign-in cannot be stored now: try again later. The log of the service has the cause';

/** Sign-in of people to the console: authorization code with PKCE (RFC 6749, RFC 7636, RFC 9700), and what follows. */
export class ConsoleSignIn {
  readonly stored: StoredSignIns;
  readonly cookies: SignInCookies;
  readonly #parts: ConsoleSignInParts;
  readonly #now: () => number;
  readonly #clients = new WeakMap<SignInIssuer, IssuerClient>();
  #exchanges = 0;

  constructor(parts: ConsoleSignInParts) {
    const { consoleUrl, sealer, now = Date.now } = parts;
    this.#parts = parts;
    this.#now = now;
    this.cookies = new SignInCookies(consoleUrl);
    const refresh = (signIn: SignIn, token: string) => this.#refresh(signIn, token);
    this.stored = new StoredSignIns({ cookie: this.cookies.session, sealer, refresh, now });
  }

  /** Returns how people can sign in. `isProxied`: a proxy in front has authenticated the request. */
  offer(http: ServerRequest, isProxied: boolean): Session['offer'] {
    const issuer = this.#issuer();
    if (!issuer) return { scopes: [], reason: NO_ISSUER };
    const { client_id: clientId, scopes } = issuer.sign_in;
    const known = { issuer: issuer.issuer, clientId, scopes: [...scopes] };
    if (isProxied) return { ...known, reason: BY_PROXY };
    const address = consoleAddress(this.#parts.consoleUrl, http);
    return { ...known, ...('reason' in address ? address : { url: address.href + LOGIN_PATH }) };
  }

  /** Begins a sign-in: leads the browser to the issuer. */
  async begin(http: ServerRequest): Promise<ApiResponse> {
    const issuer = this.#issuer();
    if (!issuer) return failurePage(400, NO_ISSUER);
    const address = consoleAddress(this.#parts.consoleUrl, http);
    if ('reason' in address) return failurePage(400, address.reason);
    const returnTo = queryOf(http).get('return_to') ?? '';
    const begun: z.output<typeof begunSignIn> = {
      issuer: issuer.issuer,
      state: random(),
      nonce: random(),
      verifier: random(),
      redirectUri: address.href + CALLBACK_PATH,
      returnTo: address.href + (CONSOLE_PAGE.test(returnTo) ? returnTo : '/admin/'),
      until: this.#now() + BEGUN_SECONDS * 1_000,
    };
    try {
      const sealed = this.#parts.sealer.seal('signIn', JSON.stringify(begun));
      const location = await this.#client(issuer).authorizationUrl(begun);
      return redirectTo(location, [this.cookies.setLogin(sealed, BEGUN_SECONDS)]);
    } catch (error) {
      this.#parts.log.warn('sign-in failed', { error });
      return failurePage(503, UNREACHABLE);
    }
  }

  /** Completes a sign-in: the browser comes back from the issuer, and is led to the console. */
  async complete(http: ServerRequest): Promise<ApiResponse> {
    const begun = this.#begun(http);
    if (!begun) return failurePage(400, NOT_BEGUN);
    const query = queryOf(http);
    const issuer = this.#issuer();
    const { state, iss = begun.issuer, error, code } = Object.fromEntries(query);
    if (state !== begun.state || issuer?.issuer !== begun.issuer || iss !== begun.issuer)
      return failurePage(400, OTHER_SIGN_IN);
    // The code and the state are used up now.
    const failed = (status: 400 | 503, reason: string, cause: object): ApiResponse => {
      this.#parts.log.warn('sign-in failed', { issuer: issuer.name, ...cause });
      return failurePage(status, reason, [this.cookies.deleteLogin()]);
    };
    if (code === undefined) return failed(400, NOT_ACCEPTED, { cause: /^[a-z_]{1,64}$/.exec(error ?? '')?.[0] });
    if (this.#exchanges >= MAX_EXCHANGES) return failed(503, UNREACHABLE, { cause: 'too many sign-ins at once' });
    this.#exchanges++;
    try {
      const tokens = await this.#client(issuer).exchange(code, begun);
      const proven = await this.#proven(issuer, tokens, begun.nonce);
      const lifetime = issuer.sign_in.max_hours * HOUR_MS;
      const value = await this.stored.add(issuer.name, proven, lifetime);
      this.#parts.log.info('signed in', { principal: proven.principal.id });
      return redirectTo(begun.returnTo, [this.cookies.setSession(value, lifetime / 1_000), this.cookies.deleteLogin()]);
    } catch (error) {
      if (error instanceof StoreError || error instanceof TooManySignInsError)
        return failed(503, NOT_STORED, { error });
      const isRejected = error instanceof IssuerError && error.code !== undefined;
      return isRejected ? failed(400, NOT_ACCEPTED, { error }) : failed(503, UNREACHABLE, { error });
    } finally {
      this.#exchanges--;
    }
  }

  /** Ends a sign-in, and revokes its refresh token. Returns whether there was one. Rejects with `StoreError`. */
  async end(id: string): Promise<boolean> {
    const ended = await this.stored.end(id);
    if (!ended) return false;
    const issuer = this.#issuerOf(ended.signIn);
    const { refreshToken } = ended;
    if (!issuer || refreshToken === undefined) return true;
    try {
      await this.#client(issuer).revoke(refreshToken);
    } catch (error) {
      this.#parts.log.warn('refresh token not revoked', { issuer: issuer.name, error });
    }
    return true;
  }

  #issuer(): SignInIssuer | undefined {
    return signInIssuer(this.#parts.identity().settings?.tokens);
  }

  /** Returns the issuer of a sign-in, the only one that may get its refresh token; undefined if people sign in elsewhere now. */
  #issuerOf({ issuer: name, claims }: SignIn): SignInIssuer | undefined {
    const issuer = this.#issuer();
    return issuer?.name === name && issuer.issuer === claims.iss ? issuer : undefined;
  }

  #client(issuer: SignInIssuer): IssuerClient {
    return this.#clients.getOrInsertComputed(issuer, () => new IssuerClient(issuer, this.#parts.fetch));
  }

  #begun({ head }: ServerRequest): z.output<typeof begunSignIn> | undefined {
    const sealed = ownCookie(head.credentials.get('cookie'), this.cookies.login);
    const text = sealed === undefined ? undefined : this.#parts.sealer.open('signIn', sealed);
    const { data } = begunSignIn.safeParse(tryParseJson(text ?? ''));
    return data && data.until > this.#now() ? data : undefined;
  }

  /** Returns the principal of a sign-in by the active settings. */
  principalOf(signIn: SignIn): Principal | Invalid {
    return this.#parts.identity().signIns.principalOf(signIn);
  }

  /** Verifies the ID token. `nonce`: undefined for one of a refresh, which need not have any. */
  async #proven(issuer: SignInIssuer, tokens: TokenResponse, nonce: string | undefined) {
    const { id_token: token, refresh_token: refreshToken, expires_in: expiresIn } = tokens;
    if (token === undefined) throw new IssuerError('the issuer has sent no ID token', 'invalid_id_token');
    const { name, sign_in: client } = issuer;
    const expected = { clientId: client.client_id, nonce };
    const verified = await this.#parts.identity().tokens?.verifyIdToken(token, name, expected);
    if (!verified || verified.kind === 'unavailable') throw new IssuerError('the keys of the issuer are not known');
    if (verified.kind === 'invalid') throw new IssuerError(verified.reason, 'invalid_id_token');
    const { claims, authenticated } = verified;
    return { claims, principal: authenticated.principal, refreshToken, expiresIn };
  }

  async #refresh(signIn: SignIn, refreshToken: string): Promise<Refreshed> {
    const { issuer: name, claims } = signIn;
    const issuer = this.#issuerOf(signIn);
    if (!issuer) return 'ended';
    let tokens: TokenResponse | undefined;
    try {
      tokens = await this.#client(issuer).refresh(refreshToken);
      const kept = { ...tokens, refresh_token: tokens.refresh_token ?? refreshToken };
      // The issuer has confirmed it without another ID token.
      if (tokens.id_token === undefined)
        return { claims, refreshToken: kept.refresh_token, expiresIn: tokens.expires_in };
      const proven = await this.#proven(issuer, kept, undefined);
      if (proven.claims.sub === claims.sub) return proven;
      throw new IssuerError('the ID token is of another person', 'invalid_id_token');
    } catch (error) {
      const isEnded = error instanceof IssuerError && ['invalid_grant', 'invalid_id_token'].includes(error.code ?? '');
      this.#parts.log.warn(isEnded ? 'sign-in ended by its issuer' : 'sign-in not refreshed', { issuer: name, error });
      if (isEnded) return 'ended';
      return { refreshToken: tokens?.refresh_token ?? refreshToken };
    }
  }
}

function random(): string {
  return randomBytes(32).toString('base64url');
}

function queryOf({ url }: ServerRequest): URLSearchParams {
  return new URLSearchParams(url.slice(url.indexOf('?') + 1));
}
