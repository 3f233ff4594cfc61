import type { Steps } from '../steps.ts';
import type { ByteRange } from './byte-range.ts';
import { readOperations } from './journal-line.ts';
import { CorruptFileError } from './journaled-file.ts';
import { concatenated, type LogFormat, ReadRecords } from './record-file.ts';
import type { LogConsumer } from './record-log.ts';
import { JOURNAL_MEMBER, readSnapshot, SNAPSHOT_NAME, VERSION } from './registry-reader.ts';
import { type RecordedPut, SECTIONS, type StoredChange, type StoredRecords, UNKNOWN_MEMBERS } from './store.ts';

/** A slice of a snapshot ends at whichever limit comes first; the event loop turns between slices. */
const SLICE = { entries: 1_000, characters: 128 * 1024, ms: 4 };

/** The files of the registry. Other programs read `registry.json` too, and people write it: it has no ids. */
export const REGISTRY_FORMAT: LogFormat = {
  snapshotName: SNAPSHOT_NAME,
  journalName: 'registry.journal',
  hasOneConsumer: true,
  createReader: () => new RegistryReader(),
  write: snapshotSlices,
};

/** The content of the files: the entries of `registry.json`, and the changes after it. Their texts are created when they are read. */
class RegistryReader extends ReadRecords {
  override generation: number | undefined = 1;
  #records: StoredRecords = new Map();
  readonly #changes: Iterable<StoredChange>[] = [];

  override *readSnapshot(bytes: ByteRange): Steps<void> {
    const { records, generation } = yield* readSnapshot(bytes);
    this.#records = records;
    this.generation = generation;
  }

  override *readLine(line: ByteRange, file: string, offset: number): Steps<void> {
    const operations = yield* readOperations(line, file, offset);
    this.#changes.push({
      *[Symbol.iterator]() {
        for (const [op, section, id, json] of operations) {
          if (op === 'put') yield { section, id, json };
          else if (op === 'remove') yield { section, id, json: null };
          else throw new CorruptFileError(file, `has an unknown record at byte ${offset}`);
        }
      },
    });
  }

  override async load(consumer: LogConsumer): Promise<void> {
    const changes = this.#changes;
    await consumer.reload(this.#records, {
      *[Symbol.iterator]() {
        for (const each of changes) yield* each;
      },
    });
  }
}

/** Yields the text of `registry.json` in slices, each small enough for one turn of the event loop. */
function* snapshotSlices(sources: readonly Iterable<RecordedPut>[], generation: number): Generator<string> {
  let slice = `{\n  "version": ${VERSION}`;
  let entries = 0;
  let startedAt = performance.now();
  const records = concatenated(sources);
  let next = records.next();
  for (const section of SECTIONS) {
    slice += `,\n  "${section}": [`;
    let separator = '';
    for (; !next.done && next.value.section === section; next = records.next()) {
      // JSON has line breaks only between tokens, never inside a string.
      slice += `${separator}\n    ${next.value.json.replaceAll('\n', '\n    ')}`;
      separator = ',';
      entries++;
      if (entries < SLICE.entries && slice.length < SLICE.characters && performance.now() - startedAt < SLICE.ms)
        continue;
      yield slice;
      slice = '';
      entries = 0;
      startedAt = performance.now();
    }
    slice += separator ? '\n  ]' : ']';
  }
  for (; !next.done; next = records.next()) {
    const { section, json } = next.value;
    if (section !== UNKNOWN_MEMBERS) throw new Error(`a record of ${section} follows those of later sections`);
    slice += `,\n  ${json.slice(1, -1)}`;
  }
  yield `${slice},\n  "${JOURNAL_MEMBER}": ${generation}\n}\n`;
}
