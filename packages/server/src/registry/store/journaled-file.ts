import { constants, link, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';

/** A file's content is not what it should be. `file` is its name inside the folder. */
export class CorruptFileError extends Error {
  override readonly name = 'Damage';
  readonly file: string;

  constructor(file: string, what: string, options?: ErrorOptions) {
    super(what, options);
    this.file = file;
  }
}

/** A line is made and written in pieces of about this many characters, so that a huge one holds nobody up. */
const PIECE_CHARACTERS = 256 * 1024;
/** Tab, then the CRC-32 of all before it in eight hexadecimal digits. */
const SEAL_BYTES = 9;
const LINE_FEED = 0x0a;

/**
 * A file of lines that are durable one by one, under way: what journals are made of. Each line is sealed with a
 * checksum, so that one which was not finished is told from one that was. Lines are written one after the other by
 * one caller. The file is made with the first line and must not exist before.
 */
export class ChecksummedLog {
  readonly #files: Files;
  readonly #folder: string;
  readonly #path: string;
  #file: StoreFile | undefined;
  /** Bytes that are durable. What lies behind them was refused. */
  #length = 0;
  #listed = false;
  #unclean = false;

  /** `path` lies in `folder`, whose entry for it is made durable too. */
  constructor(files: Files, folder: string, path: string) {
    this.#files = files;
    this.#folder = folder;
    this.#path = path;
  }

  /** Bytes that are durable in it. */
  get length(): number {
    return this.#length;
  }

  /** False while a refused write lies behind the durable bytes: a crash before {@link mend} could bring it back. */
  get clean(): boolean {
    return !this.#unclean;
  }

  /**
   * Makes one line durable, the texts joined; none of them holds a line break. Throws the system error when the disk
   * refuses; what was written is then taken back, and while even that fails, every further attempt fails too.
   */
  async append(texts: Iterable<string>): Promise<void> {
    await this.mend();
    try {
      this.#file ??= await this.#files.open(this.#path, 'wx');
      let end = this.#length;
      for (const bytes of sealed(texts)) {
        this.#unclean = true;
        await this.#file.write(bytes, end);
        end += bytes.length;
      }
      await this.#file.datasync();
      if (!this.#listed) await this.#files.syncFolder(this.#folder);
      this.#listed = true;
      this.#length = end;
      this.#unclean = false;
    } catch (error) {
      // A second failure is not news: the next caller meets it again.
      await this.mend().catch(() => undefined);
      throw error;
    }
  }

  /** Cuts off what a refused write left, durably. Throws the system error. */
  async mend(): Promise<void> {
    if (!this.#unclean || !this.#file) return;
    await this.#file.truncate(this.#length);
    await this.#file.sync();
    this.#unclean = false;
  }

  async close(): Promise<void> {
    await this.#file?.close();
  }
}

/** Pieces of the line, the last one with the seal. */
function* sealed(texts: Iterable<string>): Generator<Uint8Array> {
  let text = '';
  let crc = 0;
  for (const more of texts) {
    text += more;
    if (text.length < PIECE_CHARACTERS) continue;
    const piece = Buffer.from(text);
    crc = crc32(piece, crc);
    yield piece;
    text = '';
  }
  const rest = Buffer.from(text);
  crc = crc32(rest, crc);
  yield Buffer.concat([rest, Buffer.from(`\t${crc.toString(16).padStart(8, '0')}\n`)]);
}

/**
 * Reads such a file: `take` gets each line's text and the byte of the file that it begins at. Returns how many bytes of
 * an unfinished write lie at the end, which nobody was told of. Throws {@link CorruptFileError} when a line is broken that others
 * follow.
 */
export function readSealedLines(name: string, bytes: Buffer, take: (text: string, at: number) => void): number {
  let broken: number | undefined;
  let start = 0;
  while (start < bytes.length) {
    const feed = bytes.indexOf(LINE_FEED, start);
    const end = feed === -1 ? bytes.length : feed;
    const text = feed === -1 ? undefined : unsealed(bytes.subarray(start, end));
    if (text === undefined) broken ??= start;
    else if (broken !== undefined)
      throw new CorruptFileError(name, `is broken at byte ${broken}, with intact commits behind`);
    else take(text, start);
    start = end + 1;
  }
  return broken === undefined ? 0 : bytes.length - broken;
}

function unsealed(line: Buffer): string | undefined {
  const end = line.length - SEAL_BYTES;
  if (end < 0) return undefined;
  const body = line.subarray(0, end);
  const seal = `\t${crc32(body).toString(16).padStart(8, '0')}`;
  return line.toString('latin1', end) === seal ? body.toString() : undefined;
}

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

/** Time as the store sees it; tests hold it still. */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
  /** Calls back once after so many milliseconds, without keeping the process alive; returns how to cancel. */
  after(ms: number, run: () => void): () => void;
}

/** The machine's clock. */
export function systemClock(): Clock {
  return {
    now: () => Date.now(),
    after(ms, run) {
      const timer = setTimeout(run, ms).unref();
      return () => clearTimeout(timer);
    },
  };
}
