import { constants, link, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/** An open file of the store. Positions and lengths are in bytes. */
export interface StoreFile {
  /** Writes all the bytes at this position. */
  write(bytes: Uint8Array, position: number): Promise<void>;
  truncate(length: number): Promise<void>;
  /** Makes the content durable, and of the file's own data only what reading it back needs (`fdatasync`). */
  datasync(): Promise<void>;
  /** Makes content and metadata durable (`fsync`). */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** The file operations that the store is made of; tests inject faults here. Failures are Node's system errors. */
export interface Files {
  /** Opens for writing with mode 0600: `wx` makes a file that must not exist yet, `w` empties one that does. */
  open(path: string, flags: 'w' | 'wx'): Promise<StoreFile>;
  read(path: string): Promise<Buffer>;
  /** The file's modification time in epoch milliseconds, by the file system's own clock. */
  modified(path: string): Promise<number>;
  /** Gives the file a second name, which must not exist. */
  link(path: string, name: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Removes the file; a missing one is no failure. */
  remove(path: string): Promise<void>;
  /** Names of the entries of a folder. */
  list(folder: string): Promise<string[]>;
  /** Makes the folder, with its parents, mode 0700; an existing one is no failure. */
  makeFolder(folder: string): Promise<void>;
  /** Makes the content of a file that others wrote durable. */
  sync(path: string): Promise<void>;
  /** Makes the creation, renaming and removal of files in the folder durable. */
  syncFolder(folder: string): Promise<void>;
}

/** The real file system. */
export function diskFiles(): Files {
  return {
    async open(path, flags) {
      const handle = await open(path, flags, 0o600);
      return {
        async write(bytes, position) {
          let done = 0;
          while (done < bytes.length) {
            const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done);
            done += bytesWritten;
          }
        },
        truncate: (length) => handle.truncate(length),
        datasync: () => handle.datasync(),
        sync: () => handle.sync(),
        close: () => handle.close(),
      };
    },
    read: (path) => readFile(path),
    modified: async (path) => (await stat(path)).mtimeMs,
    link: (path, name) => link(path, name),
    rename: (from, to) => rename(from, to),
    remove: (path) => rm(path, { force: true }),
    list: (folder) => readdir(folder),
    async makeFolder(folder) {
      await makeFolder(folder);
    },
    async sync(path) {
      const handle = await open(path, 'r+');
      try {
        await handle.sync();
      } finally {
        await handle.close();
      }
    },
    async syncFolder(folder) {
      const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
      try {
        await handle.sync();
      } catch (error) {
        // Network file systems that cannot do this say so; there is nothing more to be had from them.
        if (errorCode(error) !== 'EINVAL' && errorCode(error) !== 'ENOTSUP') throw error;
      } finally {
        await handle.close();
      }
    },
  };
}

/** Like `mkdir` with `recursive`, which runs for ever where a parent exists and yet nothing can be made in it (`/proc`). */
async function makeFolder(folder: string, mode = 0o700): Promise<void> {
  try {
    await mkdir(folder, { mode });
  } catch (error) {
    const parent = dirname(folder);
    if (errorCode(error) === 'ENOENT' && parent !== folder) {
      await makeFolder(parent);
      await mkdir(folder, { mode });
    } else if (errorCode(error) !== 'EEXIST' || !(await stat(folder)).isDirectory()) {
      throw error;
    }
  }
}

/** The code of a system error (`ENOENT`), undefined for anything else. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** What an error says, in one line. */
export function reason(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replaceAll(/\s+/g, ' ');
}

/** What a file holds; undefined when there is none. */
export async function readIfThere(files: Files, path: string): Promise<Buffer | undefined> {
  try {
    return await files.read(path);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
