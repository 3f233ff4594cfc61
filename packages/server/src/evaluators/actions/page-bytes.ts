import { readFileSync } from 'node:fs';
import { endianness } from 'node:os';

/** The entry of the auxiliary vector that has the size of a page. */
const AT_PAGESZ = 6n;
/** Of most systems. */
const USUAL = 4096;

/**
 * Bytes of a page, in which Linux counts the memory of processes: 4096, or 16 or 64 KiB with some kernels of arm64. The
 * usual size where it cannot be read.
 */
export function pageBytes(read: (path: string) => Buffer = readFileSync): number {
  try {
    const vector = read('/proc/self/auxv');
    const word = (at: number) => (endianness() === 'LE' ? vector.readBigUInt64LE(at) : vector.readBigUInt64BE(at));
    for (let at = 0; at + 16 <= vector.length; at += 16) if (word(at) === AT_PAGESZ) return Number(word(at + 8));
  } catch {
    // No Linux.
  }
  return USUAL;
}
