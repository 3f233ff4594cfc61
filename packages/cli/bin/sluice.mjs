#!/usr/bin/env node
// The command `sluice`. Written for Node.js 20, which a machine may have; everything behind it runs on Node.js 26, which
// npm brings (package.json, "optionalDependencies"). An older one starts that one and stays behind as its shadow.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const NEEDED = 26;
const self = fileURLToPath(import.meta.url);

if (Number(process.versions.node.split('.')[0]) >= NEEDED) {
  cacheCompiled(process.env);
  await import('../src/main.ts');
} else {
  const node = findNode(dirname(self));
  if (node === undefined) {
    console.error(
      `sluice: needs Node.js ${NEEDED}, this is ${process.version}: run npm ci, or install Node.js ${NEEDED}`,
    );
    process.exit(1);
  }
  run(node, [self, ...process.argv.slice(2)]);
}

/**
 * Keeps what Node.js makes of our files, which halves the time to start. In the user's own folder: in one that others can
 * write to, they could put code there for us to run.
 * @param {NodeJS.ProcessEnv} env
 */
function cacheCompiled({ XDG_CACHE_HOME, HOME }) {
  const cache = XDG_CACHE_HOME || (HOME && join(HOME, '.cache'));
  if (cache) module.enableCompileCache(join(cache, 'sluice', 'compiled'));
}

/**
 * The Node.js that was installed with us: `node_modules/.bin/node` in our folder or one above it.
 * @param {string} folder
 * @returns {string | undefined}
 */
function findNode(folder) {
  const candidate = join(folder, 'node_modules', '.bin', 'node');
  if (existsSync(candidate)) return candidate;
  const above = dirname(folder);
  return above === folder ? undefined : findNode(above);
}

/**
 * Runs it in our place: our streams, our signals, and its exit code is ours.
 * @param {string} node
 * @param {string[]} args
 */
function run(node, args) {
  const child = spawn(node, args, { stdio: 'inherit' });
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
    process.on(signal, () => child.kill(signal));
  }
  child.on('error', (error) => {
    console.error(`sluice: ${node}: ${error.message}`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => process.exit(signal === null ? (code ?? 1) : 128 + constants.signals[signal]));
}
