import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { BusyError, WaitBudget } from '../../http/fair-queue.ts';
import type { Action, ActionRun } from './action.ts';
import { children } from './fixtures/child-processes.ts';
import { injected } from './fixtures/injected.ts';
import { ordinaryContext, TestHostFunctions } from './fixtures/test-host-functions.ts';
import { SandboxPool } from './pool.ts';
import { SandboxWorker } from './sandbox-worker.ts';

/** Generous, so that a slow machine does not exceed it where the deadline is not the subject. */
const limits = { runMs: 30_000 };
const poll = { timeout: 20_000, interval: 10 };

/** Blocks with the output of the LLM. */
const echo = injected('say(ctx.llmResult)');
/** Logs, then waits for a host function that the test completes. */
const blocking = injected(`
  imports['service:evaluator/log'].info(ctx.llmResult);
  imports['service:evaluator/validation'].verifyLlmResult('x');
  say(ctx.llmResult);`);
/** Exceeds memory, loops forever, or traps. */
const misbehaving = injected(`
  if (ctx.llmResult === 'endless') for (;;);
  if (ctx.llmResult === 'trap') throw new Error('trap');
  if (ctx.llmResult === 'greedy') for (const chunks of [[]]) for (;;) chunks.push(new Uint8Array(1 << 22).fill(1));
  say(ctx.llmResult);`);

/** Blocks with the time at which its host process loaded it. */
function reportingLoadTime(name: string): Action {
  const { glue, ...action } = injected(`say(loadedAt); // ${name}\n`);
  return { ...action, glue: `const loadedAt = Date.now();\n${glue}` };
}

/** Host functions of a run that is in progress until it is released. */
class BlockingFunctions extends TestHostFunctions {
  readonly #logged = Promise.withResolvers<void>();
  readonly #released = Promise.withResolvers<undefined>();
  /** Resolves when the run has begun. */
  readonly begun = this.#logged.promise;
  release(): void {
    this.#released.resolve(undefined);
  }
  override log(...line: Parameters<TestHostFunctions['log']>): void {
    super.log(...line);
    this.#logged.resolve();
  }
  override verify(): Promise<undefined> {
    return this.#released.promise;
  }
}

const reasonOf = ({ response }: ActionRun): string => (response?.kind === 'block' ? response.reason : 'nothing');
const outOfMemory = { fault: 'memory' };
const shuttingDown = { fault: 'host', message: 'service is shutting down' };

/** Pools of a test. They are closed after it, and no process may be left. */
const pools = new Set<SandboxPool>();
function createPool(size: number): SandboxPool {
  const pool = new SandboxPool({ size, limits });
  pools.add(pool);
  return pool;
}

function run(pool: SandboxPool, action: Action, llmResult = '', functions = new TestHostFunctions()): Promise<string> {
  return pool.run(action, { ...ordinaryContext, llmResult }, functions).then(reasonOf);
}

/** Starts a run that is in progress until it is released; `ended` is its outcome. */
async function startBlocking(pool: SandboxPool, llmResult = 'released') {
  const answers = new BlockingFunctions();
  const ended = run(pool, blocking, llmResult, answers);
  ended.catch(() => undefined);
  await Promise.race([answers.begun, ended]);
  return { answers, ended };
}

/** Starts runs whose failures are checked later. */
function many(count: number, start: (index: number) => Promise<string>): Promise<string>[] {
  const runs = Array.from({ length: count }, (_, index) => start(index));
  for (const each of runs) each.catch(() => undefined);
  return runs;
}

const outcomes = async (runs: readonly Promise<string>[]): Promise<unknown[]> =>
  (await Promise.allSettled(runs)).map((end) => (end.status === 'rejected' ? end.reason : end.value));

function kill(pid: number | undefined): void {
  if (pid === undefined) throw new Error('no such process');
  process.kill(pid, 'SIGKILL');
}

/** Whether a process has exited, possibly without its exit having been reported. */
function hasExited(pid: number): boolean {
  return readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') Z ');
}

/** Whether a process is running rather than waiting. */
function isRunning(pid: number): boolean {
  return readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') R ');
}

afterEach(async () => {
  vi.restoreAllMocks();
  await Promise.all([...pools].map((pool) => pool.close()));
  pools.clear();
  expect(children()).toEqual([]);
});

describe('a pool', () => {
  it('runs as many actions at a time as it has hosts', async () => {
    const pool = createPool(2);
    const runs = [await startBlocking(pool, 'one'), await startBlocking(pool, 'two')];
    expect(pool.pids.length).toBeGreaterThanOrEqual(2);
    const third = new BlockingFunctions();
    const waits = run(pool, blocking, 'three', third);
    third.release();
    runs[1]?.answers.release();
    expect(await waits).toBe('three');
    // The first one is still in progress.
    expect(runs[0]?.answers.logged).toHaveLength(1);
    runs[0]?.answers.release();
    expect(await Promise.all(runs.map(({ ended }) => ended))).toEqual(['one', 'two']);
    expect(pool.pids.length).toBeLessThanOrEqual(3);
  });

  it('alternates between actions', async () => {
    const pool = createPool(1);
    const first = await startBlocking(pool);
    const order: string[] = [];
    const note = (action: Action, name: string) => run(pool, action, name).then((name) => order.push(name));
    const runs = [
      ...['a1', 'a2', 'a3', 'a4'].map((name) => note(echo, name)),
      note(misbehaving, 'b1'),
      note(misbehaving, 'b2'),
    ];
    first.answers.release();
    await Promise.all(runs);
    expect(order).toEqual(['a1', 'b1', 'a2', 'b2', 'a3', 'a4']);
  });

  it('alternates between namespaces, then between users', async () => {
    const pool = createPool(1);
    const first = await startBlocking(pool);
    const order: string[] = [];
    const runs = ['a/x1', 'a/x2', 'a/y1', 'b/x1', 'b/x2'].map(async (name) => {
      const budget = new WaitBudget(name.charAt(0), name.charAt(2));
      const { response } = await pool.run(
        echo,
        { ...ordinaryContext, llmResult: name },
        new TestHostFunctions(),
        undefined,
        budget,
      );
      order.push(response?.kind === 'block' ? response.reason : 'nothing');
    });
    first.answers.release();
    await Promise.all(runs);
    expect(order).toEqual(['a/x1', 'b/x1', 'a/y1', 'b/x2', 'a/x2']);
  });

  it('queues 10,000 runs; a full queue has no room but for a namespace with less than its share', async () => {
    const pool = createPool(1);
    await startBlocking(pool);
    const runIn = (namespace: string) =>
      pool.run(echo, ordinaryContext, new TestHostFunctions(), undefined, new WaitBudget(namespace, '')).then(reasonOf);
    const waiting = many(10_000, () => runIn('large'));
    await expect(runIn('large')).rejects.toBeInstanceOf(BusyError);
    const other = runIn('small');
    other.catch(() => undefined);
    // The newest one made room.
    await expect(waiting.at(-1)).rejects.toBeInstanceOf(BusyError);
    await pool.close();
    expect(await outcomes([...waiting.slice(0, -1), other])).toEqual(
      Array.from({ length: 10_000 }, () => expect.objectContaining(shuttingDown)),
    );
  });

  it('has no room for a run that has waited as long as it may', async () => {
    const pool = createPool(1);
    const first = await startBlocking(pool);
    const budget = new WaitBudget('', '', 20);
    const waiting = pool.run(echo, ordinaryContext, new TestHostFunctions(), undefined, budget);
    await expect(waiting).rejects.toMatchObject({ retryAfterMs: expect.any(Number) });
    await expect(waiting).rejects.toBeInstanceOf(BusyError);
    first.answers.release();
    await first.ended;
    // Its time is used up, even for an idle host.
    await expect(pool.run(echo, ordinaryContext, new TestHostFunctions(), undefined, budget)).rejects.toBeInstanceOf(
      BusyError,
    );
    expect(await run(pool, echo, 'again')).toBe('again');
  });

  it('removes canceled runs from the queue; one in progress finishes', { tags: ['slow'] }, async () => {
    const pool = createPool(1);
    const leaving = new AbortController();
    const functions = new BlockingFunctions();
    const leave = (action: Action) =>
      pool.run(action, { ...ordinaryContext, llmResult: 'left' }, functions, leaving.signal).then(reasonOf);
    const begun = leave(blocking);
    await functions.begun;
    const left = many(10_000, () => leave(echo));
    await expect(run(pool, echo)).rejects.toBeInstanceOf(BusyError);
    leaving.abort();
    const canceled = { fault: 'host', message: 'request canceled' };
    expect(await outcomes(left)).toEqual(Array.from({ length: 10_000 }, () => expect.objectContaining(canceled)));
    await expect(leave(echo)).rejects.toMatchObject(canceled);
    const others = many(1_000, (index) => run(pool, echo, `${index}`));
    functions.release();
    expect([await begun, await others.at(-1)]).toEqual(['left', '999']);
    expect(functions.logged).toHaveLength(1);
  });

  it('isolates an action that cost a host: one host at a time', async () => {
    const pool = createPool(2);
    await expect(run(pool, misbehaving, 'greedy')).rejects.toMatchObject(outOfMemory);
    let ended = 0;
    const endless = many(60, () => run(pool, misbehaving, 'endless').finally(() => ended++));
    for (let time = 0; time < 20; time++) expect(await run(pool, echo, `${time}`)).toBe(`${time}`);
    expect(ended).toBe(0);
    await pool.close();
    expect(await outcomes(endless)).toEqual(Array.from({ length: 60 }, () => expect.objectContaining(shuttingDown)));
  });

  it.each(['fine', 'trap'])('ends the isolation after a run that does not cost a host: %s', async (last) => {
    const pool = createPool(1);
    await expect(run(pool, misbehaving, 'greedy')).rejects.toMatchObject(outOfMemory);
    expect(await outcomes([run(pool, misbehaving, last)])).toMatchObject([
      last === 'fine' ? 'fine' : { fault: 'trap' },
    ]);
    const first = await startBlocking(pool);
    const waiting = many(60, () => run(pool, misbehaving, 'fine'));
    first.answers.release();
    expect(await outcomes(waiting)).toEqual(Array.from({ length: 60 }, () => 'fine'));
  });

  it('kills only the host that exceeds its memory', async () => {
    const pool = createPool(2);
    const first = await startBlocking(pool);
    const greedy = injected('for (const chunks of [[]]) for (;;) chunks.push(new Uint8Array(1 << 22).fill(1));');
    await expect(run(pool, greedy)).rejects.toMatchObject({ fault: 'memory' });
    expect(await run(pool, echo, 'fine')).toBe('fine');
    first.answers.release();
    expect(await first.ended).toBe('released');
  });

  it('checks the memory of busy hosts all the time and of idle ones once', async () => {
    const checks = vi.spyOn(SandboxWorker.prototype, 'residentBytes');
    const checksOf = (pid: number | undefined) =>
      checks.mock.contexts.filter((host) => host instanceof SandboxWorker && host.pid === pid).length;
    const pool = createPool(2);
    const first = await startBlocking(pool);
    const [busy] = pool.pids;
    expect(await run(pool, echo, 'fine')).toBe('fine');
    const [, idle] = pool.pids;
    checks.mockClear();
    await expect.poll(() => checksOf(busy), poll).toBeGreaterThan(10);
    expect(checksOf(idle)).toBe(1);
    first.answers.release();
    await first.ended;
  });

  it('fails all runs when it is closed', async () => {
    const pool = createPool(2);
    pool.setActions([echo, blocking]);
    const running = [await startBlocking(pool), await startBlocking(pool)];
    const waiting = many(5, () => run(pool, echo));
    const closed = pool.close();
    expect(await outcomes([...running.map(({ ended }) => ended), ...waiting])).toEqual(
      Array.from({ length: 7 }, () => expect.objectContaining(shuttingDown)),
    );
    await closed;
    expect(children()).toEqual([]);
    expect(pool.pids).toEqual([]);
    await expect(run(pool, echo)).rejects.toMatchObject(shuttingDown);
    pool.setActions([echo]);
    expect(pool.pids).toEqual([]);
    await pool.close();
  });

  it('can be closed while hosts are starting', async () => {
    const pool = createPool(2);
    pool.setActions([echo]);
    const runs = many(3, () => run(pool, echo));
    expect(children()).not.toEqual([]);
    await pool.close();
    expect(children()).toEqual([]);
    expect(await outcomes(runs)).toEqual(Array.from({ length: 3 }, () => expect.objectContaining(shuttingDown)));
  });
});

describe('a pool with active actions', () => {
  it('starts hosts in advance, with a spare', async () => {
    const pool = createPool(2);
    expect(pool.pids).toEqual([]);
    pool.setActions([echo]);
    expect(pool.pids).toHaveLength(3);
    expect(await run(pool, echo, 'fine')).toBe('fine');
    expect(pool.pids).toHaveLength(3);
  });

  it('has the actions preloaded in the host that replaces another one', async () => {
    const pool = createPool(1);
    const action = reportingLoadTime('spare');
    pool.setActions([echo, action]);
    // Repeated until the spare has had enough time.
    let times = 200;
    await expect
      .poll(async () => {
        await expect.poll(() => pool.pids, poll).toHaveLength(2);
        const [working, spare] = pool.pids;
        for (let time = 0; time < times; time++) await run(pool, echo);
        times *= 2;
        const before = Date.now();
        await expect(run(pool, misbehaving, 'greedy')).rejects.toMatchObject(outOfMemory);
        const loadedAt = Number(await run(pool, action));
        expect(pool.pids).not.toContain(working);
        return pool.pids[0] === spare && loadedAt < before;
      }, poll)
      .toBe(true);
  });

  it('preloads new actions', async () => {
    const pool = createPool(1);
    pool.setActions([echo]);
    expect(await run(pool, echo, 'fine')).toBe('fine');
    const action = reportingLoadTime('new');
    const [host] = pool.pids;
    pool.setActions([echo, action]);
    const after = run(pool, echo, 'after');
    // The preload comes before this run.
    expect(await after).toBe('after');
    const before = Date.now();
    expect(Number(await run(pool, action))).toBeLessThanOrEqual(before);
    expect(pool.pids[0]).toBe(host);
  });

  it('keeps hosts when one of the actions cannot be loaded', async () => {
    const pool = createPool(1);
    const broken = { ...injected('broken'), glue: 'not a valid script' };
    pool.setActions([broken, echo]);
    const { pids } = pool;
    expect(await run(pool, echo, 'fine')).toBe('fine');
    await expect(run(pool, broken)).rejects.toMatchObject({ fault: 'trap' });
    expect(await run(pool, echo, 'fine')).toBe('fine');
    expect(pool.pids).toEqual(pids);
  });

  it('replaces hosts when inactive actions occupy the room of active ones', { tags: ['slow'] }, async () => {
    const pool = createPool(1);
    const old = Array.from({ length: 32 }, (_, number) => injected(`say(${number})`));
    pool.setActions(old);
    const { pids } = pool;
    for (const action of old) await run(pool, action);
    pool.setActions([echo]);
    await expect.poll(() => pool.pids.length === 2 && !pool.pids.includes(pids[0] ?? 0), poll).toBe(true);
    expect(await run(pool, echo, 'fine')).toBe('fine');
  });

  it('runs loaded actions while another host preloads new ones', { tags: ['slow'] }, async () => {
    const pool = createPool(2);
    pool.setActions([echo]);
    await Promise.all(many(2, () => run(pool, echo)));
    const { pids } = pool;
    const endless = { ...injected('endless'), glue: 'for (;;);' };
    pool.setActions([echo, endless]);
    expect(await run(pool, echo, 'meanwhile')).toBe('meanwhile');
    // A host that had given up loading would have been killed.
    expect(pool.pids).toEqual(pids);
    await expect.poll(() => pids.slice(0, 2).filter(isRunning), poll).toHaveLength(1);
  });

  it('preloads an action that was removed and added again meanwhile', { tags: ['slow'] }, async () => {
    const pool = createPool(1);
    const action = reportingLoadTime('again');
    for (const actions of [[action], [], [action]]) pool.setActions(actions);
    let times = 200;
    const replaceFirst = async () => {
      await expect.poll(() => pool.pids, poll).toHaveLength(2);
      const [first] = pool.pids;
      // Gives the spare time to preload, twice as much at each attempt.
      for (let time = 0; time < times; time++) await run(pool, action);
      times *= 2;
      kill(first);
      await expect.poll(() => pool.pids.includes(first ?? 0), poll).toBe(false);
    };
    await replaceFirst();
    await replaceFirst();
    await expect
      .poll(async () => {
        await replaceFirst();
        const before = Date.now();
        return Number(await run(pool, action)) < before;
      }, poll)
      .toBe(true);
  });

  it('stops hosts when there are no active actions', { tags: ['slow'] }, async () => {
    const pool = createPool(2);
    pool.setActions([echo]);
    expect(await run(pool, echo, 'fine')).toBe('fine');
    pool.setActions([]);
    await expect.poll(() => [pool.pids, children()], poll).toEqual([[], []]);
    expect(await run(pool, echo, 'fine')).toBe('fine');
    await expect.poll(() => [pool.pids, children()], poll).toEqual([[], []]);
    pool.setActions([echo]);
    expect(pool.pids).toHaveLength(3);
  });

  it('stops hosts only after pending runs, which stay in the same process', { tags: ['slow'] }, async () => {
    const pool = createPool(1);
    pool.setActions([blocking]);
    const first = await startBlocking(pool);
    const seen = new Set<number | undefined>();
    class SeeingAnswers extends TestHostFunctions {
      override log(): void {
        seen.add(pool.pids[0]);
      }
    }
    seen.add(pool.pids[0]);
    const waiting = many(20, (index) => run(pool, blocking, `${index}`, new SeeingAnswers()));
    pool.setActions([]);
    first.answers.release();
    expect(await first.ended).toBe('released');
    expect(await Promise.all(waiting)).toHaveLength(20);
    expect(seen.size).toBe(1);
    await expect.poll(() => [pool.pids, children()], poll).toEqual([[], []]);
  });

  it('finishes a run in progress when the active actions change', { tags: ['slow'] }, async () => {
    const pool = createPool(2);
    pool.setActions([blocking]);
    const first = await startBlocking(pool);
    pool.setActions([echo]);
    pool.setActions([misbehaving, echo]);
    expect(await run(pool, echo, 'fine')).toBe('fine');
    first.answers.release();
    expect(await first.ended).toBe('released');
    expect(await run(pool, misbehaving, 'fine')).toBe('fine');
  });
});

describe('hosts that cannot be started', () => {
  const { execPath } = process;
  afterEach(() => {
    process.execPath = execPath;
  });

  it('fails runs until hosts can be started again', async () => {
    const pool = createPool(2);
    process.execPath = '/no/such/program';
    pool.setActions([echo]);
    const runs = many(5, () => run(pool, echo, 'fine'));
    expect(await outcomes(runs)).toEqual(
      Array.from({ length: 5 }, () => expect.objectContaining({ fault: 'host', message: 'host process exited' })),
    );
    process.execPath = execPath;
    await expect.poll(() => run(pool, echo, 'fine').catch(() => 'not yet'), poll).toBe('fine');
    await expect.poll(() => pool.pids, poll).toHaveLength(3);
  });
});

describe('a host that is killed externally', () => {
  it('while idle does not affect the next run', { tags: ['slow'] }, async () => {
    const pool = createPool(1);
    for (let time = 0; time < 3; time++) {
      expect(await run(pool, echo, 'fine')).toBe('fine');
      const killed = pool.pids[0];
      kill(killed);
      expect(await run(pool, echo, 'after')).toBe('after');
      expect(pool.pids).not.toContain(killed);
    }
  });

  it('together with all others does not affect the next runs', { tags: ['slow'] }, async () => {
    const pool = createPool(8);
    pool.setActions([echo]);
    // One run, some, or as many as there are hosts.
    for (const count of [1, 4, 8]) {
      await Promise.all(many(16, () => run(pool, echo, 'fine')));
      await expect.poll(() => pool.pids, poll).toHaveLength(9);
      for (const pid of pool.pids) kill(pid);
      // Their exits are reported one after another, when the next runs have been dispatched already.
      while (!pool.pids.every(hasExited));
      const after = many(count, () => run(pool, echo, 'after'));
      expect(new Set(await outcomes(after))).toEqual(new Set(['after']));
    }
  });

  it('during a run that has sent something fails the run', async () => {
    const pool = createPool(1);
    const { answers, ended } = await startBlocking(pool);
    kill(pool.pids[0]);
    await expect(ended).rejects.toMatchObject({ fault: 'host', message: 'host process exited' });
    // Once: a run with effects must not be retried.
    expect(answers.logged).toHaveLength(1);
    expect(await run(pool, echo, 'fine')).toBe('fine');
  });

  it('while loading another action does not affect the pending run', { tags: ['slow'] }, async () => {
    const pool = createPool(1);
    const endless = { ...injected('endless'), glue: 'for (;;);' };
    pool.setActions([endless, echo]);
    await expect.poll(() => pool.pids.length, poll).toBe(2);
    const pending = run(pool, echo, 'fine');
    kill(pool.pids[0]);
    expect(await pending).toBe('fine');
  });

  it('is replaced in advance', { tags: ['slow'] }, async () => {
    const pool = createPool(1);
    pool.setActions([echo]);
    expect(await run(pool, echo, 'fine')).toBe('fine');
    const [host, spare] = pool.pids;
    kill(spare);
    await expect.poll(() => pool.pids.length === 2 && !pool.pids.includes(spare ?? 0), poll).toBe(true);
    expect(pool.pids[0]).toBe(host);
    kill(host);
    await expect.poll(() => pool.pids.length === 2 && !pool.pids.includes(host ?? 0), poll).toBe(true);
    expect(await run(pool, echo, 'fine')).toBe('fine');
  });

  it('twice fails the run; the next run succeeds', async () => {
    const pool = createPool(1);
    const endless = run(pool, misbehaving, 'endless');
    endless.catch(() => undefined);
    const killed = new Set<number>();
    for (let time = 0; time < 2; time++) {
      await expect.poll(() => pool.pids.filter((pid) => !killed.has(pid)), poll).toHaveLength(1);
      const [pid] = pool.pids.filter((each) => !killed.has(each));
      kill(pid);
      killed.add(pid ?? 0);
    }
    await expect(endless).rejects.toMatchObject({ fault: 'host', message: 'host process exited' });
    expect(await run(pool, misbehaving, 'fine')).toBe('fine');
  });
});
