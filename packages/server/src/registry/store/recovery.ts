import { join } from 'node:path';
import { Damage } from './damage.ts';
import { errorCode, type Files, readIfThere } from './files.ts';
import { journalGeneration, journalName, readJournal } from './journal.ts';
import { readSnapshot, SNAPSHOT_NAME, type Snapshot } from './snapshot.ts';
import { type Change, noEntries, type StoreLog } from './store.ts';

/** What a folder held. */
export interface Found {
  snapshot: Snapshot;
  journal: Change[][];
  /** A generation that no file carries yet and that follows on all that do. */
  nextGeneration: number;
}

/**
 * Reads `registry.json` and the journal generations that it does not hold, and sweeps what a stopped fold left. Throws
 * {@link Damage} for content that is broken, `StoreError` for a version of the future, else system errors.
 */
export async function readFolder(files: Files, folder: string, log: StoreLog): Promise<Found> {
  await files.remove(join(folder, `${SNAPSHOT_NAME}.tmp`));
  // What a killed process left may be in memory alone: it has to be on disk before commits build on it.
  await files.syncFolder(folder);
  const bytes = await readIfThere(files, join(folder, SNAPSHOT_NAME));
  const snapshot: Snapshot = bytes ? readSnapshot(bytes) : { entries: noEntries(), extras: [], generation: 1 };
  const generations = await journalsOf(files, folder);
  // A snapshot from elsewhere does not know of generations: the journal beside it is then taken to be its own.
  const first = snapshot.generation ?? generations[0] ?? 1;
  const journal: Change[][] = [];
  let next = first;
  for (const generation of generations) {
    const name = journalName(generation);
    if (generation < first) {
      await files.remove(join(folder, name));
      continue;
    }
    if (generation !== next) {
      const since = bytes ? `${SNAPSHOT_NAME} continues with ${journalName(next)}` : `there is no ${SNAPSHOT_NAME}`;
      throw new Damage(name, `does not belong to what it lies beside: ${since}`);
    }
    await files.sync(join(folder, name));
    const { commits, torn } = readJournal(name, await files.read(join(folder, name)));
    for (const commit of commits) journal.push(commit);
    if (torn > 0) log.warn(`an unfinished write at the end of ${name} was dropped`, { folder, bytes: torn });
    next = generation + 1;
  }
  return { snapshot, journal, nextGeneration: next };
}

/**
 * Renames a damaged file, and with it what builds on it, to `<name>.corrupt-<epoch ms>` (decisions 1.5): of the
 * snapshot all journals, of a journal those after it. All carry the same time, so that they can be repaired together.
 * Returns how many there were.
 */
export async function setAside(
  files: Files,
  folder: string,
  damaged: string,
  now: number,
  log: StoreLog,
): Promise<number> {
  let renamed = 0;
  const generation = journalGeneration(damaged) ?? 0;
  const journals = (await journalsOf(files, folder)).filter((other) => other >= generation).map(journalName);
  for (const name of new Set([damaged, ...journals])) {
    try {
      await files.rename(join(folder, name), join(folder, `${name}.corrupt-${now}`));
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error;
      continue;
    }
    renamed++;
    log.error(`${name} was set aside as ${name}.corrupt-${now}; the service starts without it`, { folder });
  }
  await files.syncFolder(folder);
  return renamed;
}

/** Removes the journal generations before this one. */
export async function removeJournals(files: Files, folder: string, before: number): Promise<void> {
  for (const generation of await journalsOf(files, folder)) {
    if (generation < before) await files.remove(join(folder, journalName(generation)));
  }
}

async function journalsOf(files: Files, folder: string): Promise<number[]> {
  const generations: number[] = [];
  for (const name of await files.list(folder)) {
    const generation = journalGeneration(name);
    if (generation !== undefined) generations.push(generation);
  }
  return generations.sort((a, b) => a - b);
}
