import { constants, link, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ByteRange } from './byte-range.ts';

/** Slices of a file that fit into this are encoded in one buffer. */
const BUFFER_BYTES = 1024 * 1024;
/** Of one code unit in UTF-8. */
const MAX_CHARACTER_BYTES = 3;

/**
 * Replaces a file atomically, also across a power failure: `<path>.tmp`, fsync, rename, fsync of the folder. Writes one
 * slice per turn of the event loop. `beforeRename` can abort by throwing. Returns the number of bytes. Throws the system error; the
 * old content is then in place, or the new content when only the fsync of the folder failed.
 */
export async function replaceFile(
  files: Files,
  path: string,
  slices: Iterable<string>,
  beforeRename: () => Promise<void> = async () => {},
): Promise<number> {
  const temporary = `${path}.tmp`;
  const file = await files.open(temporary, 'w');
  // Reused: the memory of hundreds of buffers would be released only by the next garbage collection.
  const buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  let position = 0;
  try {
    for (const slice of slices) {
      const bytes =
        slice.length * MAX_CHARACTER_BYTES > BUFFER_BYTES
          ? Buffer.from(slice)
          : buffer.subarray(0, buffer.write(slice));
      await file.write(bytes, position);
      position += bytes.length;
    }
    await file.sync();
  } finally {
    await file.close();
  }
  await beforeRename();
  await files.rename(temporary, path);
  await files.syncFolder(dirname(path));
  return position;
}

/** An open file of the store. Positions and lengths are in bytes. */
export interface StoreFile {
  /** Writes all the bytes at this position. */
  write(bytes: Uint8Array, position: number): Promise<void>;
  truncate(length: number): Promise<void>;
  /** Makes the content durable, with the metadata needed to read it back (`fdatasync`). */
  datasync(): Promise<void>;
  /** Makes content and metadata durable (`fsync`). */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** File operations of the stores; tests inject faults here. Failures are Node's system errors. */
export interface Files {
  /** Opens for writing with mode 0600: `wx` creates a file that must not exist, `w` truncates an existing one. */
  open(path: string, flags: 'w' | 'wx'): Promise<StoreFile>;
  read(path: string): Promise<Buffer>;
  /** The content of a file that does not change, to be read in parts; reading them throws the system error as well. */
  readInParts(path: string): Promise<ByteRange>;
  /** The file's modification time in epoch milliseconds, by the file system's own clock. */
  modified(path: string): Promise<number>;
  /** Creates a hard link, which must not exist yet. */
  link(path: string, name: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Removes the file, if it exists. */
  remove(path: string): Promise<void>;
  /** Names of the entries of a folder. */
  list(folder: string): Promise<string[]>;
  /** Creates the folder and its parents with mode 0700, unless it exists. */
  makeFolder(folder: string): Promise<void>;
  /** Makes the content of a closed file durable. */
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
    readInParts: async (path) => ByteRange.ofFile(path, (await stat(path)).size),
    modified: async (path) => (await stat(path)).mtimeMs,
    link: (path, name) => link(path, name),
    rename: (from, to) => rename(from, to),
    remove: (path) => rm(path, { force: true }),
    list: (folder) => readdir(folder),
    makeFolder,
    async sync(path) {
      await using handle = await open(path, 'r+');
      await handle.sync();
    },
    async syncFolder(folder) {
      await using handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
      try {
        await handle.sync();
      } catch (error) {
        // Some network file systems do not support fsync of a folder.
        if (errorCode(error) !== 'EINVAL' && errorCode(error) !== 'ENOTSUP') throw error;
      }
    },
  };
}

/** `mkdir` with `recursive` loops endlessly below a folder in which nothing can be created, such as `/proc`. */
async function makeFolder(folder: string): Promise<void> {
  const mode = 0o700;
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

/** Whether an error, or one of its causes, says that the disk or the quota of the user is full. */
export function isDiskFull(error: unknown): boolean {
  const code = errorCode(error);
  if (code === 'ENOSPC' || code === 'EDQUOT') return true;
  return error instanceof Error && error.cause !== undefined && isDiskFull(error.cause);
}

/** The message of an error in one line. */
export function errorReason(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replaceAll(/\s+/g, ' ');
}

/** Returns what `read` returns; undefined when its file does not exist. */
export async function ifExists<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Clock of a store; replaced in tests. */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
  /**
   * Calls `run` once after `ms` milliseconds without preventing the exit of the process. Returns a function that
   * cancels it.
   */
  after(ms: number, run: () => void): () => void;
}

/** The system clock. */
export function systemClock(): Clock {
  return {
    now: () => Date.now(),
    after(ms, run) {
      const timer = setTimeout(run, ms).unref();
      return () => clearTimeout(timer);
    },
  };
}
