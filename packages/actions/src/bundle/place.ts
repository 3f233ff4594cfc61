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
  return at === undefined ? shown(importer) : placeIn(source, at, importer);
}

/** Where an entry exports `evaluate`: `file:line:col`, or the file when that is not seen. */
export async function placeOfEvaluate(entry: string): Promise<string> {
  const source = await readFile(entry, 'utf8').catch(() => '');
  const found = /^[ \t]*export\s+(?:(?:async\s+)?function\s*\*?|const|let|var|class)\s+(?=evaluate\b)/m.exec(source);
  return found === null ? shown(entry) : placeIn(source, found.index + found[0].length, entry);
}

function placeIn(source: string, at: number, file: string): string {
  const before = source.slice(0, at).split('\n');
  return `${shown(file)}:${before.length}:${(before.at(-1) ?? '').length + 1}`;
}
