import { describe, expect, it } from 'vitest';
import { checksummed, recordsFile } from '../../../testing/records.ts';
import { RecordedLog } from '../../registry/store/fixtures/recorded-log.ts';
import { type Fault, VolatileFiles } from '../../registry/store/fixtures/volatile-files.ts';
import { FolderSessions } from './fixtures/folder-sessions.ts';
import { folderWith } from './fixtures/folder-with.ts';
import type { SessionState } from './session-state.ts';
import type { SessionStore } from './session-store.ts';
import { SubscriptionQuota } from './subscription-quota.ts';

const FOLDER = '/kept';
const FOREVER = 8e15;

/** Counts operations by name of operation and file. */
function counting(): { fault: Fault; count: (operation: string, name?: string) => number } {
  const counts = new Map<string, number>();
  const count = (operation: string, name = ''): number =>
    [...counts].reduce((sum, [key, n]) => (key.startsWith(`${operation} ${name}`) ? sum + n : sum), 0);
  const fault: Fault = (operation, name) => {
    const key = `${operation} ${name}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
    return undefined;
  };
  return { fault, count };
}

function open(files: VolatileFiles, log = new RecordedLog()): Promise<SessionStore> {
  return FolderSessions.open({ folder: FOLDER, files, log });
}

function level(logLevel: string) {
  return (before: SessionState): SessionState => ({ ...before, logLevel });
}

function subscribe(uri: string) {
  return (before: SessionState): SessionState => ({
    ...before,
    subscriptions: [...before.subscriptions, { uri, forward: 'f' }],
  });
}

function journalBytes(files: VolatileFiles): number {
  return Object.entries(files.dump()).reduce(
    (sum, [name, text]) => (name.includes('journal') ? sum + text.length : sum),
    0,
  );
}

describe('the cost of a change', () => {
  it('is one write and one sync for simultaneous changes', async () => {
    const { fault, count } = counting();
    const store = await open(new VolatileFiles(undefined, fault));
    await Promise.all(Array.from({ length: 200 }, (_, i) => store.change(`s${i}`, FOREVER, level('info'))));
    expect([count('write'), count('datasync')]).toEqual([1, 1]);
    await Promise.all(Array.from({ length: 200 }, (_, i) => store.change(`s${i}`, FOREVER, 'end')));
    expect([count('write'), count('datasync')]).toEqual([2, 2]);
  });

  it('is shared by changes made during a write', async () => {
    const { fault, count } = counting();
    const store = await open(new VolatileFiles(undefined, fault));
    const first = store.change('first', FOREVER, 'end');
    for (let turn = 0; turn < 10; turn++) await Promise.resolve();
    expect(count('write')).toBe(1);
    await Promise.all([first, ...Array.from({ length: 50 }, (_, i) => store.change(`s${i}`, FOREVER, 'end'))]);
    expect(count('write')).toBe(2);
  });

  it('is independent of the number of stored sessions and the size of a session', async () => {
    const files = new VolatileFiles();
    const store = await open(files);
    const costs: number[] = [];
    await store.change('a', FOREVER, level('info'));
    for (let round = 0; round < 3; round++) {
      const before = journalBytes(files);
      await store.change('a', FOREVER, subscribe(`uri ${round}`));
      costs.push(journalBytes(files) - before);
      await Promise.all(Array.from({ length: 500 }, (_, i) => store.change(`s${round}-${i}`, FOREVER, 'end')));
      await store.change('a', FOREVER, (state) =>
        Array.from({ length: 200 }, (_, i) => subscribe(`u${round}-${i}`)).reduce((s, next) => next(s), state),
      );
    }
    expect(new Set(costs).size).toBe(1);
  });

  it('is nothing without differences', async () => {
    const { fault, count } = counting();
    const store = await open(new VolatileFiles(undefined, fault));
    await store.change('a', FOREVER, subscribe('u'));
    await store.change('a', FOREVER, subscribe('u'));
    await store.change('a', FOREVER, (before) => before);
    await store.change('b', FOREVER, (before) => before);
    expect(count('write')).toBe(1);
  });

  it('is not a new snapshot: a thousand changes make none, ten thousand a few', async () => {
    const { fault, count } = counting();
    const files = new VolatileFiles(undefined, fault);
    const store = await open(files);
    for (let i = 0; i < 1_000; i++) await store.change(`s${i}`, FOREVER, level('info'));
    expect(count('rename')).toBe(0);
    for (let i = 1_000; i < 10_000; i += 100) {
      await Promise.all(Array.from({ length: 100 }, (_, j) => store.change(`s${i + j}`, FOREVER, level('info'))));
    }
    expect(count('rename')).toBeGreaterThan(0);
    expect(count('rename')).toBeLessThan(6);
    // Disk use, too, is proportional to the live sessions: repeated changes of one session do not fill the disk.
    for (let i = 0; i < 300; i++) {
      await Promise.all(Array.from({ length: 100 }, (_, j) => store.change('s0', FOREVER, level(`${i} ${j}`))));
    }
    const { 'records.snapshot': snapshot = '' } = files.dump();
    expect(journalBytes(files)).toBeLessThan(2 * snapshot.length);
    expect((await open(files.after('lost'))).sessions.state('s0')?.logLevel).toBe('299 99');
  });
});

it('subscriptions count for the same owners after a restart', async () => {
  const files = new VolatileFiles();
  const reopen = (log = new RecordedLog()) =>
    FolderSessions.open({
      folder: FOLDER,
      files,
      log,
      subscriptions: new SubscriptionQuota({ count: 5, bytes: 99 }),
    });
  const ann = { namespace: 'a', name: 'ann' };
  const bob = { namespace: 'b', name: 'bob' };
  const first = await reopen();
  for (const uri of ['u1', 'u2', 'u3']) await first.change('of ann', FOREVER, subscribe(uri), ann);
  await expect(first.change('of ann', FOREVER, subscribe('u4'), ann)).rejects.toThrow(
    'too many resource subscriptions',
  );
  await first.close();

  const second = await reopen();
  await expect(second.change('of ann', FOREVER, subscribe('u4'), ann)).rejects.toThrow(
    'too many resource subscriptions',
  );
  await second.change('of bob', FOREVER, subscribe('v'), bob);
  // As after a crash: only the journal has it.
  const third = await reopen();
  const uris = (id: string) => third.sessions.state(id)?.subscriptions.map(({ uri }) => uri);
  expect([uris('of ann'), uris('of bob')]).toEqual([['u1', 'u2', 'u3'], ['v']]);
  await expect(third.change('of ann', FOREVER, subscribe('u4'), ann)).rejects.toThrow(
    'too many resource subscriptions',
  );
});

it.each(['closed', 'killed'])(
  'an ended session whose end was forgotten has ended after a restart too (%s)',
  async (how) => {
    const files = new VolatileFiles();
    const reopen = () =>
      FolderSessions.open({ folder: FOLDER, files, log: new RecordedLog(), maxEnded: 10, compactFromBytes: 300 });
    const ann = { namespace: 'a', name: 'ann' };
    const bob = { namespace: 'a', name: 'bob' };
    const store = await reopen();
    for (let n = 0; n < 50; n++) await store.change(`s${n}`, FOREVER - 50 + n, 'end', ann);
    if (how === 'closed') await store.close();
    const again = await reopen();
    for (const { sessions } of [store, again]) {
      expect(sessions.entries().length).toBe(6);
      for (let n = 0; n < 50; n++)
        expect(sessions.hasEnded(`s${n}`, { holder: ann, expires: FOREVER - 50 + n })).toBe(true);
      expect(sessions.hasEnded('older', { holder: ann, expires: 1 })).toBe(true);
      expect(sessions.hasEnded('newer', { holder: ann, expires: FOREVER })).toBe(false);
      expect(sessions.hasEnded('other', { holder: bob, expires: 1 })).toBe(false);
    }
    if (how === 'killed') await again.close();
  },
);

/** The file with a session. */
const withSession = (json: string) => recordsFile([['sessions', 'a', json]]);

describe('folder contents', () => {
  it('drops an incomplete last line of the journal, which was never acknowledged', async () => {
    const files = new VolatileFiles();
    const first = await open(files);
    await first.change('a', FOREVER, subscribe('u'));
    const whole = (await files.read(`${FOLDER}/records.journal.1`)).length;
    await first.change('a', FOREVER, 'end');
    const bytes = await files.read(`${FOLDER}/records.journal.1`);
    for (let length = whole; length <= bytes.length; length++) {
      const log = new RecordedLog();
      const left = await folderWith({ 'records.journal.1': bytes.subarray(0, length) });
      const again = await open(left, log);
      const finished = length === bytes.length;
      expect([again.sessions.hasEnded('a'), again.sessions.state('a')?.subscriptions.length]).toEqual(
        finished ? [true, undefined] : [false, 1],
      );
      const torn = 'warn dropped an incomplete write at the end of records.journal.1';
      expect(log.lines).toEqual(finished || length === whole ? [] : [torn]);
      // The start has compacted it: the torn line can never precede others.
      expect(Object.keys(left.dump())).toEqual(['records.snapshot']);
    }
  });

  it('is not a journal that is broken before its end', async () => {
    const files = new VolatileFiles();
    const first = await open(files);
    await first.change('a', FOREVER, 'end');
    await first.change('b', FOREVER, 'end');
    const bytes = await files.read(`${FOLDER}/records.journal.1`);
    bytes[bytes.indexOf('"a"') + 1] = 'x'.charCodeAt(0);
    await expect(open(await folderWith({ 'records.journal.1': bytes }))).rejects.toMatchObject({
      name: 'StoreError',
      message: expect.stringMatching(
        /^\/kept\/records\.journal\.1 is corrupt at byte 0.*; repair it, or set SERVICE_PERSIST_RECOVER/,
      ),
    });
  });

  it.each([
    ['{"version":2,"sessions":{', /records.snapshot is corrupt at byte 0/],
    [checksummed('[["begin",1,1]]'), /records.snapshot is incomplete/],
    [checksummed('[["end"]]'), /records.snapshot has an unknown record at byte 0/],
    [checksummed('[["begin",0,1]]'), /records.snapshot has an unknown version: 0/],
    [checksummed('[["begin",1,0]]'), /records.snapshot has an unknown record at byte 0/],
    [checksummed('[["begin",1,1],["patch","sessions","a",{}],["end"]]'), /has an unknown record at byte 0/],
    [checksummed('[["begin",2,1]]'), /records\.snapshot has version 2, but this release reads version 1/],
    [withSession('{'), /has sessions that cannot be used: "a" is not valid JSON/],
    [withSession('{"kind":"ended","expires":"soon"}'), /has sessions that cannot be used: "a"\.expires/],
    [withSession('{"kind":"changed","expires":1,"state":{"subscriptions":{"u":1}}}'), /cannot be used: "a"\./],
  ])('is not a records.snapshot of %s', async (content, message) => {
    const opening = open(await folderWith({ 'records.snapshot': content }));
    await expect(opening).rejects.toMatchObject({ name: 'StoreError', message: expect.stringMatching(message) });
    await expect(opening).rejects.toThrow(/^[^\n]*records\.snapshot[^\n]*$/);
  });

  it('can be read after a damaged file was removed, as the message says', async () => {
    const files = new VolatileFiles();
    const first = await open(files);
    await first.change('a', FOREVER, 'end');
    const { 'records.journal.1': journal = '' } = files.dump();
    const again = await open(await folderWith({ 'records.journal.7': journal }));
    expect(again.sessions.hasEnded('a')).toBe(true);
    await again.change('b', FOREVER, 'end');
    await again.close();
  });
});

describe('a failing disk', () => {
  it('leaves everything unchanged and is retried', async () => {
    let full = false;
    const files = new VolatileFiles(undefined, (operation) => (full && operation === 'write' ? 'ENOSPC' : undefined));
    const store = await open(files);
    await store.change('a', FOREVER, level('info'));
    full = true;
    const rejected = [
      store.change('a', FOREVER, level('debug')),
      store.change('a', FOREVER, subscribe('u')),
      store.change('b', FOREVER, 'end'),
    ];
    for (const { status, reason } of (await Promise.allSettled(rejected)).map((r) => ({ reason: '', ...r }))) {
      expect(status).toBe('rejected');
      expect(reason).toMatchObject({
        name: 'StoreError',
        message: expect.stringMatching(/^\/kept\/records\.journal\.1 could not be written: ENOSPC/),
      });
    }
    expect([store.sessions.state('a'), store.sessions.hasEnded('b')]).toEqual([
      { logLevel: 'info', subscriptions: [] },
      false,
    ]);
    full = false;
    await store.change('a', FOREVER, subscribe('v'));
    const again = await open(files.after('lost'));
    expect(again.sessions.state('a')).toEqual({ logLevel: 'info', subscriptions: [{ uri: 'v', forward: 'f' }] });
    expect(again.sessions.hasEnded('b')).toBe(false);
  });

  it('still ends sessions while only the compaction fails, and loses nothing', async () => {
    let full = true;
    const files = new VolatileFiles(undefined, (operation, name) =>
      full && operation === 'open' && name === 'records.snapshot.tmp' ? 'ENOSPC' : undefined,
    );
    const first = await open(files);
    await first.change('a', FOREVER, 'end');
    const log = new RecordedLog();
    const second = await open(files, log);
    expect(log.lines).toEqual(['error /kept/records.snapshot could not be written; changes stay in the journal']);
    await second.change('b', FOREVER, 'end');
    await expect(second.close()).rejects.toThrow('/kept/records.snapshot could not be written: ENOSPC');
    full = false;
    const third = await open(files);
    expect([third.sessions.hasEnded('a'), third.sessions.hasEnded('b')]).toEqual([true, true]);
    expect(Object.keys(files.dump())).toEqual(['records.snapshot']);
  });

  it('cleans up at the end what it could not roll back before', async () => {
    let broken = false;
    const files = new VolatileFiles(undefined, (operation) =>
      broken && ['datasync', 'truncate'].includes(operation) ? 'EIO' : undefined,
    );
    const store = await open(files);
    broken = true;
    await expect(store.change('refused', FOREVER, 'end')).rejects.toThrow('EIO');
    expect(files.dump()['records.journal.1']).toContain('refused');
    broken = false;
    await store.close();
    expect(JSON.stringify(files.dump())).not.toContain('refused');
    expect((await open(files)).sessions.hasEnded('refused')).toBe(false);
  });

  it('does not compact a journal that contains a rejected change', async () => {
    const pending: (() => void)[] = [];
    class BlockedFiles extends VolatileFiles {
      override async rename(from: string, to: string): Promise<void> {
        await new Promise<void>((resolve) => pending.push(resolve));
        await super.rename(from, to);
      }
    }
    let broken = false;
    const files = new BlockedFiles(undefined, (operation) =>
      broken && ['datasync', 'truncate'].includes(operation) ? 'EIO' : undefined,
    );
    const log = new RecordedLog();
    const store = await FolderSessions.open({ folder: FOLDER, files, log, now: () => 0, compactFromBytes: 300 });
    // The second generation grows until the compaction of the first has finished.
    for (let i = 0; i < 20; i++) await store.change('a', FOREVER, level(`level ${i}`));
    expect(pending.length).toBe(1);
    pending[0]?.();
    await new Promise((resolve) => setImmediate(resolve));
    expect(Object.keys(files.dump()).sort()).toEqual(['records.journal.2', 'records.snapshot']);
    broken = true;
    await expect(store.change('refused', FOREVER, 'end')).rejects.toThrow('EIO');
    broken = false;
    await store.change('b', FOREVER, 'end');
    const again = await open(files.after('killed'));
    expect([
      again.sessions.hasEnded('refused'),
      again.sessions.hasEnded('b'),
      again.sessions.state('a')?.logLevel,
    ]).toEqual([false, true, 'level 19']);
  });

  it('exposes only durable records, also when it cannot compact at start', async () => {
    let written: VolatileFiles | undefined;
    const files: VolatileFiles = new VolatileFiles(() => {
      if (files.dump()['records.journal.1']) written ??= files.after('killed', undefined, noFold);
    });
    const noFold: Fault = (operation, name) => (operation === 'open' && name.endsWith('.tmp') ? 'ENOSPC' : undefined);
    await (await open(files)).change('a', FOREVER, 'end');
    if (!written) throw new Error('nothing was written');
    // Killed between write and sync: the end may or may not have happened, but once exposed it has.
    expect((await open(written.after('lost'))).sessions.hasEnded('a')).toBe(false);
    expect((await open(written)).sessions.hasEnded('a')).toBe(true);
    expect((await open(written.after('lost'))).sessions.hasEnded('a')).toBe(true);
  });
});
