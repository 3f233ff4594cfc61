import { z } from 'zod';
import { forEachInSteps, type Steps } from '../steps.ts';
import type { ByteRange } from './byte-range.ts';
import {
  CorruptFileError,
  checksummedLine,
  jsonArray,
  readChecksummedLines,
  requireVersion,
} from './journaled-file.ts';
import { applyMergePatch } from './merge-patch.ts';
import type { RecordedChange, RecordedPut } from './store.ts';

/** The file with the records, beside `registry.json`. */
export const RECORDS_FILE = 'records.snapshot';
/** Version of the file format. */
const VERSION = 1;
/** Characters of a line of the snapshot, each of which is written in one turn of the event loop. */
const LINE_CHARACTERS = 64 * 1024;

/** Each line of the files is a list of operations. The content of a record is its exact text, a patch is a JSON Merge Patch. */
const operation = z.union([
  z.tuple([z.literal('put'), z.string(), z.string(), z.string()]),
  z.tuple([z.literal('patch'), z.string(), z.string(), z.unknown()]),
  z.tuple([z.literal('remove'), z.string(), z.string()]),
  z.tuple([z.literal('begin'), z.unknown(), z.int().positive()]),
  z.tuple([z.literal('end')]),
]);
const operations = z.array(operation);

/** A record with patches that have not been applied: a thousand of one must not copy it a thousand times. */
interface ReadRecord {
  readonly json: string;
  readonly patches: unknown[];
}

/** Records that were read from files, as texts by section and id. */
export class ReadRecords {
  readonly #sections = new Map<string, Map<string, ReadRecord>>();
  /** First journal generation that the snapshot lacks; undefined without a snapshot. */
  generation: number | undefined;
  #isWhole = false;

  /** Reads the snapshot. Throws {@link CorruptFileError}, or `StoreError` for a later version. */
  *readSnapshot(bytes: ByteRange): Steps<void> {
    const torn = yield* readChecksummedLines(RECORDS_FILE, bytes, (...line) => this.readLine(RECORDS_FILE, ...line));
    if (torn > 0) throw new CorruptFileError(RECORDS_FILE, `is corrupt at byte ${bytes.length - torn}`);
    if (!this.#isWhole) throw new CorruptFileError(RECORDS_FILE, 'is incomplete');
  }

  /** Applies a line of a file, at this offset. Throws as {@link readSnapshot}. */
  *readLine(file: string, line: ByteRange, offset: number): Steps<void> {
    const problem = `has an unknown record at byte ${offset}`;
    const read = parse(line.toString());
    if (!read) throw new CorruptFileError(file, problem);
    yield* forEachInSteps(read, (each) => {
      if (!this.#apply(each)) throw new CorruptFileError(file, problem);
    });
  }

  /** Applies a commit. */
  apply(changes: readonly RecordedChange[]): void {
    for (const { op, section, id, ...put } of changes) {
      this.#apply(op === 'put' && 'json' in put ? [op, section, id, put.json] : ['remove', section, id]);
    }
  }

  /** The records of all sections, or of these. */
  puts(sections: Iterable<string> = this.#sections.keys()): RecordedPut[] {
    return [...sections].flatMap((section) =>
      Array.from(this.#sections.get(section) ?? [], ([id, record]): RecordedPut => {
        return { op: 'put', section, id, json: textOf(record) };
      }),
    );
  }

  delete(section: string): void {
    this.#sections.delete(section);
  }

  /** False for an operation that cannot follow those before it. */
  #apply(each: z.output<typeof operation>): boolean {
    if (each[0] === 'begin') {
      requireVersion(RECORDS_FILE, each[1], VERSION);
      this.generation = each[2];
      return true;
    }
    if (each[0] === 'end') {
      this.#isWhole = this.generation !== undefined;
      return this.#isWhole;
    }
    const [op, section, id, content] = each;
    const records = this.#sections.getOrInsertComputed(section, () => new Map<string, ReadRecord>());
    if (op === 'remove') records.delete(id);
    else if (op === 'put') records.set(id, { json: content, patches: [] });
    else return records.get(id)?.patches.push(content) !== undefined;
    return true;
  }
}

function parse(text: string): z.output<typeof operations> | undefined {
  try {
    return operations.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

function textOf({ json, patches }: ReadRecord): string {
  if (patches.length === 0) return json;
  return JSON.stringify(patches.reduce((value, patch) => applyMergePatch(value, patch), JSON.parse(json)));
}

/** The line of the journal with these changes; undefined without any. */
export function changesLine(changes: readonly RecordedChange[]): Iterable<string> | undefined {
  return changes.length === 0 ? undefined : jsonArray(changes.values().map(operationText));
}

function operationText(change: RecordedChange): string {
  const { op, section, id } = change;
  if (change.op === 'remove') return JSON.stringify([op, section, id]);
  const patch = change.patch?.();
  return JSON.stringify(patch ? ['patch', section, id, patch] : [op, section, id, change.json]);
}

/** The text of the snapshot with these records, in slices. `generation`: the first one of the journal that it lacks. */
export function* snapshotLines(sources: readonly Iterable<RecordedPut>[], generation: number): Generator<string> {
  yield checksummed([JSON.stringify(['begin', VERSION, generation])]);
  let texts: string[] = [];
  let characters = 0;
  for (const source of sources) {
    for (const put of source) {
      texts.push(operationText({ ...put, patch: undefined }));
      characters += put.json.length;
      if (characters < LINE_CHARACTERS) continue;
      yield checksummed(texts);
      texts = [];
      characters = 0;
    }
  }
  yield checksummed([...texts, '["end"]']);
}

function checksummed(operations: readonly string[]): string {
  return Buffer.concat([...checksummedLine([`[${operations.join()}]`])]).toString();
}
