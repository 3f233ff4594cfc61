import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import type { Action, ActionRun } from './action.ts';
import { children } from './fixtures/child-processes.ts';
import { injected } from './fixtures/injected.ts';
import { OrdinaryAnswers, ordinaryContext } from './fixtures/ordinary-answers.ts';
import { ActionHosts } from './pool.ts';

/** Where a deadline is not what is tested, a busy machine is to have time. */
const limits = { runMs: 30_000 };
const poll = { timeout: 20_000, interval: 10 };

/** Says what the LLM said. */
const echo = injected('say(ctx.llmResult)');
/** Logs, then waits for an answer that a test gives when it wants to. */
const patient = injected(`
  imports['service:evaluator/log'].info(ctx.llmResult);
  imports['service:evaluator/validation'].verifyLlmResult('x');
  say(ctx.llmResult);`);
/** Costs its host, never ends, or traps. */
const wicked = injected(`
  if (ctx.llmResult === 'endless') for (;;);
  if (ctx.llmResult === 'trap') throw new Error('trap');
  if (ctx.llmResult === 'costly') for (const kept of [[]]) for (;;) kept.push(new Uint8Array(1 << 22).fill(1));
  say(ctx.llmResult);`);

/** Says when it was taken in by the host that runs it first. */
function born(name: string): Action {
  const { glue, ...action } = injected(`say(bornAt); // ${name}\n`);
  return { ...action, glue: `const bornAt = Date.now();\n${glue}` };
}

/** Answers of a run that waits until it is released. */
class PatientAnswers extends OrdinaryAnswers {
  readonly #heard = Promise.withResolvers<void>();
  readonly #released = Promise.withResolvers<undefined>();
  /** When the run is under way. */
  readonly underWay = this.#heard.promise;
  release(): void {
    this.#released.resolve(undefined);
  }
  override log(...line: Parameters<OrdinaryAnswers['log']>): void {
    super.log(...line);
    this.#heard.resolve();
  }
  override verify(): Promise<undefined> {
    return this.#released.promise;
  }
}

const said = ({ response }: ActionRun): string => (response?.kind === 'block' ? response.reason : 'nothing');
const cost = { fault: 'memory' };
const stopping = { fault: 'host', message: 'the service is stopping' };
const refused = { fault: 'host', message: expect.stringContaining('too many runs wait') };

/** All that a test made are closed, and no process may be left. */
const made = new Set<ActionHosts>();
function hostsOf(size: number): ActionHosts {
  const hosts = new ActionHosts({ size, limits });
  made.add(hosts);
  return hosts;
}

function run(hosts: ActionHosts, action: Action, llmResult = '', answers = new OrdinaryAnswers()): Promise<string> {
  return hosts.run(action, { ...ordinaryContext, llmResult }, answers).then(said);
}

/** A run that is under way; `ended` is its outcome. */
async function held(hosts: ActionHosts, llmResult = 'held') {
  const answers = new PatientAnswers();
  const ended = run(hosts, patient, llmResult, answers);
  ended.catch(() => undefined);
  await Promise.race([answers.underWay, ended]);
  return { answers, ended };
}

/** That many runs, whose failures are looked at later. */
function many(count: number, start: (index: number) => Promise<string>): Promise<string>[] {
  const runs = Array.from({ length: count }, (_, index) => start(index));
  for (const each of runs) each.catch(() => undefined);
  return runs;
}

const faults = async (runs: readonly Promise<string>[]): Promise<unknown[]> =>
  (await Promise.allSettled(runs)).map((end) => (end.status === 'rejected' ? end.reason : end.value));

function kill(pid: number | undefined): void {
  if (pid === undefined) throw new Error('there is no such process');
  process.kill(pid, 'SIGKILL');
}

/** True when a process has ended, though nobody has been told. */
function ended(pid: number): boolean {
  return readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') Z ');
}

/** True of a process that is at work, rather than waits for something to do. */
function works(pid: number): boolean {
  return readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') R ');
}

afterEach(async () => {
  await Promise.all([...made].map((hosts) => hosts.close()));
  made.clear();
  expect(children()).toEqual([]);
});

describe('hosts', () => {
  it('run as many at a time as there are', async () => {
    const hosts = hostsOf(2);
    const runs = [await held(hosts, 'one'), await held(hosts, 'two')];
    expect(hosts.pids.length).toBeGreaterThanOrEqual(2);
    const third = new PatientAnswers();
    const waits = run(hosts, patient, 'three', third);
    third.release();
    runs[1]?.answers.release();
    expect(await waits).toBe('three');
    // The first one is still at it.
    expect(runs[0]?.answers.logged).toHaveLength(1);
    runs[0]?.answers.release();
    expect(await Promise.all(runs.map(({ ended }) => ended))).toEqual(['one', 'two']);
    expect(hosts.pids.length).toBeLessThanOrEqual(3);
  });

  it('let actions take turns', async () => {
    const hosts = hostsOf(1);
    const first = await held(hosts);
    const order: string[] = [];
    const note = (action: Action, name: string) => run(hosts, action, name).then((name) => order.push(name));
    const runs = [...['a1', 'a2', 'a3', 'a4'].map((name) => note(echo, name)), note(wicked, 'b1'), note(wicked, 'b2')];
    first.answers.release();
    await Promise.all(runs);
    expect(order).toEqual(['a1', 'b1', 'a2', 'b2', 'a3', 'a4']);
  });

  it('let 1000 runs of an action wait, and refuse more; others get in', async () => {
    const hosts = hostsOf(1);
    const first = await held(hosts);
    const waiting = many(1_000, (index) => run(hosts, echo, `${index}`));
    await expect(run(hosts, echo, 'one more')).rejects.toMatchObject(refused);
    const other = run(hosts, wicked, 'other');
    first.answers.release();
    expect(await other).toBe('other');
    expect(await Promise.all(waiting)).toEqual(Array.from({ length: 1_000 }, (_, index) => `${index}`));
    expect(await run(hosts, echo, 'again')).toBe('again');
  });

  it('let 10,000 runs wait in all', async () => {
    const hosts = hostsOf(1);
    await held(hosts);
    const waiting = many(10_000, (index) => run(hosts, injected(`${index % 10}`)));
    await expect(run(hosts, echo)).rejects.toMatchObject(refused);
    await hosts.close();
    expect(await faults(waiting)).toEqual(Array.from({ length: 10_000 }, () => expect.objectContaining(stopping)));
  });

  it('let go of runs that nobody waits for, of those that have begun when they end', async () => {
    const hosts = hostsOf(1);
    const leaving = new AbortController();
    const answers = new PatientAnswers();
    const leave = (action: Action) =>
      hosts.run(action, { ...ordinaryContext, llmResult: 'left' }, answers, leaving.signal).then(said);
    const begun = leave(patient);
    await answers.underWay;
    const left = many(1_000, () => leave(echo));
    await expect(run(hosts, echo)).rejects.toMatchObject(refused);
    leaving.abort();
    const forNobody = { fault: 'host', message: 'nobody waits for it any more' };
    expect(await faults(left)).toEqual(Array.from({ length: 1_000 }, () => expect.objectContaining(forNobody)));
    await expect(leave(echo)).rejects.toMatchObject(forNobody);
    const others = many(1_000, (index) => run(hosts, echo, `${index}`));
    answers.release();
    expect([await begun, await others.at(-1)]).toEqual(['left', '999']);
    expect(answers.logged).toHaveLength(1);
  });

  it('give an action that cost a host one at a time, and let 50 of its runs wait', async () => {
    const hosts = hostsOf(2);
    await expect(run(hosts, wicked, 'costly')).rejects.toMatchObject(cost);
    const endless = many(60, () => run(hosts, wicked, 'endless'));
    let ended = 0;
    for (const each of endless.slice(0, 51)) each.catch(() => ended++);
    // Those that there is no room for.
    expect(await faults(endless.slice(51))).toEqual(Array.from({ length: 9 }, () => expect.objectContaining(refused)));
    for (let time = 0; time < 20; time++) expect(await run(hosts, echo, `${time}`)).toBe(`${time}`);
    expect(ended).toBe(0);
    await hosts.close();
    expect(await faults(endless.slice(0, 51))).toEqual(
      Array.from({ length: 51 }, () => expect.objectContaining(stopping)),
    );
  });

  it.each(['fine', 'trap'])('trust an action again whose host has outlived it: %s', async (last) => {
    const hosts = hostsOf(1);
    await expect(run(hosts, wicked, 'costly')).rejects.toMatchObject(cost);
    expect(await faults([run(hosts, wicked, last)])).toMatchObject([last === 'fine' ? 'fine' : { fault: 'trap' }]);
    const first = await held(hosts);
    const waiting = many(60, () => run(hosts, wicked, 'fine'));
    first.answers.release();
    expect(await faults(waiting)).toEqual(Array.from({ length: 60 }, () => 'fine'));
  });

  it('end one that takes too much memory, and it alone', async () => {
    const hosts = hostsOf(2);
    const first = await held(hosts);
    const greedy = injected('for (const kept of [[]]) for (;;) kept.push(new Uint8Array(1 << 22).fill(1));');
    await expect(run(hosts, greedy)).rejects.toMatchObject({ fault: 'memory' });
    expect(await run(hosts, echo, 'fine')).toBe('fine');
    first.answers.release();
    expect(await first.ended).toBe('held');
  });

  it('fail all that runs or waits when they are closed', async () => {
    const hosts = hostsOf(2);
    hosts.keep([echo, patient]);
    const running = [await held(hosts), await held(hosts)];
    const waiting = many(5, () => run(hosts, echo));
    const closed = hosts.close();
    expect(await faults([...running.map(({ ended }) => ended), ...waiting])).toEqual(
      Array.from({ length: 7 }, () => expect.objectContaining(stopping)),
    );
    await closed;
    expect(children()).toEqual([]);
    expect(hosts.pids).toEqual([]);
    await expect(run(hosts, echo)).rejects.toMatchObject(stopping);
    hosts.keep([echo]);
    expect(hosts.pids).toEqual([]);
    await hosts.close();
  });

  it('close while they start', async () => {
    const hosts = hostsOf(2);
    hosts.keep([echo]);
    const runs = many(3, () => run(hosts, echo));
    expect(children()).not.toEqual([]);
    await hosts.close();
    expect(children()).toEqual([]);
    expect(await faults(runs)).toEqual(Array.from({ length: 3 }, () => expect.objectContaining(stopping)));
  });
});

describe('hosts for the actions that there are', () => {
  it('are started in advance, with a spare one', async () => {
    const hosts = hostsOf(2);
    expect(hosts.pids).toEqual([]);
    hosts.keep([echo]);
    expect(hosts.pids).toHaveLength(3);
    expect(await run(hosts, echo, 'fine')).toBe('fine');
    expect(hosts.pids).toHaveLength(3);
  });

  it('have taken them in when one takes the place of another', async () => {
    const hosts = hostsOf(1);
    const action = born('spare');
    hosts.keep([echo, action]);
    // As often as it takes until the spare one has had the time.
    let times = 200;
    await expect
      .poll(async () => {
        await expect.poll(() => hosts.pids, poll).toHaveLength(2);
        const [working, spare] = hosts.pids;
        for (let time = 0; time < times; time++) await run(hosts, echo);
        times *= 2;
        const before = Date.now();
        await expect(run(hosts, wicked, 'costly')).rejects.toMatchObject(cost);
        const bornAt = Number(await run(hosts, action));
        expect(hosts.pids).not.toContain(working);
        return hosts.pids[0] === spare && bornAt < before;
      }, poll)
      .toBe(true);
  });

  it('take in what is new', async () => {
    const hosts = hostsOf(1);
    hosts.keep([echo]);
    expect(await run(hosts, echo, 'fine')).toBe('fine');
    const action = born('new');
    const [host] = hosts.pids;
    hosts.keep([echo, action]);
    const after = run(hosts, echo, 'after');
    // What was asked for after it was kept is run after it was taken in.
    expect(await after).toBe('after');
    const before = Date.now();
    expect(Number(await run(hosts, action))).toBeLessThanOrEqual(before);
    expect(hosts.pids[0]).toBe(host);
  });

  it('stay when one of them cannot be taken in', async () => {
    const hosts = hostsOf(1);
    const broken = { ...injected('broken'), glue: 'this is no script' };
    hosts.keep([broken, echo]);
    const { pids } = hosts;
    expect(await run(hosts, echo, 'fine')).toBe('fine');
    await expect(run(hosts, broken)).rejects.toMatchObject({ fault: 'trap' });
    expect(await run(hosts, echo, 'fine')).toBe('fine');
    expect(hosts.pids).toEqual(pids);
  });

  it('are replaced when old actions take the room of new ones', async () => {
    const hosts = hostsOf(1);
    const old = Array.from({ length: 32 }, (_, number) => injected(`say(${number})`));
    hosts.keep(old);
    const { pids } = hosts;
    for (const action of old) await run(hosts, action);
    hosts.keep([echo]);
    await expect.poll(() => hosts.pids.length === 2 && !hosts.pids.includes(pids[0] ?? 0), poll).toBe(true);
    expect(await run(hosts, echo, 'fine')).toBe('fine');
  });

  it('run what they have while they take in what is new', async () => {
    const hosts = hostsOf(2);
    hosts.keep([echo]);
    await Promise.all(many(2, () => run(hosts, echo)));
    const { pids } = hosts;
    const endless = { ...injected('endless'), glue: 'for (;;);' };
    hosts.keep([echo, endless]);
    expect(await run(hosts, echo, 'meanwhile')).toBe('meanwhile');
    // One that had given up on it would have ended.
    expect(hosts.pids).toEqual(pids);
    await expect.poll(() => pids.slice(0, 2).filter(works), poll).toHaveLength(1);
  });

  it('take in again what was taken away while they took it in', async () => {
    const hosts = hostsOf(1);
    const action = born('again');
    for (const actions of [[action], [], [action]]) hosts.keep(actions);
    let times = 200;
    const replaced = async () => {
      await expect.poll(() => hosts.pids, poll).toHaveLength(2);
      const [first] = hosts.pids;
      // Meanwhile the spare one has the time to take it in, at the latest when it has had twice as much often enough.
      for (let time = 0; time < times; time++) await run(hosts, action);
      times *= 2;
      kill(first);
      await expect.poll(() => hosts.pids.includes(first ?? 0), poll).toBe(false);
    };
    await replaced();
    await replaced();
    await expect
      .poll(async () => {
        await replaced();
        const before = Date.now();
        return Number(await run(hosts, action)) < before;
      }, poll)
      .toBe(true);
  });

  it('end when there are none any more', async () => {
    const hosts = hostsOf(2);
    hosts.keep([echo]);
    expect(await run(hosts, echo, 'fine')).toBe('fine');
    hosts.keep([]);
    await expect.poll(() => [hosts.pids, children()], poll).toEqual([[], []]);
    expect(await run(hosts, echo, 'fine')).toBe('fine');
    await expect.poll(() => [hosts.pids, children()], poll).toEqual([[], []]);
    hosts.keep([echo]);
    expect(hosts.pids).toHaveLength(3);
  });

  it('end after what runs and waits, in the same process, when there are none any more', async () => {
    const hosts = hostsOf(1);
    hosts.keep([patient]);
    const first = await held(hosts);
    const seen = new Set<number | undefined>();
    class SeeingAnswers extends OrdinaryAnswers {
      override log(): void {
        seen.add(hosts.pids[0]);
      }
    }
    seen.add(hosts.pids[0]);
    const waiting = many(20, (index) => run(hosts, patient, `${index}`, new SeeingAnswers()));
    hosts.keep([]);
    first.answers.release();
    expect(await first.ended).toBe('held');
    expect(await Promise.all(waiting)).toHaveLength(20);
    expect(seen.size).toBe(1);
    await expect.poll(() => [hosts.pids, children()], poll).toEqual([[], []]);
  });

  it('let a run end that was under way when others were kept', async () => {
    const hosts = hostsOf(2);
    hosts.keep([patient]);
    const first = await held(hosts);
    hosts.keep([echo]);
    hosts.keep([wicked, echo]);
    expect(await run(hosts, echo, 'fine')).toBe('fine');
    first.answers.release();
    expect(await first.ended).toBe('held');
    expect(await run(hosts, wicked, 'fine')).toBe('fine');
  });
});

describe('hosts that cannot be started', () => {
  const { execPath } = process;
  afterEach(() => {
    process.execPath = execPath;
  });

  it('fail runs, until they can be started again', async () => {
    const hosts = hostsOf(2);
    process.execPath = '/no/such/program';
    hosts.keep([echo]);
    const runs = many(5, () => run(hosts, echo, 'fine'));
    expect(await faults(runs)).toEqual(
      Array.from({ length: 5 }, () => expect.objectContaining({ fault: 'host', message: 'its host process ended' })),
    );
    process.execPath = execPath;
    await expect.poll(() => run(hosts, echo, 'fine').catch(() => 'not yet'), poll).toBe('fine');
    await expect.poll(() => hosts.pids, poll).toHaveLength(3);
  });
});

describe('a host that is killed from outside', () => {
  it('while it idles is not noticed by whoever runs something next', async () => {
    const hosts = hostsOf(1);
    for (let time = 0; time < 3; time++) {
      expect(await run(hosts, echo, 'fine')).toBe('fine');
      const killed = hosts.pids[0];
      kill(killed);
      expect(await run(hosts, echo, 'after')).toBe('after');
      expect(hosts.pids).not.toContain(killed);
    }
  });

  it('together with all others is not noticed either', async () => {
    const hosts = hostsOf(8);
    hosts.keep([echo]);
    // One run, some, or as many as there are hosts.
    for (const count of [1, 4, 8]) {
      await Promise.all(many(16, () => run(hosts, echo, 'fine')));
      await expect.poll(() => hosts.pids, poll).toHaveLength(9);
      for (const pid of hosts.pids) kill(pid);
      // Their ends are told one after another then, when the next run has been handed over already.
      while (!hosts.pids.every(ended));
      const after = many(count, () => run(hosts, echo, 'after'));
      expect(new Set(await faults(after))).toEqual(new Set(['after']));
    }
  });

  it('during a run that was heard of fails it', async () => {
    const hosts = hostsOf(1);
    const { answers, ended } = await held(hosts);
    kill(hosts.pids[0]);
    await expect(ended).rejects.toMatchObject({ fault: 'host', message: 'its host process ended' });
    // Once: what it did may not be done again.
    expect(answers.logged).toHaveLength(1);
    expect(await run(hosts, echo, 'fine')).toBe('fine');
  });

  it('is replaced before anybody needs it', async () => {
    const hosts = hostsOf(1);
    hosts.keep([echo]);
    expect(await run(hosts, echo, 'fine')).toBe('fine');
    const [host, spare] = hosts.pids;
    kill(spare);
    await expect.poll(() => hosts.pids.length === 2 && !hosts.pids.includes(spare ?? 0), poll).toBe(true);
    expect(hosts.pids[0]).toBe(host);
    kill(host);
    await expect.poll(() => hosts.pids.length === 2 && !hosts.pids.includes(host ?? 0), poll).toBe(true);
    expect(await run(hosts, echo, 'fine')).toBe('fine');
  });

  it('twice fails the run, whose next one succeeds', async () => {
    const hosts = hostsOf(1);
    const endless = run(hosts, wicked, 'endless');
    endless.catch(() => undefined);
    const killed = new Set<number>();
    for (let time = 0; time < 2; time++) {
      await expect.poll(() => hosts.pids.filter((pid) => !killed.has(pid)), poll).toHaveLength(1);
      const [pid] = hosts.pids.filter((each) => !killed.has(each));
      kill(pid);
      killed.add(pid ?? 0);
    }
    await expect(endless).rejects.toMatchObject({ fault: 'host', message: 'its host process ended' });
    expect(await run(hosts, wicked, 'fine')).toBe('fine');
  });
});
