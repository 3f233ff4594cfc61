import { isUtf8 } from 'node:buffer';
import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { elements, members } from '@sluice/protocol/json/text';
import { z } from 'zod';
import { errorReason } from './files.ts';
import { CorruptFileError, jsonArray } from './journaled-file.ts';
import { type Change, noEntries, SECTIONS, type Section, type SnapshotSource, StoreError } from './store.ts';

/** The snapshot file, which other programs read too (decisions 1.5). */
export const SNAPSHOT_NAME = 'registry.json';

/** Version of the file format. */
const VERSION = 1;
/** Member with the first journal generation that the snapshot lacks. */
const JOURNAL_MEMBER = 'journal';
/** A slice of a snapshot ends at whichever limit comes first; the event loop turns between slices. */
const SLICE = { entries: 1_000, characters: 512 * 1024, ms: 4 };

/** The content of `registry.json`. */
export interface Snapshot {
  entries: Record<Section, string[]>;
  /** Members unknown to this version, as exact text (key, colon and value) in file order. */
  extras: string[];
  /** First journal generation to replay; undefined in a file that this service did not write. */
  generation: number | undefined;
}

/**
 * Reads `registry.json`. All of it is checked to be JSON, so that the entries can be scanned without further checks.
 * Throws {@link CorruptFileError}, or {@link StoreError} for a later version.
 *
 * The bytes are scanned as Latin-1, in which every structural character of UTF-8 JSON is one character at the position of
 * its byte. So positions apply to both, and no entry retains the text of the whole file.
 */
export function readSnapshot(bytes: Buffer): Snapshot {
  if (!isUtf8(bytes)) throw new CorruptFileError(SNAPSHOT_NAME, 'is not valid UTF-8');
  const text = bytes.toString('latin1');
  const found = new Map<string, { member: string; elements: { start: number; end: number }[] }>();
  const skeleton: string[] = [];
  let copied = 0;
  let last = 0;
  for (const { key, start, end } of members(text)) {
    // From the first quote of the key to the end of the value; only a brace or comma and white space precede it.
    const from = text.indexOf('"', last);
    last = end;
    if (!isSection(key)) {
      found.set(key, { member: bytes.toString('utf8', from, end), elements: [] });
      continue;
    }
    const ranges = [...elements(text, start)];
    found.set(key, { member: '', elements: ranges });
    for (const element of ranges) {
      // Each element is replaced by an empty string, so that the rest can be parsed: invalid JSON stays invalid.
      skeleton.push(text.slice(copied, element.start), '""');
      copied = element.end;
    }
  }
  skeleton.push(text.slice(copied));
  const outline = parse(skeleton.join(''));
  if (!isJsonObject(outline)) throw new CorruptFileError(SNAPSHOT_NAME, 'is not a JSON object');
  checkVersion(outline.version);
  const entries = noEntries();
  for (const section of SECTIONS) {
    const ranges = found.get(section)?.elements;
    if (!ranges) continue;
    if (!Array.isArray(outline[section])) {
      throw new CorruptFileError(SNAPSHOT_NAME, `has no array in member "${section}"`);
    }
    for (const { start, end } of ranges) {
      entries[section].push(readEntry(bytes.toString('utf8', start, end), section, entries[section].length));
    }
  }
  const known = new Set<string>(['version', JOURNAL_MEMBER, ...SECTIONS]);
  const extras = [...found].filter(([key]) => !known.has(key)).map(([, { member }]) => member);
  return { entries, extras, generation: readGeneration(outline[JOURNAL_MEMBER]) };
}

/**
 * Yields the text of `registry.json` in slices, each small enough for one turn of the event loop. `generation`: the first
 * journal generation that `source` lacks.
 */
export function* snapshotSlices(
  source: ReturnType<SnapshotSource>,
  extras: readonly string[],
  generation: number,
): Generator<string> {
  let slice = `{\n  "version": ${VERSION}`;
  let entries = 0;
  let startedAt = performance.now();
  for (const section of SECTIONS) {
    slice += `,\n  "${section}": [`;
    let separator = '';
    for (const json of source[section]) {
      // JSON has line breaks only between tokens, never inside a string.
      slice += `${separator}\n    ${json.replaceAll('\n', '\n    ')}`;
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
  for (const extra of extras) slice += `,\n  ${extra}`;
  yield `${slice},\n  "${JOURNAL_MEMBER}": ${generation}\n}\n`;
}

function isSection(key: string): boolean {
  return SECTIONS.some((section) => section === key);
}

/** Parses the file, or its part with this name, which ends with a space. */
function parse(text: string, part = ''): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CorruptFileError(SNAPSHOT_NAME, `${part}is not valid JSON: ${errorReason(error)}`, { cause: error });
  }
}

function readEntry(text: string, section: Section, index: number): string {
  if (!isJsonObject(parse(text, `${section}[${index}] `))) {
    throw new CorruptFileError(SNAPSHOT_NAME, `${section}[${index}] is not an object`);
  }
  // Reverses the indentation of snapshotSlices, so that rewriting a file does not indent it further.
  return text.replaceAll('\n    ', '\n');
}

function checkVersion(version: unknown): void {
  if (version === undefined || version === VERSION) return;
  if (typeof version === 'number' && version > VERSION) {
    throw new StoreError(
      `${SNAPSHOT_NAME} has version ${version}, but this release reads version ${VERSION}: start the release that wrote it`,
    );
  }
  throw new CorruptFileError(SNAPSHOT_NAME, `has an unknown version: ${JSON.stringify(version)}`);
}

function readGeneration(value: unknown): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw new CorruptFileError(SNAPSHOT_NAME, `has an unknown value of "${JOURNAL_MEMBER}": ${JSON.stringify(value)}`);
}

/** The journal record of the commits that one write makes durable, `[[change, …], …]`, in pieces. */
export function* commitRecord(commits: readonly (readonly Change[])[]): Generator<string> {
  let separator = '[';
  for (const changes of commits) {
    yield separator;
    yield* jsonArray(textsOf(changes));
    separator = ',';
  }
  yield ']';
}

function* textsOf(changes: readonly Change[]): Generator<string> {
  for (const change of changes) yield JSON.stringify(change);
}

const knownSection = z.enum(SECTIONS);
const commits = z.array(
  z.array(
    z.discriminatedUnion('op', [
      z.object({ op: z.literal('put'), section: knownSection, json: z.string() }),
      z.object({ op: z.literal('remove'), section: knownSection, id: z.string() }),
    ]),
  ),
);

/** Reads a journal record. Throws {@link CorruptFileError} when it contains anything but known changes. */
export function parseCommitRecord(text: string, file: string, offset: number): Change[][] {
  const { data } = commits.safeParse(tryParseJson(text));
  if (data) return data;
  throw new CorruptFileError(file, `has an unknown change at byte ${offset}`);
}
