import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { post } from '../../../../test/fixtures/raw-client.ts';
import { PING } from '../../testing/listener.ts';
import { startTestService, type TestService } from '../../testing/service.ts';
import { VERSION } from '../telemetry/version.ts';
import { oneListener } from './pipeline.fixture.ts';

const EVERYWHERE = {
  SERVICE_MGMT_LISTEN: '0.0.0.0:0',
  SERVICE_MCP_LISTEN: '[::]:0',
  SERVICE_INFERENCE_LISTEN: '0.0.0.0:0',
};

let folder: string;
let service: TestService | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-start-log-'));
});
afterEach(async () => {
  await service?.stop(0);
  service = undefined;
  await rm(folder, { recursive: true, force: true });
});

async function start(env: Record<string, string>, ...argv: string[]) {
  service = await startTestService(env, argv);
  return service.log.map((line) => JSON.parse(line));
}

describe('the warning about listeners that others can reach', () => {
  const warnings = (lines: Awaited<ReturnType<typeof start>>) => lines.filter(({ level }) => level === 'warn');

  it('names each of them, and those that pass every request on', async () => {
    const found = warnings(await start(EVERYWHERE));
    expect(found).toHaveLength(1);
    expect(found[0]).toMatchObject({ listeners: service?.addresses, unrestricted: ['inference'] });
    expect(found[0].msg).toMatch(/there is no authentication.*--local.*pass every request on/);
    expect(found[0].msg).toContain('configure identity in the bootstrap file');
  });

  it('does not name the inference listener as unrestricted with SERVICE_INFERENCE_ALLOW', async () => {
    const [found] = warnings(await start({ ...EVERYWHERE, SERVICE_INFERENCE_ALLOW: 'completions' }));
    expect(found).toMatchObject({ listeners: service?.addresses });
    expect(found).not.toHaveProperty('unrestricted');
  });

  it('omits listeners on the loopback interface', async () => {
    const found = warnings(await start({ ...EVERYWHERE, SERVICE_INFERENCE_LISTEN: '127.0.0.1:0' }));
    expect(Object.keys(found[0].listeners)).toEqual(['management', 'mcp']);
    expect(found[0]).not.toHaveProperty('unrestricted');
    expect(found[0].msg).not.toContain('pass every request on');
  });

  it.each<[string, Record<string, string>, string[]]>([
    ['--local', {}, ['--local']],
    ['SERVICE_LOCAL=1', { SERVICE_LOCAL: '1' }, []],
  ])('is not needed with %s, which binds every listener to 127.0.0.1', async (_what, env, argv) => {
    const lines = await start({ ...EVERYWHERE, ...env }, ...argv);
    expect(warnings(lines)).toEqual([]);
    for (const address of Object.values(service?.addresses ?? {})) expect(address).toMatch(/^127\.0\.0\.1:\d+$/);
    expect((await post(service?.url() ?? '', PING)).status).toBe(200);
    const others = Object.values(networkInterfaces())
      .flatMap((each) => each ?? [])
      .filter(({ internal, family }) => !internal && family === 'IPv4');
    for (const { address } of others) {
      await expect(fetch(`${service?.management.replace('127.0.0.1', address)}/healthz`)).rejects.toThrow();
    }
  });
});

describe('with identity', () => {
  const withIdentity = async (settings: string, env: Record<string, string> = {}) => {
    const file = join(folder, 's.yaml');
    await writeFile(file, `identity: { proxy: { trusted: [127.0.0.1/32] }, ${settings} }`);
    const lines = await start({ ...EVERYWHERE, ...env }, '--service-config', file);
    return lines.filter(({ level }) => level === 'warn');
  };
  const ROLES = 'roles: { admin: ["*"] }';

  it.each([
    ['', ['management', 'mcp', 'inference']],
    [ROLES, ['mcp', 'inference']],
    [`${ROLES}, anonymous: deny`, ['inference']],
  ])('the warning names the listeners that accept anonymous requests: %s', async (settings, names) => {
    const [found] = await withIdentity(settings);
    expect(found.msg).toMatch(
      /^others on the network can use these listeners without a credential; set anonymous: deny/,
    );
    expect(Object.keys(found.listeners)).toEqual(names);
    expect(found).toMatchObject({ unrestricted: ['inference'] });
  });

  it('there is no warning if no listener does', async () => {
    expect(await withIdentity(`${ROLES}, anonymous: deny, inference: true`)).toEqual([]);
  });

  it.each([
    [
      '',
      'whoever reaches the management port can change everything: identity has no roles; add them to the bootstrap file',
    ],
    [
      'anonymous: deny',
      'every authenticated caller of the management port can change everything: identity has no roles; add them to the bootstrap file',
    ],
  ])('a warning says who can change everything without roles: %s', async (settings, message) => {
    const warnings = await withIdentity(settings, { SERVICE_LOCAL: '1' });
    expect(warnings.map(({ msg }) => msg)).toEqual([message]);
  });
});

it('a warning names secrets that are bound to no origin, without their values', async () => {
  const secrets = join(folder, 'secrets');
  await mkdir(join(secrets, '..folder'), { recursive: true });
  for (const name of ['free', 'bound']) await writeFile(join(secrets, name), 'value-of-a-file');
  const env = { SERVICE_SECRET_A: 'value-of-a', SERVICE_SECRET_B: 'value-of-b', SERVICE_SECRETS_PATH: secrets };
  const lines = await start({ ...env, SERVICE_SECRET_ORIGINS: 'SERVICE_SECRET_B=https://b.example,bound=http://a' });
  const warnings = lines.filter(({ level }) => level === 'warn');
  expect(warnings).toMatchObject([{ secrets: ['SERVICE_SECRET_A', 'free'], count: 2 }]);
  expect(warnings[0].msg).toContain('SERVICE_SECRET_ORIGINS');
  expect(JSON.stringify(lines)).not.toContain('value-of');
});

describe('the line about the start', () => {
  const startOf = (lines: Awaited<ReturnType<typeof start>>) => lines.find(({ msg }) => msg === 'started');

  it('has the version, the registry folder and the files that were read', async () => {
    const serviceConfig = join(folder, 's.yaml');
    const pipelineConfig = join(folder, 'p.yaml');
    await writeFile(serviceConfig, 'namespaces: [finance]');
    await writeFile(pipelineConfig, oneListener('- filter: mcp'));
    const registry = join(folder, 'registry');
    const env = {
      SERVICE_PERSIST_BACKEND: 'file',
      SERVICE_PERSIST_PATH: registry,
      SERVICE_MCP_LISTEN: '',
      SERVICE_INFERENCE_LISTEN: '',
    };
    const lines = await start(env, '--service-config', serviceConfig, '--pipeline-config', pipelineConfig);
    expect(startOf(lines)).toMatchObject({
      msg: 'started',
      version: VERSION,
      persistence: 'file',
      data_folder: registry,
      service_config: serviceConfig,
      pipeline_config: pipelineConfig,
    });
  });

  it('has no files if none were read', async () => {
    const lines = await start({});
    expect(startOf(lines)).toMatchObject({ msg: 'started', version: VERSION, persistence: 'none' });
    for (const name of ['data_folder', 'service_config', 'pipeline_config'])
      expect(startOf(lines)).not.toHaveProperty(name);
  });
});
