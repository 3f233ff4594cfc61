import { execFileSync } from 'node:child_process';
import { endianness } from 'node:os';
import { expect, it } from 'vitest';
import { pageSize } from './sandbox-process.ts';

/** An auxiliary vector of these entries. */
function vectorOf(...words: readonly number[]): Buffer {
  const vector = Buffer.alloc(words.length * 8);
  for (const [at, word] of words.entries()) {
    if (endianness() === 'LE') vector.writeBigUInt64LE(BigInt(word), at * 8);
    else vector.writeBigUInt64BE(BigInt(word), at * 8);
  }
  return vector;
}

it.runIf(process.platform === 'linux')('page size is that of getconf', () => {
  expect(pageSize()).toBe(Number(execFileSync('getconf', ['PAGESIZE'], { encoding: 'utf8' })));
});

it('page size is read from the auxiliary vector', () => {
  expect(pageSize(() => vectorOf(33, 4, 6, 65_536, 0, 0))).toBe(65_536);
});

it.each([
  ['the vector has no such entry', () => vectorOf(33, 6, 0, 0)],
  [
    'there is no such file',
    () => {
      throw new Error('ENOENT');
    },
  ],
])('page size is 4096 when %s', (_why, read) => {
  expect(pageSize(read)).toBe(4096);
});
