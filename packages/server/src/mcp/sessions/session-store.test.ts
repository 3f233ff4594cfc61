import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { recordsIn } from '../../../testing/records.ts';
import { RecordedLog } from '../../registry/store/fixtures/recorded-log.ts';
import { trackedFiles } from '../../registry/store/fixtures/tracked-files.ts';
import { FolderSessions } from './fixtures/folder-sessions.ts';
import { memorySessions } from './fixtures/memory-sessions.ts';
import { type SessionState, STATE_LIMITS } from './session-state.ts';
import type { SessionStore } from './session-store.ts';

let folder: string;
let files: ReturnType<typeof trackedFiles>;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-kept-'));
  files = trackedFiles();
});
afterEach(async () => {
  await files.closeAll().catch(() => undefined);
  await rm(folder, { recursive: true });
});

const FOREVER = 8e15;

function subscribe(uri: string, forward = 'f') {
  return (before: SessionState): SessionState => ({
    ...before,
    subscriptions: [...before.subscriptions, { uri, forward }],
  });
}

function level(logLevel: string | undefined) {
  return (before: SessionState): SessionState => ({ ...before, logLevel });
}

function inFolder(now?: () => number): Promise<SessionStore> {
  return FolderSessions.open({ folder, files, log: new RecordedLog(), ...(now && { now }) });
}

function uris(store: SessionStore, id: string): string[] | undefined {
  return store.sessions
    .state(id)
    ?.subscriptions.map(({ uri }) => uri)
    .sort();
}

describe.each([
  ['in memory', async (now?: () => number) => memorySessions(now && { now })],
  ['in a folder', inFolder],
])('sessions stored %s', (_where, make) => {
  it('are not changed or ended before the change is applied', async () => {
    const store = await make();
    expect([store.sessions.hasEnded('a'), store.sessions.state('a')]).toEqual([false, undefined]);
    await store.change('a', FOREVER, level('debug'));
    await store.change('a', FOREVER, subscribe('file:///one', 'files'));
    expect(store.sessions.state('a')).toEqual({
      logLevel: 'debug',
      subscriptions: [{ uri: 'file:///one', forward: 'files' }],
    });
    expect([store.sessions.hasEnded('a'), store.sessions.state('b')]).toEqual([false, undefined]);
    await store.close();
  });

  it('apply the changes of a session in the order of the calls, each on the one before', async () => {
    const store = await make();
    const seen: (string | undefined)[] = [];
    await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        store.change('a', FOREVER, (before) => {
          seen.push(before.logLevel);
          return { ...before, logLevel: `l${i}` };
        }),
      ),
    );
    expect(seen).toEqual([undefined, ...Array.from({ length: 19 }, (_, i) => `l${i}`)]);
    expect(store.sessions.state('a')?.logLevel).toBe('l19');
    await store.close();
  });

  it('contain each uri once, at its most recent forward', async () => {
    const store = await make();
    await store.change('a', FOREVER, subscribe('u', 'one'));
    await store.change('a', FOREVER, subscribe('u', 'two'));
    expect(store.sessions.state('a')?.subscriptions).toEqual([{ uri: 'u', forward: 'two' }]);
    await store.close();
  });

  it('store nothing for a session in its initial state', async () => {
    const store = await make();
    await store.change('a', FOREVER, subscribe('u'));
    await store.change('a', FOREVER, level('info'));
    await store.change('a', FOREVER, () => ({ subscriptions: [] }));
    expect(store.sessions.state('a')).toBeUndefined();
    await store.close();
  });

  it('drop the state of an ended session and reject further changes', async () => {
    const store = await make();
    await store.change('a', FOREVER, level('info'));
    const [ended, late] = await Promise.allSettled([
      store.change('a', FOREVER, 'end'),
      store.change('a', FOREVER, level('debug')),
    ]);
    expect(ended.status).toBe('fulfilled');
    expect(late).toMatchObject({ reason: { name: 'SessionStateError', reason: 'ended' } });
    await store.change('a', FOREVER, 'end');
    expect([store.sessions.hasEnded('a'), store.sessions.state('a')]).toEqual([true, undefined]);
    await store.close();
  });

  it('limit the number of subscriptions', async () => {
    const store = await make();
    const all = Array.from({ length: STATE_LIMITS.subscriptions }, (_, i) => ({ uri: `u${i}`, forward: 'f' }));
    await store.change('a', FOREVER, () => ({ subscriptions: all }));
    await expect(store.change('a', FOREVER, subscribe('one more'))).rejects.toMatchObject({
      name: 'SessionStateError',
      reason: 'too_many_subscriptions',
    });
    await store.change('a', FOREVER, subscribe('u0', 'another'));
    expect(store.sessions.state('a')?.subscriptions).toHaveLength(STATE_LIMITS.subscriptions);
    await store.close();
  });

  it('limit the size of a state', async () => {
    const store = await make();
    await store.change('a', FOREVER, subscribe('u'));
    const huge = '\u0001'.repeat(STATE_LIMITS.bytes / 6);
    for (const change of [subscribe(huge), subscribe('v', huge), level(huge)]) {
      await expect(store.change('a', FOREVER, change)).rejects.toMatchObject({ reason: 'too_large' });
    }
    expect(store.sessions.state('a')).toEqual({ subscriptions: [{ uri: 'u', forward: 'f' }] });
    await store.close();
  });

  it('propagate errors of a change and apply the others', async () => {
    const store = await make();
    const failed = store.change('a', FOREVER, () => {
      throw new Error('not so');
    });
    const others = [store.change('a', FOREVER, subscribe('u')), store.change('b', FOREVER, subscribe('v'))];
    await expect(failed).rejects.toThrow('not so');
    await Promise.all(others);
    expect([uris(store, 'a'), uris(store, 'b')]).toEqual([['u'], ['v']]);
    await store.close();
  });
});

describe('sessions stored in a folder', () => {
  it('survive a restart, also an unclean one', async () => {
    const first = await inFolder();
    await first.change('gone', FOREVER, 'end');
    await first.change('a', FOREVER, subscribe('☕\n"\ud800'));
    await first.change('a', FOREVER, subscribe('v', 'g'));
    await first.change('a', FOREVER, level('warning'));
    await first.change('b', FOREVER, subscribe('w'));
    // Not closed: killed.
    for (let restart = 0; restart < 3; restart++) {
      const again = await inFolder();
      expect(again.sessions.hasEnded('gone')).toBe(true);
      expect(again.sessions.state('a')?.logLevel).toBe('warning');
      expect([uris(again, 'a'), uris(again, 'b')]).toEqual([['v', '☕\n"\ud800'], ['w']]);
      if (restart > 0) await again.close();
    }
    const third = await inFolder();
    await third.change('a', FOREVER, (before) => ({ subscriptions: before.subscriptions.slice(0, 1) }));
    await third.change('b', FOREVER, 'end');
    const fourth = await inFolder();
    expect(fourth.sessions.state('a')).toEqual(third.sessions.state('a'));
    expect(fourth.sessions.hasEnded('b')).toBe(true);
    await fourth.close();
  });

  it('lie in one readable file once it is closed, for the owner alone', async () => {
    const store = await inFolder();
    const holder = { namespace: 'n', name: 'ann' };
    await store.change('a', 5e15, 'end', holder);
    await store.change('b', 6e15, (before) => level('info')(subscribe('u', 'g')(before)), holder);
    await store.close();
    const records = recordsIn(await readFile(join(folder, 'records.snapshot'), 'utf8'));
    expect(records.map(([section, id, content]) => [section, id, JSON.parse(content)])).toEqual([
      ['sessions', 'a', { kind: 'ended', expires: 5e15, holder }],
      [
        'sessions',
        'b',
        { kind: 'changed', expires: 6e15, holder, state: { logLevel: 'info', subscriptions: { u: 'g' } } },
      ],
    ]);
    expect((await stat(join(folder, 'records.snapshot'))).mode & 0o777).toBe(0o600);
    expect(await files.list(folder)).toEqual(['records.snapshot']);
    await expect(store.change('c', FOREVER, 'end')).rejects.toThrow('is closed');
  });

  it('wait for pending writes on close', async () => {
    const store = await inFolder();
    const ends = Array.from({ length: 30 }, (_, i) => store.change(`s${i}`, FOREVER, 'end'));
    await store.close();
    await Promise.all(ends);
    const again = await inFolder();
    for (let i = 0; i < 30; i++) expect(again.sessions.hasEnded(`s${i}`)).toBe(true);
    await again.close();
  });
});

describe('a session that has expired', () => {
  it('is forgotten with the next fold, on disk and in memory', async () => {
    let now = 1_000;
    const first = await inFolder(() => now);
    await first.change('old end', 2_000, 'end');
    await first.change('old change', 2_000, level('info'));
    await first.change('new end', 9_000, 'end');
    await first.change('new change', 9_000, level('info'));
    await first.close();
    now = 2_000;
    const second = await inFolder(() => now);
    expect([second.sessions.hasEnded('old end'), second.sessions.state('old change')]).toEqual([false, undefined]);
    expect([second.sessions.hasEnded('new end'), second.sessions.state('new change')?.logLevel]).toEqual([
      true,
      'info',
    ]);
    await second.change('another', 9_000, 'end');
    await second.close();
    expect(await readFile(join(folder, 'records.snapshot'), 'utf8')).not.toContain('"old ');
  });

  it('is also ignored by a process without storage', async () => {
    let now = 1_000;
    const store = memorySessions({ now: () => now });
    await store.change('old', 2_000, 'end');
    await store.change('old change', 2_000, level('info'));
    now = 3_000;
    for (let i = 0; i < 3; i++) await store.change(`new ${i}`, 9_000, 'end');
    expect([
      store.sessions.hasEnded('old'),
      store.sessions.state('old change'),
      store.sessions.hasEnded('new 0'),
    ]).toEqual([false, undefined, true]);
  });
});
