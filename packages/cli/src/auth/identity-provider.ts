import {
  allowInsecureRequests,
  ClientError,
  ClientSecretPost,
  Configuration,
  customFetch,
  genericGrantRequest,
  None,
  ResponseBodyError,
  refreshTokenGrant,
  type TokenEndpointResponse,
} from 'openid-client';
import { Failure } from '../failure.ts';
import type { Send } from '../http/fetch.ts';
import { explainNetworkError } from '../http/network-error.ts';
import type { Login } from './credential-store.ts';

const TEN_YEARS_S = 10 * 365 * 24 * 3600;

/** Where and as which client to log in. */
export type OAuthClient = Pick<Login, 'authServer' | 'realm' | 'clientId' | 'clientSecret'>;

/** Logs in with name and password (decisions 1.8). Throws {@link Failure}; neither of them is in its message. */
export async function logIn(client: OAuthClient, username: string, password: string, send: Send): Promise<Login> {
  const response = await requestToken(client, send, (configuration) =>
    genericGrantRequest(configuration, 'password', { username, password }),
  );
  return toLogin(response, { ...client, username });
}

/** A log-in renewed by its refresh token. Throws {@link Failure}; `remedy` is the command that logs in anew. */
export async function renew(login: Login, refreshToken: string, remedy: string, send: Send): Promise<Login> {
  const response = await requestToken(login, send, async (configuration) => {
    try {
      return await refreshTokenGrant(configuration, refreshToken);
    } catch (error) {
      if (!(error instanceof ResponseBodyError) || error.error !== 'invalid_grant') throw error;
      throw new Failure(`the log-in has expired: ${remedy}`, { cause: error });
    }
  });
  return { ...toLogin(response, login), refreshToken: response.refresh_token ?? refreshToken };
}

async function requestToken(
  client: OAuthClient,
  send: Send,
  grant: (configuration: Configuration) => Promise<TokenEndpointResponse>,
): Promise<TokenEndpointResponse> {
  const issuer = `${client.authServer}/realms/${encodeURIComponent(client.realm)}`;
  const endpoint = `${issuer}/protocol/openid-connect/token`;
  const configuration = new Configuration(
    { issuer, token_endpoint: endpoint },
    client.clientId,
    undefined,
    client.clientSecret === undefined ? None() : ClientSecretPost(client.clientSecret),
  );
  if (endpoint.startsWith('http:')) allowInsecureRequests(configuration);
  configuration[customFetch] = (url, { method, headers, body, signal }) =>
    send(new Request(url, { method, headers, redirect: 'manual', ...(body && { body }), ...(signal && { signal }) }));
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
    return `${endpoint} refuses the log-in: ${description ?? code}`;
  }
  const network = explainNetworkError(error, endpoint);
  if (network !== undefined) return network;
  const status =
    error instanceof ClientError && error.cause instanceof Response ? ` (status ${error.cause.status})` : '';
  return `${endpoint} does not answer like a token endpoint${status}: are --auth-server and --realm right?`;
}

function toLogin(response: TokenEndpointResponse, known: OAuthClient & { readonly username: string }): Login {
  const { authServer, realm, clientId, clientSecret, username } = known;
  return {
    kind: 'login',
    accessToken: response.access_token,
    ...(response.refresh_token !== undefined && { refreshToken: response.refresh_token }),
    ...(response.expires_in !== undefined && { expiresAt: Date.now() + lifetimeMs(response.expires_in) }),
    username,
    authServer,
    realm,
    clientId,
    ...(clientSecret !== undefined && { clientSecret }),
  };
}

/** Identity providers that mean "for ever" give numbers that no date can be made of. */
function lifetimeMs(seconds: number): number {
  return Math.min(seconds, TEN_YEARS_S) * 1000;
}
