import { expect, it } from 'vitest';
import type { Steps } from '../steps.ts';
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
  const { result, count } = counted(readSnapshot(bytes));
  expect(count).toBeGreaterThanOrEqual(16);
  const tools = result.entries.tools[Symbol.iterator]();
  expect(tools.next().value).toBe(LARGE);
  expect(tools.next().value).toBe('{"name":"b"}');
  expect(tools.next().done).toBe(true);
});

it('a journal record is scanned in steps, and its changes are checked when they are read', () => {
  const put = { op: 'put', section: 'tools', json: LARGE };
  const line = Buffer.from(JSON.stringify([[put], [put, { op: 'other' }]]));
  const { result, count } = counted(readCommitRecord(line, 'registry.journal.1', 7));
  expect(count).toBeGreaterThanOrEqual(32);
  expect(result.map((changes) => changes[Symbol.iterator]().next().value)).toEqual([put, put]);
  expect(() => result.map((changes) => [...changes])).toThrow('has an unknown change at byte 7');
});

it.each(['', '{}', '[{}]', '[[1]', '[[1]]x'])('%j is no journal record', (text) => {
  expect(() => counted(readCommitRecord(Buffer.from(text), 'registry.journal.1', 0))).toThrow(
    'has an unknown change at byte 0',
  );
});
