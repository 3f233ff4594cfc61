import { glob, readFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';

/** One source file and the files of the same tree that it imports, types included. */
export interface SourceFile {
  /** Relative to the root of the tree, with `/`. */
  readonly path: string;
  readonly lines: number;
  readonly imports: readonly string[];
}

/** The folders of `packages/server/src`, each of which may import the ones after it (docs/architecture.md). */
const FOLDER_ORDER: readonly string[] = [
  'main.ts',
  'app',
  'management',
  'mcp',
  'policy',
  'inference',
  'upstreams',
  'access',
  'registry',
  'http',
  'telemetry',
  'exchange',
  'identity',
];

/**
 * Source of the service, in `packages`. A folder or file that moves to another package is added here, so that it is still
 * counted and checked.
 */
const SERVICE: readonly string[] = ['server/src', 'http/src', 'store/src'];

const SUPPORT = /\.(?:test|fixture)\.ts$|\.d\.ts$|\/fixtures\/|\/generated\//;
const IMPORT = /^(?:import|export)\s[^'"]*?from\s+'(\.[^']+)'|\bimport\('(\.[^']+)'\)/gm;

/** Reads the TypeScript files below `root` that are neither tests, fixtures nor generated. */
export async function readSourceFiles(root: string): Promise<SourceFile[]> {
  const paths: string[] = [];
  for await (const path of glob('**/*.ts', { cwd: root })) paths.push(path.replaceAll('\\', '/'));
  const files = paths.filter((path) => !SUPPORT.test(`/${path}`)).sort();
  return Promise.all(
    files.map(async (path) => {
      const text = await readFile(join(root, path), 'utf8');
      const imports = [...text.matchAll(IMPORT)].map(([, from, dynamic]) =>
        relative(root, resolve(root, dirname(path), from ?? dynamic ?? '')).replaceAll('\\', '/'),
      );
      const inside = imports.filter((imported) => imported.endsWith('.ts') && !imported.startsWith('..'));
      return { path, lines: text.split('\n').length - 1, imports: [...new Set(inside)] };
    }),
  );
}

/** Reads the source of the service; paths are relative to `packages`. */
export async function readServiceFiles(packages: string): Promise<SourceFile[]> {
  const read = SERVICE.map(async (folder) => {
    const files = await readSourceFiles(join(packages, folder));
    return files.map((file) => ({ ...file, path: `${folder}/${file.path}` }));
  });
  return (await Promise.all(read)).flat();
}

/** Imports against {@link FOLDER_ORDER}, each as `importer -> imported`. */
export function upwardImports(files: readonly SourceFile[]): string[] {
  return files.flatMap(({ path, imports }) =>
    imports.filter((imported) => rank(imported) < rank(path)).map((imported) => `${path} -> ${imported}`),
  );
}

function rank(path: string): number {
  const [top] = path.split('/');
  return FOLDER_ORDER.indexOf(top ?? '');
}

/** Groups of files that import each other, type imports included. */
export function importCycles(files: readonly SourceFile[]): string[][] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const order = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  // Tarjan's strongly connected components.
  const visit = (path: string): number => {
    const at = order.size;
    order.set(path, at);
    low.set(path, at);
    stack.push(path);
    for (const imported of byPath.get(path)?.imports ?? []) {
      if (!byPath.has(imported)) continue;
      const reached = order.has(imported)
        ? stack.includes(imported)
          ? (order.get(imported) ?? at)
          : at
        : visit(imported);
      low.set(path, Math.min(low.get(path) ?? at, reached));
    }
    const lowest = low.get(path) ?? at;
    if (lowest === at) {
      const group = stack.splice(stack.indexOf(path));
      if (group.length > 1) cycles.push(group.sort());
    }
    return lowest;
  };
  for (const { path } of files) if (!order.has(path)) visit(path);
  return cycles;
}

/** Most lines of a file of the service. */
export const MAX_LINES = 500;

/** Size of a set of files. */
export interface Sizes {
  readonly files: number;
  readonly lines: number;
  readonly median: number;
  readonly p90: number;
  /** Files below 25 lines. */
  readonly tiny: number;
  /** Files with more than {@link MAX_LINES} lines. */
  readonly huge: readonly string[];
}

/** Measures a non-empty set of files. */
export function sizesOf(files: readonly SourceFile[]): Sizes {
  const lines = files.map((file) => file.lines).sort((a, b) => a - b);
  const at = (share: number): number => lines[Math.min(lines.length - 1, Math.floor(lines.length * share))] ?? 0;
  return {
    files: files.length,
    lines: lines.reduce((sum, count) => sum + count, 0),
    median: at(0.5),
    p90: at(0.9),
    tiny: lines.filter((count) => count < 25).length,
    huge: files.filter((file) => file.lines > MAX_LINES).map(({ path, lines: count }) => `${path} (${count})`),
  };
}
