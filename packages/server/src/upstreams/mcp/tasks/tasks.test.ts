import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { createUser, toStored } from '../../../identity/principal.ts';
import { memoryLog, type RecordLog } from '../../../registry/store/record-log.ts';
import { UpstreamSessionPool } from '../upstream-sessions.ts';
import { MAX_TTL_MS, type Task } from './task.ts';
import { type NewTask, type TaskLimits, Tasks } from './tasks.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const session = new UpstreamSessionPool({
  address: 'http://upstream/mcp',
  dispatch: () => {
    throw new Error('nothing is sent');
  },
  close: async () => {},
  destroy: async () => {},
}).modern;

/** Tasks with a clock of their own, and those that were removed while they may be running. */
async function open(limits?: TaskLimits, log: RecordLog = memoryLog()) {
  const clock = { now: 1_000 };
  const tasks = new Tasks({ log, ...(limits && { limits }), now: () => clock.now });
  closers.push(() => tasks.close());
  await tasks.load();
  const orphaned: string[] = [];
  tasks.orphaned.subscribe(({ record }) => orphaned.push(record.upstreamId));
  let last = 0;
  const create = (user: string, namespace = 'default', ttlMs: number | null = 60_000) =>
    tasks.create(newTask(user, namespace, `upstream-${++last}`), { ...STATE, ttlMs }, session);
  return { tasks, clock, orphaned, create };
}

const STATE = {
  status: 'working',
  statusMessage: undefined,
  createdAt: '2026-01-01T00:00:00Z',
  lastUpdatedAt: '2026-01-01T00:00:00Z',
  pollIntervalMs: undefined,
} as const;

function newTask(user: string, namespace: string, upstreamId: string): NewTask {
  return {
    namespace,
    principal: toStored(createUser(user, 'proxy')),
    holder: { namespace, name: user },
    clientSession: undefined,
    forward: 'forward',
    address: 'http://upstream/mcp',
    kind: 'extension',
    clientEra: 'modern',
    upstreamId,
    isError: false,
    inputRequests: [],
    tool: { key: 'tool' },
    progress: undefined,
  };
}

const ownerOf = ({ record: { namespace, principal } }: Task) => ({ namespace, principal });

describe('limits of tasks', () => {
  it('one user may have so many, of which the oldest that has ended makes room', async () => {
    const { tasks, create, orphaned } = await open({ total: 100, perUser: 2 });
    const [first, second] = [await create('ann'), await create('ann')];
    expect(await create('ann')).toBeUndefined();
    expect(await create('ben')).toBeDefined();
    if (!first || !second) throw new Error('no tasks');
    second.observe({ ...STATE, status: 'completed', taskId: 'x', ttlMs: 60_000 });
    expect(await create('ann')).toBeDefined();
    expect(await tasks.find(second.id, ownerOf(second))).toBeUndefined();
    expect(await tasks.find(first.id, ownerOf(first))).toBeDefined();
    expect(orphaned).toEqual([]);
  });

  it('one user keeps no other from having some, and loses none to it', async () => {
    const { create, orphaned, tasks } = await open({ total: 5, perUser: 100 });
    for (let at = 0; at < 3; at++) expect(await create('ann')).toBeDefined();
    expect(await create('ann')).toBeUndefined();
    expect(await create('ann', 'other')).toBeUndefined();
    expect(await create('ben')).toBeDefined();
    expect(orphaned).toEqual([]);
    expect(tasks.all().length).toBe(4);
  });

  it('beyond the quota of a user, the oldest of its own that has ended is removed', async () => {
    const { tasks, create, orphaned } = await open({ total: 5, perUser: 100 });
    const [first, second] = [await create('ann'), await create('ann'), await create('ann')];
    if (!first || !second) throw new Error('no tasks');
    second.observe({ ...STATE, status: 'completed', taskId: 'x', ttlMs: 60_000 });
    expect(await create('ann')).toBeDefined();
    expect([tasks.get(first.id), tasks.get(second.id)]).toEqual([first, undefined]);
    expect(await create('ann')).toBeUndefined();
    expect(orphaned).toEqual([]);
  });

  it('an upstream cannot make a record large', async () => {
    const { create, tasks } = await open();
    const task = await create('ann');
    if (!task) throw new Error('no task');
    const inputRequests = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`${at}`.padStart(1_024), {}]));
    const state = { ...STATE, taskId: 'x', ttlMs: 60_000, statusMessage: 'm'.repeat(5_000) };
    task.observe({ ...state, status: 'input_required' }, { by: 'polled', content: { inputRequests } });
    const { record: stored } = tasks.get(task.id) ?? {};
    const keys = stored?.kind === 'extension' ? stored.inputRequests : undefined;
    expect([stored?.statusMessage?.length, keys?.length]).toEqual([1_000, 64]);
  });
});

describe('the life of a record', () => {
  it('is that of its task and a minute, and at most 24 hours and a minute', async () => {
    const { create, clock, tasks, orphaned } = await open();
    const [short, long] = [await create('ann', 'default', 1_000), await create('ann', 'default', null)];
    if (!short || !long) throw new Error('no tasks');
    clock.now += 60_999;
    expect(await tasks.find(short.id, ownerOf(short))).toBeDefined();
    clock.now += 1;
    expect(await tasks.find(short.id, ownerOf(short))).toBeUndefined();
    tasks.removeExpired();
    expect([tasks.all().length, orphaned]).toEqual([1, ['upstream-1']]);
    clock.now = 1_000 + MAX_TTL_MS + 60_000;
    tasks.removeExpired();
    expect([tasks.all().length, orphaned]).toEqual([0, ['upstream-1', 'upstream-2']]);
  });

  it('does not end for many in one turn of the event loop', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const { create, clock, tasks, orphaned } = await open({ total: 1_000, perUser: 1_000 });
    for (let at = 0; at < 250; at++) await create('ann', 'default', 1_000);
    clock.now += 61_000;
    tasks.removeExpired();
    tasks.removeExpired();
    expect([tasks.all().length, orphaned.length]).toEqual([150, 100]);
    vi.advanceTimersByTime(200);
    expect([tasks.all().length, orphaned.length]).toEqual([0, 250]);
  });

  it('follows the time to live that the upstream reports', async () => {
    const { create, clock, tasks } = await open();
    const task = await create('ann', 'default', 1_000);
    if (!task) throw new Error('no task');
    task.observe({ ...STATE, taskId: 'x', ttlMs: 500_000 });
    clock.now += 400_000;
    expect(await tasks.find(task.id, ownerOf(task))).toBeDefined();
  });

  it('does not begin if it cannot be stored', async () => {
    const failure = new Error('no space');
    const { create, tasks } = await open(undefined, { ...memoryLog(), commit: () => Promise.reject(failure) });
    await expect(create('ann')).rejects.toBe(failure);
    expect(tasks.all().length).toBe(0);
  });
});
