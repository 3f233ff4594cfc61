import { execFileSync } from 'node:child_process';
import { endianness } from 'node:os';
import { expect, it } from 'vitest';
import { pageBytes } from './sandbox-process.ts';

/** An auxiliary vector of these entries. */
function vectorOf(...words: readonly number[]): Buffer {
  const vector = Buffer.alloc(words.length * 8);
  for (const [at, word] of words.entries()) {
    if (endianness() === 'LE') vector.writeBigUInt64LE(BigInt(word), at * 8);
    else vector.writeBigUInt64BE(BigInt(word), at * 8);
  }
  return vector;
}

it.runIf(process.platform === 'linux')('is what the system says', () => {
  expect(pageBytes()).toBe(Number(execFileSync('getconf', ['PAGESIZE'], { encoding: 'utf8' })));
});

it('is that of the kernel', () => {
  expect(pageBytes(() => vectorOf(33, 4, 6, 65_536, 0, 0))).toBe(65_536);
});

it.each([
  ['it is not told', () => vectorOf(33, 6, 0, 0)],
  [
    'there is no such file',
    () => {
      throw new Error('ENOENT');
    },
  ],
])('is the usual one where %s', (_why, read) => {
  expect(pageBytes(read)).toBe(4096);
});
