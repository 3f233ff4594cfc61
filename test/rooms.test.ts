import { glob, readFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';

const SOURCE = resolve(import.meta.dirname, '../packages/server/src');
const MAP = resolve(import.meta.dirname, '../docs/architecture.md');

/** `import` and `export … from` with anything but types, and `import()`. */
const IMPORT = /^(?:import|export)\s(?!type\s)([^;']*?)\sfrom\s+'(\.[^']+)'|\bimport\('(\.[^']+)'\)/gm;

/** The first cells of the table of rooms, from top to bottom, and its whole text. */
let rooms: string[];
let table: string;
/** Every file that is part of the service, with the files that it imports values of; paths from the source's folder. */
const files = new Map<string, string[]>();

beforeAll(async () => {
  const lines = (await readFile(MAP, 'utf8')).split('\n');
  const first = lines.findIndex((line) => line.startsWith('| Room |'));
  const rows = lines.slice(first + 2, lines.indexOf('', first));
  table = rows.join('\n');
  rooms = rows.flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name));
  for await (const path of glob('**/*.ts', { cwd: SOURCE })) {
    if (/\.(?:test|fixture)\.ts$|(?:^|\/)fixtures\/|^testing\//.test(path)) continue;
    const text = await readFile(join(SOURCE, path), 'utf8');
    const imported = [...text.matchAll(IMPORT)].flatMap(([, names = '', from = '', called = '']) =>
      // In braces, each name may be a type by itself.
      /^\{(?:\s*type\s[^,}]*,?)*\s*\}$/.test(names) ? [] : join(dirname(path), from || called),
    );
    files.set(path, imported);
  }
});

/** The room that a file is in: its folder, or itself; what `main` and `service` consist of is theirs. */
function roomOf(path: string): string {
  const [folder = '', ...inside] = path.split('/');
  if (path === 'welcome.ts') return 'main.ts';
  if (inside.length === 0) return path;
  return folder === 'service' ? 'service.ts' : `${folder}/`;
}

describe('the map of the source', () => {
  it('has a room for every file', () => {
    const homeless = [...files.keys()].filter((path) => !rooms.includes(roomOf(path)));
    expect(homeless).toEqual([]);
    expect(table).toContain('`welcome.ts`');
    expect(table).toContain('`service/`');
  });

  it('has no room that is not there', () => {
    const known = new Set([...files.keys()].map(roomOf));
    expect(rooms.filter((room) => room !== 'testing/' && !known.has(room))).toEqual([]);
  });

  it('has every room above those that it takes functions of', () => {
    const upwards = [...files].flatMap(([path, imported]) =>
      imported
        .filter((other) => files.has(other) && rooms.indexOf(roomOf(other)) < rooms.indexOf(roomOf(path)))
        .map((other) => `${path} imports ${other}`),
    );
    expect(upwards).toEqual([]);
    // There is something to see.
    expect([...files.values()].flat().length).toBeGreaterThan(500);
  });
});
