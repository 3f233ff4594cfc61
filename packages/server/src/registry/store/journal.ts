import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { Damage } from './damage.ts';
import type { Files, StoreFile } from './files.ts';
import { type Change, SECTIONS } from './store.ts';

/** A journal line is made and written in pieces of about this many characters, so that a huge commit holds nobody up. */
const PIECE_CHARACTERS = 256 * 1024;
/** Tab, then the CRC-32 of all before it in eight hexadecimal digits. */
const SEAL_BYTES = 9;
const LINE_FEED = 0x0a;

/** The file name of a journal generation. */
export function journalName(generation: number): string {
  return `registry.journal.${generation}`;
}

/** The generation that a file name stands for; undefined for other files. */
export function journalGeneration(name: string): number | undefined {
  const digits = /^registry\.journal\.([1-9]\d{0,14})$/.exec(name)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/**
 * One generation of the journal under way. A line is what one write made durable: the commits of all who waited, as
 * `[[change, …], …]`, sealed with a checksum. Lines are written one after the other by one caller.
 */
export class Journal {
  readonly generation: number;
  readonly #files: Files;
  readonly #folder: string;
  #file: StoreFile | undefined;
  /** Bytes that are durable. What lies behind them was refused. */
  #length = 0;
  #listed = false;
  #unclean = false;

  constructor(files: Files, folder: string, generation: number) {
    this.#files = files;
    this.#folder = folder;
    this.generation = generation;
  }

  /** True when it holds something. */
  get used(): boolean {
    return this.#length > 0;
  }

  /** False while a refused write lies behind the durable bytes: a crash before {@link mend} could bring it back. */
  get clean(): boolean {
    return !this.#unclean;
  }

  /**
   * Makes the commits durable. Throws the system error when the disk refuses; what was written is then taken back,
   * and while even that fails, every further attempt fails too.
   */
  async append(commits: readonly (readonly Change[])[]): Promise<void> {
    await this.mend();
    try {
      this.#file ??= await this.#files.open(join(this.#folder, journalName(this.generation)), 'wx');
      let end = this.#length;
      for (const bytes of sealedLine(commits)) {
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

/** Pieces of the line that holds these commits, the last one sealed. */
function* sealedLine(commits: readonly (readonly Change[])[]): Generator<Uint8Array> {
  let text = '';
  let crc = 0;
  let separator = '[';
  for (const changes of commits) {
    text += `${separator}[`;
    separator = '';
    for (const change of changes) {
      text += `${separator}${JSON.stringify(change)}`;
      separator = ',';
      if (text.length < PIECE_CHARACTERS) continue;
      const piece = Buffer.from(text);
      crc = crc32(piece, crc);
      yield piece;
      text = '';
    }
    text += ']';
    separator = ',';
  }
  const rest = Buffer.from(`${text}]`);
  crc = crc32(rest, crc);
  yield Buffer.concat([rest, Buffer.from(`\t${crc.toString(16).padStart(8, '0')}\n`)]);
}

/**
 * The commits of a journal file. `torn` counts the bytes of an unfinished write at its end, which nobody was told of.
 * Throws {@link Damage} when a line is broken that others follow, or when a sealed line holds something unknown.
 */
export function readJournal(name: string, bytes: Buffer): { commits: Change[][]; torn: number } {
  const commits: Change[][] = [];
  let broken: number | undefined;
  let start = 0;
  while (start < bytes.length) {
    const feed = bytes.indexOf(LINE_FEED, start);
    const end = feed === -1 ? bytes.length : feed;
    const line = feed === -1 ? undefined : unsealed(bytes.subarray(start, end));
    if (line === undefined) broken ??= start;
    else if (broken !== undefined) throw new Damage(name, `is broken at byte ${broken}, with intact commits behind`);
    else commits.push(...readCommits(name, line, start));
    start = end + 1;
  }
  return { commits, torn: broken === undefined ? 0 : bytes.length - broken };
}

function unsealed(line: Buffer): string | undefined {
  const end = line.length - SEAL_BYTES;
  if (end < 0) return undefined;
  const body = line.subarray(0, end);
  const seal = `\t${crc32(body).toString(16).padStart(8, '0')}`;
  return line.toString('latin1', end) === seal ? body.toString() : undefined;
}

function readCommits(name: string, text: string, at: number): Change[][] {
  const value = parse(text);
  if (Array.isArray(value) && value.every(isCommit)) return value;
  throw new Damage(name, `holds an unknown change at byte ${at}`);
}

/** The JSON value of the text; undefined when it is none. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isCommit(value: unknown): value is Change[] {
  return Array.isArray(value) && value.every(isChange);
}

function isChange(value: unknown): value is Change {
  if (typeof value !== 'object' || value === null) return false;
  const { op, section, json, id }: { op?: unknown; section?: unknown; json?: unknown; id?: unknown } = value;
  if (!SECTIONS.some((known) => known === section)) return false;
  return op === 'put' ? typeof json === 'string' : op === 'remove' && typeof id === 'string';
}
