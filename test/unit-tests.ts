import { existsSync, globSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';

/** Modules that start processes, or use those of others. */
const PROCESSES =
  /(?:^(?:import|export)\s(?!type\b)[^']*?from\s+|^import\s+|\bimport\(\s*)'(?:node:child_process|node:cluster|pg|playwright-core)'/m;
/** Imports of own modules at run time. */
const IMPORTS =
  /(?:^(?:import|export)\s(?!type\b)[^']*?from\s+|^import\s+|\bimport\(\s*)'((?:\.{1,2}|@sluice)\/[^']+|@sluice\/\w+)'/gm;

const { resolve: resolvePackage } = createRequire(import.meta.url);

/**
 * Returns the unit tests of all packages, relative to `root`: the tests beside the code that load nothing that starts processes,
 * so neither the whole service nor a sandbox, a database or a browser.
 *
 * @param pattern of the tests beside the code
 */
export function unitTests(root: string, pattern: string): string[] {
  const imports = new Map<string, readonly string[] | 'processes'>();
  const read = (file: string): readonly string[] | 'processes' => {
    const text = readFileSync(file, 'utf8');
    if (PROCESSES.test(text)) return 'processes';
    return [...text.matchAll(IMPORTS)].map(([, name = '']) => target(name, file)).filter(isSource);
  };
  const startsProcesses = (test: string): boolean => {
    const found = new Set([test]);
    for (const file of found) {
      const imported = imports.get(file) ?? read(file);
      imports.set(file, imported);
      if (imported === 'processes') return true;
      for (const next of imported) found.add(next);
    }
    return false;
  };
  return globSync(pattern, { cwd: root }).filter((test) => !startsProcesses(join(root, test)));
}

function target(name: string, file: string): string {
  return name.startsWith('.') ? resolve(dirname(file), name) : resolvePackage(name);
}

const isSource = (file: string): boolean => /\.m?[jt]sx?$/.test(file) && existsSync(file);
