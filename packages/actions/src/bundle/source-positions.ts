import { readFile } from 'node:fs/promises';
import { SourceMap } from 'node:module';
import { relative } from 'node:path';
import type { SourceMap as BundleMap } from 'rolldown';
import { isRuntimeFile } from './interfaces.ts';

/** Returns a path relative to the working directory, if it is inside, for messages. */
export function displayPath(path: string): string {
  const from = relative(process.cwd(), path);
  return from === '' || from.startsWith('..') ? path : from;
}

/** Returns `file:line:column` of an import specifier, or the file if it is not found. */
export async function importPosition(specifier: string, importer: string): Promise<string> {
  const source = await readFile(importer, 'utf8').catch(() => '');
  const at = [`'${specifier}'`, `"${specifier}"`].map((quoted) => source.indexOf(quoted)).find((found) => found >= 0);
  return at === undefined ? displayPath(importer) : formatPosition(source, at, importer);
}

/** Returns `file:line:column` of the exported `evaluate`, or the file if it is not found. */
export async function evaluatePosition(entry: string): Promise<string> {
  const source = await readFile(entry, 'utf8').catch(() => '');
  const found = /^[ \t]*export\s+(?:(?:async\s+)?function\s*\*?|const|let|var|class)\s+(?=evaluate\b)/m.exec(source);
  return found === null ? displayPath(entry) : formatPosition(source, found.index + found[0].length, entry);
}

function formatPosition(source: string, at: number, file: string): string {
  const before = source.slice(0, at).split('\n');
  return `${displayPath(file)}:${before.length}:${(before.at(-1) ?? '').length + 1}`;
}

/** Position in a source file of the action; line and column start at 1. */
interface SourcePosition {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** Marks code in the table that is not part of the action. */
const NO_FILE = -1;

/** Maps positions in a bundle to the source files of the action. */
export class SourcePositions {
  readonly #code: string;
  readonly #map: SourceMap;

  /** `map` has absolute source paths. */
  constructor(code: string, map: BundleMap) {
    this.#code = code;
    this.#map = new SourceMap({ ...map, sourceRoot: '' });
  }

  /** Returns `file:line:column` of a bundle position (from 1); undefined for code that is not part of the action. */
  positionOf(line: number, column: number): string | undefined {
    const origin = this.#lookUp(line, column);
    return origin && `${displayPath(origin.file)}:${origin.line}:${origin.column}`;
  }

  /**
   * Returns the JSON table used by `runtime/stack-frames.ts`: the files relative to a folder, and four numbers for each
   * change: line and column in the bundle, index of the file, and offset of its lines.
   */
  toTable(folder: string): string {
    const files: string[] = [];
    const positions: number[] = [];
    let last = '';
    for (const [index, text] of this.#code.split('\n').entries()) {
      for (const { index: before } of text.matchAll(/\w+|[^\s\w]/g)) {
        const origin = this.#lookUp(index + 1, before + 1);
        const name = origin && relative(folder, origin.file);
        if (name !== undefined && !files.includes(name)) files.push(name);
        const target = origin && name !== undefined ? [files.indexOf(name), origin.line - index - 1] : [NO_FILE, 0];
        if (last === target.join()) continue;
        last = target.join();
        positions.push(index + 1, before + 1, ...target);
      }
    }
    return JSON.stringify({ files, positions });
  }

  #lookUp(line: number, column: number): SourcePosition | undefined {
    const entry = this.#map.findEntry(line - 1, column - 1);
    // For an unmapped line, the map returns the entry of the line before.
    if (!('originalSource' in entry) || entry.generatedLine !== line - 1) return undefined;
    const { originalSource: file, originalLine, originalColumn } = entry;
    if (!file || isRuntimeFile(file)) return undefined;
    return { file, line: originalLine + 1, column: originalColumn + 1 };
  }
}
