import { crc32 } from 'node:zlib';
import { Damage } from './damage.ts';
import type { Files, StoreFile } from './files.ts';

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
export class SealedLines {
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
 * an unfinished write lie at the end, which nobody was told of. Throws {@link Damage} when a line is broken that others
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
    else if (broken !== undefined) throw new Damage(name, `is broken at byte ${broken}, with intact commits behind`);
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
