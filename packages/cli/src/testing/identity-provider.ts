import { once } from 'node:events';
import { createServer } from 'node:http';
import Provider, { errors } from 'oidc-provider';

/** A real identity provider with one realm, `sluice`, and one user, `alice`. */
export interface IdentityProvider {
  /** Value of `--auth-server`. */
  readonly authServer: string;
  /** Whether an access token is valid. */
  readonly accepts: (token: string) => Promise<boolean>;
  /** Grants requested so far, in order: `password`, `refresh_token`. */
  readonly grants: readonly string[];
  readonly close: () => Promise<void>;
}

/**
 * Password of the user. The confidential client `backend` has {@link CLIENT_SECRET}; the client `cli` has no secret.
 */
export const PASSWORD = 'correct horse/battery & staple';
export const CLIENT_SECRET = 'secret of the client';

/** Starts a provider with the given access token lifetime and the paths of Keycloak. */
export async function startIdentityProvider(lifetimeSeconds: number): Promise<IdentityProvider> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP address');
  const authServer = `http://127.0.0.1:${address.port}`;
  const realm = '/realms/sluice';
  const client = { grant_types: ['password', 'refresh_token'], redirect_uris: [], response_types: [] };
  const provider = new Provider(authServer + realm, {
    clients: [
      { ...client, client_id: 'cli', token_endpoint_auth_method: 'none' },
      {
        ...client,
        client_id: 'backend',
        client_secret: CLIENT_SECRET,
        grant_types: ['password', 'refresh_token', 'client_credentials'],
        token_endpoint_auth_method: 'client_secret_post',
      },
    ],
    features: { clientCredentials: { enabled: true } },
    routes: { token: '/protocol/openid-connect/token' },
    ttl: { AccessToken: lifetimeSeconds, RefreshToken: 600, Grant: 600 },
    findAccount: (_ctx, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
    // Each is good for one use, as strict deployments have it.
    rotateRefreshToken: true,
  });
  provider.registerGrantType<{ username?: string; password?: string }>(
    'password',
    async (ctx) => {
      const { client, params } = ctx.oidc;
      if (params.username !== 'alice' || params.password !== PASSWORD) {
        throw new errors.InvalidGrant('Invalid user credentials');
      }
      const accountId = params.username;
      const grant = new provider.Grant({ accountId, clientId: client.clientId });
      const about = { accountId, client, grantId: await grant.save(), gty: 'password', scope: '' };
      const parseAccessToken = new provider.AccessToken(about);
      const refreshToken = new provider.RefreshToken(about);
      ctx.body = {
        access_token: await parseAccessToken.save(),
        expires_in: lifetimeSeconds,
        refresh_token: await refreshToken.save(),
        token_type: 'Bearer',
      };
    },
    ['username', 'password'],
  );
  const grants: string[] = [];
  provider.on('grant.success', (ctx) => grants.push(String(ctx.oidc.params?.grant_type)));
  const handle = provider.callback();
  server.on('request', (request, response) => {
    if (!request.url?.startsWith(realm)) return response.writeHead(404).end('not found');
    Object.assign(request, { originalUrl: request.url });
    request.url = request.url.slice(realm.length);
    return handle(request, response);
  });
  return {
    authServer,
    accepts: async (token) =>
      (await provider.AccessToken.find(token)) !== undefined ||
      (await provider.ClientCredentials.find(token)) !== undefined,
    grants,
    close: async () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
