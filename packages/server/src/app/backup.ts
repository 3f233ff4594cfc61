import { createHash } from 'node:crypto';
import { openAsBlob } from 'node:fs';
import { access, open, readdir, readFile, rm, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { StoredBlocks } from '../access/stored-blocks.ts';
import { IDENTITY_REVISIONS } from '../management/identity/identity-revisions.ts';
import { SessionStore } from '../mcp/sessions/session-store.ts';
import { SESSION_LIFETIME_MS, sessionKeyIn } from '../mcp/sessions/sessions.ts';
import { EVALUATOR_REVISIONS } from '../policy/evaluator-revisions.ts';
import { runSteps } from '../registry/steps.ts';
import {
  BACKUP_FILES,
  type BackupFileName,
  type BackupManifest,
  createArchive,
} from '../registry/store/backup-archive.ts';
import { BackupError, readBackup } from '../registry/store/backup-reader.ts';
import { ByteRange } from '../registry/store/byte-range.ts';
import { diskFiles, errorCode, errorReason, type Files, systemClock } from '../registry/store/files.ts';
import { CorruptFileError } from '../registry/store/journaled-file.ts';
import { hostProcesses, takeLock } from '../registry/store/lock.ts';
import { RECORDS_FILE, ReadRecords } from '../registry/store/record-file.ts';
import { memoryLog, type RecordLog } from '../registry/store/record-log.ts';
import { REGISTRY_FORMAT } from '../registry/store/registry-file.ts';
import { LogRevisionStore, revisionRecords } from '../registry/store/revision-store.ts';
import type { Revisions } from '../registry/store/revisions.ts';
import { type RecordedPut, StoreError, type StoreLog } from '../registry/store/store.ts';
import { VERSION } from '../telemetry/version.ts';
import { defaultDataFolder } from './config/environment.ts';

export { BackupError, type BackupManifest, StoreError };

const SESSION_KEY = 'session.key';

/** The folder in which a service with this environment stores its data. */
export function dataFolder({ HOME, SERVICE_PERSIST_PATH }: NodeJS.ProcessEnv): string {
  return SERVICE_PERSIST_PATH || defaultDataFolder(HOME);
}

/** Checks a backup from its first to its last byte. Throws {@link BackupError}, or the system error. */
export async function verifyBackup(path: string): Promise<BackupManifest> {
  return readBackup((await openAsBlob(path)).stream(), VERSION);
}

/**
 * Returns the backup with the session key of a folder added. Throws {@link BackupError}, {@link StoreError} if the folder has
 * no valid key, or the system error.
 */
export async function addSessionKey(path: string, folder: string): Promise<ReadableStream<Uint8Array>> {
  const keyPath = join(folder, SESSION_KEY);
  const key = await readFile(keyPath).catch((error: unknown) => {
    if (errorCode(error) !== 'ENOENT') throw error;
    throw new StoreError(`${keyPath} does not exist: expected the data folder of the service`);
  });
  await sessionKeyIn(folder, diskFiles());
  const entry = {
    name: SESSION_KEY,
    size: key.length,
    sha256: createHash('sha256').update(key).digest('hex'),
  } as const;
  const blob = await openAsBlob(path);
  const manifest = await readBackup(blob.stream(), VERSION);
  return createArchive({ ...manifest, files: [...manifest.files, entry] }, async (add) => {
    await readBackup(blob.stream(), VERSION, { onFile: ({ name, size }, chunks) => add(name, size, chunks) });
    await add(SESSION_KEY, key.length, ReadableStream.from([key]));
  });
}

/**
 * Restores a backup into a folder, which is created unless it exists and must be empty. Everything is checked before anything
 * is written. Returns its manifest with the ids of what is blocked then. Throws {@link BackupError}, {@link StoreError} for the
 * folder, or the system error.
 */
export async function restoreBackup(
  path: string,
  folder: string,
  log: StoreLog,
): Promise<BackupManifest & { readonly blocked: readonly string[] }> {
  await requireEmpty(folder, 'a backup is restored into an empty folder, before the service is started');
  const contents = new Map<BackupFileName, Buffer>();
  const manifest = await readBackup((await openAsBlob(path)).stream(), VERSION, {
    onManifest: ({ files }) =>
      requireSpace(
        folder,
        files.reduce((sum, { size }) => sum + size, 0),
      ),
    onFile: async ({ name }, chunks) => {
      contents.set(name, Buffer.concat(await Array.fromAsync(chunks)));
    },
  });
  if (!contents.has('registry.json')) throw new BackupError('lacks registry.json');
  const blocked: string[] = [];
  for (const [name, bytes] of contents) blocked.push(...(await requireReadable(name, bytes)));
  await fillFolder(folder, log, async (files) => {
    for (const [name, bytes] of contents) {
      await using file = await open(join(folder, name), 'wx', 0o600);
      await file.writeFile(bytes);
      await file.sync();
    }
    await files.syncFolder(folder);
  });
  return { ...manifest, blocked };
}

/** Writes the files of a service into an empty folder, which is created unless it exists; after a failure it is empty again. */
export async function fillFolder(folder: string, log: StoreLog, write: (files: Files) => Promise<void>): Promise<void> {
  const files = diskFiles();
  await files.makeFolder(folder);
  // The service cannot start while only a part is there.
  const lock = await takeLock({ folder, files, clock: systemClock(), processes: hostProcesses(), log });
  try {
    await write(files);
  } catch (error) {
    // The lock is left to its owner.
    for (const name of BACKUP_FILES) {
      for (const path of [join(folder, name), join(folder, `${name}.tmp`)]) await rm(path, { force: true });
    }
    throw error;
  } finally {
    await lock.release();
  }
}

/** Throws {@link StoreError} with the rule unless a folder is empty or missing. A new file system has the folder `lost+found`. */
export async function requireEmpty(folder: string, rule: string): Promise<void> {
  const found = await readdir(folder).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return [];
    throw new StoreError(`${folder} cannot be read: ${errorCode(error) ?? error}`, { cause: error });
  });
  const [first] = found.filter((name) => name !== 'lost+found');
  if (first === undefined) return;
  throw new StoreError(`${folder} contains ${first}: ${rule}`);
}

async function requireSpace(folder: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(await closestExisting(folder));
  if (bavail * bsize >= bytes) return;
  throw new StoreError(`${folder} has ${bavail * bsize} bytes of free space: the backup needs ${bytes}`);
}

/** The folder, or the closest one above it that exists, in which it will be created. */
export async function closestExisting(folder: string): Promise<string> {
  const exists = await access(folder).then(
    () => true,
    () => false,
  );
  return exists || dirname(folder) === folder ? folder : closestExisting(dirname(folder));
}

/** Reads a file like the start of the service: its content may be from someone else than Sluice. Returns what is blocked by it. */
async function requireReadable(name: BackupFileName, bytes: Buffer): Promise<string[]> {
  try {
    if (name === 'registry.json') runSteps(REGISTRY_FORMAT.createReader().readSnapshot(ByteRange.of(bytes)));
    else if (name === RECORDS_FILE) return await blockedIn(bytes);
    else if (!/^[0-9a-f]{64}\n?$/i.test(bytes.toString('latin1'))) {
      throw new CorruptFileError(name, 'does not contain a key of 32 bytes in hex');
    }
  } catch (error) {
    if (error instanceof CorruptFileError) throw new BackupError(`contains a ${name} that ${error.message}`);
    if (error instanceof StoreError) throw new BackupError(`cannot be restored: ${error.message}`);
    throw error;
  }
  return [];
}

async function blockedIn(bytes: Buffer): Promise<string[]> {
  const records = new ReadRecords();
  runSteps(records.readSnapshot(ByteRange.of(bytes)));
  const { blocks } = await readRecords(memoryLog(records.puts()));
  return blocks.list().map(([id]) => id);
}

/** What is stored beside the registry: sessions, blocks, and the revisions of evaluators and identity. */
export interface Records {
  readonly sessions: SessionStore;
  readonly revisions: Revisions;
  readonly identity: Revisions;
  readonly blocks: StoredBlocks;
}

/** Loads the records of a service. Throws the error of what cannot be used. */
export async function loadRecords(log: RecordLog): Promise<Records> {
  const sessions = new SessionStore();
  await sessions.open(log);
  const blocks = new StoredBlocks({ retainMs: SESSION_LIFETIME_MS });
  await blocks.open(log);
  const revisions = await new LogRevisionStore(log, EVALUATOR_REVISIONS).load();
  return { sessions, revisions, identity: await new LogRevisionStore(log, IDENTITY_REVISIONS).load(), blocks };
}

/** Records, as they are written elsewhere. */
export function recordsOf({ sessions, revisions, identity, blocks }: Records): Iterable<RecordedPut>[] {
  return [
    ...sessions.records(),
    revisionRecords(revisions, EVALUATOR_REVISIONS),
    revisionRecords(identity, IDENTITY_REVISIONS),
    blocks.records(),
  ];
}

/** The records of a folder. Throws {@link CorruptFileError}. */
export async function readRecords(log: RecordLog): Promise<Records> {
  try {
    return await loadRecords(log);
  } catch (error) {
    throw new CorruptFileError(RECORDS_FILE, `cannot be used: ${errorReason(error)}`, { cause: error });
  }
}
