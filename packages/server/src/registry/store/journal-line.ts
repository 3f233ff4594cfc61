import { tryParseJson } from '@sluice/protocol/json/parse';
import { type JsonKind, JsonScanner, type JsonSink } from '@sluice/protocol/json/scanner';
import { z } from 'zod';
import type { Steps } from '../steps.ts';
import type { ByteRange } from './byte-range.ts';
import { CorruptFileError, jsonArray } from './journaled-file.ts';
import type { RecordedChange } from './store.ts';

/** The content of a record is its exact text, a patch is a JSON Merge Patch. */
const operation = z.union([
  z.tuple([z.literal('put'), z.string(), z.string(), z.string()]),
  z.tuple([z.literal('patch'), z.string(), z.string(), z.unknown()]),
  z.tuple([z.literal('remove'), z.string(), z.string()]),
  z.tuple([z.literal('begin'), z.unknown(), z.int().positive()]),
  z.tuple([z.literal('end')]),
]);

/** An item of a line: an operation on a record, or the begin or end of a snapshot with its version and generation. */
export type LineOperation = z.output<typeof operation>;

/** Bytes that are scanned in one step. */
export const STEP_BYTES = 256 * 1024;

/** The line of the journal with these changes; undefined without any. */
export function changesLine(changes: readonly RecordedChange[]): Iterable<string> | undefined {
  return changes.length === 0 ? undefined : jsonArray(changes.values().map(operationText));
}

function operationText(change: RecordedChange): string {
  const { section, id } = change;
  const patch = change.patch?.();
  if (patch) return JSON.stringify(['patch', section, id, patch]);
  const { json } = change;
  return JSON.stringify(json === null ? ['remove', section, id] : ['put', section, id, json]);
}

/** The operations of a line, each of which is parsed when it is read, and throws {@link CorruptFileError} if it is unknown. */
export function* readOperations(line: ByteRange, file: string, offset: number): Steps<Iterable<LineOperation>> {
  const unknownRecord = () => new CorruptFileError(file, `has an unknown record at byte ${offset}`);
  const outline = new LineOutline();
  if (!(yield* scan(pieces(line), new JsonScanner(outline))) || !outline.isArray) throw unknownRecord();
  return readAt(line, outline.positions, (text) => {
    const { data } = operation.safeParse(tryParseJson(text));
    if (!data) throw unknownRecord();
    return data;
  });
}

/** Scans JSON; returns whether it is valid. */
export function* scan(pieces: Iterable<Buffer>, scanner: JsonScanner): Steps<boolean> {
  for (const piece of pieces) {
    scanner.write(piece);
    yield;
  }
  return scanner.isComplete;
}

function* pieces(bytes: ByteRange): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += STEP_BYTES) {
    yield bytes.read(at, Math.min(bytes.length, at + STEP_BYTES));
  }
}

/** What `read` makes of each text, whenever it is needed. `positions`: start and end of each text, alternating. */
export function readAt<T>(bytes: ByteRange, positions: readonly number[], read: (text: string) => T): Iterable<T> {
  return {
    *[Symbol.iterator]() {
      for (let at = 0; at < positions.length; at += 2) yield read(bytes.toString(positions[at], positions[at + 1]));
    },
  };
}

/** Positions of the items of an array. */
class LineOutline implements JsonSink {
  isArray = false;
  /** Start and end of each item, alternating. */
  readonly positions: number[] = [];
  #depth = 0;

  onKey(): void {}

  onValue(kind: JsonKind, start: number): boolean {
    if (this.#depth++ > 0) {
      this.positions.push(start);
      return false;
    }
    this.isArray = kind === 'array';
    return this.isArray;
  }

  onScalar(): void {}

  onEnd(end: number): void {
    if (this.#depth-- > 1) this.positions.push(end);
  }
}
