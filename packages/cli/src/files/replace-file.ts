import { randomUUID } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Settings of {@link replaceFile}. */
export interface ReplaceOptions {
  /** Owner and mode of the file; default: readable by its owner only (0600). */
  readonly like?: Stats | undefined;
  /**
   * Called after the new content is written and before it replaces the file. The file stays unchanged when it rejects.
   */
  readonly beforeRename?: () => Promise<void>;
}

/**
 * Replaces a file atomically, also across crashes. The folder must exist. Rejects with the system error and leaves the
 * file unchanged.
 */
export async function replaceFile(
  path: string,
  text: string,
  { like, beforeRename }: ReplaceOptions = {},
): Promise<void> {
  const temporary = join(dirname(path), `.sluice-${randomUUID()}`);
  try {
    // Never readable by others, not even for a moment.
    const handle = await open(temporary, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
    try {
      await handle.writeFile(text);
      if (like !== undefined) {
        // Only root can change the owner, and only root needs to.
        await handle.chown(like.uid, like.gid).catch(() => undefined);
        await handle.chmod(like.mode & 0o777);
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    await beforeRename?.();
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
