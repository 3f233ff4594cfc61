import { once } from 'node:events';
import { createServer } from 'node:http';
import Provider, { type ClientMetadata, errors, type ResourceServer } from 'oidc-provider';
import type { User } from './browser.ts';
import type { Variables } from './deploy-files.ts';
import type { IdentityProvider } from './environment.ts';

const REALM = '/realms/sluice';
const ENDPOINTS = '/protocol/openid-connect';

/** Access tokens as the realm of the deployment has them. */
const RESOURCE: ResourceServer & { audience: string } = {
  scope: '',
  audience: 'sluice',
  accessTokenFormat: 'jwt',
  accessTokenTTL: 300,
  jwt: { sign: { alg: 'RS256' } },
};

/**
 * Starts an independent provider with the addresses, clients, users and tokens of the realm of the deployment. `audienceOf`: audience
 * of the tokens for a resource that a client names.
 */
export async function startOidcProvider(
  secrets: Variables,
  audienceOf: (resource: string) => string = () => RESOURCE.audience,
): Promise<IdentityProvider> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const host = `localhost:${typeof address === 'object' && address ? address.port : 0}`;
  const passwords = new Map([
    ['alice', secrets.SLUICE_ALICE_PASSWORD],
    ['bob', secrets.SLUICE_BOB_PASSWORD],
  ]);
  const provider = new Provider(`http://${host}${REALM}`, {
    clients: clientsOf(secrets),
    routes: {
      authorization: `${ENDPOINTS}/auth`,
      device_authorization: `${ENDPOINTS}/auth/device`,
      token: `${ENDPOINTS}/token`,
      jwks: `${ENDPOINTS}/certs`,
      userinfo: `${ENDPOINTS}/userinfo`,
      registration: '/clients-registrations/openid-connect',
    },
    features: {
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => 'urn:sluice',
        getResourceServerInfo: (_context, resource) => ({ ...RESOURCE, audience: audienceOf(resource) }),
        useGrantedResource: () => true,
      },
    },
    conformIdTokenClaims: false,
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['preferred_username', 'groups'] },
    findAccount: (_context, accountId) => ({ accountId, claims: () => ({ sub: accountId, ...claimsOf(accountId) }) }),
    extraTokenClaims: (_context, token) => {
      if ('accountId' in token) {
        // Agents that registered themselves have no roles.
        const isRegistered = !['sluice', 'sluice-cli'].includes(token.clientId ?? '');
        return { ...claimsOf(token.accountId), ...(!isRegistered && rolesOf(token.accountId)) };
      }
      return rolesOf(token.clientId === 'sluice-automation' ? 'alice' : '');
    },
    issueRefreshToken: async (_context, client) => client.grantTypeAllowed('refresh_token'),
    ttl: {
      AccessToken: 300,
      ClientCredentials: 300,
      RefreshToken: 600,
      Grant: 600,
      Session: 600,
      Interaction: 600,
      DeviceCode: 600,
      IdToken: 300,
    },
  });
  provider.registerGrantType<{ username?: string; password?: string; audience?: string; lifetime?: string }>(
    'password',
    async (context) => {
      const { client, params } = context.oidc;
      const { username = '', password, audience = 'sluice', lifetime } = params;
      if (password === undefined || passwords.get(username) !== password)
        throw new errors.InvalidGrant('wrong password');
      const grant = new provider.Grant({ accountId: username, clientId: client.clientId });
      const about = { accountId: username, client, grantId: await grant.save(), gty: 'password', scope: '' };
      const token = new provider.AccessToken(about);
      token.resourceServer = new provider.ResourceServer('urn:sluice', { ...RESOURCE, audience });
      if (lifetime !== undefined) Object.assign(token, { expiresIn: Number(lifetime) });
      const refreshToken = new provider.RefreshToken(about);
      context.body = {
        access_token: await token.save(),
        expires_in: Number(lifetime ?? 300),
        refresh_token: await refreshToken.save(),
        token_type: 'Bearer',
      };
    },
    ['username', 'password', 'audience', 'lifetime'],
  );
  const withoutIssuer = new Set<string>();
  // Keycloak has a switch for it.
  provider.use(async (context, next) => {
    await next();
    const location = context.response.get('location');
    if (!withoutIssuer.has(context.oidc?.client?.clientId ?? '') || !URL.canParse(location)) return;
    const url = new URL(location);
    url.searchParams.delete('iss');
    context.set('location', url.href);
  });
  const handle = provider.callback();
  server.on('request', (request, response) => {
    if (!request.url?.startsWith(REALM)) return response.writeHead(404).end('not found');
    request.url = withDefaultScope(request.url.slice(REALM.length));
    // The provider derives its own path from both.
    Object.assign(request, { originalUrl: REALM + request.url });
    return handle(request, response);
  });
  const token = async ({ name, password }: User, parameters: Variables = {}): Promise<string> => {
    const response = await fetch(`http://${host}${REALM}${ENDPOINTS}/token`, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'password',
        client_id: 'sluice',
        client_secret: secrets.SLUICE_CLIENT_SECRET ?? '',
        username: name,
        password,
        ...parameters,
      }),
    });
    const body: unknown = await response.json();
    return String(Object(body).access_token);
  };
  return {
    host,
    token: (user, { audience } = {}) => token(user, audience === undefined ? {} : { audience }),
    expiredToken: (user) => token(user, { lifetime: '1' }),
    excludeIssuer: async (clientId) => void withoutIssuer.add(clientId),
    close: async () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Keycloak has default scopes for requests without any; this provider grants nothing to them. */
function withDefaultScope(url: string): string {
  const { pathname, searchParams } = new URL(url, 'http://localhost');
  if (pathname !== `${ENDPOINTS}/auth` || searchParams.has('scope')) return url;
  searchParams.set('scope', 'openid');
  return `${pathname}?${searchParams}`;
}

function clientsOf({ SLUICE_CLIENT_SECRET = '', SLUICE_AUTOMATION_SECRET = '' }: Variables): ClientMetadata[] {
  return [
    {
      client_id: 'sluice',
      client_secret: SLUICE_CLIENT_SECRET,
      token_endpoint_auth_method: 'client_secret_post',
      grant_types: ['authorization_code', 'refresh_token', 'password'],
      redirect_uris: ['http://localhost:4180/oauth2/callback', 'http://localhost:4181/oauth2/callback'],
    },
    {
      client_id: 'sluice-cli',
      token_endpoint_auth_method: 'none',
      application_type: 'native',
      grant_types: ['authorization_code', 'refresh_token', 'password', 'urn:ietf:params:oauth:grant-type:device_code'],
      redirect_uris: ['http://127.0.0.1/callback'],
    },
    {
      client_id: 'sluice-automation',
      client_secret: SLUICE_AUTOMATION_SECRET,
      token_endpoint_auth_method: 'client_secret_post',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    },
  ];
}

function claimsOf(user: string): Record<string, string | boolean | readonly string[]> {
  return { preferred_username: user, email: `${user}@example.com`, email_verified: true, groups: ['people'] };
}

function rolesOf(user: string): { realm_access?: { roles: readonly string[] } } {
  return user === 'alice' ? { realm_access: { roles: ['admin'] } } : {};
}
