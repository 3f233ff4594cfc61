import { appendFile, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { runSteps } from '../steps.ts';
import { ByteRange } from './byte-range.ts';

const BLOCK = 256 * 1024;
/** Two blocks and a half; each byte depends on its position in a way that differs between blocks. */
const CONTENT = Buffer.from(Uint8Array.from({ length: 2.5 * BLOCK }, (_, at) => at % 251));
/** Around the ends of blocks, and of the file. */
const POSITIONS = [
  0,
  1,
  700,
  BLOCK - 1,
  BLOCK,
  BLOCK + 1,
  2 * BLOCK,
  2 * BLOCK + 9,
  CONTENT.length - 1,
  CONTENT.length,
];

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-bytes-'));
  path = join(folder, 'file');
  await writeFile(path, CONTENT);
});
afterEach(() => rm(folder, { recursive: true }));

it('parts of a file are those of its content, in any order', () => {
  const file = ByteRange.ofFile(path, CONTENT.length);
  for (const start of POSITIONS) {
    for (const end of POSITIONS.filter((position) => position >= start).toReversed()) {
      expect(file.read(start, end).equals(CONTENT.subarray(start, end)), `${start} to ${end}`).toBe(true);
      const part = file.subrange(start, end);
      expect(part.length).toBe(end - start);
      expect(part.read().equals(CONTENT.subarray(start, end)), `${start} to ${end}`).toBe(true);
    }
  }
});

it('a byte is found in each block, by its position in the part', async () => {
  await appendFile(path, Buffer.of(255, 1));
  const file = ByteRange.ofFile(path, CONTENT.length + 2);
  expect(runSteps(file.indexOf(255, 0))).toBe(CONTENT.length);
  expect(runSteps(file.subrange(BLOCK - 3, CONTENT.length + 1).indexOf(255, 5))).toBe(CONTENT.length - BLOCK + 3);
  expect(runSteps(file.subrange(3, CONTENT.length).indexOf(255, 0))).toBe(-1);
  expect(runSteps(ByteRange.of(CONTENT).indexOf(250, 251))).toBe(501);
});

it('a file that became shorter is an error', async () => {
  const file = ByteRange.ofFile(path, CONTENT.length);
  await truncate(path, BLOCK);
  expect(file.read(0, 10).length).toBe(10);
  expect(() => file.read(BLOCK, BLOCK + 10)).toThrow('became shorter while it was read');
});
