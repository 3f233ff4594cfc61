import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Files } from './files.ts';
import { ManualClock } from './fixtures/manual-clock.ts';
import { RecordedLog } from './fixtures/recorded-log.ts';
import { trackedFiles } from './fixtures/tracked-files.ts';
import { hostProcesses, type Lock, type Processes, takeLock } from './lock.ts';

let folder: string;
let disk: ReturnType<typeof trackedFiles>;
let clock: ManualClock;
let log: RecordedLog;

beforeEach(async () => {
  disk = trackedFiles();
  folder = await mkdtemp(join(tmpdir(), 'sluice-lock-'));
  clock = new ManualClock();
  log = new RecordedLog();
});
afterEach(async () => {
  await disk.closeAll();
  await rm(folder, { recursive: true });
});

/** Process `pid` of host `here`, where these processes run. */
function on(pid: number, running: Record<number, string>, host = 'here'): Processes {
  return { host, pid, startOf: async (other) => running[other] };
}

function take(processes: Processes, files: Files = disk): Promise<Lock> {
  return takeLock({ folder, files, processes, clock, log });
}

/** Backdates the last renewal of the lock. */
async function age(ms: number): Promise<void> {
  const then = new Date(Date.now() - ms);
  await utimes(join(folder, 'registry.lock'), then, then);
}

/** The disk, with the lock's last renewal this long before all other files. */
function aged(ms: number): Files {
  return { ...disk, modified: async (path) => (basename(path) === 'registry.lock' ? 0 : ms) };
}

/** Lets pending file operations finish: as many turns as any of them needs. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setImmediate(resolve));
}

describe('acquiring the folder', () => {
  it('records host, process and start time in the lock, and removes it on release', async () => {
    const lock = await take(on(7, { 7: 'boot/70' }));
    const content: unknown = JSON.parse(await readFile(join(folder, 'registry.lock'), 'utf8'));
    expect(content).toMatchObject({ host: 'here', pid: 7, started: new Date(clock.now()).toISOString() });
    await lock.release();
    expect(await readdir(folder)).toEqual([]);
  });

  it('is rejected while a process of this host holds it, however long ago it renewed', async () => {
    const running = { 7: 'boot/70', 8: 'boot/80' };
    await take(on(7, running));
    await age(3_600_000);
    await expect(take(on(8, running))).rejects.toThrow(
      /^SERVICE_PERSIST_PATH .*registry\.lock is in use by process 7 of this host, running since 2026.*$/,
    );
    expect(await readdir(folder)).toEqual(['registry.lock']);
  });

  it('takes over, with a warning, from a terminated process of this host', async () => {
    await take(on(7, { 7: 'boot/70' }));
    const lock = await take(on(8, { 8: 'boot/80' }));
    await lock.check({ now: true });
    expect(log.lines).toEqual([expect.stringMatching(/^warn taking over stale registry.lock/)]);
    expect(await readdir(folder)).toEqual(['registry.lock']);
  });

  it("takes over when the owner's process id was reused", async () => {
    await take(on(7, { 7: 'boot/70' }));
    await (await take(on(7, { 7: 'boot/99' }))).check({ now: true });
  });

  it('without start times treats a running process as the owner only while the lock is renewed', async () => {
    await take(on(7, { 7: '' }));
    await expect(take(on(8, { 7: '', 8: '' }))).rejects.toThrow('process 7 of this host');
    await age(16_000);
    await take(on(8, { 7: '', 8: '' }));
  });

  it('is rejected for 15 s after a process of another host renewed it, then taken over', async () => {
    await take(on(7, { 7: 'boot/70' }, 'there'));
    await expect(take(on(7, {}), aged(14_000))).rejects.toThrow(
      'in use by process 7 on host "there" (renewed 14 s ago',
    );
    await expect(take(on(7, {}), aged(14_999))).rejects.toThrow('in use by');
    await take(on(7, {}), aged(15_000));
  });

  it('takes over an unreadable lock once it is old', async () => {
    await writeFile(join(folder, 'registry.lock'), '');
    await expect(take(on(7, {}))).rejects.toThrow('in use by');
    await age(16_000);
    await take(on(7, {}));
    expect(await readdir(folder)).toEqual(['registry.lock']);
  });

  it('succeeds for exactly one of many concurrent starters, also over a stale lock and a stale claim', async () => {
    for (let round = 0; round < 30; round++) {
      await rm(folder, { recursive: true });
      folder = await mkdtemp(join(tmpdir(), 'sluice-lock-'));
      if (round % 3 > 0) await take(on(7, { 7: 'boot/70' }));
      if (round % 3 > 1) {
        // Process 8 claims the stale lock and dies before it replaces it.
        const files = { ...disk, rename: () => Promise.reject(new Error('killed')) };
        await expect(take(on(8, { 8: 'boot/80' }), files)).rejects.toThrow('killed');
        expect((await readdir(folder)).length).toBe(2);
      }
      const pids = Array.from({ length: 10 }, (_, index) => 100 + index);
      const running = Object.fromEntries(pids.map((pid) => [pid, `boot/${pid}`]));
      const outcomes = await Promise.allSettled(pids.map((pid) => take(on(pid, running), unsteady(disk))));
      const got = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
      expect(got).toHaveLength(1);
      await got[0]?.check({ now: true });
      expect(await readdir(folder)).toEqual(['registry.lock']);
    }
  });

  it('detects that a killed process of this machine has ended', async () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000); console.log("up")']);
    await once(child.stdout, 'data');
    const processes = hostProcesses();
    const pid = child.pid ?? 0;
    const begun = await processes.startOf(pid);
    expect(begun).toBeDefined();
    expect(await processes.startOf(pid)).toBe(begun);
    expect(await processes.startOf(process.pid)).not.toBe(process.platform === 'linux' ? begun : undefined);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(await processes.startOf(pid)).toBeUndefined();
  });
});

describe('holding the folder', () => {
  it('renews the lock every 5 s', async () => {
    await take(on(7, { 7: 'boot/70' }));
    await age(60_000);
    const { modified } = disk;
    clock.advance(5_000);
    await until(async () => Date.now() - (await modified(join(folder, 'registry.lock'))) < 30_000);
  });

  it('is lost, with a log line, when another process took it over', async () => {
    const lock = await take(on(7, { 7: 'boot/70' }));
    await take(on(8, { 8: 'boot/80' }));
    clock.advance(5_000);
    await until(() => log.lines.some((line) => line.startsWith('error')));
    await expect(lock.check()).rejects.toThrow(/registry\.lock was taken over by process 8 on host "here"/);
    await lock.release();
    expect(await readdir(folder)).toEqual(['registry.lock']);
  });

  it('is checked again after a pause in which nothing ran', async () => {
    const lock = await take(on(7, { 7: 'boot/70' }));
    await take(on(8, { 8: 'boot/80' }));
    await lock.check();
    clock.sleep(20_000);
    await expect(lock.check()).rejects.toThrow('taken over by process 8');
  });

  it('is lost when the lock file was removed', async () => {
    const lock = await take(on(7, { 7: 'boot/70' }));
    await rm(join(folder, 'registry.lock'));
    await expect(lock.check({ now: true })).rejects.toThrow('registry.lock was removed');
  });
});

/** The same files, each operation after a random number of turns, so that concurrent starters interleave. */
function unsteady(files: Files): Files {
  const turns = async (): Promise<void> => {
    for (let left = Math.floor(Math.random() * 4); left > 0; left--)
      await new Promise((resolve) => setImmediate(resolve));
  };
  return {
    ...files,
    link: async (path, name) => turns().then(() => files.link(path, name)),
    read: async (path) => turns().then(() => files.read(path)),
    rename: async (from, to) => turns().then(() => files.rename(from, to)),
    remove: async (path) => turns().then(() => files.remove(path)),
  };
}
