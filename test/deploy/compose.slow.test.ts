import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { parseEnvironment } from '../../packages/server/src/app/config/environment.ts';
import { findGo, installGoProgram } from '../fixtures/programs.ts';
import { LOGIN_FOLDER, makeSecrets, type Variables } from '../login/deploy-files.ts';
import { VERSION as KEYCLOAK_VERSION } from '../login/keycloak.ts';
import { VERSION as PROXY_VERSION } from '../login/oauth2-proxy.ts';

const run = promisify(execFile);
const COMPOSE_FOLDER = join(import.meta.dirname, '../../deploy/compose');
const REPLICAS = ['sluice-1', 'sluice-2', 'sluice-3'];
/** The reference implementation of the specification, with its JSON schema. */
const REFERENCE = 'github.com/compose-spec/compose-go/v2/cmd@v2.16.2';

if (findGo() === undefined) console.error('skipped: the Compose files; install Go');

describe.runIf(findGo())('the Compose files', () => {
  let composeSpec: string;
  let folder: string;
  let secrets: Variables;
  beforeAll(async () => {
    composeSpec = (await installGoProgram('cmd', REFERENCE)) ?? '';
    folder = await mkdtemp(join(tmpdir(), 'sluice-compose-'));
    secrets = await makeSecrets(join(folder, '.env'));
  }, 1_500_000);
  afterAll(() => rm(folder, { recursive: true }));

  /** Loads a file: validated against the schema of the specification, with paths resolved and variables kept. */
  const load = async (file: string) => {
    const { stdout } = await run(composeSpec, ['--no-interpolation', join(COMPOSE_FOLDER, file)], {
      cwd: COMPOSE_FOLDER,
    });
    return parse(stdout);
  };

  it('with login is valid, and has the settings of deploy/login', async () => {
    const { services } = await load('compose.yaml');
    const file = (name: string) => ({ path: join(LOGIN_FOLDER, name), required: true, format: 'raw' });
    expect(services.sluice.env_file).toMatchObject([file('sluice.env')]);
    expect(services['proxy-mcp'].env_file).toMatchObject([file('proxy.env'), file('proxy-mcp.env')]);
    expect(services['proxy-management'].env_file).toMatchObject([file('proxy.env'), file('proxy-management.env')]);
    expect(services.keycloak.env_file).toMatchObject([file('keycloak.env')]);
    expect(services.keycloak.volumes).toContainEqual(
      expect.objectContaining({
        source: join(LOGIN_FOLDER, 'realm.json'),
        target: '/opt/keycloak/data/import/realm.json',
      }),
    );
    expect(services['proxy-mcp'].image).toBe(`quay.io/oauth2-proxy/oauth2-proxy:${PROXY_VERSION}`);
    expect(services.keycloak.image).toBe(`quay.io/keycloak/keycloak:${KEYCLOAK_VERSION}`);
  });

  it('with login gets each secret from make-secrets.sh, and does not start without', async () => {
    const { services } = await load('compose.yaml');
    const given = Object.values<{ environment?: Variables }>(services).map(({ environment = {} }) => environment);
    const required = Object.keys(secrets).map((name) => [
      name,
      `\${${name}:?run ../login/make-secrets.sh ../compose/.env}`,
    ]);
    expect(Object.assign({}, ...given)).toEqual(Object.fromEntries(required));
  });

  it('publishes the proxies and the identity provider on this machine only, and Sluice not at all', async () => {
    const { services } = await load('compose.yaml');
    expect(services.sluice.ports).toBeUndefined();
    expect(published(services)).toEqual(['127.0.0.1:4180', '127.0.0.1:4181', '127.0.0.1:8180']);
  });

  it('without login is valid, and reachable from this machine only', async () => {
    const { services } = await load('compose.no-login.yaml');
    expect(published(services)).toEqual(['127.0.0.1:8080', '127.0.0.1:8081', '127.0.0.1:8083']);
  });

  it('with replicas is valid, and reachable through its balancer from this machine only', async () => {
    const { services, networks } = await load('compose.replicas.yaml');
    expect(published(services)).toEqual(['127.0.0.1:8080', '127.0.0.1:8081', '127.0.0.1:8083']);
    expect(services.balancer.ports).toHaveLength(3);
    expect(networks.replicas.internal).toBe(true);
    expect(Object.keys(services.postgres.networks)).toEqual(['replicas']);
    const configuration = await readFile(join(COMPOSE_FOLDER, 'haproxy.cfg'), 'utf8');
    for (const name of REPLICAS) {
      const { environment } = services[name];
      expect(environment.SERVICE_PEER_ADVERTISE).toBe(`${name}:8090`);
      expect(configuration.match(new RegExp(`server ${name} ${name}:(?:8080|8081|8083)$`, 'gm'))).toHaveLength(3);
      const settings = { ...environment, SERVICE_SESSION_KEY: '5c'.repeat(32) };
      expect(() => parseEnvironment(settings)).not.toThrow();
    }
  });

  it('with replicas gets its secrets from make-replica-secrets.sh, which keeps those of the login', async () => {
    const file = join(folder, 'replicas.env');
    await cp(join(folder, '.env'), file);
    await run(join(COMPOSE_FOLDER, 'make-replica-secrets.sh'), [file]);
    const made = parse((await readFile(file, 'utf8')).replaceAll('=', ': '));
    expect(made).toMatchObject(secrets);
    expect(made.SERVICE_SESSION_KEY).toMatch(/^[0-9a-f]{64}$/);
    const stored = await load('compose.replicas.yaml');
    expect(stored.secrets.postgres.environment in made).toBe(true);
    for (const name of REPLICAS) {
      expect(stored.services[name].environment.SERVICE_SESSION_KEY).toContain('run ./make-replica-secrets.sh');
    }
    await expect(run(join(COMPOSE_FOLDER, 'make-replica-secrets.sh'), [file])).rejects.toThrow(/has them/);
  });

  it('run the image read-only, without privileges, with its registry in a volume', async () => {
    const { version } = JSON.parse(await readFile(join(COMPOSE_FOLDER, '../../package.json'), 'utf8'));
    for (const file of ['compose.yaml', 'compose.no-login.yaml']) {
      const { services } = await load(file);
      expect(services.sluice).toMatchObject({
        image: `\${SLUICE_IMAGE:-sluice:${version}}`,
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
      });
      expect(services.sluice.volumes).toContainEqual(
        expect.objectContaining({ type: 'volume', source: 'registry', target: '/data/registry' }),
      );
    }
    const { services } = await load('compose.replicas.yaml');
    for (const name of REPLICAS) {
      const { image, read_only, cap_drop, volumes } = services[name];
      expect({ image, read_only, cap_drop }).toEqual({
        image: `\${SLUICE_IMAGE:-sluice:${version}}`,
        read_only: true,
        cap_drop: ['ALL'],
      });
      // Nothing of a replica lasts.
      expect(volumes).toEqual([expect.objectContaining({ type: 'bind', read_only: true })]);
    }
  });
});

function published(services: Record<string, { ports?: { host_ip: string; published: string }[] }>): string[] {
  return Object.values(services)
    .flatMap(({ ports = [] }) => ports.map(({ host_ip, published: port }) => `${host_ip}:${port}`))
    .sort();
}
