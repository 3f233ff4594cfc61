import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../test/fixtures/free-port.ts';
import { npmSettings, registryProblem } from './registry.mjs';

let folder: string;
let files: Record<string, string>;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-npm-settings-'));
  files = { npm_config_userconfig: join(folder, 'user'), npm_config_globalconfig: join(folder, 'global') };
});
afterAll(() => rm(folder, { recursive: true }));

interface Files {
  readonly project?: string;
  readonly user?: string;
  readonly global?: string;
}

const REGISTRY = 'https://registry.npmjs.org/';

describe('npm’s settings', () => {
  it.each<[string, Files, Record<string, string>, object]>([
    ['defaults', {}, {}, { registry: REGISTRY, proxy: undefined, isOffline: false }],
    ['npm_config_registry', {}, { npm_config_registry: 'http://a:1/npm/' }, { registry: 'http://a:1/npm/' }],
    [
      '.npmrc of the project',
      { project: 'registry = "http://p/"', user: 'registry=http://u/' },
      {},
      { registry: 'http://p/' },
    ],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: npm's own syntax
    ['.npmrc of the user', { user: '; comment\nregistry=http://${NAME}/' }, { NAME: 'u' }, { registry: 'http://u/' }],
    ['.npmrc of the machine', { global: 'registry=http://g/' }, {}, { registry: 'http://g/' }],
    [
      'the variable before files',
      { project: 'registry=http://p/' },
      { NPM_CONFIG_REGISTRY: 'http://v/' },
      { registry: 'http://v/' },
    ],
    ['HTTPS_PROXY', {}, { HTTPS_PROXY: 'http://proxy:3128' }, { proxy: 'http://proxy:3128/' }],
    ['https_proxy', {}, { https_proxy: 'http://proxy:3128' }, { proxy: 'http://proxy:3128/' }],
    ['HTTP_PROXY, not for https', {}, { HTTP_PROXY: 'http://proxy:3128' }, { proxy: undefined }],
    [
      'HTTP_PROXY for http',
      { project: 'registry=http://p/' },
      { HTTP_PROXY: 'http://proxy:3128' },
      { proxy: 'http://proxy:3128/' },
    ],
    [
      'https-proxy of a file',
      { user: 'https-proxy=http://f:1' },
      { HTTPS_PROXY: 'http://v:1' },
      { proxy: 'http://f:1/' },
    ],
    ['NO_PROXY', {}, { HTTPS_PROXY: 'http://proxy:3128', NO_PROXY: 'x.example, .npmjs.org' }, { proxy: undefined }],
    ['NO_PROXY of another host', {}, { HTTPS_PROXY: 'http://q:1', NO_PROXY: 'js.org' }, { proxy: 'http://q:1/' }],
    ['--offline', {}, { npm_config_offline: 'true' }, { isOffline: true }],
    ['offline in a file', { user: 'offline=true' }, {}, { isOffline: true }],
  ])('%s', async (_what, { project = '', user = '', global = '' }, env, expected) => {
    await writeFile(join(folder, '.npmrc'), project);
    await writeFile(join(folder, 'user'), user);
    await writeFile(join(folder, 'global'), global);
    const { registry, proxy, isOffline } = npmSettings({ ...files, ...env }, folder);
    expect({ registry: registry.href, proxy: proxy?.href, isOffline }).toMatchObject(expected);
  });
});

it('names a registry or proxy that refuses connections, and nothing otherwise', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const open = new URL(`http://127.0.0.1:${address.port}`);
  const closed = new URL(`http://user:secret@127.0.0.1:${await freePort()}`);
  const other = { isOffline: false };
  try {
    expect(await registryProblem({ ...other, registry: open, proxy: undefined })).toBeUndefined();
    expect(await registryProblem({ ...other, registry: closed, proxy: open })).toBeUndefined();
    expect(await registryProblem({ ...other, registry: closed, proxy: undefined })).toBe(
      `the npm registry ${closed.host} cannot be reached (ECONNREFUSED)`,
    );
    expect(await registryProblem({ ...other, registry: open, proxy: closed })).toBe(
      `the proxy ${closed.host} of the npm registry cannot be reached (ECONNREFUSED)`,
    );
  } finally {
    server.close();
  }
});
