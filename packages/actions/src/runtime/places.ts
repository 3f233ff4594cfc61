/** Of what the bundle was made (`bundle/origins.ts`), in place of which this stands until it is. */
const TABLE = '<places>';

/** A place in the component's module, as either engine writes it: `at f (componentize-qjs:user.js:1:2)`, `f@action.js:1:2`. */
const FRAME = /^\s*(?:at )?(.*?)(?:@|\s*\(?)(?:componentize-qjs:user|action)\.js:(\d+):(\d+)\)?$/;

const MAX_FRAMES = 10;

/** The frames of an error's stack that are in the author's files, `f (my-action.ts:3)`, innermost first. */
export function placesOf(stack: string): { readonly place: string; readonly called: string }[] {
  const table: unknown = JSON.parse(TABLE);
  if (!isTable(table)) return [];
  const found: { readonly place: string; readonly called: string }[] = [];
  for (const frame of stack.split('\n')) {
    const [, called = '', line, column] = FRAME.exec(frame) ?? [];
    const place = placeOf(table, Number(line), Number(column));
    if (place !== undefined) found.push({ place, called });
    if (found.length === MAX_FRAMES) break;
  }
  return found;
}

interface Table {
  readonly files: readonly string[];
  /** Four numbers each: a line and column of the module, the file that begins there, and how far its lines are from these. */
  readonly places: readonly number[];
}

function isTable(table: unknown): table is Table {
  return typeof table === 'object' && table !== null && 'files' in table && 'places' in table;
}

function placeOf({ files, places }: Table, line: number, column: number): string | undefined {
  let found: string | undefined;
  for (let at = 0; at < places.length; at += 4) {
    const [fromLine = 0, fromColumn = 0, file = 0, further = 0] = places.slice(at, at + 4);
    if (!(fromLine < line || (fromLine === line && fromColumn <= column))) break;
    found = files[file] === undefined ? undefined : `${files[file]}:${line + further}`;
  }
  return found;
}
