import { expect, it } from 'vitest';
import { JournalWriter } from './journal-writer.ts';
import type { JournaledFile } from './journaled-file.ts';

const journal = { path: 'journal', length: 0, hasTornTail: false, append: async () => undefined };

it.each([
  ['batch', 'journal could not be written: wrong'],
  ['apply', 'wrong'],
] as const)('rejects a change whose %s fails, and stores the next one', async (step, message) => {
  const applied: string[] = [];
  const fail = (failing: boolean) => {
    if (failing) throw new Error('wrong');
  };
  const writer = new JournalWriter<{ name: string }>(
    { journal, snapshotPath: 'snapshot' } as unknown as JournaledFile,
    {
      batch(changes) {
        const names = changes.map(({ name }) => name);
        fail(step === 'batch' && names.includes('bad'));
        return {
          line: names,
          apply() {
            fail(step === 'apply' && names.includes('bad'));
            applied.push(...names);
          },
        };
      },
      snapshot: () => [],
    },
    { closed: 'closed', log: { warn: () => undefined, error: () => undefined }, compaction: { fromBytes: 1e9 } },
  );
  writer.open(false);
  await expect(writer.put({ name: 'bad' })).rejects.toThrow(message);
  await writer.put({ name: 'good' });
  expect(applied).toEqual(['good']);
});
