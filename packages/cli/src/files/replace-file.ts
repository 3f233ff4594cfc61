import { randomUUID } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Settings of {@link replaceFile}. */
export interface ReplaceOptions {
  /** Whose owner and mode the file gets. Without it, it is for its owner alone (0600). */
  readonly like?: Stats | undefined;
  /** Called when all is written, right before it takes the file's place. When it rejects, the file stays as it is. */
  readonly beforeRename?: () => Promise<void>;
}

/**
 * Puts a text in a file's place in one step: whoever reads sees the old file or the new one, also after a crash. Its
 * folder must exist. Rejects with the error of the system, and leaves the file alone.
 */
export async function replaceFile(
  path: string,
  text: string,
  { like, beforeRename }: ReplaceOptions = {},
): Promise<void> {
  const temporary = join(dirname(path), `.sluice-${randomUUID()}`);
  try {
    // Nobody else may read it, not even for a moment.
    const handle = await open(temporary, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
    try {
      await handle.writeFile(text);
      if (like !== undefined) {
        // Only root can give a file away, and only root needs to.
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
