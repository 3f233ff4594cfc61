import { z } from 'zod';
import { errorReason } from '../../registry/store/files.ts';
import { CorruptFileError, requireVersion } from '../../registry/store/journaled-file.ts';
import { snapshotSlices } from '../../registry/store/journaled-store.ts';
import type { ForgottenSessions } from './ended-sessions.ts';
import { forgottenSchema, type StoredSession, storedSession } from './session-state.ts';

/** The snapshot file, beside `registry.json`. */
export const SNAPSHOT_NAME = 'sessions.json';

/** Version of the file format. */
const VERSION = 2;

const versionSchema = z.object({ version: z.number() });
const snapshotSchema = z.object({
  forgotten: z.array(forgottenSchema),
  /** First journal generation to replay. */
  journal: z.int().positive(),
  sessions: z.record(z.string(), storedSession),
});

/** Reads `sessions.json`. Throws {@link CorruptFileError}, or `StoreError` for a later version. */
export function readSnapshot(bytes: Buffer): z.output<typeof snapshotSchema> {
  let content: unknown;
  try {
    content = JSON.parse(bytes.toString());
  } catch (error) {
    throw new CorruptFileError(SNAPSHOT_NAME, `is not valid JSON: ${errorReason(error)}`, { cause: error });
  }
  const versioned = versionSchema.safeParse(content);
  if (!versioned.success) throw new CorruptFileError(SNAPSHOT_NAME, 'is not a JSON object with a version');
  requireVersion(SNAPSHOT_NAME, versioned.data.version, VERSION);
  const read = snapshotSchema.safeParse(content);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new CorruptFileError(SNAPSHOT_NAME, `is not valid: ${issue?.path.join('.')}: ${issue?.message}`);
}

/** Text of `sessions.json` in slices. `generation`: the first journal generation that is not in `sessions`. */
export function sessionSlices(
  sessions: readonly (readonly [string, StoredSession])[],
  forgotten: readonly ForgottenSessions[],
  generation: number,
): Generator<string> {
  const head = `"version": ${VERSION},\n  "forgotten": ${JSON.stringify(forgotten)},\n  "journal": ${generation}`;
  const items = sessions.values().map(([id, session]) => `${JSON.stringify(id)}: ${JSON.stringify(session)}`);
  return snapshotSlices(`{\n  ${head},\n  "sessions": {`, items, '}\n}\n');
}
