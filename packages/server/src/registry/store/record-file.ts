import { forEachInSteps, type Steps } from '../steps.ts';
import type { ByteRange } from './byte-range.ts';
import { type LineOperation, readOperations } from './journal-line.ts';
import { CorruptFileError, checksummedLine, readChecksummedLines, requireVersion } from './journaled-file.ts';
import { applyMergePatch } from './merge-patch.ts';
import type { LogConsumer } from './record-log.ts';
import type { RecordedChange, RecordedPut } from './store.ts';

/** The file with the records, beside `registry.json`. */
export const RECORDS_FILE = 'records.snapshot';
/** Version of the file format. */
const VERSION = 1;
/** Characters of a line of the snapshot, each of which is written in one turn of the event loop. */
const LINE_CHARACTERS = 64 * 1024;

/** How a log stores its records in a snapshot file. The journal beside it is the same in all formats. */
export interface LogFormat {
  readonly snapshotName: string;
  /** Name of the journal files without their number. */
  readonly journalName: string;
  /** Whether one consumer has all records, and must have them before the snapshot can be written again. */
  readonly hasOneConsumer: boolean;
  /** Reads the files, the snapshot first. */
  readonly createReader: () => ReadRecords;
  /** The text of a snapshot with these records, in slices. `generation`: the first one of the journal that it lacks. */
  readonly write: (sources: readonly Iterable<RecordedPut>[], generation: number) => Iterable<string>;
}

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
    const torn = yield* readChecksummedLines(RECORDS_FILE, bytes, (line, offset) =>
      this.readLine(line, RECORDS_FILE, offset),
    );
    if (torn > 0) throw new CorruptFileError(RECORDS_FILE, `is corrupt at byte ${bytes.length - torn}`);
    if (!this.#isWhole) throw new CorruptFileError(RECORDS_FILE, 'is incomplete');
  }

  /** Applies a line of a file, at this offset. Throws as {@link readSnapshot}. */
  *readLine(line: ByteRange, file: string, offset: number): Steps<void> {
    yield* forEachInSteps(yield* readOperations(line, file, offset), (each) => {
      if (!this.#apply(each)) throw new CorruptFileError(file, `has an unknown record at byte ${offset}`);
    });
  }

  /** Passes the records in the sections of a consumer to it. */
  async load(consumer: LogConsumer): Promise<void> {
    await consumer.reload(Map.groupBy(this.puts(consumer.sections), ({ section }) => section));
  }

  /** Applies a commit. */
  apply(changes: readonly RecordedChange[]): void {
    for (const { section, id, json } of changes) {
      this.#apply(json === null ? ['remove', section, id] : ['put', section, id, json]);
    }
  }

  /** The records of all sections, or of these. */
  puts(sections: Iterable<string> = this.#sections.keys()): RecordedPut[] {
    return [...sections].flatMap((section) =>
      Array.from(this.#sections.get(section) ?? [], ([id, record]): RecordedPut => {
        return { section, id, json: textOf(record) };
      }),
    );
  }

  delete(section: string): void {
    this.#sections.delete(section);
  }

  /** False for an operation that cannot follow those before it. */
  #apply(each: LineOperation): boolean {
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

function textOf({ json, patches }: ReadRecord): string {
  if (patches.length === 0) return json;
  return JSON.stringify(patches.reduce((value, patch) => applyMergePatch(value, patch), JSON.parse(json)));
}

/** The files of all records but those of the registry. */
export const RECORDS_FORMAT: LogFormat = {
  snapshotName: RECORDS_FILE,
  journalName: 'records.journal',
  hasOneConsumer: false,
  createReader: () => new ReadRecords(),
  write: snapshotLines,
};

function* snapshotLines(sources: readonly Iterable<RecordedPut>[], generation: number): Generator<string> {
  yield checksummed([JSON.stringify(['begin', VERSION, generation])]);
  let texts: string[] = [];
  let characters = 0;
  for (const { section, id, json } of concatenated(sources)) {
    texts.push(JSON.stringify(['put', section, id, json]));
    characters += json.length;
    if (characters < LINE_CHARACTERS) continue;
    yield checksummed(texts);
    texts = [];
    characters = 0;
  }
  yield checksummed([...texts, '["end"]']);
}

function checksummed(operations: readonly string[]): string {
  return Buffer.concat([...checksummedLine([`[${operations.join()}]`])]).toString();
}

/** The records of several sources, one after the other. */
export function* concatenated(sources: readonly Iterable<RecordedPut>[]): Generator<RecordedPut> {
  for (const source of sources) yield* source;
}
