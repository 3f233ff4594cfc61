import { describe, expect, it } from 'vitest';
import { Ledger, tool, withoutTool } from './fixtures/ledger.ts';
import { ManualClock } from './fixtures/manual-clock.ts';
import { openRegistryLog } from './fixtures/registry-log.ts';
import { CRASHES, type Fault, VolatileFiles } from './fixtures/volatile-files.ts';
import type { Processes } from './lock.ts';
import { memoryLog, type RecordLog } from './record-log.ts';
import type { StoredChange } from './store.ts';

const FOLDER = '/registry';

/** Every process has ended by the time that another one checks. */
const processes: Processes = { host: 'here', pid: 1, startOf: async () => undefined };

interface Running {
  ledger: Ledger;
  store: RecordLog;
  clock: ManualClock;
}

async function start(files: VolatileFiles): Promise<Running> {
  const ledger = new Ledger();
  const clock = new ManualClock();
  const store = await openRegistryLog({ folder: FOLDER, files, clock, processes });
  await store.add(ledger);
  return { ledger, store, clock };
}

/**
 * The commits of a workload: each puts a pair, so that a partial one would be visible, and some remove earlier ones.
 */
function commitAt(index: number): StoredChange[] {
  const changes = [tool(`left ${index % 7}`, { index }), tool(`right ${index % 7}`, { index })];
  if (index % 3 === 0) changes.push(withoutTool(`left ${(index + 3) % 7}`), withoutTool(`right ${(index + 3) % 7}`));
  return changes;
}

/** The contents of the registry after each number of commits. */
async function statesOf(count: number, before: ReadonlyMap<string, string>): Promise<string[]> {
  const ledger = new Ledger();
  for (const [key, text] of before) ledger.texts.set(key, text);
  const states = [stateOf(ledger)];
  for (let index = 0; index < count; index++) {
    await ledger.commit(memoryLog(), commitAt(index));
    states.push(stateOf(ledger));
  }
  return states;
}

function stateOf({ texts }: Ledger): string {
  return JSON.stringify([...texts].sort());
}

/** Runs everything that needs no clock. */
async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

/** Runs the workload: single and concurrent commits, with folds before, between and during them. */
async function run({ ledger, store, clock }: Running, count: number, done: (index: number) => void): Promise<void> {
  let index = 0;
  while (index < count) {
    const group: Promise<void>[] = [];
    for (let i = 0; i < 1 + (index % 3) && index < count; i++) {
      const own = index++;
      group.push(ledger.commit(store, commitAt(own)).then(() => done(own)));
    }
    if (index % 4 === 0) clock.advance(600);
    await Promise.all(group);
    if (index % 5 === 0) await settle();
  }
}

interface Moment {
  files: VolatileFiles;
  label: string;
  /** False during the start: the found state was not exposed yet. */
  started: boolean;
  acknowledged: number;
}

/** Runs the workload on the folder and captures the folder after each step in each crash mode. */
async function crashEverywhere(folder: VolatileFiles, count: number): Promise<{ moments: Moment[]; before: Ledger }> {
  const moments: Moment[] = [];
  let acknowledged = 0;
  let started = false;
  let steps = 0;
  const files: VolatileFiles = folder.after('killed', () => {
    steps++;
    for (const crash of CRASHES) {
      moments.push({ files: files.after(crash), label: `${crash} after step ${steps}`, started, acknowledged });
    }
  });
  const running = await start(files);
  started = true;
  const before = new Ledger();
  for (const [key, text] of running.ledger.texts) before.texts.set(key, text);
  await run(running, count, (index) => {
    acknowledged = Math.max(acknowledged, index + 1);
  });
  await running.store.close();
  return { moments, before };
}

async function expectNothingLost(moments: readonly Moment[], count: number, before: Ledger): Promise<void> {
  const states = await statesOf(count, before.texts);
  for (const { files, label, acknowledged } of moments) {
    const snapshot = files.dump()['registry.json'];
    if (snapshot !== undefined) JSON.parse(snapshot);
    const { ledger } = await start(files).catch((error: unknown) => {
      throw new Error(`${label}: ${String(error)}`);
    });
    const reached = states.lastIndexOf(stateOf(ledger));
    if (reached < acknowledged) {
      expect.fail(`${label}: ${acknowledged} commits were acknowledged; found state ${reached}: ${stateOf(ledger)}`);
    }
  }
}

describe('a crash at any step', () => {
  async function crash(commits: number, leastMoments: number): Promise<void> {
    const { moments, before } = await crashEverywhere(new VolatileFiles(), commits);
    expect(moments.length).toBeGreaterThan(leastMoments);
    await expectNothingLost(moments, commits, before);
  }

  it('loses no acknowledged commit, splits none and leaves a valid registry.json', () => crash(50, 250));

  it('loses none of many commits either', { tags: ['slow'] }, () => crash(300, 2_000));

  /** Crashes again after each `every`th step of the first run. */
  async function crashAgain(every: number): Promise<void> {
    const first = await crashEverywhere(new VolatileFiles(), 40);
    for (const [index, moment] of first.moments.entries()) {
      if (index % every !== 0) continue;
      const second = await crashEverywhere(moment.files, 12);
      const during = second.moments.filter(({ started }) => !started);
      const { acknowledged } = moment;
      await expectNothingLost(
        during.map((again) => ({ ...again, acknowledged })),
        40,
        first.before,
      );
      const after = second.moments.filter(({ started }) => started);
      await expectNothingLost(after, 12, second.before);
    }
  }

  it('loses nothing when the process crashes again during recovery', () => crashAgain(66));

  it('loses nothing when the process crashes again during recovery, at more steps', { tags: ['slow'] }, () =>
    crashAgain(11),
  );
});

describe('a failing disk', () => {
  /** Runs a workload with disk failures; false when the failure is after its last step. */
  async function refuseFrom(at: number, code: string, times: number): Promise<boolean> {
    let armed = false;
    let step = 0;
    const fault: Fault = () => {
      if (!armed) return undefined;
      step++;
      return step > at && step <= at + times ? code : undefined;
    };
    const failing = new VolatileFiles(undefined, fault);
    const { ledger, store, clock } = await start(failing);
    armed = true;
    const rejected: string[] = [];
    for (let index = 0; index < 12; index++) {
      const name = `tool ${index}`;
      await ledger.commit(store, [tool(name)]).catch(async () => {
        rejected.push(`tools/${name}`);
        // One failure can be repaired before the rejection is returned: from then on not even a power cut restores the
        // record.
        for (const crash of times === 1 ? CRASHES : []) {
          const again = await start(failing.after(crash));
          expect({ at, crash, state: stateOf(again.ledger) }).toEqual({ at, crash, state: stateOf(ledger) });
        }
      });
      if (index % 4 !== 3) continue;
      clock.advance(31_000);
      await settle();
    }
    armed = false;
    await ledger.commit(store, [tool('last')]);
    for (const key of rejected) expect(ledger.texts.has(key)).toBe(false);
    expect(ledger.texts.size).toBe(13 - rejected.length);
    for (const crash of CRASHES) {
      const again = await start(failing.after(crash));
      expect({ at, crash, state: stateOf(again.ledger) }).toEqual({ at, crash, state: stateOf(ledger) });
    }
    await store.close();
    expect(stateOf((await start(failing.after('lost'))).ledger)).toBe(stateOf(ledger));
    return step > at;
  }

  it.each([
    { code: 'ENOSPC', times: 1 },
    { code: 'EIO', times: 1 },
    { code: 'EIO', times: 4 },
  ])(
    '$code at any step, $times in a row: rejected commits never reappear, all others remain',
    async ({ code, times }) => {
      let at = 0;
      while (await refuseFrom(at, code, times)) at++;
      expect(at).toBeGreaterThan(40);
    },
  );

  it('rejects with one line that names the journal and the cause', async () => {
    let full = false;
    const files = new VolatileFiles(undefined, (operation) => (full && operation === 'write' ? 'ENOSPC' : undefined));
    const { ledger, store } = await start(files);
    full = true;
    await expect(ledger.commit(store, [tool('a')])).rejects.toThrow(
      /^\/registry\/registry\.journal\.1 could not be written: ENOSPC.*$/,
    );
    full = false;
    await ledger.commit(store, [tool('b')]);
    expect([...ledger.texts.keys()]).toEqual(['tools/b']);
  });

  it('cleans up once the disk works again, without a further commit', async () => {
    let broken = false;
    const files = new VolatileFiles(undefined, (operation) =>
      broken && ['datasync', 'truncate'].includes(operation) ? 'EIO' : undefined,
    );
    const { ledger, store, clock } = await start(files);
    await ledger.commit(store, [tool('kept')]);
    broken = true;
    await expect(ledger.commit(store, [tool('refused')])).rejects.toThrow('EIO');
    expect(files.dump()['registry.journal.1']).toContain('refused');
    broken = false;
    clock.advance(600);
    await settle();
    expect(JSON.stringify(files.dump())).not.toContain('refused');
    expect([...(await start(files.after('lost'))).ledger.texts.keys()]).toEqual(['tools/kept']);
  });

  it('cleans up at the end what it could not roll back before', async () => {
    let broken = true;
    const files = new VolatileFiles(undefined, (operation) =>
      broken && ['datasync', 'truncate'].includes(operation) ? 'EIO' : undefined,
    );
    const { ledger, store } = await start(files);
    await expect(ledger.commit(store, [tool('refused')])).rejects.toThrow('EIO');
    expect(files.dump()['registry.journal.1']).toContain('refused');
    broken = false;
    await store.close();
    expect((await start(files.after('killed'))).ledger.texts.size).toBe(0);
  });
});
