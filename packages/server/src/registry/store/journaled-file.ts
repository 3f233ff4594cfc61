import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { TimeSlicer } from '@sluice/protocol/time-slicer';
import type { Steps } from '../steps.ts';
import type { ByteRange } from './byte-range.ts';
import { type Files, ifExists, replaceFile, type StoreFile } from './files.ts';
import { StoreError, type StoreLog } from './store.ts';

/** The content of a stored file is invalid. `file` is its name inside the folder; the message is a predicate of it. */
export class CorruptFileError extends Error {
  override readonly name = 'CorruptFileError';
  readonly file: string;

  constructor(file: string, problem: string, options?: ErrorOptions) {
    super(problem, options);
    this.file = file;
  }

  /** The error of a start that the file prevents; `alternative`: what to do instead of repairing it. */
  asStoreError(folder: string, alternative: string): StoreError {
    return new StoreError(`${folder}/${this.file} ${this.message}; repair it, or ${alternative}`, { cause: this });
  }
}

/** Throws {@link StoreError} if a file is of a later version than this release reads, {@link CorruptFileError} for no version. */
export function requireVersion(file: string, version: unknown, known: number): void {
  if (version === known) return;
  if (typeof version !== 'number' || version < known) {
    throw new CorruptFileError(file, `has an unknown version: ${JSON.stringify(version)}`);
  }
  throw new StoreError(
    `${file} has version ${version}, but this release reads version ${known}: start the release that wrote it`,
  );
}

/** The files of one {@link JournaledFile}. */
export interface JournaledFileOptions {
  readonly files: Files;
  readonly folder: string;
  /** Name of the snapshot file: `registry.json`. */
  readonly snapshotName: string;
  /** Name of the journal files without their number: `registry.journal`. */
  readonly journalName: string;
  readonly log: StoreLog;
}

/** A moment at which one journal generation ended and the next began. */
export interface Checkpoint {
  /** The generation that ended; undefined when it had no records. */
  readonly ended: ChecksummedLog | undefined;
  /** The first generation whose records a snapshot of this moment lacks. */
  readonly generation: number;
}

/**
 * A snapshot file and a write-ahead journal beside it.
 *
 * The journal is split into numbered generations, one file each. A compaction starts the next generation and takes its
 * snapshot of the state at the same moment; the snapshot names the generation that follows it, and older generations are
 * removed only once the snapshot is in place. Whenever the process dies, the snapshot and the generations that follow it
 * contain every acknowledged record.
 *
 * Used in this order: {@link readSnapshot}, {@link replay}, then appends and compactions, one at a time.
 */
export class JournaledFile {
  readonly #options: JournaledFileOptions;
  #generation = 1;
  #current: ChecksummedLog;

  constructor(options: JournaledFileOptions) {
    this.#options = options;
    this.#current = this.#logOf(this.#generation);
  }

  get snapshotPath(): string {
    return join(this.#options.folder, this.#options.snapshotName);
  }

  /** The current generation of the journal. A record is appended as texts without line breaks. */
  get journal(): ChecksummedLog {
    return this.#current;
  }

  /** The generation that a compaction at this moment would begin with. */
  get nextGeneration(): number {
    return this.#current.length > 0 ? this.#generation + 1 : this.#generation;
  }

  /** Removes files of an interrupted compaction and returns the snapshot file, if there is one. */
  async readSnapshot(): Promise<ByteRange | undefined> {
    const { files, folder } = this.#options;
    await files.remove(`${this.snapshotPath}.tmp`);
    // A killed process may have left data in the page cache only: it must be durable before records depend on it.
    await files.syncFolder(folder);
    return ifExists(files.readInParts(this.snapshotPath));
  }

  /**
   * Passes the records of the generations that the snapshot lacks to `apply`, in order, and removes older generations.
   * `generation`: the first one to replay; undefined in a snapshot that was not written by this service: the journal
   * beside it is then assumed to follow it. Returns whether there were records. Throws {@link CorruptFileError}, or what
   * `apply` throws.
   */
  async replay(
    generation: number | undefined,
    apply: (line: ByteRange, file: string, offset: number) => Steps<void>,
  ): Promise<boolean> {
    const { files, folder, snapshotName, log } = this.#options;
    const generations = await this.#generations();
    const first = generation ?? generations[0] ?? 1;
    const slicer = new TimeSlicer();
    let next = first;
    for (const found of generations) {
      const file = this.#nameOf(found);
      const path = join(folder, file);
      if (found < first) {
        await files.remove(path);
        continue;
      }
      if (found !== next) {
        throw new CorruptFileError(file, `does not follow ${snapshotName}: expected ${this.#nameOf(next)}`);
      }
      await files.sync(path);
      const bytes = await files.readInParts(path);
      const torn = await slicer.run(readChecksummedLines(file, bytes, (line, offset) => apply(line, file, offset)));
      if (torn > 0) log.warn(`dropped an incomplete write at the end of ${file}`, { folder, bytes: torn });
      next = found + 1;
    }
    this.#generation = next;
    this.#current = this.#logOf(next);
    return next > first;
  }

  /**
   * Starts the next generation. The caller takes its snapshot of the state in the same turn of the event loop, with no
   * append in progress and no torn tail, which a restart could replay.
   */
  rotateJournal(): Checkpoint {
    const ended = this.#current.length > 0 ? this.#current : undefined;
    if (ended) this.#current = this.#logOf(++this.#generation);
    return { ended, generation: this.#generation };
  }

  /**
   * Replaces the snapshot file by `slices` (see {@link replaceFile}) and removes the generations that it contains. Returns its length.
   * Throws the system error; nothing is lost then.
   */
  async compact(
    { ended, generation }: Checkpoint,
    slices: Iterable<string>,
    beforeRename?: () => Promise<void>,
  ): Promise<number> {
    const { files, folder } = this.#options;
    await ended?.close();
    const length = await replaceFile(files, this.snapshotPath, slices, beforeRename);
    for (const found of await this.#generations()) {
      if (found < generation) await files.remove(join(folder, this.#nameOf(found)));
    }
    return length;
  }

  /**
   * Renames a corrupt file and everything that depends on it: for the snapshot all journals, for a journal the ones after it. They
   * share the time, so that they can be repaired together. Returns the number of renamed files; undefined if none was, since one has
   * one of these texts.
   */
  async setAside(corrupt: string, now: number, unless: readonly string[] = []): Promise<number | undefined> {
    const { files, folder, log } = this.#options;
    const from = this.#generationOf(corrupt) ?? 0;
    const journals = (await this.#generations()).filter((generation) => generation >= from);
    let renamed = 0;
    const names = new Set([corrupt, ...journals.map((generation) => this.#nameOf(generation))]);
    for (const name of unless.length === 0 ? [] : names) {
      const bytes = await ifExists(files.read(join(folder, name)));
      if (unless.some((text) => bytes?.includes(text))) return undefined;
    }
    for (const name of names) {
      const aside = `${name}.corrupt-${now}`;
      const renaming = files.rename(join(folder, name), join(folder, aside)).then(() => true);
      if (!(await ifExists(renaming))) continue;
      renamed++;
      log.error(`renamed corrupt file ${name} to ${aside}; starting without it`, { folder });
    }
    await files.syncFolder(folder);
    return renamed;
  }

  #logOf(generation: number): ChecksummedLog {
    const { files, folder } = this.#options;
    return new ChecksummedLog(files, join(folder, this.#nameOf(generation)));
  }

  #nameOf(generation: number): string {
    return `${this.#options.journalName}.${generation}`;
  }

  /** The generation of a journal file; undefined for other files. */
  #generationOf(file: string): number | undefined {
    const prefix = `${this.#options.journalName}.`;
    const digits = file.startsWith(prefix) ? file.slice(prefix.length) : '';
    return /^[1-9]\d{0,14}$/.test(digits) ? Number(digits) : undefined;
  }

  async #generations(): Promise<number[]> {
    const { files, folder } = this.#options;
    const found = (await files.list(folder)).map((file) => this.#generationOf(file));
    return found.filter((generation) => generation !== undefined).sort((a, b) => a - b);
  }
}

/** Separates the items of a JSON array whose texts are written one after the other. */
export function* jsonArray(items: Iterable<string>): Generator<string> {
  let separator = '[';
  for (const item of items) {
    yield `${separator}${item}`;
    separator = ',';
  }
  yield separator === '[' ? '[]' : ']';
}

/** A line is encoded and written in pieces of about this many characters, so that a large one does not block the loop. */
const PIECE_CHARACTERS = 64 * 1024;
/** A tab, then the CRC-32 of everything before it in eight hexadecimal digits. */
const CHECKSUM_BYTES = 9;
const LINE_FEED = 0x0a;

/**
 * A file of lines that become durable one by one, each with a checksum that distinguishes a complete line from a torn one.
 * One append at a time. The file is created with the first line and must not exist before.
 */
export class ChecksummedLog {
  readonly #files: Files;
  readonly path: string;
  #file: StoreFile | undefined;
  #length = 0;
  #isListed = false;
  #hasTornTail = false;

  /** The entry of the file in its folder becomes durable too. */
  constructor(files: Files, path: string) {
    this.#files = files;
    this.path = path;
  }

  /** Durable bytes. */
  get length(): number {
    return this.#length;
  }

  /** True while rejected bytes follow the durable ones: after a crash they could be replayed. */
  get hasTornTail(): boolean {
    return this.#hasTornTail;
  }

  /**
   * Makes one line durable: the texts joined. Throws the system error when the write fails; the partial write is then cut off,
   * and until that succeeds every further append fails too.
   */
  async append(texts: Iterable<string>): Promise<void> {
    await this.repairTail();
    try {
      this.#file ??= await this.#files.open(this.path, 'wx');
      let end = this.#length;
      for (const bytes of checksummedLine(texts)) {
        this.#hasTornTail = true;
        await this.#file.write(bytes, end);
        end += bytes.length;
      }
      await this.#file.datasync();
      if (!this.#isListed) await this.#files.syncFolder(dirname(this.path));
      this.#isListed = true;
      this.#length = end;
      this.#hasTornTail = false;
    } catch (error) {
      // A second failure is reported to the next caller.
      await this.repairTail().catch(() => undefined);
      throw error;
    }
  }

  /** Cuts off the rest of a failed write, durably. Throws the system error. */
  async repairTail(): Promise<void> {
    if (!this.#hasTornTail || !this.#file) return;
    await this.#file.truncate(this.#length);
    await this.#file.sync();
    this.#hasTornTail = false;
  }

  async close(): Promise<void> {
    await this.#file?.close();
  }
}

/** The bytes of one line of a {@link ChecksummedLog}. */
export function* checksummedLine(texts: Iterable<string>): Generator<Uint8Array> {
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
 * Reads the bytes of a {@link ChecksummedLog}: passes each line with its offset to `onLine` and returns the number of
 * bytes of a torn write at the end, which was never acknowledged. Throws {@link CorruptFileError} when intact lines
 * follow a broken one.
 */
export function* readChecksummedLines(
  file: string,
  bytes: ByteRange,
  onLine: (line: ByteRange, offset: number) => Steps<void>,
): Steps<number> {
  let broken: number | undefined;
  let start = 0;
  while (start < bytes.length) {
    const feed = yield* bytes.indexOf(LINE_FEED, start);
    const end = feed === -1 ? bytes.length : feed;
    const line = feed === -1 ? undefined : yield* verifiedLine(bytes.subrange(start, end));
    if (line === undefined) broken ??= start;
    else if (broken !== undefined) {
      throw new CorruptFileError(file, `is corrupt at byte ${broken} and has intact records after it`);
    } else yield* onLine(line, start);
    start = end + 1;
  }
  return broken === undefined ? 0 : bytes.length - broken;
}

function* verifiedLine(line: ByteRange): Steps<ByteRange | undefined> {
  const end = line.length - CHECKSUM_BYTES;
  if (end < 0) return undefined;
  let crc = 0;
  for (let at = 0; at < end; at += PIECE_CHARACTERS) {
    crc = crc32(line.read(at, Math.min(end, at + PIECE_CHARACTERS)), crc);
    yield;
  }
  const checksum = `\t${crc.toString(16).padStart(8, '0')}`;
  return line.toString(end) === checksum ? line.subrange(0, end) : undefined;
}
