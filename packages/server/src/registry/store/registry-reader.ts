import { isUtf8 } from 'node:buffer';
import { type JsonKind, JsonScanner, type JsonSink } from '@sluice/protocol/json/scanner';
import { stringValue } from '@sluice/protocol/json/text';
import type { Steps } from '../steps.ts';
import type { ByteRange } from './byte-range.ts';
import { errorReason } from './files.ts';
import { readAt, STEP_BYTES, scan } from './journal-line.ts';
import { CorruptFileError, requireVersion } from './journaled-file.ts';
import { SECTIONS, type StoredRecord, type StoredRecords, UNKNOWN_MEMBERS } from './store.ts';

/** The snapshot file, which other programs read too. */
export const SNAPSHOT_NAME = 'registry.json';

/** Version of the file format. */
export const VERSION = 1;
/** Member with the first journal generation that the snapshot lacks. */
export const JOURNAL_MEMBER = 'journal';

/** The content of `registry.json`. */
export interface RegistrySnapshot {
  /** By section. The texts are created when they are read: together they are larger than the registry. */
  readonly records: StoredRecords;
  /** First journal generation to replay; undefined in a file that this service did not write. */
  readonly generation: number | undefined;
}

/**
 * Reads `registry.json`. All of it is checked to be JSON, so that the entries can be scanned without further checks.
 * Throws {@link CorruptFileError}, or `StoreError` for a later version.
 */
export function* readSnapshot(bytes: ByteRange): Steps<RegistrySnapshot> {
  const outline = new SectionOutline(SECTIONS);
  if (!(yield* scan(utf8Pieces(bytes), outline.scanner))) {
    throw new CorruptFileError(SNAPSHOT_NAME, `is not valid JSON: ${syntaxError(bytes)}`);
  }
  if (!outline.isObject) throw new CorruptFileError(SNAPSHOT_NAME, 'is not a JSON object');
  const value = (member: string): unknown => {
    const range = outline.members.get(member);
    return range && JSON.parse(bytes.toString(range.value, range.end));
  };
  const version = value('version');
  if (version !== undefined) requireVersion(SNAPSHOT_NAME, version, VERSION);
  if (outline.problem !== undefined) throw new CorruptFileError(SNAPSHOT_NAME, outline.problem);
  const known = new Set<string>(['version', JOURNAL_MEMBER, ...SECTIONS]);
  const records = new Map<string, Iterable<StoredRecord>>();
  for (const [section, positions] of outline.entries) {
    // Reverses the indentation with which the file is written, so that writing it again does not indent it further.
    const read = (text: string) => ({ id: '', json: text.replaceAll('\n    ', '\n') });
    records.set(section, readAt(bytes, positions, read));
  }
  const unknown = [...outline.members].filter(([member]) => !known.has(member));
  records.set(
    UNKNOWN_MEMBERS,
    unknown.map(([, { start, end }], at) => ({ id: String(at), json: `{${bytes.toString(start, end)}}` })),
  );
  return { records, generation: readGeneration(value(JOURNAL_MEMBER)) };
}

/** Pieces of a file that end between characters. Throws {@link CorruptFileError} if it is not UTF-8. */
function* utf8Pieces(bytes: ByteRange): Generator<Buffer> {
  let end: number;
  for (let at = 0; at < bytes.length; at = end) {
    end = Math.min(bytes.length, at + STEP_BYTES);
    let piece = bytes.read(at, end);
    if (end < bytes.length) piece = piece.subarray(0, lastCharacterStart(piece));
    end = at + piece.length;
    if (!isUtf8(piece)) throw new CorruptFileError(SNAPSHOT_NAME, 'is not valid UTF-8');
    yield piece;
  }
}

/** Where the last character of a text in UTF-8 begins, which may be incomplete. */
function lastCharacterStart(bytes: Buffer): number {
  let start = bytes.length - 1;
  // A character has at most three continuation bytes.
  while (start > bytes.length - 4 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start--;
  return start;
}

function syntaxError(bytes: ByteRange): string {
  try {
    JSON.parse(bytes.toString());
    return 'it is nested too deeply';
  } catch (error) {
    return errorReason(error);
  }
}

/** Positions of the members of an object and of the entries of its sections; each text is at offsets `start` to `end`. */
export class SectionOutline implements JsonSink {
  readonly scanner: JsonScanner = new JsonScanner(this);
  readonly #sections: readonly string[];
  isObject = false;
  /** Entries of all sections. */
  count = 0;
  /** Whether a member occurs twice. */
  hasDuplicates = false;
  /** The first member that has a wrong type. */
  problem: string | undefined = undefined;
  /** The last one of duplicates. */
  readonly members = new Map<string, { readonly start: number; readonly value: number; readonly end: number }>();
  /** Start and end of each entry, alternating. */
  readonly entries = new Map<string, number[]>();
  #depth = 0;
  #key = '';
  #keyStart = 0;
  #value = 0;
  #section: string | undefined = undefined;
  #current: number[] = [];

  /** `sections`: members that are arrays of objects. */
  constructor(sections: readonly string[]) {
    this.#sections = sections;
  }

  onKey(start: number): void {
    const token = this.scanner.token;
    // A key of more than 64 KiB is unknown to any version, but is kept.
    this.#key = token === undefined ? `member at byte ${start}` : stringValue(token);
    this.#keyStart = start;
  }

  onValue(kind: JsonKind, start: number): boolean {
    this.#depth++;
    if (this.#depth === 1) {
      this.isObject = kind === 'object';
      return this.isObject;
    }
    if (this.#depth === 3) {
      if (kind !== 'object') this.problem ??= `${this.#section}[${this.#current.length / 2}] is not an object`;
      this.#current.push(start);
      this.count++;
      return false;
    }
    this.#value = start;
    this.#section = this.#sections.find((section) => section === this.#key);
    if (this.#section === undefined) return false;
    this.#current = [];
    this.entries.set(this.#section, this.#current);
    if (kind !== 'array') this.problem ??= `has no array in member "${this.#section}"`;
    return kind === 'array';
  }

  onScalar(): void {}

  onEnd(end: number): void {
    if (this.#depth === 2) {
      this.hasDuplicates ||= this.members.has(this.#key);
      this.members.set(this.#key, { start: this.#keyStart, value: this.#value, end });
    } else if (this.#depth === 3) this.#current.push(end);
    this.#depth--;
  }
}

function readGeneration(value: unknown): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw new CorruptFileError(SNAPSHOT_NAME, `has an unknown value of "${JOURNAL_MEMBER}": ${JSON.stringify(value)}`);
}
