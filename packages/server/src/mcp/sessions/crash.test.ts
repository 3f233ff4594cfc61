import { describe, expect, it } from 'vitest';
import { RecordedLog } from '../../registry/store/fixtures/recorded-log.ts';
import { CRASHES, type Fault, VolatileFiles } from '../../registry/store/fixtures/volatile-files.ts';
import type { SessionState } from './session-state.ts';
import { FileSessionStore, memorySessionStore, type SessionStore } from './session-store.ts';

const FOREVER = 8e15;
const now = () => 0;

/** Folds so often that every step of one is met, beside and between changes. */
function start(files: VolatileFiles, log = new RecordedLog()): Promise<FileSessionStore> {
  return FileSessionStore.open({ folder: '/kept', files, log, now, compactFromBytes: 300 });
}

/** One step of a workload. Each leaves its number in a log level or ends a session, so that no two states are alike. */
function step(kept: SessionStore, index: number): Promise<void> {
  const id = idOf(index);
  if (index % 20 === 16 || index % 20 === 17) return kept.end(id, FOREVER);
  return kept.change(id, FOREVER, ({ subscriptions }): SessionState => {
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

/** All that is kept of the sessions of a workload, as one text. */
function stateOf(kept: SessionStore, count: number): string {
  const ids = new Set(Array.from({ length: count }, (_, index) => idOf(index)));
  return JSON.stringify(
    [...ids].map((id) => {
      const { logLevel, subscriptions = [] } = kept.state(id) ?? {};
      return [id, kept.ended(id), logLevel, subscriptions.map(({ uri, forward }) => `${uri} ${forward}`).sort()];
    }),
  );
}

/** What is kept after so many steps, for every number of them. */
async function statesOf(count: number): Promise<string[]> {
  const kept = memorySessionStore(now);
  const states = [stateOf(kept, count)];
  for (let index = 0; index < count; index++) {
    await step(kept, index);
    states.push(stateOf(kept, count));
  }
  return states;
}

interface Moment {
  files: VolatileFiles;
  label: string;
  acknowledged: number;
}

/**
 * Goes from one step to another on the folder and takes a picture of it after each operation in each way to crash.
 * Of the steps that the folder holds, `known` were acknowledged.
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
  const kept = await start(files);
  // What a start has found it shows: from then on it must stay, whether it was acknowledged before the crash or not.
  acknowledged = from;
  let index = from;
  while (index < to) {
    const group: Promise<void>[] = [];
    for (let i = 0; i < 1 + (index % 3) && index < to; i++) {
      const own = index++;
      group.push(
        step(kept, own).then(() => {
          acknowledged = Math.max(acknowledged, own + 1);
        }),
      );
    }
    await Promise.all(group);
  }
  await kept.close();
  return moments;
}

/** How many steps the folder holds. */
async function reached({ files, label, acknowledged }: Moment, states: readonly string[]): Promise<number> {
  const { 'sessions.json': snapshot } = files.dump();
  if (snapshot !== undefined) JSON.parse(snapshot);
  const kept = await start(files).catch((error: unknown) => {
    throw new Error(`${label}: ${String(error)}`);
  });
  const found = states.indexOf(stateOf(kept, states.length - 1));
  if (found < acknowledged) expect.fail(`${label}: ${acknowledged} steps were acknowledged, found state ${found}`);
  return found;
}

describe('a crash after any operation', () => {
  it('loses no end and no change that was answered, and leaves a sessions.json that parses', async () => {
    const count = 240;
    const states = await statesOf(count);
    const moments = await crashEverywhere(new VolatileFiles(), 0, count, 0);
    expect(moments.length).toBeGreaterThan(1_200);
    expect(moments.filter(({ files }) => 'sessions.json.tmp' in files.dump()).length).toBeGreaterThan(200);
    for (const moment of moments) await reached(moment, states);
  });

  it('loses nothing either when the process crashes again after it came back', async () => {
    const states = await statesOf(40);
    const first = await crashEverywhere(new VolatileFiles(), 0, 28, 0);
    for (const [index, moment] of first.entries()) {
      if (index % 7 !== 0) continue;
      // The first start after the crash changes the folder: what it leaves is judged from what it found.
      const found = await reached({ ...moment, files: moment.files.after('killed') }, states);
      for (const again of await crashEverywhere(moment.files, found, Math.min(found + 8, 40), moment.acknowledged)) {
        await reached({ ...again, label: `${moment.label}, ${again.label}` }, states);
      }
    }
  });
});

describe('a disk that refuses', () => {
  /** Goes through a workload that the disk refuses parts of; false when the fault lies behind its last operation. */
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
    const kept = await start(files);
    armed = true;
    const reference = memorySessionStore(now);
    for (let index = 0; index < count; index++) {
      const refused = await step(kept, index).then(
        () => false,
        () => true,
      );
      if (!refused) await step(reference, index);
      expect(stateOf(kept, count)).toBe(stateOf(reference, count));
      if (!refused || times > 1) continue;
      // One failure can be mended before the refusal is told: from then on not even a power cut brings it back.
      for (const crash of CRASHES) {
        const again = await start(files.after(crash));
        expect({ at, crash, state: stateOf(again, count) }).toEqual({ at, crash, state: stateOf(reference, count) });
      }
    }
    armed = false;
    await kept.change('last', FOREVER, (before) => ({ ...before, logLevel: 'info' }));
    for (const crash of CRASHES) {
      const again = await start(files.after(crash));
      expect(again.state('last')?.logLevel).toBe('info');
      expect({ at, crash, state: stateOf(again, count) }).toEqual({ at, crash, state: stateOf(reference, count) });
    }
    await kept.close();
    expect(stateOf(await start(files.after('lost')), count)).toBe(stateOf(reference, count));
    expect(Object.keys(files.dump())).toEqual(['sessions.json']);
    return operations > at;
  }

  it.each([
    { code: 'ENOSPC', times: 1 },
    { code: 'EIO', times: 4 },
  ])(
    '$code at any operation, $times in a row: what was refused never comes back, all else stays',
    async ({ code, times }) => {
      let at = 0;
      while (await refuseFrom(at, code, times)) at++;
      expect(at).toBeGreaterThan(60);
    },
  );
});
