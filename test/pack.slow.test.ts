import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findBrowser } from './fixtures/browser.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from './fixtures/raw-upstream.ts';
import { startBrowser } from './login/browser.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..');

// The tarball of `npm run pack`, installed from the registry's packages alone, far from the repository.

let folder: string;
let tarball: string;
let sluice: string;
let env: Record<string, string>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-pack-'));
  const packed = await run(process.execPath, ['scripts/pack.ts', folder], { cwd: ROOT });
  tarball = packed.stdout.trim();
  const prefix = join(folder, 'prefix');
  await mkdir(prefix);
  // As on a machine without the repository: its own Node.js, an empty cache of settings.
  env = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: join(folder, 'home') };
  const install = ['install', '-g', '--prefix', prefix, tarball, '--no-audit', '--no-fund', '--loglevel', 'error'];
  await run('npm', install, {
    cwd: folder,
    // With the settings of this machine for the registry.
    env: { ...process.env, PATH: env.PATH },
  });
  sluice = join(prefix, 'bin/sluice');
}, 600_000);
afterAll(() => rm(folder, { recursive: true }));

const output = async (...argv: string[]): Promise<string> => (await run(sluice, argv, { cwd: folder, env })).stdout;

describe('the tarball', () => {
  it('contains what is needed to run and nothing else', async () => {
    const { stdout } = await run('tar', ['tzf', tarball]);
    const files = stdout.trim().split('\n');
    expect(files).toContain('package/bin/sluice.mjs');
    expect(files).toContain('package/node_modules/@sluice/server/src/main.js');
    expect(files).toContain('package/node_modules/@sluice/admin/dist/index.html');
    expect(files.filter((name) => /\.test\.|\.fixture\.|\/fixtures\/|\/testing\/|\.map$/.test(name))).toEqual([]);
    expect((await stat(tarball)).size).toBeLessThan(5 * 1024 * 1024);
  });

  it('installs the versions of the lock file where it is unpacked, overrides included', {
    timeout: 300_000,
  }, async () => {
    const unpacked = join(folder, 'unpacked');
    await mkdir(unpacked);
    await run('tar', ['xzf', tarball, '-C', unpacked, '--strip-components=1']);
    await run('npm', ['install', '--prefix', unpacked, '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund']);
    const lock = JSON.parse(await readFile(join(ROOT, 'package-lock.json'), 'utf8'));
    const locked = new Set<string>();
    for (const [path, { version }] of Object.entries<{ version?: string }>(lock.packages)) {
      locked.add(`${path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)} ${version}`);
    }
    const installed = await installedPackages(join(unpacked, 'node_modules'));
    expect(installed.length).toBeGreaterThan(50);
    expect(installed.filter((each) => !each.startsWith('@sluice/') && !locked.has(each))).toEqual([]);
    expect((await run(join(unpacked, 'bin/sluice.mjs'), ['--version'])).stdout).toMatch(/^\d/);
  });

  it('installs a service that calls tools and has the console, and a command line', { timeout: 60_000 }, async () => {
    const upstream = await startRawUpstream({
      scripts: { 'tools/list': toolList(toolText('greet')), 'tools/call': () => textResultText('hello') },
    });
    const service = spawn(sluice, ['serve'], {
      cwd: folder,
      env: {
        ...env,
        SERVICE_MGMT_LISTEN: '127.0.0.1:0',
        SERVICE_MCP_LISTEN: '127.0.0.1:0',
        SERVICE_INFERENCE_LISTEN: '127.0.0.1:0',
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    try {
      let addresses: { management?: string; mcp?: string } = {};
      for await (const line of createInterface({ input: service.stderr })) {
        if (!line.includes('"listening"')) continue;
        addresses = JSON.parse(line);
        break;
      }
      const host = ['--host', `http://${addresses.management}`];
      await output(...host, 'forwards', 'add', '--name', 'greeter', '--url', upstream.url);
      const mcp = ['--mcp-url', `http://${addresses.mcp}`];
      expect(await output(...host, 'mcp', 'tool', 'greet', ...mcp)).toContain('hello');
      expect(await output(...host, 'tools', 'list')).toContain('greet');
      for (const path of ['/openapi.json', '/metrics', '/api/docs/', '/admin/']) {
        expect((await fetch(`http://${addresses.management}${path}`)).status, path).toBe(200);
      }
      const browser = findBrowser();
      if (browser !== undefined) await openConsole(browser, `http://${addresses.management}/admin/`);
      await output(...host, 'backup', 'sluice.tar.gz');
      const exited = once(service, 'exit');
      service.kill('SIGTERM');
      expect(await exited).toEqual([0, null]);
    } finally {
      service.kill('SIGKILL');
      await upstream.close();
    }
  });

  it('installs the checks of a service that does not run', async () => {
    const doctor = run(sluice, ['doctor', '--host', 'http://127.0.0.1:9', '-o', 'json'], { cwd: folder, env });
    const failure = await doctor.catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 1, stdout: expect.stringContaining('"name": "configuration"') });
  });

  it('installs the build and the sandbox of actions', { timeout: 120_000 }, async () => {
    await output('action', 'init', 'my');
    const inFolder = { cwd: join(folder, 'my'), env };
    await run(sluice, ['action', 'build', 'my-action.ts'], inFolder);
    const { stdout } = await run(sluice, ['action', 'test', 'my-action.wasm', '--context', 'ctx.json'], inFolder);
    expect(stdout).toMatch(/^decision: block: /m);
  });
});

it('a bundle installs without a registry and without npm’s cache', { timeout: 900_000 }, async () => {
  const packed = await run(process.execPath, ['scripts/pack.ts', folder, '--bundle'], { cwd: ROOT });
  const prefix = join(folder, 'bundled');
  const options = ['--prefix', prefix, '--ignore-scripts', '--no-audit', '--no-fund'];
  const unreachable = { npm_config_registry: 'http://127.0.0.1:9/', npm_config_cache: join(folder, 'empty-cache') };
  await run('npm', ['install', '-g', ...options, packed.stdout.trim()], {
    cwd: folder,
    env: { ...env, ...unreachable },
  });
  expect((await run(join(prefix, 'bin/sluice'), ['--version'], { cwd: folder, env })).stdout).toMatch(/^\d/);
});

/** Opens the home page of the console in a browser. */
async function openConsole(executablePath: string, url: string): Promise<void> {
  const browser = await startBrowser(executablePath);
  try {
    const page = await browser.newPage();
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(String(error)));
    await page.goto(url);
    await page.getByRole('link', { name: 'Tool calls' }).first().waitFor();
    expect(errors).toEqual([]);
  } finally {
    await browser.close();
  }
}

/** The packages in a `node_modules`, and in those of these packages: `name version`. */
async function installedPackages(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const names = await Promise.all(
    entries
      .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
      .map(async ({ name }) =>
        name.startsWith('@') ? (await readdir(join(folder, name))).map((each) => `${name}/${each}`) : [name],
      ),
  );
  const found = await Promise.all(
    names.flat().map(async (name) => {
      const manifest = JSON.parse(await readFile(join(folder, name, 'package.json'), 'utf8'));
      return [`${name} ${manifest.version}`, ...(await installedPackages(join(folder, name, 'node_modules')))];
    }),
  );
  return found.flat();
}
