import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  ClientError,
  ClientSecretPost,
  Configuration,
  type CustomFetch,
  calculatePKCECodeChallenge,
  clientCredentialsGrant,
  customFetch,
  discovery,
  genericGrantRequest,
  initiateDeviceAuthorization,
  None,
  pollDeviceAuthorizationGrant,
  ResponseBodyError,
  randomPKCECodeVerifier,
  randomState,
  refreshTokenGrant,
  type TokenEndpointResponse,
} from 'openid-client';
import { Failure } from '../failure.ts';
import type { Send } from '../http/fetch.ts';
import { explainNetworkError } from '../http/network-error.ts';
import type { Terminal } from '../terminal/terminal.ts';
import type { Login } from './credential.ts';
import { listenForRedirect, printInstruction } from './interactive-login.ts';

const TEN_YEARS_S = 10 * 365 * 24 * 3600;

/** Some providers grant nothing to requests without a scope. */
const SCOPE = 'openid';

/** Identity provider and OAuth client of a login. */
export type OAuthClient = Pick<Login, 'authServer' | 'realm' | 'issuer' | 'scopes' | 'clientId' | 'clientSecret'>;

/** Logs in with user name and password. Throws {@link Failure}, without either in the message. */
export async function logIn(client: OAuthClient, username: string, password: string, send: Send): Promise<Login> {
  const response = await requestToken(client, send, (configuration) =>
    genericGrantRequest(configuration, 'password', { username, password }),
  );
  return toLogin(response, { ...client, username });
}

/** Logs in as the client itself, with its secret. Throws {@link Failure}, without it in the message. */
export async function logInAsClient(client: OAuthClient, send: Send): Promise<Login> {
  const response = await requestToken(client, send, (configuration) => clientCredentialsGrant(configuration));
  return { ...toLogin(response, { ...client, username: client.clientId }), grant: 'client_credentials' };
}

/**
 * Logs in with a code that the user enters in a browser on any machine (RFC 8628). Throws {@link Failure}; ends when the
 * command is interrupted.
 */
export async function logInWithDevice(client: OAuthClient, terminal: Terminal, send: Send): Promise<Login> {
  const response = await requestToken(client, send, async (configuration) => {
    // Keycloak demands a challenge here too from clients for which it is required.
    const { verifier, challenge } = await createChallenge();
    const device = await initiateDeviceAuthorization(configuration, { scope: scopeOf(client), ...challenge });
    const { user_code: code, verification_uri: uri, verification_uri_complete: complete = uri } = device;
    printInstruction(terminal, `Open ${complete} in a browser, and enter the code ${code} if it asks for one`);
    const parameters = { code_verifier: verifier };
    return pollDeviceAuthorizationGrant(configuration, device, parameters, { signal: terminal.interrupted });
  });
  return toLogin(response, { ...client, username: userIn(response) });
}

/**
 * Logs in in a browser on this machine, which returns to a local port (RFC 8252). Throws {@link Failure}; ends when the
 * command is interrupted.
 */
export async function logInWithBrowser(client: OAuthClient, terminal: Terminal, send: Send): Promise<Login> {
  const listener = await listenForRedirect(terminal.interrupted);
  try {
    const response = await requestToken(client, send, async (configuration) => {
      const { verifier, challenge } = await createChallenge();
      const state = randomState();
      const url = buildAuthorizationUrl(configuration, {
        redirect_uri: listener.url,
        scope: scopeOf(client),
        ...challenge,
        state,
      });
      printInstruction(terminal, `Open ${url.href} in a browser on this machine`);
      const checks = { pkceCodeVerifier: verifier, expectedState: state };
      return authorizationCodeGrant(configuration, await listener.redirect, checks);
    });
    return toLogin(response, { ...client, username: userIn(response) });
  } finally {
    listener.close();
  }
}

/** Logs in with a code if the identity provider supports that, since the browser may be on any machine; else in a browser here. */
export async function logInInteractively(client: OAuthClient, terminal: Terminal, send: Send): Promise<Login> {
  const { device_authorization_endpoint: endpoint } = (await configure(client, send)).serverMetadata();
  return endpoint === undefined ? logInWithBrowser(client, terminal, send) : logInWithDevice(client, terminal, send);
}

/** The proof that the program that started a login is the one that ends it (RFC 7636). */
async function createChallenge() {
  const verifier = randomPKCECodeVerifier();
  const challenge = {
    code_challenge: await calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  };
  return { verifier, challenge };
}

/** The name of the user in an access token that is a JWT, for messages only. */
function userIn({ access_token: token }: TokenEndpointResponse): string {
  const payload = tryParseJson(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
  if (!isJsonObject(payload)) return 'unknown';
  const name = payload.preferred_username ?? payload.email ?? payload.sub;
  return typeof name === 'string' ? name : 'unknown';
}

/** Renews a login of a client with its secret, which is part of the login. Throws like {@link logInAsClient}. */
export function renewAsClient(login: Login, send: Send): Promise<Login> {
  return logInAsClient(clientOf(login), send);
}

/** Renews a login with its refresh token. Throws {@link Failure}; `remedy` is the login command to suggest. */
export async function renew(login: Login, refreshToken: string, remedy: string, send: Send): Promise<Login> {
  const response = await requestToken(login, send, async (configuration) => {
    try {
      return await refreshTokenGrant(configuration, refreshToken);
    } catch (error) {
      if (!(error instanceof ResponseBodyError) || error.error !== 'invalid_grant') throw error;
      throw new Failure(`the login has expired: run "${remedy}"`, { cause: error });
    }
  });
  return { ...toLogin(response, login), refreshToken: response.refresh_token ?? refreshToken };
}

/** Returns the endpoints of an identity provider, which it names itself or which are those of Keycloak. */
async function configure(client: OAuthClient, send: Send): Promise<Configuration> {
  const { authServer, realm, issuer, clientId, clientSecret } = client;
  const authentication = clientSecret === undefined ? None() : ClientSecretPost(clientSecret);
  const fetch: CustomFetch = (url, { method, headers, body, signal }) =>
    send(new Request(url, { method, headers, redirect: 'manual', ...(body && { body }), ...(signal && { signal }) }));
  if (issuer !== undefined) {
    const execute = issuer.startsWith('http:') ? [allowInsecureRequests] : [];
    try {
      return await discovery(new URL(issuer), clientId, undefined, authentication, { execute, [customFetch]: fetch });
    } catch (error) {
      if (error instanceof Failure) throw error;
      const reason = explainNetworkError(error, issuer) ?? `${issuer} has no valid metadata of an identity provider`;
      throw new Failure(reason, { cause: error });
    }
  }
  const url = `${authServer}/realms/${encodeURIComponent(realm ?? '')}`;
  const endpoints = `${url}/protocol/openid-connect`;
  const configuration = new Configuration(
    {
      issuer: url,
      token_endpoint: `${endpoints}/token`,
      authorization_endpoint: `${endpoints}/auth`,
      device_authorization_endpoint: `${endpoints}/auth/device`,
    },
    clientId,
    undefined,
    authentication,
  );
  if (url.startsWith('http:')) allowInsecureRequests(configuration);
  configuration[customFetch] = fetch;
  return configuration;
}

async function requestToken(
  client: OAuthClient,
  send: Send,
  grant: (configuration: Configuration) => Promise<TokenEndpointResponse>,
): Promise<TokenEndpointResponse> {
  const configuration = await configure(client, send);
  const { token_endpoint: endpoint = '' } = configuration.serverMetadata();
  try {
    return await grant(configuration);
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure(tokenErrorMessage(error, endpoint), { cause: error });
  }
}

function tokenErrorMessage(error: unknown, endpoint: string): string {
  if (error instanceof ResponseBodyError) {
    const { error: code, error_description: description } = error;
    return `${endpoint} rejected the login: ${description ?? code}`;
  }
  const network = explainNetworkError(error, endpoint);
  if (network !== undefined) return network;
  const status =
    error instanceof ClientError && error.cause instanceof Response ? ` (status ${error.cause.status})` : '';
  return `${endpoint} is not a token endpoint${status}: check --auth-server and --realm`;
}

function toLogin(response: TokenEndpointResponse, known: OAuthClient & { readonly username: string }): Login {
  return {
    kind: 'login',
    accessToken: response.access_token,
    ...(response.refresh_token !== undefined && { refreshToken: response.refresh_token }),
    ...(response.expires_in !== undefined && { expiresAt: Date.now() + lifetimeMs(response.expires_in) }),
    username: known.username,
    ...clientOf(known),
  };
}

/** The part of a login that is its client. */
function clientOf({ authServer, realm, issuer, scopes, clientId, clientSecret }: OAuthClient): OAuthClient {
  return {
    ...(authServer !== undefined && { authServer }),
    ...(realm !== undefined && { realm }),
    ...(issuer !== undefined && { issuer }),
    ...(scopes !== undefined && { scopes }),
    clientId,
    ...(clientSecret !== undefined && { clientSecret }),
  };
}

function scopeOf({ scopes }: OAuthClient): string {
  return scopes?.join(' ') ?? SCOPE;
}

/** Identity providers may return a lifetime beyond the range of dates for "unlimited". */
function lifetimeMs(seconds: number): number {
  return Math.min(seconds, TEN_YEARS_S) * 1000;
}
