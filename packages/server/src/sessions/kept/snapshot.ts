import { z } from 'zod';
import { Damage } from '../../registry/store/damage.ts';
import { reason } from '../../registry/store/files.ts';
import { StoreError } from '../../registry/store/store.ts';
import { type Kept, keptState, stateOf } from './kept.ts';

/** Beside `registry.json` (decisions 1.5). */
export const SNAPSHOT_NAME = 'sessions.json';

/** The version of its format that this service reads and writes. */
const VERSION = 1;
/** About so many characters make a slice of a snapshot under way; the event loop turns between slices. */
const SLICE_CHARACTERS = 128 * 1024;

const snapshotSchema = z.object({
  ended: z.record(z.string(), z.number()).default({}),
  changed: z
    .record(
      z.string(),
      z.object({
        expires: z.number(),
        logLevel: z.string().optional(),
        subscriptions: z.array(z.object({ uri: z.string(), forward: z.string() })).default([]),
      }),
    )
    .default({}),
  journal: z.int().positive().optional(),
});

/** What `sessions.json` holds. */
export interface Snapshot {
  kept: Map<string, Kept>;
  /** The first journal generation that it does not hold; undefined in a file from before there was a journal. */
  generation: number | undefined;
}

/** Reads the file's bytes. Throws {@link Damage}, or {@link StoreError} for a version of the future. */
export function readSnapshot(bytes: Buffer): Snapshot {
  let content: unknown;
  try {
    content = JSON.parse(bytes.toString());
  } catch (error) {
    throw new Damage(SNAPSHOT_NAME, `is not valid JSON: ${reason(error)}`, { cause: error });
  }
  checkVersion(content);
  const read = snapshotSchema.safeParse(content);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new Damage(SNAPSHOT_NAME, `is not what it should be: ${issue?.path.join('.')}: ${issue?.message}`);
  }
  const { ended, changed, journal } = read.data;
  const kept = new Map<string, Kept>();
  for (const [id, { expires, logLevel, subscriptions }] of Object.entries(changed)) {
    const state = keptState(expires, logLevel === undefined ? { subscriptions } : { logLevel, subscriptions });
    if (state) kept.set(id, state);
  }
  for (const [id, expires] of Object.entries(ended)) kept.set(id, { kind: 'ended', expires });
  return { kept, generation: journal };
}

/**
 * The text of `sessions.json` in slices small enough to be made one per turn of the event loop. `generation` is the
 * first journal generation that the sessions given do not hold.
 */
export function* snapshotSlices(sessions: readonly (readonly [string, Kept])[], generation: number): Generator<string> {
  let slice = `{\n  "version": ${VERSION}`;
  for (const kind of ['ended', 'changed'] as const) {
    slice += `,\n  "${kind}": {`;
    let separator = '';
    for (const [id, kept] of sessions) {
      if (kept.kind !== kind) continue;
      slice += `${separator}\n    ${JSON.stringify(id)}: ${textOf(kept)}`;
      separator = ',';
      if (slice.length < SLICE_CHARACTERS) continue;
      yield slice;
      slice = '';
    }
    slice += separator ? '\n  }' : '}';
  }
  yield `${slice},\n  "journal": ${generation}\n}\n`;
}

function textOf(kept: Kept): string {
  if (kept.kind === 'ended') return String(kept.expires);
  const { logLevel, subscriptions } = stateOf(kept);
  const subscribed = subscriptions.length > 0 ? subscriptions : undefined;
  const text = JSON.stringify({ expires: kept.expires, logLevel, subscriptions: subscribed }, null, 2);
  return text.replaceAll('\n', '\n    ');
}

function checkVersion(content: unknown): void {
  const read = z.object({ version: z.number() }).safeParse(content);
  if (!read.success) throw new Damage(SNAPSHOT_NAME, 'is not a JSON object with a version');
  const { version } = read.data;
  if (version > VERSION) {
    throw new StoreError(
      `${SNAPSHOT_NAME} has version ${version} and this service reads version ${VERSION}: start the release that wrote it`,
    );
  }
  if (version !== VERSION) throw new Damage(SNAPSHOT_NAME, `has an unknown version: ${version}`);
}
