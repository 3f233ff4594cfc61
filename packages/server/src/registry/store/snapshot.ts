import { isUtf8 } from 'node:buffer';
import { elements, members } from '@sluice/protocol/json/scan';
import { Damage } from './damage.ts';
import { reason } from './files.ts';
import { noEntries, type Picture, SECTIONS, type Section, StoreError } from './store.ts';

/** The file that others read too (decisions 1.5). */
export const SNAPSHOT_NAME = 'registry.json';

/** The version of its format that this service reads and writes. */
const VERSION = 1;
/** The member that names the first journal generation which the snapshot does not hold. */
const JOURNAL_MEMBER = 'journal';
/** One slice of a snapshot under way ends at whichever comes first; the event loop turns between slices. */
const SLICE = { entries: 1_000, characters: 512 * 1024, ms: 4 };

/** What `registry.json` holds. */
export interface Snapshot {
  entries: Record<Section, string[]>;
  /** Members that this version does not know, as exact text (key, colon and value), in file order. */
  extras: string[];
  /** The first journal generation to replay on it; undefined in a file that this service did not write. */
  generation: number | undefined;
}

/**
 * Reads the file's bytes. Checks that they are JSON from end to end, so that whoever takes the entries may cut them
 * up without checking again. Throws {@link Damage}, or {@link StoreError} for a version of the future.
 *
 * The bytes are looked at as Latin-1, where every structural character of UTF-8 JSON is one character at its byte's
 * position: positions serve for both, and no entry keeps the text of the whole file alive.
 */
export function readSnapshot(bytes: Buffer): Snapshot {
  if (!isUtf8(bytes)) throw new Damage(SNAPSHOT_NAME, 'is not valid UTF-8');
  const text = bytes.toString('latin1');
  const found = new Map<string, { member: string; elements: { start: number; end: number }[] }>();
  const skeleton: string[] = [];
  let copied = 0;
  let last = 0;
  for (const { key, start, end } of members(text)) {
    // From the key's first quote to the value's end; before it stand only the brace or comma and white space.
    const from = text.indexOf('"', last);
    last = end;
    if (!isSection(key)) {
      found.set(key, { member: bytes.toString('utf8', from, end), elements: [] });
      continue;
    }
    const ranges = [...elements(text, start)];
    found.set(key, { member: '', elements: ranges });
    for (const element of ranges) {
      // An empty string in place of each element keeps the rest checkable: what was broken stays broken.
      skeleton.push(text.slice(copied, element.start), '""');
      copied = element.end;
    }
  }
  skeleton.push(text.slice(copied));
  const frame = parseSnapshot(skeleton.join(''));
  if (typeof frame !== 'object' || frame === null || Array.isArray(frame)) {
    throw new Damage(SNAPSHOT_NAME, 'is not a JSON object');
  }
  checkVersion(Reflect.get(frame, 'version'));
  const entries = noEntries();
  for (const section of SECTIONS) {
    const ranges = found.get(section)?.elements;
    if (!ranges) continue;
    if (!Array.isArray(Reflect.get(frame, section))) throw new Damage(SNAPSHOT_NAME, `member "${section}" is no array`);
    for (const { start, end } of ranges) {
      entries[section].push(readEntry(bytes.toString('utf8', start, end), section, entries[section].length));
    }
  }
  const known = new Set<string>(['version', JOURNAL_MEMBER, ...SECTIONS]);
  const extras = [...found].filter(([key]) => !known.has(key)).map(([, { member }]) => member);
  return { entries, extras, generation: readGeneration(Reflect.get(frame, JOURNAL_MEMBER)) };
}

/**
 * The text of `registry.json` in slices small enough to be made one per turn of the event loop. `generation` is the
 * first journal generation that the picture does not hold.
 */
export function* snapshotSlices(
  picture: ReturnType<Picture>,
  extras: readonly string[],
  generation: number,
): Generator<string> {
  let slice = `{\n  "version": ${VERSION}`;
  let entries = 0;
  let begun = performance.now();
  for (const section of SECTIONS) {
    slice += `,\n  "${section}": [`;
    let separator = '';
    for (const json of picture[section]) {
      // Text of JSON holds line breaks only between its tokens, never inside a string.
      slice += `${separator}\n    ${json.replaceAll('\n', '\n    ')}`;
      separator = ',';
      entries++;
      if (entries < SLICE.entries && slice.length < SLICE.characters && performance.now() - begun < SLICE.ms) continue;
      yield slice;
      slice = '';
      entries = 0;
      begun = performance.now();
    }
    slice += separator ? '\n  ]' : ']';
  }
  for (const extra of extras) slice += `,\n  ${extra}`;
  yield `${slice},\n  "${JOURNAL_MEMBER}": ${generation}\n}\n`;
}

function isSection(key: string): boolean {
  return SECTIONS.some((section) => section === key);
}

function parseSnapshot(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Damage(SNAPSHOT_NAME, `is not valid JSON: ${reason(error)}`, { cause: error });
  }
}

function readEntry(text: string, section: Section, index: number): string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Damage(SNAPSHOT_NAME, `${section}[${index}] is not valid JSON: ${reason(error)}`, { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Damage(SNAPSHOT_NAME, `${section}[${index}] is not an object`);
  }
  // The reverse of the indentation above: what is read, written and read again does not move to the right.
  return text.replaceAll('\n    ', '\n');
}

function checkVersion(version: unknown): void {
  if (version === undefined || version === VERSION) return;
  if (typeof version === 'number' && version > VERSION) {
    throw new StoreError(
      `${SNAPSHOT_NAME} has version ${version} and this service reads version ${VERSION}: start the release that wrote it`,
    );
  }
  throw new Damage(SNAPSHOT_NAME, `has an unknown version: ${JSON.stringify(version)}`);
}

function readGeneration(value: unknown): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw new Damage(SNAPSHOT_NAME, `has an unknown value of "${JOURNAL_MEMBER}": ${JSON.stringify(value)}`);
}
