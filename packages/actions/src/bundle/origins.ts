import { SourceMap } from 'node:module';
import { relative } from 'node:path';
import type { SourceMap as BundleMap } from 'rolldown';
import { isRuntime } from './interfaces.ts';
import { shown } from './place.ts';

/** Where something is in a file of the author's; line and column count from 1. */
interface Origin {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** What stands for a file in a table where nothing is of the author's. */
const NOBODYS = -1;

/** Where what is in a bundle comes from. */
export class Origins {
  readonly #code: string;
  readonly #map: SourceMap;

  /** `map`: with absolute paths for its sources. */
  constructor(code: string, map: BundleMap) {
    this.#code = code;
    this.#map = new SourceMap({ ...map, sourceRoot: '' });
  }

  /** The author's `file:line:column` of a place in the bundle, both counted from 1; undefined where nothing is theirs. */
  placeOf(line: number, column: number): string | undefined {
    const origin = this.#origin(line, column);
    return origin && `${shown(origin.file)}:${origin.line}:${origin.column}`;
  }

  /**
   * What a component knows of it (`runtime/places.ts`), as JSON: the files as seen from a folder; and four numbers wherever
   * that changes, which are a line and column of the bundle, the file that begins there, and how much greater its lines are.
   */
  table(folder: string): string {
    const files: string[] = [];
    const places: number[] = [];
    let last = '';
    for (const [index, text] of this.#code.split('\n').entries()) {
      for (const { index: before } of text.matchAll(/\w+|[^\s\w]/g)) {
        const origin = this.#origin(index + 1, before + 1);
        const name = origin && relative(folder, origin.file);
        if (name !== undefined && !files.includes(name)) files.push(name);
        const place = origin && name !== undefined ? [files.indexOf(name), origin.line - index - 1] : [NOBODYS, 0];
        if (last === place.join()) continue;
        last = place.join();
        places.push(index + 1, before + 1, ...place);
      }
    }
    return JSON.stringify({ files, places });
  }

  #origin(line: number, column: number): Origin | undefined {
    const entry = this.#map.findEntry(line - 1, column - 1);
    // Where nothing is known of a line, the map has that of the line before.
    if (!('originalSource' in entry) || entry.generatedLine !== line - 1) return undefined;
    const { originalSource: file, originalLine, originalColumn } = entry;
    if (!file || isRuntime(file)) return undefined;
    return { file, line: originalLine + 1, column: originalColumn + 1 };
  }
}
