import { realpath } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { errorCode } from '../../registry/store/files.ts';
import { ActionFileError } from './action-file-error.ts';
import { isInside, readResolved } from './resolved-file.ts';

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
      const root = actionsPath === undefined ? undefined : await realpath(actionsPath);
      // Once more: a link may have been changed since it was asked whether the path may be read.
      if (root !== undefined && !isInside(root, place)) {
        throw new ActionFileError('is not inside SERVICE_ACTIONS_PATH');
      }
      return await readResolved(place, root);
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
