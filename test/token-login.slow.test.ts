import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { identity } from '@sluice/contract';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createSource } from '../packages/server/src/identity/claims.ts';
import { claimReader } from '../packages/server/src/identity/token-claims.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { findBrowser } from './fixtures/browser.ts';
import { freePort } from './fixtures/free-port.ts';
import { PROGRAM_CACHE } from './fixtures/programs.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { startBrowser, type User } from './login/browser.ts';
import { makeSecrets, type Variables } from './login/deploy-files.ts';
import type { IdentityProvider } from './login/environment.ts';
import { findJava, installKeycloak, startKeycloak } from './login/keycloak.ts';
import { connectAgent } from './login/mcp-client.ts';
import { startOidcProvider } from './login/oidc-provider.ts';
import { bearer, callTool, listTools, send } from './login/requests.ts';

// Tokens of real providers, which the service verifies itself.

const browserPath = findBrowser();
if (!browserPath) console.error('skipped: an agent that signs in at the issuer of its token; install Chromium');
const java = findJava();
const keycloak = java && (await installKeycloak(PROGRAM_CACHE).catch(() => undefined));
if (!keycloak) console.error('skipped: tokens of Keycloak; install Java 21, and let Maven Central be reached');

let folder: string;
let secrets: Variables;
let upstream: RawUpstream;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-tokens-'));
  secrets = await makeSecrets(join(folder, 'secrets.env'));
  upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('greet')), 'tools/call': () => textResultText('hello') },
  });
});
afterAll(async () => {
  await upstream.close();
  await rm(folder, { recursive: true });
});

const alice = (): User => ({ name: 'alice', password: secrets.SLUICE_ALICE_PASSWORD ?? '' });

/** Starts a service whose namespaces have the tool `greet`, at the URL by which clients know it. */
async function startService(issuer: object): Promise<TestService> {
  const file = join(folder, 'service.yaml');
  const namespaces = ['finance', 'hr'];
  const content = {
    namespaces,
    forwards: namespaces.map((namespace) => ({ name: `greeter-${namespace}`, address: upstream.url, namespace })),
    identity: { anonymous: 'deny', tokens: [issuer] },
  };
  await writeFile(file, JSON.stringify(content));
  const address = `127.0.0.1:${await freePort()}`;
  const env = { SERVICE_MCP_LISTEN: address, SERVICE_PUBLIC_URL: `http://${address}` };
  return await startTestService(env, ['--service-config', file]);
}

const usersOf = (service: TestService): unknown[] =>
  service.log.map((line) => Object(JSON.parse(line)).user).filter((user) => user !== undefined);

describe.runIf(browserPath)('an agent of the official SDK', () => {
  it('gets a token for the one endpoint whose address it knows, from the issuer that its challenge names', async () => {
    const provider = await startOidcProvider(secrets, (resource) => resource);
    onTestFinished(() => provider.close());
    const issuer = `http://${provider.host}/realms/sluice`;
    const service = await startService({ name: 'corp', issuer, user: 'preferred_username', groups: ['groups'] });
    onTestFinished(() => service.stop(0));
    const browser = await startBrowser(browserPath ?? '');
    onTestFinished(() => browser.close());
    const agent = await connectAgent(service.url('finance'), { browser, user: alice(), isStrict: true });
    onTestFinished(() => agent.close());
    expect(await agent.client.callTool({ name: 'greet', arguments: {} })).toMatchObject({
      content: [{ type: 'text', text: 'hello' }],
    });
    expect(agent.requested).toContain(`${service.mcp}/.well-known/oauth-protected-resource/finance/mcp`);
    expect(usersOf(service)).toContain('corp/alice');
    const token = agent.tokens.at(-1)?.access_token ?? '';
    expect((await listTools(service.mcp, '/finance/mcp', bearer(token))).status).toBe(200);
    expect((await listTools(service.mcp, '/hr/mcp', bearer(token))).status).toBe(401);
    expect((await send(service.management, 'GET', '/api/v1/tools', bearer(token))).status).toBe(401);
  }, 120_000);
});

describe.runIf(keycloak)('tokens of Keycloak', () => {
  // The settings in docs/identity.md.
  const SETTINGS = {
    name: 'corp',
    issuer: 'http://localhost:8180/realms/sluice',
    audiences: [{ value: 'sluice', for: ['finance'] }],
    user: 'preferred_username',
    groups: ['realm_access.roles'],
    person: 'email',
  };
  let provider: IdentityProvider;
  let service: TestService;
  beforeAll(async () => {
    provider = await startKeycloak(keycloak ?? '', java ?? '', secrets);
    service = await startService(SETTINGS);
  }, 400_000);
  afterAll(async () => {
    await service?.stop(0);
    await provider?.close();
  });

  const statusOf = async (token: string, namespace = 'finance') =>
    (await callTool(service.mcp, `/${namespace}/mcp`, bearer(token))).status;
  const tokensOf = async (parameters: Variables): Promise<Variables> => {
    const url = `${SETTINGS.issuer}/protocol/openid-connect/token`;
    return Object(await (await fetch(url, { method: 'POST', body: new URLSearchParams(parameters) })).json());
  };
  const ofAlice = () =>
    tokensOf({
      grant_type: 'password',
      scope: 'openid',
      client_id: 'sluice',
      client_secret: secrets.SLUICE_CLIENT_SECRET ?? '',
      username: alice().name,
      password: alice().password,
    });
  const read = (token: string) => {
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    const [settings] = identity.parse({ tokens: [SETTINGS] }).tokens;
    return settings && claimReader(settings, createSource('corp', false))(claims);
  };

  it('are accepted for users, whose ID and refresh tokens are not', async () => {
    const { access_token = '', id_token = '', refresh_token = '' } = await ofAlice();
    expect(await statusOf(access_token)).toBe(200);
    expect(usersOf(service)).toContain('corp/alice');
    expect(read(access_token)).toMatchObject({
      kind: 'user',
      id: 'corp/alice',
      groups: expect.arrayContaining(['corp/admin']),
      person: 'alice@example.com',
    });
    for (const other of [id_token, refresh_token]) {
      expect(other.split('.')).toHaveLength(3);
      const { status, headers } = await callTool(service.mcp, '/finance/mcp', bearer(other));
      expect([status, headers['www-authenticate']]).toEqual([401, expect.stringContaining('error="invalid_token"')]);
    }
  });

  it('are accepted for a client with its own credentials, which is a service account', async () => {
    const { access_token = '' } = await tokensOf({
      grant_type: 'client_credentials',
      client_id: 'sluice-automation',
      client_secret: secrets.SLUICE_AUTOMATION_SECRET ?? '',
    });
    expect(await statusOf(access_token)).toBe(200);
    expect(read(access_token)).toMatchObject({ kind: 'service_account', id: 'corp/service-account-sluice-automation' });
  });

  it.runIf(browserPath)(
    'are what an agent of the official SDK gets, which registers itself there',
    async () => {
      const browser = await startBrowser(browserPath ?? '');
      onTestFinished(() => browser.close());
      const agent = await connectAgent(service.url('finance'), { browser, user: alice(), isStrict: true });
      onTestFinished(() => agent.close());
      expect(await agent.client.callTool({ name: 'greet', arguments: {} })).toMatchObject({
        content: [{ text: 'hello' }],
      });
    },
    120_000,
  );

  it('are refused elsewhere, and for another audience', async () => {
    const { access_token = '' } = await ofAlice();
    expect(await statusOf(access_token, 'hr')).toBe(401);
    expect((await send(service.management, 'GET', '/api/v1/tools', bearer(access_token))).status).toBe(401);
    expect(await statusOf(await provider.token(alice(), { audience: 'other' }))).toBe(401);
  });
});
