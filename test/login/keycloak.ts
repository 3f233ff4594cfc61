import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { copyFile, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { User } from './browser.ts';
import { LOGIN_FOLDER, readDeployFile, type Variables } from './deploy-files.ts';
import type { IdentityProvider } from './environment.ts';
import { startProgram } from './program.ts';
import { bearer } from './requests.ts';

/** Version of Keycloak that the deployment files name. */
export const VERSION = '26.7.3';
const REGISTRY = 'https://repo1.maven.org/maven2/org/keycloak/keycloak-quarkus-dist';
const REALM = 'http://localhost:8180/realms/sluice';
const ADMIN = 'http://localhost:8180/admin/realms/sluice';

/** A Java of version 21 or later. */
export function findJava(): string | undefined {
  const folder = '/usr/lib/jvm';
  if (!existsSync(folder)) return undefined;
  const homes = readdirSync(folder).filter(
    (name) => Number(/(?:temurin-|java-|openjdk-|jdk-)(\d+)/.exec(name)?.[1]) >= 21,
  );
  return homes.map((name) => join(folder, name)).find((home) => existsSync(join(home, 'bin/java')));
}

/** Downloads Keycloak from Maven Central, once per version and machine; returns its folder. */
export async function installKeycloak(cache: string): Promise<string> {
  const folder = join(cache, `keycloak-${VERSION}`);
  if (existsSync(join(folder, 'bin/kc.sh'))) return folder;
  await mkdir(cache, { recursive: true });
  const archive = join(cache, `keycloak-${VERSION}.tar.gz`);
  const response = await fetch(`${REGISTRY}/${VERSION}/keycloak-quarkus-dist-${VERSION}.tar.gz`);
  if (!response.ok || response.body === null) throw new Error(`Maven Central returned ${response.status}`);
  await writeFile(`${archive}.part`, response.body);
  await rename(`${archive}.part`, archive);
  await promisify(execFile)('tar', ['xzf', archive, '-C', cache]);
  await rm(archive);
  return folder;
}

/** Starts Keycloak with the realm and the settings of the deployment, and an empty database. */
export async function startKeycloak(folder: string, javaHome: string, secrets: Variables): Promise<IdentityProvider> {
  await rm(join(folder, 'data/h2'), { recursive: true, force: true });
  await mkdir(join(folder, 'data/import'), { recursive: true });
  await copyFile(join(LOGIN_FOLDER, 'realm.json'), join(folder, 'data/import/realm.json'));
  const program = await startProgram({
    command: 'nice',
    args: ['-n', '10', join(folder, 'bin/kc.sh'), 'start-dev', '--import-realm'],
    env: {
      PATH: process.env.PATH ?? '',
      HOME: process.env.HOME ?? '',
      JAVA_HOME: javaHome,
      ...(await readDeployFile('keycloak.env')),
      ...secrets,
    },
    ready: `${REALM}/.well-known/openid-configuration`,
    deadlineMs: 300_000,
  });
  const passwordToken = (client: Variables, { name, password }: User) =>
    requestToken(`${REALM}/protocol/openid-connect/token`, {
      ...client,
      grant_type: 'password',
      username: name,
      password,
    });
  const sluice = { client_id: 'sluice', client_secret: secrets.SLUICE_CLIENT_SECRET ?? '' };
  return {
    host: 'localhost:8180',
    async token(user, { audience } = {}) {
      if (audience === undefined) return passwordToken(sluice, user);
      await createOtherClient(secrets);
      return passwordToken({ client_id: 'other' }, user);
    },
    async expiredToken(user) {
      await changeRealm(secrets, { accessTokenLifespan: 1 });
      const token = await passwordToken(sluice, user);
      await changeRealm(secrets, { accessTokenLifespan: 300 });
      return token;
    },
    async excludeIssuer(clientId) {
      const headers = await administrator(secrets);
      const found: unknown = await (await fetch(`${ADMIN}/clients?clientId=${clientId}`, { headers })).json();
      const client = Array.isArray(found) ? Object(found[0]) : {};
      const attributes = { ...client.attributes, 'exclude.issuer.from.auth.response': 'true' };
      const response = await fetch(`${ADMIN}/clients/${client.id}`, {
        method: 'PUT',
        headers,
        body: JSON.stringify({ ...client, attributes }),
      });
      if (!response.ok) throw new Error(`the client could not be changed: ${response.status}`);
    },
    close: () => program.stop(),
  };
}

async function requestToken(url: string, parameters: Variables): Promise<string> {
  const response = await fetch(url, { method: 'POST', body: new URLSearchParams(parameters) });
  const body: unknown = await response.json();
  if (typeof body === 'object' && body !== null && 'access_token' in body && typeof body.access_token === 'string') {
    return body.access_token;
  }
  throw new Error(`${url} returned ${response.status}: ${JSON.stringify(body)}`);
}

async function administrator({ KC_BOOTSTRAP_ADMIN_PASSWORD = '' }: Variables): Promise<Variables> {
  const parameters = {
    client_id: 'admin-cli',
    grant_type: 'password',
    username: 'admin',
    password: KC_BOOTSTRAP_ADMIN_PASSWORD,
  };
  const token = await requestToken('http://localhost:8180/realms/master/protocol/openid-connect/token', parameters);
  return { ...bearer(token), 'content-type': 'application/json' };
}

async function changeRealm(secrets: Variables, change: object): Promise<void> {
  const response = await fetch(ADMIN, {
    method: 'PUT',
    headers: await administrator(secrets),
    body: JSON.stringify(change),
  });
  if (!response.ok) throw new Error(`the realm could not be changed: ${response.status}`);
}

/** A client whose tokens are not meant for Sluice: it lacks the default scope with the audience. */
async function createOtherClient(secrets: Variables): Promise<void> {
  const client = {
    clientId: 'other',
    publicClient: true,
    directAccessGrantsEnabled: true,
    defaultClientScopes: ['basic', 'profile', 'email', 'roles'],
    protocolMappers: [
      {
        name: 'audience',
        protocol: 'openid-connect',
        protocolMapper: 'oidc-audience-mapper',
        config: { 'access.token.claim': 'true', 'included.client.audience': 'other' },
      },
    ],
  };
  await createClient(secrets, client);
}

/** Creates a client, unless there is one with its id. */
export async function createClient(secrets: Variables, client: object): Promise<void> {
  const headers = await administrator(secrets);
  const response = await fetch(`${ADMIN}/clients`, { method: 'POST', headers, body: JSON.stringify(client) });
  if (!response.ok && response.status !== 409) throw new Error(`the client could not be created: ${response.status}`);
}
