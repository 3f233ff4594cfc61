import { jsonArray } from './journaled-file.ts';
import { type Change, SECTIONS, type SnapshotSource } from './store.ts';

/** The snapshot file, which other programs read too. */
export const SNAPSHOT_NAME = 'registry.json';

/** Version of the file format. */
export const VERSION = 1;
/** Member with the first journal generation that the snapshot lacks. */
export const JOURNAL_MEMBER = 'journal';
/** A slice of a snapshot ends at whichever limit comes first; the event loop turns between slices. */
const SLICE = { entries: 1_000, characters: 128 * 1024, ms: 4 };

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
  for (const change of changes) {
    const { op, section } = change;
    yield JSON.stringify(change.op === 'put' ? { op, section, json: change.json } : { op, section, id: change.id });
  }
}
