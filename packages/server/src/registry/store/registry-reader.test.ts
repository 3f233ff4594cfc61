import { expect, it } from 'vitest';
import type { Steps } from '../steps.ts';
import { ByteRange } from './byte-range.ts';
import { snapshotSlices } from './registry-file.ts';
import { readCommitRecord, readSnapshot } from './registry-reader.ts';
import { noEntries } from './store.ts';

const LARGE = JSON.stringify({ name: 'large', text: 'x'.repeat(4 * 1024 * 1024) });

/** Runs all steps, and returns their result and number. */
function counted<T>(steps: Steps<T>): { readonly result: T; readonly count: number } {
  for (let count = 0; ; count++) {
    const { done, value } = steps.next();
    if (done) return { result: value, count };
  }
}

it('a snapshot is scanned in steps, whatever its entries are, and each entry is read by itself', () => {
  const bytes = Buffer.from([...snapshotSlices({ ...noEntries(), tools: [LARGE, '{"name":"b"}'] }, [], 1)].join(''));
  const { result, count } = counted(readSnapshot(ByteRange.of(bytes)));
  expect(count).toBeGreaterThanOrEqual(16);
  const tools = result.entries.tools[Symbol.iterator]();
  expect(tools.next().value).toBe(LARGE);
  expect(tools.next().value).toBe('{"name":"b"}');
  expect(tools.next().done).toBe(true);
});

it('characters that several pieces of a file divide are UTF-8, others are not', () => {
  const read = (bytes: Buffer) => counted(readSnapshot(ByteRange.of(bytes)));
  for (let length = 0; length < 8; length++) {
    // At the end of a piece, whatever it is, there is a part of a character of two, three or four bytes.
    const text = 'é€😀'.repeat(60_000);
    const bytes = Buffer.from(`{"tools":[{"name":"${'x'.repeat(length)}${text}"}]}`);
    expect(JSON.parse([...read(bytes).result.entries.tools][0] ?? '').name).toBe('x'.repeat(length) + text);
    const broken = Buffer.from(bytes);
    // A byte of a character.
    broken[256 * 1024 + length] = 0x22;
    expect(() => read(broken)).toThrow('is not valid UTF-8');
  }
});

it('a journal record is scanned in steps, and its changes are checked when they are read', () => {
  const put = { op: 'put', section: 'tools', json: LARGE };
  const line = Buffer.from(JSON.stringify([[put], [put, { op: 'other' }]]));
  const { result, count } = counted(readCommitRecord(ByteRange.of(line), 'registry.journal.1', 7));
  expect(count).toBeGreaterThanOrEqual(32);
  expect(result.map((changes) => changes[Symbol.iterator]().next().value)).toEqual([put, put]);
  expect(() => result.map((changes) => [...changes])).toThrow('has an unknown change at byte 7');
});

it.each(['', '{}', '[{}]', '[[1]', '[[1]]x'])('%j is no journal record', (text) => {
  expect(() => counted(readCommitRecord(ByteRange.of(Buffer.from(text)), 'registry.journal.1', 0))).toThrow(
    'has an unknown change at byte 0',
  );
});
