import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { callPath, excess } from './shape/call-path.ts';
import { importCycles, readServiceFiles, type SourceFile, sizesOf, upwardImports } from './shape/source-files.ts';

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

  it.each(['relayed-call', 'http-attempt', 'call-messages', 'stream-resumption', 'large-relay'])(
    'has at most 300 lines in a part of relayed calls: %s',
    async (name) => {
      const text = await readFile(join(ROOT, `packages/server/src/upstreams/mcp/relay/${name}.ts`), 'utf8');
      expect(text.split('\n').length - 1).toBeLessThanOrEqual(300);
    },
  );

  it('counts the service wherever its folders are', async () => {
    await using packages = await folderOf({
      'server/src/mcp/a.ts': '1\n2\n',
      'server/src/mcp/a.test.ts': '1\n',
      'server/testing/b.ts': '1\n',
      'http/src/client/c.ts': '1\n',
      'protocol/src/d.ts': '1\n',
    });
    const files = await readServiceFiles(packages.path);
    expect(files.map(({ path, lines }) => [path, lines])).toEqual([
      ['server/src/mcp/a.ts', 2],
      ['http/src/client/c.ts', 1],
    ]);
  });

  it('counts parameters of executed functions, and members of the types that they take or read', async () => {
    const source = `
import type { Server } from 'node:http';
export interface Settings { readonly limit: number; readonly log: Log }
export interface Log { write(line: string): void }
export type Target = { readonly name: string } | Unread;
export interface Unread { readonly text: string; readonly bytes: number }
export class Call {
  static count = 0;
  readonly id: string;
  readonly #settings: Settings;
  private readonly started = 0;
  constructor(id: string, settings: Settings) {
    this.id = id;
    this.#settings = settings;
  }
  start(server: Server, target: Target, name: string, at: number): number {
    const { limit } = this.#settings;
    const never = (log: Log) => log.write(name);
    return target.toString().length + at + limit + server.maxConnections + never.length + this.started;
  }
}
`;
    await using root = await folderOf({
      'tsconfig.json':
        '{"compilerOptions":{"module":"nodenext","target":"esnext","strict":true,"types":[]},"include":["packages"]}',
      'packages/server/src/call.ts': source,
    });
    const start = source.indexOf('start(server');
    const end = source.indexOf('this.started;') + 'this.started;\n  }'.length;
    const file = join(root.path, 'packages/server/src/call.ts');
    expect(callPath(root.path, [{ file, start, end }])).toEqual({
      functions: [{ place: 'packages/server/src/call.ts:16 start', count: 4 }],
      types: [
        { place: 'packages/server/src/call.ts:3 Settings', count: 2 },
        { place: 'packages/server/src/call.ts:6 Unread', count: 2 },
        { place: 'packages/server/src/call.ts:7 Call', count: 2 },
        { place: 'packages/server/src/call.ts:5 Target', count: 1 },
      ],
    });
  });

  it.each([
    ['within the limit', 3, {}, []],
    ['beyond it', 4, {}, ['a.ts f: 4, at most 3 allowed']],
    ['as an exception says', 4, { 'a.ts f': 4 }, []],
    ['beyond its exception', 5, { 'a.ts f': 4 }, ['a.ts f: 5, at most 4 allowed']],
    ['below its exception', 4, { 'a.ts f': 5 }, ['a.ts f: 4, so that its exception for 5 can go down']],
    ['of a name that is not executed', 3, { 'b.ts g': 5 }, []],
  ])('reports counts that are not allowed: %s', (_how, count, exceptions, problems) => {
    expect(excess([{ place: 'a.ts:7 f', count }], 3, exceptions)).toEqual(problems);
  });

  it('measures sizes', () => {
    const files = [10, 100, 200, 700].map((lines, at) => file(`${at}.ts`, [], lines));
    expect(sizesOf(files)).toEqual({ files: 4, lines: 1010, median: 200, p90: 700, tiny: 1, huge: ['3.ts (700)'] });
  });
});

/** Writes files into a temporary folder, which is removed at the end. */
async function folderOf(files: Readonly<Record<string, string>>) {
  const path = await mkdtemp(join(tmpdir(), 'shape-'));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(path, name, '..'), { recursive: true });
    await writeFile(join(path, name), text);
  }
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
