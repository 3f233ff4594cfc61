import { constants, open, realpath, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { errorCode } from '../../registry/store/files.ts';
import { limits } from '../actions/component/limits.ts';

/** Why a file cannot be an action; the message is fit to be answered and names no path but what was submitted. */
export class ActionFileError extends Error {
  override readonly name = 'ActionFileError';
}

/** Where actions lie. */
export interface ActionFolders {
  /** Absolute; relative paths start here. */
  readonly baseFolder: string;
  /** SERVICE_ACTIONS_PATH, absolute: only what is inside of it may be read. Undefined: anything may. */
  readonly actionsPath: string | undefined;
}

/** The files that `processor.path` names (decisions 4.5). */
export class ActionFiles {
  readonly #folders: ActionFolders;

  constructor(folders: ActionFolders) {
    this.#folders = folders;
  }

  /** Whether a path may be read at all, after resolving links. A file that does not exist is where it would be. */
  async mayRead(path: string): Promise<boolean> {
    const { actionsPath } = this.#folders;
    if (actionsPath === undefined) return true;
    try {
      return isInside(await realpath(actionsPath), await placeOf(this.#absolute(path)));
    } catch {
      // What cannot be followed to its end is not known to be inside.
      return false;
    }
  }

  /** The file's bytes. Throws {@link ActionFileError} when it is none that may be read. */
  async read(path: string): Promise<Buffer> {
    try {
      const { actionsPath } = this.#folders;
      const place = await realpath(this.#absolute(path));
      // Once more: a link may have been changed since it was asked whether the path may be read.
      if (actionsPath !== undefined && !isInside(await realpath(actionsPath), place)) {
        throw new ActionFileError('is not inside SERVICE_ACTIONS_PATH');
      }
      return await readRegular(place);
    } catch (error) {
      if (error instanceof ActionFileError) throw error;
      const missing = ['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '');
      const from = isAbsolute(path) ? '' : ' (a relative path begins at the folder of the service-config file)';
      throw new ActionFileError(missing ? `no such file${from}` : 'the file cannot be read', { cause: error });
    }
  }

  #absolute(path: string): string {
    return resolve(this.#folders.baseFolder, path);
  }
}

/** The path without links. Of what does not exist, that of the nearest folder that does, and what is to come below it. */
async function placeOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const parent = dirname(path);
    if (errorCode(error) !== 'ENOENT' || parent === path) throw error;
    return join(await placeOf(parent), path.slice(parent.length));
  }
}

function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way !== '' && way !== '..' && !way.startsWith(`..${sep}`);
}

/** A pipe or a device could keep whoever opens it waiting for ever, so that it is not opened. */
async function readRegular(path: string): Promise<Buffer> {
  const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = constants;
  if (!(await stat(path)).isFile()) throw new ActionFileError('is not a file');
  const handle = await open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  try {
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
