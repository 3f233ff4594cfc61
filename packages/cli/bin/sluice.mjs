#!/usr/bin/env node
// The command `sluice`. This file runs on Node.js 20; everything else needs Node.js 26, which npm installs (package.json,
// "optionalDependencies"). An older Node.js starts that one as a child process.
import { readFileSync } from 'node:fs';
import module from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NEEDED, nodeBinary, runInPlace } from './node.mjs';

/** Set in the environment of the child process, so that a second old version fails instead of starting another child. */
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
  runInPlace(node, [self, ...process.argv.slice(2)], { stdio: 'inherit', env: { ...process.env, [MARKER]: '1' } });
}

/**
 * Enables the compile cache, which halves the startup time. It is in the user's own folder: in a folder that others can
 * write to, they could inject code.
 * @param {NodeJS.ProcessEnv} env
 */
function cacheCompiled({ XDG_CACHE_HOME, HOME }) {
  const cache = XDG_CACHE_HOME || (HOME && join(HOME, '.cache'));
  if (cache) module.enableCompileCache(join(cache, 'sluice', 'compiled'));
}

/**
 * Finds the Node.js that was installed with this package: in its `node_modules`, or in those of the workspace or project
 * that contains the package. Folders further up may belong to other users.
 * @param {string} packageFolder
 * @returns {string | undefined}
 */
function findNode(packageFolder) {
  const project = /^(.+)[\\/]node_modules[\\/]/.exec(packageFolder)?.[1];
  const workspace = join(packageFolder, '..', '..');
  return [packageFolder, project ?? (isWorkspace(workspace) ? workspace : packageFolder)]
    .map((folder) => nodeBinary(join(folder, 'node_modules')))
    .find((node) => node !== undefined);
}

/** @param {string} folder */
function isWorkspace(folder) {
  try {
    return 'workspaces' in JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  } catch {
    return false;
  }
}
