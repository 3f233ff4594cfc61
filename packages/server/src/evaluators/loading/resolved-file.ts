import { constants, type FileHandle, open, readlink, realpath, stat } from 'node:fs/promises';
import { relative, sep } from 'node:path';
import { limits } from '../actions/component/limits.ts';
import { ActionFileError } from './action-file-error.ts';

/** Whether a path lies below a folder. Both without links. */
export function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way !== '' && way !== '..' && !way.startsWith(`..${sep}`);
}

/**
 * The bytes of a file whose path was followed to its end. Throws {@link ActionFileError} when it is none, or does not lie
 * inside of `root`, if that is given: what was opened is asked where it lies, because a folder on the way may have
 * become a link since its path was followed.
 */
export async function readResolved(path: string, root: string | undefined): Promise<Buffer> {
  const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = constants;
  // A pipe or a device could keep whoever opens it waiting for ever, so that it is not opened.
  if (!(await stat(path)).isFile()) throw new ActionFileError('is not a file');
  const handle = await open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  try {
    if (root !== undefined && !isInside(root, await openedPlace(handle, path))) {
      throw new ActionFileError('is not inside SERVICE_ACTIONS_PATH');
    }
    const found = await handle.stat();
    if (!found.isFile()) throw new ActionFileError('is not a file');
    if (found.size > limits.fileBytes) {
      throw new ActionFileError(`has more than ${limits.fileBytes} bytes; leave out debug information`);
    }
    const bytes = Buffer.alloc(found.size);
    let length = 0;
    while (length < bytes.length) {
      const { bytesRead } = await handle.read(bytes, length, bytes.length - length, length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return bytes.subarray(0, length);
  } finally {
    await handle.close();
  }
}

/** Where an open file lies. Where no `/proc` says it, its path is followed anew and has to lead to the same file. */
async function openedPlace(handle: FileHandle, path: string): Promise<string> {
  try {
    return await readlink(`/proc/self/fd/${handle.fd}`);
  } catch {
    const place = await realpath(path);
    const [there, opened] = await Promise.all([stat(place), handle.stat()]);
    if (there.dev !== opened.dev || there.ino !== opened.ino) throw new ActionFileError('is not the file that it was');
    return place;
  }
}
