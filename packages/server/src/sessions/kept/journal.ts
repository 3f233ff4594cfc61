import { join } from 'node:path';
import { Damage } from '../../registry/store/damage.ts';
import type { Files } from '../../registry/store/files.ts';
import { readSealedLines, SealedLines } from '../../registry/store/sealed-lines.ts';
import { recordsSchema, type SessionRecord } from './record.ts';

/** The file name of a generation of the sessions' journal. */
export function journalName(generation: number): string {
  return `sessions.journal.${generation}`;
}

/** The generations that there are files of, in order. */
export async function generationsIn(files: Files, folder: string): Promise<number[]> {
  const generations: number[] = [];
  for (const name of await files.list(folder)) {
    const digits = /^sessions\.journal\.([1-9]\d{0,14})$/.exec(name)?.[1];
    if (digits !== undefined) generations.push(Number(digits));
  }
  return generations.sort((a, b) => a - b);
}

/** Removes the generations before this one. Throws the system error. */
export async function removeGenerations(files: Files, folder: string, before: number): Promise<void> {
  for (const generation of await generationsIn(files, folder)) {
    if (generation < before) await files.remove(join(folder, journalName(generation)));
  }
}

/** One generation of the journal under way. A line is what one write made durable: the records of all who waited. */
export class SessionJournal {
  readonly generation: number;
  readonly path: string;
  readonly #lines: SealedLines;

  constructor(files: Files, folder: string, generation: number) {
    this.generation = generation;
    this.path = join(folder, journalName(generation));
    this.#lines = new SealedLines(files, folder, this.path);
  }

  /** Bytes that are durable in it. */
  get length(): number {
    return this.#lines.length;
  }

  /** False while a refused write lies behind the durable bytes: a crash before {@link mend} could bring it back. */
  get clean(): boolean {
    return this.#lines.clean;
  }

  /** Makes the records durable, all of them or none. Throws the system error when the disk refuses. */
  append(records: readonly SessionRecord[]): Promise<void> {
    return this.#lines.append(lineOf(records));
  }

  /** Cuts off what a refused write left, durably. Throws the system error. */
  mend(): Promise<void> {
    return this.#lines.mend();
  }

  close(): Promise<void> {
    return this.#lines.close();
  }
}

function* lineOf(records: readonly SessionRecord[]): Generator<string> {
  let separator = '[';
  for (const record of records) {
    yield `${separator}${JSON.stringify(record)}`;
    separator = ',';
  }
  yield ']';
}

/**
 * Hands over the records of a generation's bytes, in order. Returns how many bytes of an unfinished write lie at its
 * end. Throws {@link Damage} when anything else is broken.
 */
export function readRecords(name: string, bytes: Buffer, take: (record: SessionRecord) => void): number {
  return readSealedLines(name, bytes, (text, at) => {
    for (const record of parse(name, text, at)) take(record);
  });
}

function parse(name: string, text: string, at: number): SessionRecord[] {
  try {
    return recordsSchema.parse(JSON.parse(text));
  } catch (error) {
    throw new Damage(name, `holds an unknown record at byte ${at}`, { cause: error });
  }
}
