import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request as forward } from 'node:http';
import { createServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { startPostgres } from '../packages/server/testing/postgres.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { findBrowser } from './fixtures/browser.ts';
import { settled } from './fixtures/console.ts';
import { freePort } from './fixtures/free-port.ts';
import { PROGRAM_CACHE } from './fixtures/programs.ts';
import { replicaEnvironment } from './fixtures/replicas.ts';
import { signInAt, startSignInIssuer } from './fixtures/sign-in-issuer.ts';
import { startBrowser } from './login/browser.ts';
import { makeSecrets, type Variables } from './login/deploy-files.ts';
import { createClient, findJava, installKeycloak, startKeycloak } from './login/keycloak.ts';
import { createCertificate } from './operations/reverse-proxies.ts';

// Sign-in to the console with replicas, and with a real provider over https.

const MINUTE = 60_000;
const browserPath = findBrowser();
const java = findJava();
const keycloak = java && browserPath && (await installKeycloak(PROGRAM_CACHE).catch(() => undefined));
if (!keycloak)
  console.error('skipped: sign-in at Keycloak; install Chromium and Java 21, and let Maven Central be reached');

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-sign-in-'));
});
afterAll(() => rm(folder, { recursive: true }));

/** Starts a service where people sign in at an issuer. */
async function start(issuer: object, env: Readonly<Record<string, string>>): Promise<TestService> {
  const file = join(folder, 'service.yaml');
  const roles = { admin: ['corp/admin'], viewer: ['*'] };
  await writeFile(file, JSON.stringify({ identity: { tokens: [{ name: 'corp', ...issuer }], roles } }));
  const service = await startTestService({ SERVICE_PUBLIC_URL: 'http://sluice.test', ...env }, [
    '--service-config',
    file,
  ]);
  onTestFinished(() => service.stop(0));
  return service;
}

const FROM_CONSOLE = { 'sec-fetch-site': 'same-origin' };

async function statusOf({ management }: TestService, cookie: string, path = '/api/v1/sessions'): Promise<number> {
  const { statusCode, body } = await request(management + path, { headers: { cookie, ...FROM_CONSOLE }, reset: true });
  await body.dump();
  return statusCode;
}

it('replicas share sign-ins, and use each refresh token once', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const postgres = await startPostgres();
  onTestFinished(() => postgres.stop());
  const issuer = await startSignInIssuer();
  onTestFinished(() => issuer.close());
  issuer.users.set('ann', { groups: ['admin'] });
  const corp = { issuer: issuer.url, groups: ['groups'], sign_in: { client_id: 'sluice-console', scopes: ['openid'] } };
  const env = replicaEnvironment(await postgres.createDatabase());
  const replicas = [await start(corp, env), await start(corp, env)];
  const [first, second] = replicas;
  if (!first || !second) throw new Error('no replicas');

  const begun = await request(`${first.management}/api/v1/session/login`, { reset: true });
  const login = String(begun.headers['set-cookie']).split(';', 1)[0] ?? '';
  // The browser may come back to another replica.
  const back = (await signInAt(issuer, String(begun.headers.location), 'ann')).replace(
    first.management,
    second.management,
  );
  const completed = await request(back, { headers: { cookie: login }, reset: true });
  const cookie = [completed.headers['set-cookie'] ?? []].flat()[0]?.split(';', 1)[0] ?? '';
  expect(cookie).toMatch(/^sluice=./);
  expect(await Promise.all(replicas.map((each) => statusOf(each, cookie)))).toEqual([200, 200]);

  for (let round = 1; round <= 5; round++) {
    vi.setSystemTime(Date.now() + MINUTE);
    const all = [...replicas, ...replicas].map((each) => statusOf(each, cookie));
    expect(await Promise.all(all)).toEqual([200, 200, 200, 200]);
    // A second use would have revoked them all.
    expect(issuer.requests.filter((each) => each === 'refresh_token')).toHaveLength(round);
  }

  issuer.users.set('ann', { groups: ['staff'] });
  vi.setSystemTime(Date.now() + MINUTE);
  await Promise.all(replicas.map((each) => statusOf(each, cookie, '/api/v1/tools')));
  await expect.poll(() => Promise.all(replicas.map((each) => statusOf(each, cookie)))).toEqual([403, 403]);

  const headers = { cookie, ...FROM_CONSOLE };
  await request(`${first.management}/api/v1/session/logout`, { method: 'POST', headers, reset: true });
  expect(await Promise.all(replicas.map((each) => statusOf(each, cookie, '/api/v1/tools')))).toEqual([401, 401]);
});

/** Serves the console over https. */
async function startTls(port: number, target: () => string): Promise<void> {
  await createCertificate(folder);
  const [key, cert] = await Promise.all(['privkey.pem', 'fullchain.pem'].map((name) => readFile(join(folder, name))));
  const server = createServer({ key, cert }, (received, response) => {
    const { method, url, headers } = received;
    const sent = forward(
      target() + url,
      { method, headers: { ...headers, 'x-forwarded-proto': 'https' } },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
        answer.pipe(response);
      },
    );
    sent.on('error', () => response.destroy());
    response.on('close', () => sent.destroy());
    received.pipe(sent);
  });
  server.listen(port, '127.0.0.1');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
}

describe.runIf(keycloak)('Keycloak, and the console over https', () => {
  let secrets: Variables;
  let close: () => Promise<void>;
  beforeAll(async () => {
    secrets = await makeSecrets(join(folder, 'secrets.env'));
    ({ close } = await startKeycloak(keycloak ?? '', java ?? '', secrets));
  }, 400_000);
  afterAll(() => close());

  it('signs a person in, refreshes and signs out', { timeout: 120_000 }, async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const port = await freePort();
    const url = `https://localhost:${port}`;
    await createClient(secrets, {
      clientId: 'sluice-console',
      publicClient: true,
      redirectUris: [`${url}/api/v1/session/callback`],
      attributes: { 'pkce.code.challenge.method': 'S256' },
      protocolMappers: [
        {
          name: 'roles',
          protocol: 'openid-connect',
          protocolMapper: 'oidc-usermodel-realm-role-mapper',
          config: { 'claim.name': 'roles', multivalued: 'true', 'id.token.claim': 'true', 'jsonType.label': 'String' },
        },
      ],
    });
    const corp = {
      issuer: 'http://localhost:8180/realms/sluice',
      user: 'preferred_username',
      groups: ['roles'],
      sign_in: { client_id: 'sluice-console', scopes: ['openid', 'profile'] },
    };
    const service = await start(corp, { SERVICE_CONSOLE_URL: url });
    await startTls(port, () => service.management);
    const browser = await startBrowser(browserPath ?? '');
    onTestFinished(() => browser.close());
    const context = await browser.newContext({ ignoreHTTPSErrors: true });
    const page = await context.newPage();
    await page.goto(`${url}/admin/#/namespaces`);
    await settled(page);
    await page.locator('.page').getByText('Sign in').click();
    await page.locator('input[name="username"]').fill('alice');
    await page.locator('input[name="password"]').fill(secrets.SLUICE_ALICE_PASSWORD ?? '');
    await page.locator('[type="submit"]').first().click();
    await page.waitForURL(`${url}/admin/#/namespaces`);
    await settled(page);
    expect(await page.locator('.account').textContent()).toBe('corp/alice');
    await page.getByRole('button', { name: 'Create Namespace' }).waitFor();
    const cookie = (await context.cookies()).find(({ name }) => name === '__Host-sluice');
    expect(cookie).toMatchObject({ httpOnly: true, secure: true, sameSite: 'Strict', path: '/' });

    const pair = `__Host-sluice=${cookie?.value}`;
    vi.setSystemTime(Date.now() + 5 * MINUTE);
    expect(await statusOf(service, pair)).toBe(200);
    const { body } = await request(`${service.management}/api/v1/sessions`, {
      headers: { cookie: pair, ...FROM_CONSOLE },
    });
    const [session] = Object(await body.json()).data;
    expect(Date.parse(session.refreshedAt)).toBeGreaterThan(Date.parse(session.signedInAt));

    await page.getByRole('button', { name: 'Sign out' }).click();
    await expect.poll(() => page.locator('h1.title').textContent()).toBe('Sign in');
    expect(await statusOf(service, pair)).toBe(401);
    expect(service.log.filter((line) => line.includes('not revoked'))).toEqual([]);
  });
});
