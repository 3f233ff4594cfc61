// Builds the web console, `packages/admin` (`npm run build:admin`); with `--if-changed` only if its sources have changed
// since the last build. Runs on the machine's Node.js.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const admin = join(root, 'packages', 'admin');
const built = join(admin, 'dist');
/** Contains the checksum of the sources that were built. */
const stamp = join(built, 'build.txt');
/** The sources, other than those of `packages/admin` itself: versions of packages, and what it imports from ours. */
const INPUTS = ['package-lock.json', 'packages/contract/src', 'packages/protocol/src'];
const OWN = ['src', 'public', 'index.html', 'vite.config.ts', 'package.json'];

/**
 * Builds the console unless it is up to date. A failed build leaves an empty folder: the service answers 503 with the
 * command to run.
 * @param {{ force?: boolean }} [options]
 * @returns {boolean} false if the build failed
 */
export function buildConsole({ force = false } = {}) {
  const checksum = sourceChecksum();
  if (!force && readText(stamp) === checksum) return true;
  const start = Date.now();
  console.error('building the web console ...');
  const installed = join(root, 'node_modules', '.bin', 'node');
  const node = existsSync(installed) ? installed : process.execPath;
  const vite = join(root, 'node_modules', 'vite', 'bin', 'vite.js');
  const { status, stdout, stderr, error } = spawnSync(node, [vite, 'build', admin, '--logLevel=warn'], {
    cwd: root,
    encoding: 'utf8',
    // The test runner sets another value, with which React would be a development build.
    env: { ...process.env, NODE_ENV: 'production' },
  });
  if (status === 0) {
    writeFileSync(stamp, checksum);
    console.error(`built the web console in ${((Date.now() - start) / 1000).toFixed(1)} s`);
    return true;
  }
  rmSync(built, { recursive: true, force: true });
  mkdirSync(built);
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
  const force = !process.argv.includes('--if-changed');
  if (!buildConsole({ force })) process.exitCode = 1;
}
