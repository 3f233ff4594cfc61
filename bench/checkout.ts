import { execFileSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { at, parseJson } from './caller.ts';

/** A gateway at another commit. */
export interface Checkout {
  /** File that starts the gateway. */
  readonly entry: string;
  /** Node.js flags that `npm start` uses at that commit; undefined if the commit does not declare them. */
  readonly nodeFlags: readonly string[] | undefined;
}

const MAIN = 'packages/server/src/main.ts';
/** Older commits have the second one. */
const NODE_FLAGS = ['packages/server/src/app/node-flags.mjs', 'packages/server/src/app/node-flags.ts'];

/**
 * Extracts a commit into a folder. Its workspace packages resolve to the extracted ones. Installed dependencies are
 * shared if their versions match the commit's lock file; otherwise they are installed with npm.
 *
 * @param root folder of the workspace
 * @throws Error if git does not know the commit, or if it has no gateway
 */
export async function extractCommit(
  commit: string,
  root: string,
  folder: string,
  log: (line: string) => void,
): Promise<Checkout> {
  const tree = join(folder, 'checkout');
  mkdirSync(tree, { recursive: true });
  let archive: Buffer;
  try {
    archive = execFileSync('git', ['archive', commit], { cwd: root, maxBuffer: 2 ** 30, stdio: 'pipe' });
  } catch (error) {
    throw new Error(`--against ${commit}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
  execFileSync('tar', ['-x', '-C', tree], { input: archive });
  const entry = join(tree, MAIN);
  if (!existsSync(entry)) throw new Error(`--against ${commit}: no such file: ${MAIN}`);
  if (hasSameDependencies(root, tree)) {
    linkDependencies(root, tree);
  } else {
    log(`installing the dependencies of ${commit}`);
    const args = ['ci', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund'];
    execFileSync('npm', args, { cwd: tree, stdio: ['ignore', 'ignore', 'inherit'] });
  }
  return { entry, nodeFlags: await readNodeFlags(NODE_FLAGS.map((path) => join(tree, path))) };
}

/** Returns true if every production dependency of the checkout is installed in the workspace in the same version. */
function hasSameDependencies(root: string, tree: string): boolean {
  const installed = lockedPackages(root);
  return Object.entries(lockedPackages(tree))
    .filter(
      ([path, entry]) => path.includes('node_modules/') && at(entry, 'link') !== true && at(entry, 'dev') !== true,
    )
    .every(([path, entry]) => at(installed[path], 'version') === at(entry, 'version'));
}

function lockedPackages(folder: string): Record<string, unknown> {
  const packages = at(parseJson(readFileSync(join(folder, 'package-lock.json'), 'utf8')), 'packages');
  return { ...Object(packages) };
}

/** Links every `node_modules` entry to the workspace's, and `@sluice` packages to those of the checkout. */
function linkDependencies(root: string, tree: string): void {
  const workspaces = globSync('{packages,examples}/*/package.json', { cwd: tree }).map(dirname);
  for (const path of ['', ...workspaces]) {
    const modules = join(root, path, 'node_modules');
    if (!existsSync(modules)) continue;
    const linked = join(tree, path, 'node_modules');
    mkdirSync(linked, { recursive: true });
    for (const name of readdirSync(modules)) {
      if (name !== '@sluice') symlinkSync(join(modules, name), join(linked, name));
    }
  }
  for (const path of workspaces) {
    const name = String(at(parseJson(readFileSync(join(tree, path, 'package.json'), 'utf8')), 'name'));
    const link = join(tree, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(tree, path), link);
  }
}

async function readNodeFlags(files: readonly string[]): Promise<readonly string[] | undefined> {
  const file = files.find((path) => existsSync(path));
  if (file === undefined) return undefined;
  const exported: unknown = await import(pathToFileURL(file).href);
  const flags = at(exported, 'NODE_FLAGS');
  return Array.isArray(flags) ? flags.map(String) : undefined;
}
