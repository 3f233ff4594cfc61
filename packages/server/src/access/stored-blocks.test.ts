import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { FileLog } from '../registry/store/file-log.ts';
import { diskFiles } from '../registry/store/files.ts';
import { memoryLog, type RecordLog } from '../registry/store/record-log.ts';
import { type Blocked, StoredBlocks } from './stored-blocks.ts';

const RETAIN_MS = 10_000;
const log = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Opens blocks at a time that the test sets; `hidden` are the sets of forwards that were hidden. */
async function open(records: RecordLog, clock = { now: 1_000 }) {
  const hidden: string[][] = [];
  const registry = { hide: (forwards: ReadonlySet<string>) => void hidden.push([...forwards]) };
  const stored = new StoredBlocks({ registry, log, retainMs: RETAIN_MS, now: () => clock.now });
  await stored.open(records);
  onTestFinished(() => stored.close());
  return { stored, clock, hidden };
}

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-blocks-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

test('an acknowledged block survives SIGKILL, and so does its end', async () => {
  const folder = await newFolder();
  const options = { folder, files: diskFiles(), log };
  const written = await FileLog.open(options);
  onTestFinished(() => written.close());
  const first = await open(written);
  await first.stored.block('ann', { reason: 'r', by: 'root' });
  await first.stored.block('forward:crm', { until: 5_000 });
  await first.stored.block('bob', {});
  await first.stored.unblock('bob', 'root');

  // Nothing was closed.
  const second = await open(await FileLog.read(options));
  expect(second.stored.list()).toEqual([
    ['ann', { since: 1_000, reason: 'r', by: 'root' }],
    ['forward:crm', { since: 1_000, until: 5_000 }],
  ]);
  expect(second.hidden).toEqual([['crm']]);
  expect(second.stored.blocks.isBlocked({ id: 'ann' })).toBe(true);
  expect(second.stored.blocks.isBlocked({ id: 'bob' })).toBe(false);
  expect(second.stored.blocks.wasBlockedSince('bob', 1_000)).toBe(true);
});

test('the time of a block is forgotten when nothing older can be valid', async () => {
  const { stored, clock } = await open(memoryLog());
  await stored.block('ann', { until: 2_000 });
  clock.now = 2_000 + RETAIN_MS - 1;
  await stored.block('bob', {});
  expect(stored.blocks.wasBlockedSince('ann', 2_000)).toBe(true);
  clock.now++;
  expect([...stored.records()].map(({ id }) => id)).toEqual(['bob']);
  expect(stored.blocks.wasBlockedSince('ann', 2_000)).toBe(false);
});

test('a block that is renewed goes on; one after it was lifted is another', async () => {
  const { stored, clock } = await open(memoryLog());
  await stored.block('ann', { until: 2_000 });
  clock.now = 1_500;
  await stored.block('ann', {});
  expect(stored.blocks.active('ann')).toEqual({ since: 1_000 });
  expect(await stored.unblock('ann', undefined)).toEqual({ wasBlocked: true, unconfirmed: [] });
  expect(await stored.unblock('ann', undefined)).toEqual({ wasBlocked: false, unconfirmed: [] });
  clock.now = 3_000;
  await stored.block('ann', {});
  expect(stored.blocks.active('ann')).toMatchObject({ since: 3_000 });
});

test('a block is acknowledged once what was open has ended', async () => {
  const { stored } = await open(memoryLog());
  const ended = Promise.withResolvers<void>();
  const calls: Blocked[] = [];
  stored.onBlocked((blocked) => {
    calls.push(blocked);
    return ended.promise;
  });
  let isAcknowledged = false;
  const blocking = stored.block('ann', {}).then(() => {
    isAcknowledged = true;
  });
  await vi.waitFor(() => expect(calls).toEqual([{ id: 'ann', isForeign: false }]));
  await new Promise(setImmediate);
  expect(isAcknowledged).toBe(false);
  ended.resolve();
  await blocking;
  await stored.unblock('ann', undefined);
  expect(calls).toHaveLength(1);
});

test('blocked forwards are hidden until the end of the block', async () => {
  const { stored, hidden } = await open(memoryLog());
  await stored.block('forward:crm', {});
  await stored.block('ann', {});
  await stored.block('forward:wiki', {});
  await stored.unblock('forward:crm', undefined);
  await stored.unblock('ann', undefined);
  expect(hidden).toEqual([['crm'], ['crm', 'wiki'], ['wiki']]);
});

test('the number of blocks is limited', async () => {
  const { stored } = await open(memoryLog());
  for (let count = 0; count < 10_000; count += 100) {
    await Promise.all(Array.from({ length: 100 }, (_, at) => stored.block(`user-${count + at}`, {})));
  }
  await expect(stored.block('ann', {})).rejects.toMatchObject({ code: 'UNPROCESSABLE' });
  await stored.block('user-1', { until: 2_000 });
});
