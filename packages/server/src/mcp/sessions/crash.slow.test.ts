import { describe, expect, it } from 'vitest';
import { RecordedLog } from '../../registry/store/fixtures/recorded-log.ts';
import { CRASHES, type Fault, VolatileFiles } from '../../registry/store/fixtures/volatile-files.ts';
import { FolderSessions } from './fixtures/folder-sessions.ts';
import { memorySessions } from './fixtures/memory-sessions.ts';
import type { SessionState } from './session-state.ts';
import type { SessionStore } from './session-store.ts';

const FOREVER = 8e15;
const now = () => 0;

/** Folds so often that every step of one is met, beside and between changes. */
function start(files: VolatileFiles, log = new RecordedLog()): Promise<FolderSessions> {
  return FolderSessions.open({ folder: '/kept', files, log, now, compactFromBytes: 300 });
}

/** One step of a workload. Each stores a distinct log level or ends a session, so that no two states are equal. */
function step(store: SessionStore, index: number): Promise<void> {
  const id = idOf(index);
  if (index % 20 === 16 || index % 20 === 17) return store.change(id, FOREVER, 'end');
  return store.change(id, FOREVER, ({ subscriptions }): SessionState => {
    const uri = { uri: `u${index % 7}`, forward: `f${index % 2}` };
    return {
      logLevel: String(index),
      subscriptions: index % 3 === 0 ? subscriptions.slice(1) : [...subscriptions, uri],
    };
  });
}

function idOf(index: number): string {
  return `s${index % 4}-${Math.floor(index / 20)}`;
}

/** Everything stored of a workload's sessions, as one text. */
function stateOf(store: SessionStore, count: number): string {
  const ids = new Set(Array.from({ length: count }, (_, index) => idOf(index)));
  return JSON.stringify(
    [...ids].map((id) => {
      const { logLevel, subscriptions = [] } = store.sessions.state(id) ?? {};
      return [
        id,
        store.sessions.hasEnded(id),
        logLevel,
        subscriptions.map(({ uri, forward }) => `${uri} ${forward}`).sort(),
      ];
    }),
  );
}

/** The stored state after each number of steps. */
async function statesOf(count: number): Promise<string[]> {
  const store = memorySessions({ now });
  const states = [stateOf(store, count)];
  for (let index = 0; index < count; index++) {
    await step(store, index);
    states.push(stateOf(store, count));
  }
  return states;
}

interface Moment {
  files: VolatileFiles;
  label: string;
  acknowledged: number;
}

/**
 * Steps through the workload and captures the folder after each operation in each crash mode. The first `known` of the
 * steps in the folder were acknowledged.
 */
async function crashEverywhere(folder: VolatileFiles, from: number, to: number, known: number): Promise<Moment[]> {
  const moments: Moment[] = [];
  let acknowledged = known;
  let steps = 0;
  const files: VolatileFiles = folder.after('killed', () => {
    steps++;
    for (const crash of CRASHES) {
      moments.push({ files: files.after(crash), label: `${crash} after operation ${steps}`, acknowledged });
    }
  });
  const store = await start(files);
  // A start exposes what it found: from then on it must stay, whether it was acknowledged before the crash or not.
  acknowledged = from;
  let index = from;
  while (index < to) {
    const group: Promise<void>[] = [];
    for (let i = 0; i < 1 + (index % 3) && index < to; i++) {
      const own = index++;
      group.push(
        step(store, own).then(() => {
          acknowledged = Math.max(acknowledged, own + 1);
        }),
      );
    }
    await Promise.all(group);
  }
  await store.close();
  return moments;
}

/** The number of steps that the folder contains. */
async function reached({ files, label, acknowledged }: Moment, states: readonly string[]): Promise<number> {
  const store = await start(files).catch((error: unknown) => {
    throw new Error(`${label}: ${String(error)}`);
  });
  const found = states.indexOf(stateOf(store, states.length - 1));
  if (found < acknowledged) expect.fail(`${label}: ${acknowledged} steps were acknowledged, found state ${found}`);
  return found;
}

describe('a crash after any operation', () => {
  it('loses no acknowledged end or change, and leaves a valid records.snapshot', async () => {
    const count = 240;
    const states = await statesOf(count);
    const moments = await crashEverywhere(new VolatileFiles(), 0, count, 0);
    expect(moments.length).toBeGreaterThan(1_200);
    expect(moments.filter(({ files }) => 'records.snapshot.tmp' in files.dump()).length).toBeGreaterThan(200);
    for (const moment of moments) await reached(moment, states);
  });

  it('loses nothing when the process crashes again during recovery', async () => {
    const states = await statesOf(40);
    const first = await crashEverywhere(new VolatileFiles(), 0, 28, 0);
    for (const [index, moment] of first.entries()) {
      if (index % 7 !== 0) continue;
      // The first start after the crash changes the folder: its result is compared with what it found.
      const found = await reached({ ...moment, files: moment.files.after('killed') }, states);
      for (const again of await crashEverywhere(moment.files, found, Math.min(found + 8, 40), moment.acknowledged)) {
        await reached({ ...again, label: `${moment.label}, ${again.label}` }, states);
      }
    }
  });
});

describe('a failing disk', () => {
  /** Runs a workload with disk failures; false when the failure is after its last operation. */
  async function refuseFrom(at: number, code: string, times: number): Promise<boolean> {
    const count = 24;
    let armed = false;
    let operations = 0;
    const fault: Fault = () => {
      if (!armed) return undefined;
      operations++;
      return operations > at && operations <= at + times ? code : undefined;
    };
    const files = new VolatileFiles(undefined, fault);
    const store = await start(files);
    armed = true;
    const reference = memorySessions({ now });
    for (let index = 0; index < count; index++) {
      const rejected = await step(store, index).then(
        () => false,
        () => true,
      );
      if (!rejected) await step(reference, index);
      expect(stateOf(store, count)).toBe(stateOf(reference, count));
      if (!rejected || times > 1) continue;
      // One failure can be repaired before the rejection is returned: from then on not even a power cut restores the
      // record.
      for (const crash of CRASHES) {
        const again = await start(files.after(crash));
        expect({ at, crash, state: stateOf(again, count) }).toEqual({ at, crash, state: stateOf(reference, count) });
      }
    }
    armed = false;
    await store.change('last', FOREVER, (before) => ({ ...before, logLevel: 'info' }));
    for (const crash of CRASHES) {
      const again = await start(files.after(crash));
      expect(again.sessions.state('last')?.logLevel).toBe('info');
      expect({ at, crash, state: stateOf(again, count) }).toEqual({ at, crash, state: stateOf(reference, count) });
    }
    await store.close();
    expect(stateOf(await start(files.after('lost')), count)).toBe(stateOf(reference, count));
    expect(Object.keys(files.dump())).toEqual(['records.snapshot']);
    return operations > at;
  }

  it.each([
    { code: 'ENOSPC', times: 1 },
    { code: 'EIO', times: 4 },
  ])(
    '$code at any operation, $times in a row: rejected changes never reappear, all others remain',
    async ({ code, times }) => {
      let at = 0;
      while (await refuseFrom(at, code, times)) at++;
      expect(at).toBeGreaterThan(60);
    },
  );
});
