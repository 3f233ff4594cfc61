import { open, rm, stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

const RETRY_MS = 50;
/** A holder that took longer has died. */
const STALE_MS = 30_000;

/** Does work on a file while no other command does. Its folder must exist. */
export async function withLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  const lock = `${file}.lock`;
  while (!(await take(lock))) await delay(RETRY_MS);
  try {
    return await work();
  } finally {
    await rm(lock, { force: true });
  }
}

/** True when the lock is ours. One that nobody will release is removed, so that the next try may get it. */
async function take(lock: string): Promise<boolean> {
  try {
    const handle = await open(lock, 'wx', 0o600);
    await handle.close();
    return true;
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error) || error.code !== 'EEXIST') throw error;
    const held = await stat(lock).catch(() => undefined);
    if (held !== undefined && Date.now() - held.mtimeMs > STALE_MS) await rm(lock, { force: true });
    return false;
  }
}
