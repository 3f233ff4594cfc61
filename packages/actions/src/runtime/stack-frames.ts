/** Placeholder that the build replaces with the table of `bundle/source-positions.ts`. */
const TABLE = '<positions>';

/**
 * Stack frame in the bundle, in the format of either engine: `at f (componentize-qjs:user.js:1:2)`, `f@action.js:1:2`.
 */
const FRAME = /^\s*(?:at )?(.*?)(?:@|\s*\(?)(?:componentize-qjs:user|action)\.js:(\d+):(\d+)\)?$/;

const MAX_FRAMES = 10;

/** Returns the frames of a stack that are in the source files of the action, innermost first. Bundled into actions. */
export function authorFrames(stack: string): { readonly name: string; readonly position: string }[] {
  const table: unknown = JSON.parse(TABLE);
  if (!isTable(table)) return [];
  const found: { readonly name: string; readonly position: string }[] = [];
  for (const frame of stack.split('\n')) {
    const [, name = '', line, column] = FRAME.exec(frame) ?? [];
    const position = findPosition(table, Number(line), Number(column));
    if (position !== undefined) found.push({ name, position });
    if (found.length === MAX_FRAMES) break;
  }
  return found;
}

interface Table {
  readonly files: readonly string[];
  /** Four numbers each: line and column in the bundle, index of the file, and offset of its lines. */
  readonly positions: readonly number[];
}

function isTable(table: unknown): table is Table {
  return typeof table === 'object' && table !== null && 'files' in table && 'positions' in table;
}

function findPosition({ files, positions }: Table, line: number, column: number): string | undefined {
  let found: string | undefined;
  for (let at = 0; at < positions.length; at += 4) {
    const [fromLine = 0, fromColumn = 0, file = 0, offset = 0] = positions.slice(at, at + 4);
    if (!(fromLine < line || (fromLine === line && fromColumn <= column))) break;
    found = files[file] === undefined ? undefined : `${files[file]}:${line + offset}`;
  }
  return found;
}
