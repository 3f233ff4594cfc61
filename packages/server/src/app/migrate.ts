import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../http/settings.ts';
import { recordsOf as registryRecords } from '../registry/draft.ts';
import { Registry } from '../registry/registry.ts';
import { FileLog } from '../registry/store/file-log.ts';
import { diskFiles, errorCode, type Files, replaceFile, systemClock } from '../registry/store/files.ts';
import { CorruptFileError } from '../registry/store/journaled-file.ts';
import { checkUnheld, hostProcesses, type Lock, takeLock } from '../registry/store/lock.ts';
import { Database, type DatabaseSettings } from '../registry/store/postgres/database.ts';
import { ReplicatedLog } from '../registry/store/postgres/replicated-log.ts';
import { inspect } from '../registry/store/postgres/schema.ts';
import { RECORDS_FILE, RECORDS_FORMAT } from '../registry/store/record-file.ts';
import { REGISTRY_FORMAT } from '../registry/store/registry-file.ts';
import { SNAPSHOT_NAME as REGISTRY_FILE } from '../registry/store/registry-reader.ts';
import {
  type RecordedPut,
  SECTIONS,
  type Section,
  type StoredRecords,
  StoreError,
  type StoreLog,
} from '../registry/store/store.ts';
import { VERSION } from '../telemetry/version.ts';
import { fillFolder, loadRecords, type Records, readRecords, recordsOf, requireEmpty } from './backup.ts';
import { parseDatabase } from './config/environment.ts';

export { ConfigError, type DatabaseSettings, parseDatabase, StoreError };

/** Number of records by kind. `unusable` are those that are kept although this version cannot use them. */
export type MigrationCounts = Readonly<Record<Section | 'unusable' | 'evaluator_revisions' | 'sessions', number>> & {
  readonly identity_revisions?: number;
  readonly blocks?: number;
};

/** What to migrate. */
export interface MigrationOptions {
  /** Data folder of a service. */
  readonly folder: string;
  readonly database: DatabaseSettings;
  /** Whether to check and count only. */
  readonly dryRun: boolean;
  readonly log: StoreLog;
}

/** The state of a service. */
interface Content extends Records {
  readonly registry: Registry;
}

/**
 * Writes the state in the folder of a stopped service into an empty database, in one commit. Throws {@link StoreError}, or the
 * system error.
 */
export async function migrateToDatabase(options: MigrationOptions): Promise<MigrationCounts> {
  const { folder, dryRun, log } = options;
  await using open = new AsyncDisposableStack();
  const lock = open.adopt(await lockData(options), (taken) => taken?.release());
  const database = open.adopt(new Database({ ...options.database, log }), (opened) => opened.close());
  const found = await inspect(database);
  if (found === 'records' || found === 'earlier version') throw notEmpty();
  const content = await readFolder(folder, log);
  if (!dryRun) {
    await lock?.check({ now: true });
    await writeDatabase(database, content, log);
  }
  return countsOf(content);
}

/** Writes the state in a database into an empty folder. Throws {@link StoreError}, or the system error. */
export async function migrateToFolder(options: MigrationOptions): Promise<MigrationCounts> {
  const { folder, dryRun, log } = options;
  await requireEmpty(folder, 'a database is migrated into an empty folder');
  await using open = new AsyncDisposableStack();
  const database = open.adopt(new Database({ ...options.database, log }), (opened) => opened.close());
  const content = await readDatabase(database, log);
  if (!dryRun) await writeFolder(folder, content, log);
  return countsOf(content);
}

function notEmpty(): StoreError {
  return new StoreError(
    'the database has records: choose an empty one, or stop all replicas and delete the records with `DROP SCHEMA sluice CASCADE`',
  );
}

function countsOf({ registry: { current }, revisions, identity, sessions, blocks }: Content): MigrationCounts {
  const count = (kind: 'tool' | 'resource' | 'prompt') => current.entries(kind, { shadowed: true }).length;
  return {
    namespaces: current.namespaces.size,
    forwards: current.forwards.size,
    tools: count('tool'),
    resources: count('resource'),
    prompts: count('prompt'),
    services: current.services.all.length,
    unusable: SECTIONS.reduce((sum, section) => sum + (current.unusable.get(section)?.size ?? 0), 0),
    evaluator_revisions: revisions.list.length,
    ...(identity.list.length > 0 && { identity_revisions: identity.list.length }),
    ...(blocks.list().length > 0 && { blocks: blocks.list().length }),
    sessions: sessions.sessions.entries().length,
  };
}

/** Locks a data folder; a dry run only checks that no service has locked it. */
async function lockData({ folder, dryRun, log }: MigrationOptions): Promise<Lock | undefined> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (errorCode(error) !== 'ENOENT' && errorCode(error) !== 'ENOTDIR') throw error;
    return [];
  });
  if (!names.some((name) => name === REGISTRY_FILE || /^registry\.journal\.\d+$/.test(name))) {
    throw new StoreError(`${folder} has no ${REGISTRY_FILE}: expected the data folder of a service`);
  }
  const parts = { folder, files: diskFiles(), clock: systemClock(), processes: hostProcesses(), log };
  if (!dryRun) return await takeLock(parts);
  await checkUnheld(parts);
  return undefined;
}

/** Reads a folder without the repairs that the start of a service makes in it. */
async function readFolder(folder: string, log: StoreLog): Promise<Content> {
  const nothing = async () => undefined;
  const files: Files = { ...diskFiles(), remove: nothing, sync: nothing, syncFolder: nothing };
  try {
    const registry = new Registry(await FileLog.read({ folder, files, log, format: REGISTRY_FORMAT }));
    for (const problem of await registry.load()) log.warn(problem);
    return { registry, ...(await readRecords(await FileLog.read({ folder, files, log }))) };
  } catch (error) {
    if (!(error instanceof CorruptFileError)) throw error;
    throw error.asStoreError(folder, 'restore a backup');
  }
}

async function writeFolder(folder: string, content: Content, log: StoreLog): Promise<void> {
  await fillFolder(folder, log, async (files) => {
    await replaceFile(files, join(folder, RECORDS_FILE), RECORDS_FORMAT.write(recordsOf(content), 1));
    await replaceFile(files, join(folder, REGISTRY_FILE), REGISTRY_FORMAT.write([content.registry.records()], 1));
  });
}

async function readDatabase(database: Database, log: StoreLog): Promise<Content> {
  const found = await inspect(database);
  if (found === 'earlier version') {
    throw new StoreError(
      'the database has the schema of an earlier version: start a service of this version on it first',
    );
  }
  if (found !== 'records') throw new StoreError('the database has no records: expected the database of a service');
  // Not opened, so that it changes nothing.
  const shared = new ReplicatedLog({ database, log, version: VERSION });
  const live = (await shared.members.list()).filter(({ isLive }) => isLive).length;
  if (live > 0) log.warn('replicas are using the database: the folder will not contain their later changes', { live });
  const registry = new Registry(shared);
  for (const problem of await registry.load()) log.warn(problem);
  return { registry, ...(await loadRecords(shared)) };
}

/** Writes everything in one commit, unless another process writes first. */
async function writeDatabase(database: Database, content: Content, log: StoreLog): Promise<void> {
  const changes: RecordedPut[] = [
    ...registryRecords(content.registry.current),
    ...recordsOf(content).flatMap((records) => [...records]),
  ];
  const shared = new ReplicatedLog({ database, log, version: VERSION });
  try {
    await shared.open();
    let isEmpty = true;
    const notice = async (others: Iterable<unknown>) => {
      for (const _other of others) isEmpty = false;
    };
    const reload = (records: StoredRecords) => notice([...records.values()].flatMap((each) => [...each]));
    await shared.add({ sections: SECTIONS, apply: notice, reload });
    const commit = { changes, publish: () => undefined };
    const remake = () => (isEmpty ? Promise.resolve(commit) : Promise.reject(notEmpty()));
    await shared.commit(commit, { isOutdated: () => !isEmpty, remake });
  } finally {
    await shared.close();
  }
}
