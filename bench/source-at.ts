import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, realpathSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Puts the source at a commit into a folder, with the dependencies that are installed now.
 *
 * @param root folder of the workspace
 * @returns the file that starts its gateway
 * @throws Error when git does not know the commit, or it has no such file
 */
export function sourceAt(commit: string, root: string, folder: string): string {
  const tree = join(folder, 'source-at');
  mkdirSync(tree, { recursive: true });
  let archive: Buffer;
  try {
    archive = execFileSync('git', ['archive', commit], { cwd: root, maxBuffer: 2 ** 30, stdio: 'pipe' });
  } catch (error) {
    throw new Error(`--against ${commit}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
  execFileSync('tar', ['-x', '-C', tree], { input: archive });
  for (const at of ['', ...packagesOf(tree)]) linkModules(join(root, at), join(tree, at));
  const entry = join(tree, 'packages/server/src/main.ts');
  if (!existsSync(entry)) throw new Error(`--against ${commit}: there is no packages/server/src/main.ts`);
  return entry;
}

const packagesOf = (tree: string) => readdirSync(join(tree, 'packages')).map((name) => join('packages', name));

/** Dependencies are those installed in `root`; what links from there into the workspace leads into `tree` instead. */
function linkModules(root: string, tree: string): void {
  const modules = join(root, 'node_modules');
  if (!existsSync(modules)) return;
  const own = join(tree, 'node_modules');
  mkdirSync(own, { recursive: true });
  for (const name of readdirSync(modules)) {
    if (name !== '@sluice') symlinkSync(join(modules, name), join(own, name));
  }
  if (!existsSync(join(modules, '@sluice'))) return;
  mkdirSync(join(own, '@sluice'));
  for (const name of readdirSync(join(modules, '@sluice'))) {
    const inside = realpathSync(join(modules, '@sluice', name)).slice(realpathSync(root).length);
    symlinkSync(join(tree, inside), join(own, '@sluice', name));
  }
}
