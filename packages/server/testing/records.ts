import { crc32 } from 'node:zlib';

/** A record of `records.snapshot`; the content is its exact text. */
export type StoredRecord = readonly [section: string, id: string, content: string];

/** A line of the file or of a journal. */
export function checksummed(text: string): string {
  return `${text}\t${crc32(text).toString(16).padStart(8, '0')}\n`;
}

/** The text of `records.snapshot` with these records. */
export function recordsFile(records: readonly StoredRecord[]): string {
  const puts = records.map((record) => ['put', ...record]);
  return `${checksummed('[["begin",1,1]]')}${checksummed(JSON.stringify([...puts, ['end']]))}`;
}

/** The records in a text of `records.snapshot`. */
export function recordsIn(text: string): StoredRecord[] {
  const lines = text.split('\n').filter((line) => line !== '');
  const operations: string[][] = lines.flatMap((line) => JSON.parse(line.slice(0, line.lastIndexOf('\t'))));
  return operations.flatMap(([op, section = '', id = '', content = '']): StoredRecord[] =>
    op === 'put' ? [[section, id, content]] : [],
  );
}
