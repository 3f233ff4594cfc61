import { z } from 'zod';
import { quotaOwnerSchema } from '../../http/shares.ts';
import { errorReason } from '../../registry/store/files.ts';
import { CorruptFileError } from '../../registry/store/journaled-file.ts';
import { StoreError } from '../../registry/store/store.ts';
import type { ForgottenSessions } from './ended-sessions.ts';
import { forgottenSchema, type StoredSession, stateOf, toStored } from './session-state.ts';

/** The snapshot file, beside `registry.json`. */
export const SNAPSHOT_NAME = 'sessions.json';

/** Version of the file format. */
const VERSION = 1;
/** Characters of one slice of a snapshot; the event loop turns between slices. */
const SLICE_CHARACTERS = 128 * 1024;

const snapshotSchema = z.object({
  ended: z
    .record(z.string(), z.union([z.number(), z.object({ expires: z.number(), holder: quotaOwnerSchema })]))
    .default({}),
  forgotten: z.array(forgottenSchema).default([]),
  changed: z
    .record(
      z.string(),
      z.object({
        expires: z.number(),
        holder: quotaOwnerSchema.optional(),
        logLevel: z.string().optional(),
        subscriptions: z.array(z.object({ uri: z.string(), forward: z.string() })).default([]),
      }),
    )
    .default({}),
  journal: z.int().positive().optional(),
});

/** The content of `sessions.json`. */
interface Snapshot {
  sessions: Map<string, StoredSession>;
  forgotten: readonly ForgottenSessions[];
  /** First journal generation to replay; undefined in a file from before there was a journal. */
  generation: number | undefined;
}

/** Reads `sessions.json`. Throws {@link CorruptFileError}, or {@link StoreError} for a later version. */
export function readSnapshot(bytes: Buffer): Snapshot {
  let content: unknown;
  try {
    content = JSON.parse(bytes.toString());
  } catch (error) {
    throw new CorruptFileError(SNAPSHOT_NAME, `is not valid JSON: ${errorReason(error)}`, { cause: error });
  }
  checkVersion(content);
  const read = snapshotSchema.safeParse(content);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new CorruptFileError(SNAPSHOT_NAME, `is not valid: ${issue?.path.join('.')}: ${issue?.message}`);
  }
  const { ended, forgotten, changed, journal } = read.data;
  const sessions = new Map<string, StoredSession>();
  for (const [id, { expires, holder, logLevel, subscriptions }] of Object.entries(changed)) {
    const state = logLevel === undefined ? { subscriptions } : { logLevel, subscriptions };
    const stored = toStored(expires, state, holder);
    if (stored) sessions.set(id, stored);
  }
  for (const [id, end] of Object.entries(ended)) {
    // A number in files from before sessions were stored with their holder.
    sessions.set(id, { kind: 'ended', ...(typeof end === 'number' ? { expires: end } : end) });
  }
  return { sessions, forgotten, generation: journal };
}

/**
 * Yields the text of `sessions.json` in slices, each small enough for one turn of the event loop. `generation`: the
 * first journal generation that is not in `sessions`.
 */
export function* snapshotSlices(
  sessions: readonly (readonly [string, StoredSession])[],
  forgotten: readonly ForgottenSessions[],
  generation: number,
): Generator<string> {
  let slice = `{\n  "version": ${VERSION}`;
  for (const kind of ['ended', 'changed'] as const) {
    slice += `,\n  "${kind}": {`;
    let separator = '';
    for (const [id, stored] of sessions) {
      if (stored.kind !== kind) continue;
      slice += `${separator}\n    ${JSON.stringify(id)}: ${textOf(stored)}`;
      separator = ',';
      if (slice.length < SLICE_CHARACTERS) continue;
      yield slice;
      slice = '';
    }
    slice += separator ? '\n  }' : '}';
  }
  const over = forgotten.length > 0 ? `,\n  "forgotten": ${JSON.stringify(forgotten)}` : '';
  yield `${slice}${over},\n  "journal": ${generation}\n}\n`;
}

function textOf(stored: StoredSession): string {
  if (stored.kind === 'ended') {
    const { expires, holder } = stored;
    return holder ? JSON.stringify({ expires, holder }) : String(expires);
  }
  const { logLevel, subscriptions } = stateOf(stored);
  const subscribed = subscriptions.length > 0 ? subscriptions : undefined;
  const { expires, holder } = stored;
  const text = JSON.stringify({ expires, holder, logLevel, subscriptions: subscribed }, null, 2);
  return text.replaceAll('\n', '\n    ');
}

function checkVersion(content: unknown): void {
  const read = z.object({ version: z.number() }).safeParse(content);
  if (!read.success) throw new CorruptFileError(SNAPSHOT_NAME, 'is not a JSON object with a version');
  const { version } = read.data;
  if (version > VERSION) {
    throw new StoreError(
      `${SNAPSHOT_NAME} has version ${version}, but this release reads version ${VERSION}: start the release that wrote it`,
    );
  }
  if (version !== VERSION) throw new CorruptFileError(SNAPSHOT_NAME, `has an unknown version: ${version}`);
}
