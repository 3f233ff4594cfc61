import { readFile } from 'node:fs/promises';
import { relative } from 'node:path';

/** A file as messages name it: from the present folder on, where it is in there. */
export function shown(path: string): string {
  const from = relative(process.cwd(), path);
  return from === '' || from.startsWith('..') ? path : from;
}

/** Where a module is named in a file: `file:line:col`, or the file when it is not found there. */
export async function placeOf(specifier: string, importer: string): Promise<string> {
  const source = await readFile(importer, 'utf8').catch(() => '');
  const at = [`'${specifier}'`, `"${specifier}"`].map((quoted) => source.indexOf(quoted)).find((found) => found >= 0);
  if (at === undefined) return shown(importer);
  const before = source.slice(0, at).split('\n');
  return `${shown(importer)}:${before.length}:${(before.at(-1) ?? '').length + 1}`;
}
