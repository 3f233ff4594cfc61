import { isUtf8 } from 'node:buffer';
import { tryParseJson } from '@sluice/protocol/json/parse';
import { type JsonKind, JsonScanner, type JsonSink } from '@sluice/protocol/json/scanner';
import { stringValue } from '@sluice/protocol/json/text';
import { z } from 'zod';
import type { Steps } from '../steps.ts';
import type { ByteRange } from './byte-range.ts';
import { errorReason } from './files.ts';
import { CorruptFileError, requireVersion } from './journaled-file.ts';
import { JOURNAL_MEMBER, SNAPSHOT_NAME, VERSION } from './registry-file.ts';
import { type Change, noEntries, SECTIONS, type Section } from './store.ts';

/** The content of `registry.json`. */
export interface Snapshot {
  /** The texts are created when they are read: together they are larger than the registry. */
  readonly entries: Readonly<Record<Section, Iterable<string>>>;
  /** Members unknown to this version, as exact text (key, colon and value) in file order. */
  readonly extras: readonly string[];
  /** First journal generation to replay; undefined in a file that this service did not write. */
  readonly generation: number | undefined;
}

/** Bytes that are scanned in one step. */
const STEP_BYTES = 256 * 1024;

/**
 * Reads `registry.json`. All of it is checked to be JSON, so that the entries can be scanned without further checks.
 * Throws {@link CorruptFileError}, or `StoreError` for a later version.
 */
export function* readSnapshot(bytes: ByteRange): Steps<Snapshot> {
  const outline = new SnapshotOutline();
  if (!(yield* scan(utf8Pieces(bytes), outline))) {
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
  const extras = [...outline.members].filter(([member]) => !known.has(member));
  const entries: Record<Section, Iterable<string>> = noEntries();
  for (const [section, positions] of outline.entries) {
    // Reverses the indentation of `snapshotSlices`, so that rewriting a file does not indent it further.
    entries[section] = readAt(bytes, positions, (text) => text.replaceAll('\n    ', '\n'));
  }
  return {
    entries,
    extras: extras.map(([, { start, end }]) => bytes.toString(start, end)),
    generation: readGeneration(value(JOURNAL_MEMBER)),
  };
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

function* pieces(bytes: ByteRange): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += STEP_BYTES) {
    yield bytes.read(at, Math.min(bytes.length, at + STEP_BYTES));
  }
}

/** Scans JSON; returns whether it is valid. */
function* scan(pieces: Iterable<Buffer>, outline: Outline): Steps<boolean> {
  const scanner = new JsonScanner(outline);
  outline.scanner = scanner;
  for (const piece of pieces) {
    scanner.write(piece);
    yield;
  }
  return scanner.isComplete;
}

function syntaxError(bytes: ByteRange): string {
  try {
    JSON.parse(bytes.toString());
    return 'it is nested too deeply';
  } catch (error) {
    return errorReason(error);
  }
}

/** A sink that reads keys. */
interface Outline extends JsonSink {
  scanner: JsonScanner | undefined;
}

/** Positions of the members and entries of `registry.json`; each text is at offsets `start` to `end`. */
class SnapshotOutline implements Outline {
  scanner: JsonScanner | undefined = undefined;
  isObject = false;
  /** The first member that has a wrong type. */
  problem: string | undefined = undefined;
  /** The last one of duplicates. */
  readonly members = new Map<string, { readonly start: number; readonly value: number; readonly end: number }>();
  /** Start and end of each entry, alternating. */
  readonly entries = new Map<Section, number[]>();
  #depth = 0;
  #key = '';
  #keyStart = 0;
  #value = 0;
  #section: Section | undefined = undefined;
  #current: number[] = [];

  onKey(start: number): void {
    const token = this.scanner?.token;
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
      return false;
    }
    this.#value = start;
    this.#section = SECTIONS.find((section) => section === this.#key);
    if (this.#section === undefined) return false;
    this.#current = [];
    this.entries.set(this.#section, this.#current);
    if (kind !== 'array') this.problem ??= `has no array in member "${this.#section}"`;
    return kind === 'array';
  }

  onScalar(): void {}

  onEnd(end: number): void {
    if (this.#depth === 2) this.members.set(this.#key, { start: this.#keyStart, value: this.#value, end });
    else if (this.#depth === 3) this.#current.push(end);
    this.#depth--;
  }
}

/** What `read` makes of each text, whenever it is needed. `positions`: start and end of each text, alternating. */
function readAt<T>(bytes: ByteRange, positions: readonly number[], read: (text: string) => T): Iterable<T> {
  return {
    *[Symbol.iterator]() {
      for (let at = 0; at < positions.length; at += 2) yield read(bytes.toString(positions[at], positions[at + 1]));
    },
  };
}

function readGeneration(value: unknown): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw new CorruptFileError(SNAPSHOT_NAME, `has an unknown value of "${JOURNAL_MEMBER}": ${JSON.stringify(value)}`);
}

const change = z.discriminatedUnion('op', [
  z.object({ op: z.literal('put'), section: z.enum(SECTIONS), json: z.string() }),
  z.object({ op: z.literal('remove'), section: z.enum(SECTIONS), id: z.string() }),
]);

/** The commits of a journal record; each change is parsed when it is read, and throws {@link CorruptFileError} if unknown. */
export function* readCommitRecord(line: ByteRange, file: string, offset: number): Steps<Iterable<Change>[]> {
  const unknownChange = () => new CorruptFileError(file, `has an unknown change at byte ${offset}`);
  const outline = new RecordOutline();
  const isValid = yield* scan(pieces(line), outline);
  if (!isValid || !outline.isList) throw unknownChange();
  const read = (text: string): Change => {
    const { data } = change.safeParse(tryParseJson(text));
    if (!data) throw unknownChange();
    return data;
  };
  return outline.commits.map((positions) => readAt(line, positions, read));
}

/** Positions of the changes in a journal record: an array of commits, each an array of changes. */
class RecordOutline implements Outline {
  scanner: JsonScanner | undefined = undefined;
  /** Whether it is an array of arrays. */
  isList = true;
  /** Start and end of each change of a commit, alternating. */
  readonly commits: number[][] = [];
  #depth = 0;

  onKey(): void {}

  onValue(kind: JsonKind, start: number): boolean {
    this.#depth++;
    if (this.#depth === 3) {
      this.commits.at(-1)?.push(start);
      return false;
    }
    if (kind !== 'array') this.isList = false;
    else if (this.#depth === 2) this.commits.push([]);
    return kind === 'array';
  }

  onScalar(): void {}

  onEnd(end: number): void {
    if (this.#depth === 3) this.commits.at(-1)?.push(end);
    this.#depth--;
  }
}
