import { join } from 'node:path';
import { Damage } from './damage.ts';
import type { Files } from './files.ts';
import { readSealedLines, SealedLines } from './sealed-lines.ts';
import { type Change, SECTIONS } from './store.ts';

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
  readonly #lines: SealedLines;

  constructor(files: Files, folder: string, generation: number) {
    this.#lines = new SealedLines(files, folder, join(folder, journalName(generation)));
    this.generation = generation;
  }

  /** True when it holds something. */
  get used(): boolean {
    return this.#lines.length > 0;
  }

  /** False while a refused write lies behind the durable bytes: a crash before {@link mend} could bring it back. */
  get clean(): boolean {
    return this.#lines.clean;
  }

  /**
   * Makes the commits durable. Throws the system error when the disk refuses; what was written is then taken back,
   * and while even that fails, every further attempt fails too.
   */
  append(commits: readonly (readonly Change[])[]): Promise<void> {
    return this.#lines.append(lineOf(commits));
  }

  /** Cuts off what a refused write left, durably. Throws the system error. */
  mend(): Promise<void> {
    return this.#lines.mend();
  }

  close(): Promise<void> {
    return this.#lines.close();
  }
}

/** The line that holds these commits, text by text. */
function* lineOf(commits: readonly (readonly Change[])[]): Generator<string> {
  let separator = '[';
  for (const changes of commits) {
    yield `${separator}[`;
    separator = '';
    for (const change of changes) {
      yield `${separator}${JSON.stringify(change)}`;
      separator = ',';
    }
    yield ']';
    separator = ',';
  }
  yield ']';
}

/**
 * The commits of a journal file. `torn` counts the bytes of an unfinished write at its end, which nobody was told of.
 * Throws {@link Damage} when a line is broken that others follow, or when a sealed line holds something unknown.
 */
export function readJournal(name: string, bytes: Buffer): { commits: Change[][]; torn: number } {
  const commits: Change[][] = [];
  const torn = readSealedLines(name, bytes, (text, at) => {
    for (const commit of readCommits(name, text, at)) commits.push(commit);
  });
  return { commits, torn };
}

function readCommits(name: string, text: string, at: number): Change[][] {
  const value = parseRecord(text);
  if (Array.isArray(value) && value.every(isCommit)) return value;
  throw new Damage(name, `holds an unknown change at byte ${at}`);
}

/** The JSON value of the text; undefined when it is none. */
function parseRecord(text: string): unknown {
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
