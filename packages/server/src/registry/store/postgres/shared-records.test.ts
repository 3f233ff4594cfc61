import { expect, test } from 'vitest';
import { z } from 'zod';
import type { SharedLog } from './shared-log.ts';
import { type ChangedRecord, SharedRecords } from './shared-records.ts';

const read = (json: string) => z.int().parse(JSON.parse(json));
const changeOf = (id: string, json: string | null) => ({ section: 'test', id, json });

async function open() {
  const unreadable: string[] = [];
  const log = {
    add: async () => undefined,
    commit: async ({ publish }: { publish: () => void }) => publish(),
    confirm: async () => ['stopped'],
    readRecord(_section: string, json: string, parse: (json: string) => unknown) {
      try {
        return parse(json);
      } catch {
        unreadable.push(json);
        return undefined;
      }
    },
  } as unknown as SharedLog;
  const records = await SharedRecords.open(log, 'test', read);
  const changes: ChangedRecord<number>[] = [];
  records.changed.subscribe((change) => changes.push(change));
  return { records, changes, unreadable };
}

test('changes of this replica and of others are events, in the order of their commits', async () => {
  const { records, changes } = await open();
  expect(await records.set('a', '1')).toEqual(['stopped']);
  await records.apply([changeOf('a', '2'), changeOf('b', '3'), changeOf('b', null)]);
  expect(changes).toEqual([
    { id: 'a', content: 1 },
    { id: 'a', content: 2 },
    { id: 'b', content: 3 },
    { id: 'b', content: undefined },
  ]);
  expect([...records.entries()]).toEqual([['a', 2]]);
});

test('a record that this version cannot read changes nothing here', async () => {
  const { records, changes, unreadable } = await open();
  await records.apply([changeOf('a', '1')]);
  await records.apply([changeOf('a', '"later"'), changeOf('b', '{'), changeOf('c', '4')]);
  expect(unreadable).toEqual(['"later"', '{']);
  expect([...records.entries()]).toEqual([
    ['a', 1],
    ['c', 4],
  ]);
  expect(changes).toHaveLength(2);
});
