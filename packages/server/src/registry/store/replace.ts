import { dirname } from 'node:path';
import type { Files } from './files.ts';

/**
 * Puts new content in place of a file so that whoever reads it, also after a power cut, finds the old or the new whole:
 * `<path>.tmp`, fsync, rename, fsync of the folder. One slice is made and written per turn of the event loop.
 * `beforeRename` may still stop it by throwing. Throws the system error; the old content is then in place, or the new
 * one when only the folder's fsync failed.
 */
export async function replaceFile(
  files: Files,
  path: string,
  slices: Iterable<string>,
  beforeRename: () => Promise<void> = async () => {},
): Promise<void> {
  const draft = `${path}.tmp`;
  const file = await files.open(draft, 'w');
  try {
    let position = 0;
    for (const slice of slices) {
      const bytes = Buffer.from(slice);
      await file.write(bytes, position);
      position += bytes.length;
    }
    await file.sync();
  } finally {
    await file.close();
  }
  await beforeRename();
  await files.rename(draft, path);
  await files.syncFolder(dirname(path));
}
