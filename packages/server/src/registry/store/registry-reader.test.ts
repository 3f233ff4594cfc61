import { expect, it } from 'vitest';
import type { Steps } from '../steps.ts';
import { ByteRange } from './byte-range.ts';
import { readOperations } from './journal-line.ts';
import { readSnapshot } from './registry-reader.ts';

const LARGE = JSON.stringify({ name: 'large', text: 'x'.repeat(4 * 1024 * 1024) });

/** Runs all steps, and returns their result and number. */
function counted<T>(steps: Steps<T>): { readonly result: T; readonly count: number } {
  for (let count = 0; ; count++) {
    const { done, value } = steps.next();
    if (done) return { result: value, count };
  }
}

it('a snapshot is scanned in steps, whatever its entries are, and each entry is read by itself', () => {
  const bytes = Buffer.from(`{"tools":[${LARGE},{"name":"b"}]}`);
  const { result, count } = counted(readSnapshot(ByteRange.of(bytes)));
  expect(count).toBeGreaterThanOrEqual(16);
  const tools = Iterator.from(result.records.get('tools') ?? []);
  expect(tools.next().value?.json).toBe(LARGE);
  expect(tools.next().value?.json).toBe('{"name":"b"}');
  expect(tools.next().done).toBe(true);
});

it('characters that several pieces of a file divide are UTF-8, others are not', () => {
  const read = (bytes: Buffer) => counted(readSnapshot(ByteRange.of(bytes)));
  for (let length = 0; length < 8; length++) {
    // At the end of a piece, whatever it is, there is a part of a character of two, three or four bytes.
    const text = 'é€😀'.repeat(60_000);
    const bytes = Buffer.from(`{"tools":[{"name":"${'x'.repeat(length)}${text}"}]}`);
    expect(JSON.parse([...(read(bytes).result.records.get('tools') ?? [])][0]?.json ?? '').name).toBe(
      'x'.repeat(length) + text,
    );
    const broken = Buffer.from(bytes);
    // A byte of a character.
    broken[256 * 1024 + length] = 0x22;
    expect(() => read(broken)).toThrow('is not valid UTF-8');
  }
});

it('a line of a journal is scanned in steps, and its changes are checked when they are read', () => {
  const put = ['put', 'tools', 'large', LARGE];
  const line = Buffer.from(JSON.stringify([put, put, ['other']]));
  const { result, count } = counted(readOperations(ByteRange.of(line), 'registry.journal.1', 7));
  expect(count).toBeGreaterThanOrEqual(32);
  expect(Iterator.from(result).take(2).toArray()).toEqual([put, put]);
  expect(() => [...result]).toThrow('has an unknown record at byte 7');
});

it.each(['', '{}', '[{}]', '[[1]', '[[1]]x'])('%j is no line of a journal', (text) => {
  expect(() => [...counted(readOperations(ByteRange.of(Buffer.from(text)), 'registry.journal.1', 0)).result]).toThrow(
    'has an unknown record at byte 0',
  );
});
