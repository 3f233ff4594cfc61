// Builds the web console, `packages/admin` (`npm run build:admin`); with `--if-changed` only if its sources have changed
// since the last build; with `--background` for a service that runs already. Runs on the machine's Node.js.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { nodeBinary } from '../packages/cli/bin/node.mjs';
import { ROOT as root } from './setup/machine.mjs';
import { isInstalled, SETS } from './setup/packages.mjs';
import { setUp } from './setup.mjs';

const admin = join(root, 'packages', 'admin');
const built = join(admin, 'dist');
/** Contains the checksum of the sources that were built. */
const stamp = join(built, 'build.txt');
/** Tells the service when the console is expected, which has not been built yet: `{pid, finishes}`, in epoch milliseconds. */
const progress = join(built, 'progress.json');
/** Duration of a build on two slow cores. */
const BUILD_MS = 15_000;
/** The sources, other than those of `packages/admin` itself: versions of packages, and what it imports from ours. */
const INPUTS = ['package-lock.json', 'packages/contract/src', 'packages/protocol/src'];
const OWN = ['src', 'public', 'index.html', 'vite.config.ts', 'package.json'];

/** Returns whether the console has to be built. */
export function buildsConsole() {
  return readText(stamp) !== sourceChecksum();
}

/** Tells the service that this process will have the console built; a console of earlier sources is served meanwhile. */
export function expectConsole() {
  if (existsSync(join(built, 'index.html'))) return;
  const durationMs = BUILD_MS + (isInstalled('console') ? 0 : SETS.console.seconds * 1000);
  mkdirSync(built, { recursive: true });
  writeFileSync(progress, JSON.stringify({ pid: process.pid, finishes: Date.now() + durationMs }));
}

/**
 * Builds the console unless it is up to date. A failed build leaves the last one in place; without one, the service answers
 * 503 with the command to run.
 * @param {{ force?: boolean }} [options]
 * @returns {boolean} false if the build failed
 */
function buildConsole({ force = false } = {}) {
  const checksum = sourceChecksum();
  if (!force && readText(stamp) === checksum) return true;
  const start = Date.now();
  console.error('building the web console ...');
  const node = nodeBinary(join(root, 'node_modules')) ?? process.execPath;
  const vite = join(root, 'node_modules', 'vite', 'bin', 'vite.js');
  // Not in place: the service may be serving the last one.
  const output = join(root, 'node_modules', '.cache', `console-${process.pid}`);
  const args = [vite, 'build', admin, '--outDir', output, '--emptyOutDir', '--logLevel=warn'];
  const { status, stdout, stderr, error } = spawnSync(node, args, {
    cwd: root,
    encoding: 'utf8',
    // The test runner sets another value, with which React would be a development build.
    env: { ...process.env, NODE_ENV: 'production' },
  });
  if (status === 0) {
    writeFileSync(join(output, 'build.txt'), checksum);
    const last = `${output}-last`;
    if (existsSync(built)) renameSync(built, last);
    renameSync(output, built);
    rmSync(last, { recursive: true, force: true });
    console.error(`built the web console in ${((Date.now() - start) / 1000).toFixed(1)} s`);
    return true;
  }
  rmSync(output, { recursive: true, force: true });
  rmSync(progress, { force: true });
  // The service finds the console here, also one that is built later.
  mkdirSync(built, { recursive: true });
  console.error(`${stdout ?? ''}${stderr ?? ''}${error?.message ?? ''}`.trimEnd());
  console.error('the web console could not be built; the service runs without it. Try again: npm run build:admin');
  return false;
}

/** @returns {string} */
function sourceChecksum() {
  const hash = createHash('sha256');
  const paths = [...INPUTS, ...OWN.map((name) => join('packages', 'admin', name))].flatMap((path) => filesIn(path));
  for (const path of paths)
    hash
      .update(path)
      .update('\0')
      .update(readFileSync(join(root, path)))
      .update('\0');
  return hash.digest('hex');
}

/**
 * @param {string} path
 * @returns {string[]}
 */
function filesIn(path) {
  try {
    return readdirSync(join(root, path), { withFileTypes: true })
      .flatMap((entry) => (entry.isDirectory() ? filesIn(join(path, entry.name)) : [join(path, entry.name)]))
      .filter((file) => !/\.test\.ts$/.test(file))
      .sort();
  } catch {
    // A file.
    return [path];
  }
}

/** @param {string} path */
function readText(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const isBackground = process.argv.includes('--background');
  if (isBackground) await setUp('console', { isBackground });
  const force = !isBackground && !process.argv.includes('--if-changed');
  if (!buildConsole({ force })) process.exitCode = 1;
  else if (isBackground) console.error('the web console is ready: open or reload /admin/');
}
