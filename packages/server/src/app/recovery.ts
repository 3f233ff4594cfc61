import { randomUUID } from 'node:crypto';
import { open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createServiceKey, hashServiceKey } from '@sluice/contract/service-key';
import { z } from 'zod';
import { ConfigError } from '../http/settings.ts';
import { RECOVERY_MS, type RecoveryParts } from '../identity/recovery.ts';
import { Collection } from '../registry/store/collection.ts';
import { errorCode, ifExists } from '../registry/store/files.ts';
import type { DatabaseSettings } from '../registry/store/postgres/database.ts';
import { RECORDS_FILE } from '../registry/store/record-file.ts';
import type { RecordLog } from '../registry/store/record-log.ts';
import { StoreError, type StoreLog } from '../registry/store/store.ts';
import { VERSION } from '../telemetry/version.ts';
import { parseDatabase } from './config/environment.ts';
import type { WithLogs } from './storage.ts';

export { ConfigError, type DatabaseSettings, parseDatabase, StoreError };

/** File with the only recovery key of a data folder. */
const RECOVERY_FILE = 'recovery.json';

/** The end of a key, in epoch milliseconds. */
const stored = z.object({ expires_at: z.number() });
const storedKey = stored.extend({ sha256: z.string() });

/** A new key, which nothing but its creator has. */
export interface NewRecoveryKey {
  readonly key: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

function createKey() {
  const key = createServiceKey();
  return { key, sha256: hashServiceKey(key) ?? '', expires_at: Date.now() + RECOVERY_MS };
}

/** Creates a key for the service with this data folder. Throws {@link StoreError}, or the system error. */
export async function recoverInFolder(folder: string): Promise<NewRecoveryKey> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (errorCode(error) !== 'ENOENT' && errorCode(error) !== 'ENOTDIR') throw error;
    return [] as string[];
  });
  // One of both, depending on when the journal was compacted.
  if (!names.some((name) => name === RECORDS_FILE || /^records\.journal\.\d+$/.test(name))) {
    throw new StoreError(`${folder} has no ${RECORDS_FILE}: expected the data folder of a service`);
  }
  const { key, ...record } = createKey();
  // The service may run as another user, who owns its folder. No link there may lead root elsewhere: the file is a new one.
  const { uid, gid } = await stat(folder);
  const temporary = join(folder, `${RECOVERY_FILE}.${randomUUID()}`);
  const file = await open(temporary, 'wx', 0o600);
  try {
    await file.writeFile(JSON.stringify(record));
    if (process.getuid?.() === 0) await file.chown(uid, gid);
    await file.sync();
    await rename(temporary, join(folder, RECOVERY_FILE));
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  } finally {
    await file.close();
  }
  return { key, expiresAt: record.expires_at };
}

/** Creates a key for the replicas that share a database. Throws {@link StoreError}. */
export async function recoverInDatabase(settings: DatabaseSettings, log: StoreLog): Promise<NewRecoveryKey> {
  // The service loads the database only with that backend.
  const [{ Database }, { ReplicatedLog }, { inspect }] = await Promise.all([
    import('../registry/store/postgres/database.ts'),
    import('../registry/store/postgres/replicated-log.ts'),
    import('../registry/store/postgres/schema.ts'),
  ]);
  await using open = new AsyncDisposableStack();
  const database = open.adopt(new Database({ ...settings, log }), (opened) => opened.close());
  if ((await inspect(database)) !== 'records') {
    throw new StoreError('the database has no records of this version: expected the database of a service');
  }
  const shared = open.adopt(new ReplicatedLog({ database, log, version: VERSION }), (opened) => opened.close());
  await shared.open();
  const keys = await openKeys(shared);
  const { key, sha256, expires_at } = createKey();
  await keys.put(sha256, { expires_at });
  return { key, expiresAt: expires_at };
}

async function openKeys(log: RecordLog) {
  const keys = new Collection({
    name: 'recovery_keys',
    schema: stored,
    expires: ({ expires_at }) => expires_at,
  });
  await keys.open(log);
  return keys;
}

/** Returns what finds recovery keys; undefined if nothing is stored outside of the process. */
export async function openRecovery({
  config: { persist },
  files,
  records,
  shared,
}: WithLogs): Promise<RecoveryParts['find'] | undefined> {
  if (shared) {
    const keys = await openKeys(records);
    return async (sha256) => {
      await shared.refresh();
      return keys.get(sha256)?.expires_at;
    };
  }
  if (persist.backend !== 'file') return undefined;
  const path = join(persist.path, RECOVERY_FILE);
  return async (sha256) => {
    const bytes = await ifExists(files.read(path));
    const { data } = storedKey.safeParse(bytes && JSON.parse(bytes.toString()));
    return data?.sha256 === sha256 ? data.expires_at : undefined;
  };
}
