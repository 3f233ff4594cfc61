import { join } from 'node:path';
import { Damage } from '../../registry/store/damage.ts';
import { type Files, readIfThere, reason } from '../../registry/store/files.ts';
import { StoreError, type StoreLog } from '../../registry/store/store.ts';
import { generationsIn, journalName, readRecords } from './journal.ts';
import type { Kept } from './kept.ts';
import { Replay } from './record.ts';
import { readSnapshot, SNAPSHOT_NAME, type Snapshot } from './snapshot.ts';

/** What a folder held. */
export interface Found {
  kept: Map<string, Kept>;
  /** Bytes of `sessions.json`. */
  snapshotBytes: number;
  /** True when there are journals, whose content is not in `sessions.json` yet. */
  unfolded: boolean;
  /** A generation that no file carries yet and that follows on all that do. */
  nextGeneration: number;
}

/** Reads `sessions.json` and the journals that it does not hold. Throws {@link StoreError}. */
export async function readKept(files: Files, folder: string, log: StoreLog): Promise<Found> {
  try {
    return await read(files, folder, log);
  } catch (error) {
    if (error instanceof StoreError) throw error;
    if (!(error instanceof Damage)) {
      throw new StoreError(`the sessions kept in ${folder} cannot be read: ${reason(error)}`, { cause: error });
    }
    const path = join(folder, error.file);
    throw new StoreError(
      `${path} is damaged: it ${error.message}; repair it, or remove it to go on without the ends and changes of sessions in it`,
      { cause: error },
    );
  }
}

async function read(files: Files, folder: string, log: StoreLog): Promise<Found> {
  await files.remove(join(folder, `${SNAPSHOT_NAME}.tmp`));
  // What a killed process left may be in memory alone: it has to be on disk before anything builds on it.
  await files.syncFolder(folder);
  const bytes = await readIfThere(files, join(folder, SNAPSHOT_NAME));
  const snapshot: Snapshot = bytes ? readSnapshot(bytes) : { kept: new Map(), generation: undefined };
  const generations = await generationsIn(files, folder);
  const first = snapshot.generation ?? 1;
  const replay = new Replay(snapshot.kept);
  for (const generation of generations) {
    const name = journalName(generation);
    const path = join(folder, name);
    if (generation < first) {
      await files.remove(path);
      continue;
    }
    await files.sync(path);
    const torn = readRecords(name, await files.read(path), (record) => replay.apply(record));
    if (torn > 0) log.warn(`an unfinished write at the end of ${name} was dropped`, { folder, bytes: torn });
  }
  const last = generations.at(-1) ?? 0;
  return {
    kept: replay.finish(),
    snapshotBytes: bytes?.length ?? 0,
    unfolded: last >= first,
    nextGeneration: Math.max(first, last + 1),
  };
}
