import { randomUUID } from 'node:crypto';
import { open, readFile, rm, stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../files/system-error.ts';

const RETRY_MS = 50;
/** A holder that took longer has died: what it may do, renewing a log-in, gives up after 30 s. */
const STALE_MS = 120_000;

/**
 * Does work on a file while no other command does. Its folder must exist. `pause` is what a command does before it tries
 * again to get the lock that another one holds.
 */
export async function withLock<T>(file: string, work: () => Promise<T>, pause = () => delay(RETRY_MS)): Promise<T> {
  const lock = `${file}.lock`;
  const id = randomUUID();
  while (!(await acquire(lock, id))) await pause();
  try {
    return await work();
  } finally {
    // Whoever held us for dead has a lock of its own there.
    await removeIfHeldBy(id, lock);
  }
}

/** True when the lock is ours. One that nobody will release is removed, so that the next try may get it. */
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
    const holder = await readHolder(lock);
    const held = await stat(lock).catch(() => undefined);
    if (held !== undefined && Date.now() - held.mtimeMs > STALE_MS) await removeIfHeldBy(holder, lock);
    return false;
  }
}

async function removeIfHeldBy(id: string | undefined, lock: string): Promise<void> {
  if (id !== undefined && (await readHolder(lock)) === id) await rm(lock, { force: true });
}

/** The id in the lock; undefined when there is none any more. */
async function readHolder(lock: string): Promise<string | undefined> {
  return readFile(lock, 'utf8').catch(() => undefined);
}
