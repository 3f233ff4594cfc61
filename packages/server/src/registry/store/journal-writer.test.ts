import { expect, it } from 'vitest';
import { JournalWriter } from './journal-writer.ts';
import type { JournaledFile } from './journaled-file.ts';

const journal = {
  path: 'journal',
  length: 0,
  hasTornTail: false,
  append: async (line: Iterable<string>) => void [...line],
};

it.each([
  ['text', 'journal could not be written: wrong'],
  ['publication', 'wrong'],
] as const)('rejects a commit whose %s fails, and stores the next one', async (step, message) => {
  const applied: string[] = [];
  const writer = new JournalWriter({
    file: { journal, snapshotPath: 'snapshot' } as unknown as JournaledFile,
    publish: ({ publish }) => publish(),
    snapshot: () => [],
    checkWritable: async () => undefined,
    closed: 'closed',
    log: { warn: () => undefined, error: () => undefined },
    compaction: { fromBytes: 1e9 },
  });
  writer.open({ hasJournal: false, snapshotBytes: 0 });
  const put = (id: string) => {
    const failing = (where: string) => {
      if (id === 'bad' && where === step) throw new Error('wrong');
    };
    const change = {
      section: 'tools',
      id,
      get json() {
        failing('text');
        return '{}';
      },
    };
    const publish = () => {
      failing('publication');
      applied.push(id);
    };
    return writer.put({ changes: [change], publish });
  };
  await expect(put('bad')).rejects.toThrow(message);
  await put('good');
  expect(applied).toEqual(['good']);
});

it('tries a compaction that fails again after the next commit, not at once', async () => {
  let failures = 0;
  let checks = 0;
  const writer = new JournalWriter({
    file: { journal: { ...journal, length: 1 }, snapshotPath: 'snapshot' } as unknown as JournaledFile,
    publish: ({ publish }) => publish(),
    snapshot: () => [],
    // The lock is lost between a commit and its compaction.
    checkWritable: async () => {
      if (++checks % 2 === 0) throw new Error('lock lost');
    },
    closed: 'closed',
    log: { warn: () => undefined, error: () => failures++ },
    compaction: { fromBytes: 1 },
  });
  writer.open({ hasJournal: false, snapshotBytes: 0 });
  const change = { section: 'tools', id: 'a', json: '{}' } as const;
  for (const expected of [1, 2]) {
    await writer.put({ changes: [change], publish: () => undefined });
    await expect.poll(() => failures).toBe(expected);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(failures).toBe(expected);
  }
});
