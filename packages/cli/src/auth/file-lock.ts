import { randomUUID } from 'node:crypto';
import { open, readFile, rm, stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../files/system-error.ts';

const RETRY_MS = 50;
/** Older locks are stale: renewing a login times out after 30 s. */
const STALE_MS = 120_000;

/**
 * Runs `work` while holding the lock of the file. The folder must exist. `pause` waits between attempts.
 */
export async function withLock<T>(file: string, work: () => Promise<T>, pause = () => delay(RETRY_MS)): Promise<T> {
  const lock = `${file}.lock`;
  const id = randomUUID();
  while (!(await acquire(lock, id))) await pause();
  try {
    return await work();
  } finally {
    // Another process may have taken over the lock as stale.
    await removeIfOwnedBy(id, lock);
  }
}

/** Returns whether the lock was acquired. Removes a stale lock, so that the next attempt succeeds. */
async function acquire(lock: string, id: string): Promise<boolean> {
  try {
    const handle = await open(lock, 'wx', 0o600);
    try {
      await handle.writeFile(id);
    } catch (error) {
      await rm(lock, { force: true });
      throw error;
    } finally {
      await handle.close();
    }
    return true;
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
    const owner = await readOwner(lock);
    const stats = await stat(lock).catch(() => undefined);
    if (stats !== undefined && Date.now() - stats.mtimeMs > STALE_MS) await removeIfOwnedBy(owner, lock);
    return false;
  }
}

async function removeIfOwnedBy(id: string | undefined, lock: string): Promise<void> {
  if (id !== undefined && (await readOwner(lock)) === id) await rm(lock, { force: true });
}

/** Returns the id in the lock file; undefined without a lock. */
async function readOwner(lock: string): Promise<string | undefined> {
  return readFile(lock, 'utf8').catch(() => undefined);
}
