import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Files } from './files.ts';
import { noEntries } from './fixtures/changes.ts';
import { Ledger, tool, withoutTool } from './fixtures/ledger.ts';
import { ManualClock } from './fixtures/manual-clock.ts';
import { RecordedLog } from './fixtures/recorded-log.ts';
import { openRegistryLog } from './fixtures/registry-log.ts';
import { trackedFiles } from './fixtures/tracked-files.ts';
import { changesLine } from './journal-line.ts';
import { ChecksummedLog } from './journaled-file.ts';
import type { Processes } from './lock.ts';
import { memoryLog, type RecordLog } from './record-log.ts';
import type { StoredChange } from './store.ts';

let parent: string;
let folder: string;
let disk: ReturnType<typeof trackedFiles>;

beforeEach(async () => {
  disk = trackedFiles();
  parent = await mkdtemp(join(tmpdir(), 'sluice-store-'));
  folder = join(parent, 'deep', 'registry');
});
afterEach(async () => {
  await disk.closeAll();
  await rm(parent, { recursive: true });
});

interface Running {
  ledger: Ledger;
  store: RecordLog;
  clock: ManualClock;
  log: RecordedLog;
}

/** All other processes have ended, so that a store that was never closed belongs to a killed process. */
const processes: Processes = { host: 'here', pid: 1, startOf: async () => undefined };

async function start(options: { recover?: boolean; files?: Files } = {}): Promise<Running> {
  const [ledger, clock, log] = [new Ledger(), new ManualClock(), new RecordedLog()];
  const store = await openRegistryLog({ folder, log, clock, processes, files: disk, ...options });
  await store.add(ledger);
  return { ledger, store, clock, log };
}

async function put(name: string, content: string | Buffer): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, name), content);
}

/** Writes one generation of the journal, with one commit. */
async function putJournal(generation: number, change: StoredChange): Promise<void> {
  const log = new ChecksummedLog(disk, join(folder, `registry.journal.${generation}`));
  await log.append(changesLine([change]) ?? []);
}

function text(name = 'registry.json'): Promise<string> {
  return readFile(join(folder, name), 'utf8');
}

function names({ ledger }: Running): string[] {
  return [...ledger.texts.keys()];
}

/** Turns the event loop until the condition holds. */
async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setImmediate(resolve));
}

describe('the folder', () => {
  it('is made with its parents, mode 0700, and its files have mode 0600', async () => {
    const { ledger, store } = await start();
    await ledger.commit(store, [tool('a')]);
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
    const modes = async (): Promise<Record<string, number>> => {
      const found: Record<string, number> = {};
      for (const name of await readdir(folder)) found[name] = (await stat(join(folder, name))).mode & 0o777;
      return found;
    };
    expect(await modes()).toEqual({ 'registry.lock': 0o600, 'registry.journal.1': 0o600 });
    await store.close();
    expect(await modes()).toEqual({ 'registry.json': 0o600 });
  });

  it('that cannot be created fails the start with a line that names the variable', async () => {
    await writeFile(join(parent, 'deep'), 'a file');
    await expect(start()).rejects.toThrow(/^SERVICE_PERSIST_PATH .*deep\/registry is not writable: .*$/);
  });

  it('that cannot be written fails the start with a line that names the variable', async () => {
    const open = () => Promise.reject(Object.assign(new Error('EACCES: permission denied'), { code: 'EACCES' }));
    await expect(start({ files: { ...disk, open } })).rejects.toThrow(
      /^SERVICE_PERSIST_PATH .* is not writable: EACCES: permission denied$/,
    );
  });

  it('is unlocked after a failed start', async () => {
    await put('registry.json', 'rubbish');
    await expect(start()).rejects.toThrow();
    expect(await readdir(folder)).toEqual(['registry.json']);
  });
});

describe('commits', () => {
  it('are in the journal when acknowledged, and visible only then', async () => {
    const { ledger, store } = await start();
    const committing = ledger.commit(store, [tool('a'), tool('b')]);
    expect(ledger.texts.size).toBe(0);
    await committing;
    expect(ledger.texts.size).toBe(2);
    expect(names(await start())).toEqual(['tools/a', 'tools/b']);
  });

  it('of many concurrent callers share a few writes', async () => {
    let syncs = 0;
    const counting: Files = {
      ...disk,
      async open(path, flags) {
        const file = await disk.open(path, flags);
        return { ...file, datasync: () => file.datasync().finally(() => syncs++) };
      },
    };
    const { ledger, store } = await start({ files: counting });
    await Promise.all(Array.from({ length: 200 }, (_, index) => ledger.commit(store, [tool(`tool ${index}`)])));
    expect(syncs).toBeLessThanOrEqual(2);
    expect(names(await start())).toHaveLength(200);
  });

  it('keep the exact text of an entry over journal, snapshot and journal again', async () => {
    const json = '{"name":"☕","big":9223372036854775807,"float":1.0,"esc":"\\u00e9\\/"}';
    const first = await start();
    await first.ledger.commit(first.store, [{ section: 'tools', id: '☕', json }]);
    const second = await start();
    expect([...second.ledger.texts.values()]).toEqual([json]);
    await second.store.close();
    const third = await start();
    expect([...third.ledger.texts.values()]).toEqual([json]);
  });

  it('are rejected once another process took over the folder', async () => {
    const { ledger, store, clock, log } = await start();
    await ledger.commit(store, [tool('a')]);
    const thief = await start();
    clock.advance(5_000);
    await until(async () => log.lines.some((line) => line.startsWith('error')));
    await expect(ledger.commit(store, [tool('b')])).rejects.toThrow('was taken over by process 1 on host "here"');
    await thief.ledger.commit(thief.store, [tool('c')]);
    await expect(store.close()).rejects.toThrow('registry.lock was taken over');
    await thief.store.close();
    expect(JSON.parse(await text()).tools).toEqual([{ name: 'a' }, { name: 'c' }]);
  });

  it('are rejected after close', async () => {
    const { ledger, store } = await start();
    await store.close();
    await expect(ledger.commit(store, [tool('a')])).rejects.toThrow('is closed');
  });
});

describe('folding', () => {
  it('updates registry.json within a second of a change and removes the journal', async () => {
    const { ledger, store, clock } = await start();
    await ledger.commit(store, [tool('a'), tool('b')]);
    clock.advance(999);
    await until(async () => !(await readdir(folder)).includes('registry.journal.1'));
    expect(JSON.parse(await text())).toEqual({
      version: 1,
      ...noEntries(),
      tools: [{ name: 'a' }, { name: 'b' }],
      journal: 2,
    });
    await ledger.commit(store, [withoutTool('a')]);
    expect((await readdir(folder)).sort()).toEqual(['registry.journal.2', 'registry.json', 'registry.lock']);
    expect(names(await start())).toEqual(['tools/b']);
  });

  it('on close leaves only registry.json in the folder', async () => {
    const { ledger, store } = await start();
    const commits = [ledger.commit(store, [tool('a')]), ledger.commit(store, [tool('b')])];
    await store.close();
    await Promise.all(commits);
    expect(await readdir(folder)).toEqual(['registry.json']);
    expect(JSON.parse(await text()).tools).toEqual([{ name: 'a' }, { name: 'b' }]);
  });

  it('includes the journal of a killed process without a new commit', async () => {
    const killed = await start();
    await killed.ledger.commit(killed.store, [tool('a')]);
    const { clock, store } = await start();
    clock.advance(999);
    await until(async () => (await text().catch(() => '')).includes('"a"'));
    await store.close();
    expect(await readdir(folder)).toEqual(['registry.json']);
  });

  it('writes nothing without changes', async () => {
    await put('registry.json', '{"version":1}');
    const { store, clock } = await start();
    clock.advance(999);
    await store.close();
    expect(await text()).toBe('{"version":1}');
  });

  it('that fails is logged and retried while commits continue', async () => {
    let full = true;
    const rename: Files['rename'] = (from, to) =>
      full && to.endsWith('.json') ? Promise.reject(new Error('EIO')) : disk.rename(from, to);
    const { ledger, store, clock, log } = await start({ files: { ...disk, rename } });
    await ledger.commit(store, [tool('a')]);
    clock.advance(500);
    await until(async () => log.lines.some((line) => line.includes('registry.json could not be written')));
    await ledger.commit(store, [tool('b')]);
    full = false;
    clock.advance(1_000);
    await until(async () => (await text().catch(() => '')).includes('"b"'));
    await store.close();
    expect(await readdir(folder)).toEqual(['registry.json']);
  });

  it('that fails at the end throws, and the next start has everything', async () => {
    const rename = () => Promise.reject(new Error('EIO'));
    const { ledger, store } = await start({ files: { ...disk, rename } });
    await ledger.commit(store, [tool('a')]);
    await expect(store.close()).rejects.toThrow(/registry\.json could not be written: EIO/);
    expect(await readdir(folder)).not.toContain('registry.lock');
    expect(names(await start())).toEqual(['tools/a']);
  });

  it('preserves unknown members', async () => {
    await put('registry.json', '{"version":1,"tools":[],"x-note" : {"n": 1.0}}');
    const { ledger, store } = await start();
    await ledger.commit(store, [tool('a')]);
    await store.close();
    expect(await text()).toContain('"x-note" : {"n": 1.0}');
  });

  it('of many entries runs in slices, with commits completing in between', async () => {
    let commits = 0;
    // Each slice waits for a commit: a compaction that blocks commits would never end.
    const between: Files = {
      ...disk,
      async open(path, flags) {
        const file = await disk.open(path, flags);
        if (!path.endsWith('registry.json.tmp')) return file;
        return {
          ...file,
          async write(bytes, position) {
            await file.write(bytes, position);
            if (folding) await ledger.commit(store, [tool(`during ${commits++}`)]);
          },
        };
      },
    };
    const { ledger, store, clock } = await start({ files: between });
    const tools = Array.from({ length: 20_000 }, (_, index) => tool(`tool ${index}`, { text: 'x'.repeat(300) }));
    await ledger.commit(store, tools);
    let folding = true;
    clock.advance(500);
    await until(async () => (await readdir(folder)).includes('registry.json'));
    folding = false;
    expect(commits).toBeGreaterThanOrEqual(20);
    await store.close();
    expect(names(await start())).toHaveLength(20_000 + commits);
  });
});

describe('damage', () => {
  const damaged = '{"version":1,"tools":[{"name":"a"}';

  it('fails the start with a line that names the file and the solution', async () => {
    await put('registry.json', damaged);
    await expect(start()).rejects.toThrow(
      /^.*registry\/registry\.json is not valid JSON: .*; repair it, or set SERVICE_PERSIST_RECOVER=rename.*$/,
    );
    expect(await text()).toBe(damaged);
  });

  it('with recovery is set aside with the journal that builds on it, and the service starts without', async () => {
    const before = await start();
    await before.ledger.commit(before.store, [tool('a')]);
    await put('registry.json', damaged);
    const { store, log, ledger, clock } = await start({ recover: true });
    expect(ledger.texts.size).toBe(0);
    const stamp = clock.now();
    expect((await readdir(folder)).sort()).toEqual([
      `registry.journal.1.corrupt-${stamp}`,
      `registry.json.corrupt-${stamp}`,
      'registry.lock',
    ]);
    expect(await text(`registry.json.corrupt-${stamp}`)).toBe(damaged);
    expect(log.lines.filter((line) => line.startsWith('error'))).toHaveLength(3);
    await ledger.commit(store, [tool('new')]);
    await store.close();
    expect(names(await start())).toEqual(['tools/new']);
  });

  it('detected only by the registry is treated alike', async () => {
    await put('registry.json', '{"tools":[{"title":"nameless"}]}');
    await expect(start()).rejects.toThrow('registry.json cannot be used: an entry of tools has no name');
    expect((await start({ recover: true })).ledger.texts.size).toBe(0);
  });

  it('that persists after the files were set aside fails the start', async () => {
    const ledger = new Ledger();
    ledger.reload = () => Promise.reject(new Error('no'));
    const store = await openRegistryLog({ folder, recover: true, processes, files: disk });
    await expect(store.add(ledger)).rejects.toThrow('registry.json cannot be used: no');
  });

  it('in a journal names it, and with recovery sets it aside with those after it', async () => {
    await put('registry.json', '{"version":1,"tools":[{"name":"a"}],"journal":4}');
    for (const generation of [4, 5, 6]) {
      await putJournal(generation, tool(`generation ${generation}`));
    }
    const intact = await readFile(join(folder, 'registry.journal.5'));
    await put('registry.journal.5', Buffer.concat([Buffer.from('broken\n'), intact]));
    await expect(start()).rejects.toThrow(
      /registry\.journal\.5 is corrupt at byte 0 and has intact records after it; repair/,
    );
    expect(names(await start({ recover: true }))).toEqual(['tools/a', 'tools/generation 4']);
  });

  it('is detected when a generation of the journal is missing', async () => {
    await put('registry.json', '{"version":1,"journal":4}');
    await putJournal(6, tool('a'));
    await expect(start()).rejects.toThrow(
      'registry.journal.6 does not follow registry.json: expected registry.journal.4',
    );
  });

  it('does not include an unfinished write at the end of the journal', async () => {
    const { ledger, store } = await start();
    await ledger.commit(store, [tool('a')]);
    await put(
      'registry.journal.1',
      Buffer.concat([await readFile(join(folder, 'registry.journal.1')), Buffer.from('[[')]),
    );
    const again = await start();
    expect(names(again)).toEqual(['tools/a']);
    expect(again.log.lines).toContainEqual('warn dropped an incomplete write at the end of registry.journal.1');
  });

  it('does not include a file of a later release: it stays unchanged, and the start fails', async () => {
    await put('registry.json', '{"version":2}');
    await expect(start({ recover: true })).rejects.toThrow(
      'registry.json has version 2, but this release reads version 1',
    );
    expect(await text()).toBe('{"version":2}');
  });

  it('does not include a foreign snapshot: the journal beside it is assumed to follow it', async () => {
    await put('registry.json', '{"tools":[{"name":"mine"}]}');
    await putJournal(3, tool('a'));
    expect(names(await start())).toEqual(['tools/mine', 'tools/a']);
  });
});

describe('the in-memory store', () => {
  it('publishes immediately', async () => {
    const [ledger, store] = [new Ledger(), memoryLog()];
    await store.add(ledger);
    const committing = ledger.commit(store, [tool('a')]);
    expect([...ledger.texts.keys()]).toEqual(['tools/a']);
    await committing;
    await store.close();
  });
});
