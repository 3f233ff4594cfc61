import { createHash } from 'node:crypto';
import type { TokenIssuerSettings } from '@sluice/contract';
import { tryParseJson } from '@sluice/protocol/json/parse';
import { z } from 'zod';
import type { FetchIssuer } from '../../identity/issuer-keys.ts';

/** An issuer at which people sign in. */
export interface SignInIssuer extends TokenIssuerSettings {
  readonly sign_in: NonNullable<TokenIssuerSettings['sign_in']>;
}

/** Returns the issuer at which people sign in, if there is one. */
export function signInIssuer(issuers: readonly TokenIssuerSettings[] = []): SignInIssuer | undefined {
  return issuers.find((issuer): issuer is SignInIssuer => issuer.sign_in !== undefined);
}

/** What the browser brings back from the issuer. */
export interface AuthorizationRequest {
  readonly redirectUri: string;
  readonly state: string;
  readonly nonce: string;
  /** Proof that the one who began the sign-in completes it (RFC 7636). */
  readonly verifier: string;
}

const metadata = z.object({
  issuer: z.string(),
  authorization_endpoint: z.url({ protocol: /^https?$/ }),
  token_endpoint: z.url({ protocol: /^https?$/ }),
  revocation_endpoint: z.url({ protocol: /^https?$/ }).optional(),
});
type Metadata = z.output<typeof metadata>;

const tokenResponse = z.object({
  id_token: z.string().optional(),
  refresh_token: z.string().optional(),
  expires_in: z.number().positive().optional().catch(undefined),
});
/** Tokens of a sign-in. */
export type TokenResponse = z.output<typeof tokenResponse>;

const errorCode = z.object({ error: z.string().regex(/^[a-z_]{1,64}$/) });

/** The issuer has not answered as expected. The message has no credential. */
export class IssuerError extends Error {
  override readonly name = 'IssuerError';
  /** The error code that it has answered with. */
  readonly code: string | undefined;

  constructor(message: string, code?: string) {
    super(message);
    this.code = code;
  }
}

const METADATA_MS = 10 * 60 * 1_000;
const LIMITS = { maxBytes: 256 * 1024, timeoutMs: 10_000 };

/** Requests of a public client to the issuer at which people sign in (RFC 6749, RFC 7009, OpenID Connect Core). */
export class IssuerClient {
  readonly issuer: SignInIssuer;
  readonly #fetch: FetchIssuer;
  #metadata: { readonly found: Promise<Metadata>; readonly at: number } | undefined;

  constructor(issuer: SignInIssuer, fetch: FetchIssuer) {
    this.issuer = issuer;
    this.#fetch = fetch;
  }

  /** Returns the page of the issuer where a sign-in begins. Rejects if the issuer cannot be reached. */
  async authorizationUrl({ redirectUri, state, nonce, verifier }: AuthorizationRequest): Promise<string> {
    const { authorization_endpoint: endpoint } = await this.#read();
    const { issuer, upstream_issuer: upstream = issuer, sign_in: client } = this.issuer;
    const url = moved(endpoint, upstream, issuer);
    const parameters = {
      response_type: 'code',
      client_id: client.client_id,
      redirect_uri: redirectUri,
      scope: client.scopes.join(' '),
      state,
      nonce,
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    };
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return url.href;
  }

  /** Exchanges the code with which the browser has come back. Rejects with {@link IssuerError}, or if it cannot be reached. */
  exchange(code: string, { redirectUri, verifier }: AuthorizationRequest): Promise<TokenResponse> {
    return this.#token({ grant_type: 'authorization_code', code, redirect_uri: redirectUri, code_verifier: verifier });
  }

  /** Uses a refresh token, which may not be used again. Rejects like {@link exchange}; `invalid_grant`: it does not count. */
  refresh(token: string): Promise<TokenResponse> {
    return this.#token({ grant_type: 'refresh_token', refresh_token: token });
  }

  /** Revokes a refresh token, if the issuer supports that. Rejects like {@link exchange}. */
  async revoke(token: string): Promise<void> {
    const { revocation_endpoint: endpoint } = await this.#read();
    if (endpoint !== undefined) await this.#post(endpoint, { token, token_type_hint: 'refresh_token' });
  }

  async #token(parameters: Readonly<Record<string, string>>): Promise<TokenResponse> {
    const { token_endpoint: endpoint } = await this.#read();
    return parsed(tokenResponse, await this.#post(endpoint, parameters), endpoint);
  }

  async #post(endpoint: string, parameters: Readonly<Record<string, string>>): Promise<string> {
    const form = new URLSearchParams({ ...parameters, client_id: this.issuer.sign_in.client_id });
    return await this.#send(this.#atUpstream(endpoint), form);
  }

  #read(): Promise<Metadata> {
    const now = performance.now();
    if (!this.#metadata || now - this.#metadata.at >= METADATA_MS) {
      const found = this.#fetchMetadata();
      this.#metadata = { found, at: now };
      // The next request tries again.
      found.catch(() => {
        if (this.#metadata?.found === found) this.#metadata = undefined;
      });
    }
    return this.#metadata.found;
  }

  async #fetchMetadata(): Promise<Metadata> {
    const { issuer, upstream_issuer: upstream = issuer } = this.issuer;
    const url = `${upstream.replace(/\/$/, '')}/.well-known/openid-configuration`;
    const found = parsed(metadata, await this.#send(url), url);
    if (found.issuer !== issuer && found.issuer !== upstream)
      throw new IssuerError(`${url} has the metadata of another issuer`);
    return found;
  }

  #atUpstream(endpoint: string): string {
    const { issuer, upstream_issuer: upstream = issuer } = this.issuer;
    return moved(endpoint, issuer, upstream).href;
  }

  async #send(url: string, form?: URLSearchParams): Promise<string> {
    const request = { url, ca: this.issuer.ca_file?.text, ...(form && { form }), ...LIMITS };
    const { status, body } = await this.#fetch(request);
    if (status === 200) return body;
    const { data } = errorCode.safeParse(tryParseJson(body));
    const detail = data ? `: ${data.error}` : '';
    throw new IssuerError(`${url} answered with status ${status}${detail}`, data?.error);
  }
}

/** Returns a URL at the origin of `to`, if it is at that of `from`: the service may reach the issuer elsewhere than browsers. */
function moved(url: string, from: string, to: string): URL {
  const { origin, pathname, search } = new URL(url);
  return origin === new URL(from).origin ? new URL(pathname + search, new URL(to).origin) : new URL(url);
}

function parsed<Schema extends z.ZodType>(schema: Schema, text: string, url: string): z.output<Schema> {
  const { success, data, error } = schema.safeParse(tryParseJson(text));
  if (success) return data;
  throw new IssuerError(`${url} answered without a valid ${error.issues[0]?.path.join('.') || 'JSON object'}`);
}
