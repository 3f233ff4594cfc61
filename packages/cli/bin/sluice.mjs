#!/usr/bin/env node
// The command `sluice`. Written for Node.js 20, which a machine may have; everything behind it runs on Node.js 26, which
// npm brings (package.json, "optionalDependencies"). An older one starts that one and stays behind as its shadow.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import module from 'node:module';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const NEEDED = 26;
/** In the environment of the Node.js that an older one has started: should it be too old as well, that is the end. */
const MARKER = 'SLUICE_STARTED_BY_OLDER_NODE';
const self = fileURLToPath(import.meta.url);

if (Number(process.versions.node.split('.')[0]) >= NEEDED) {
  delete process.env[MARKER];
  cacheCompiled(process.env);
  await import('../src/main.ts');
} else {
  const node = process.env[MARKER] === undefined ? findNode(dirname(dirname(self))) : undefined;
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
 * The Node.js that was installed with us: in `node_modules` of our package, or of the workspace or project that the
 * package is installed in. Folders further up may be anybody's.
 * @param {string} ours
 * @returns {string | undefined}
 */
function findNode(ours) {
  const project = /^(.+)[\\/]node_modules[\\/]/.exec(ours)?.[1];
  const workspace = join(ours, '..', '..');
  return [ours, project ?? (isWorkspace(workspace) ? workspace : ours)]
    .map((folder) => join(folder, 'node_modules', '.bin', 'node'))
    .find((node) => existsSync(node));
}

/** @param {string} folder */
function isWorkspace(folder) {
  try {
    return 'workspaces' in JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  } catch {
    return false;
  }
}

/**
 * Runs it in our place: our streams, our signals, and its exit code is ours.
 * @param {string} node
 * @param {string[]} args
 */
function run(node, args) {
  const child = spawn(node, args, { stdio: 'inherit', env: { ...process.env, [MARKER]: '1' } });
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
    process.on(signal, () => child.kill(signal));
  }
  child.on('error', (error) => {
    console.error(`sluice: ${node}: ${error.message}`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => process.exit(signal === null ? (code ?? 1) : 128 + constants.signals[signal]));
}
