import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importCycles, type SourceFile, sizesOf, upwardImports } from './shape/source-files.ts';

const ROOT = join(import.meta.dirname, '..');
const file = (path: string, imports: readonly string[] = [], lines = 100): SourceFile => ({ path, imports, lines });

it('the architecture page lists the folders of the server, in their order', async () => {
  const page = await readFile(join(ROOT, 'docs/architecture.md'), 'utf8');
  const [, table = ''] = page.split(/^Folders of `packages\/server\/src`/m);
  const [folders = ''] = table.split('\n\nSettings');
  const listed = [...folders.matchAll(/^\| `(main\.ts|[a-z]+\/)` \|/gm)].map(([, name]) => name?.replace('/', ''));
  const found = (await readdir(join(ROOT, 'packages/server/src'))).filter((name) => !name.endsWith('.test.ts'));
  expect(listed.toSorted()).toEqual(found.toSorted());
});

describe('the shape of the source', () => {
  it('reports imports of folders above', () => {
    const files = [file('http/a.ts', ['mcp/b.ts', 'telemetry/c.ts']), file('mcp/b.ts', ['http/a.ts'])];
    expect(upwardImports(files)).toEqual(['http/a.ts -> mcp/b.ts']);
  });

  it('reports cycles of any length', () => {
    const files = [file('a.ts', ['b.ts']), file('b.ts', ['c.ts']), file('c.ts', ['a.ts', 'd.ts']), file('d.ts')];
    expect(importCycles(files)).toEqual([['a.ts', 'b.ts', 'c.ts']]);
  });

  it('measures sizes', () => {
    const files = [10, 100, 200, 700].map((lines, at) => file(`${at}.ts`, [], lines));
    expect(sizesOf(files)).toEqual({ files: 4, lines: 1010, median: 200, p90: 700, tiny: 1, huge: ['3.ts (700)'] });
  });
});
