import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ActionFailure, type ActionRun } from './action.ts';
import { ActionCompiler } from './compiler.ts';
import { children } from './fixtures/child-processes.ts';
import { FORGER } from './fixtures/forged-host.ts';
import { injected } from './fixtures/injected.ts';
import { OrdinaryAnswers, ordinaryContext } from './fixtures/ordinary-answers.ts';
import { printingAction } from './fixtures/printing-action.ts';
import { HOST_LIMITS, Host } from './host-process.ts';
import { readSandboxScripts } from './sandbox-process.ts';

/** Where a deadline is not what is tested, a busy machine is to have time. */
const PATIENCE = { runMs: 30_000 };

const hosts = new Set<Host>();
const action = injected('');

/** A host process with the real scripts, or one whose script does what no real one should be able to. */
function hostOf({ script, limits = PATIENCE }: { script?: string; limits?: typeof HOST_LIMITS } = {}): Host {
  const scripts = readSandboxScripts(['host']);
  const host = new Host(
    script === undefined ? scripts : { ...scripts, loader: FORGER + script },
    limits,
    () => undefined,
  );
  hosts.add(host);
  return host;
}

async function ran(host: Host, answers = new OrdinaryAnswers()): Promise<ActionRun> {
  await host.load(action);
  return host.run(action, ordinaryContext, answers);
}

const failure = (fault: string, message: RegExp) => ({ fault, message: expect.stringMatching(message) });

/** From now on deadlines are passed when the test says so. */
function heldClock(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
}

async function endHosts(): Promise<void> {
  vi.useRealTimers();
  for (const host of hosts) host.kill();
  await Promise.all([...hosts].map(({ ended }) => ended));
  hosts.clear();
  expect(children()).toEqual([]);
}

describe('a host', () => {
  afterEach(endHosts);

  it('runs what it has taken in, one thing at a time', async () => {
    const host = hostOf();
    const say = injected('say(ctx.llmResult)');
    const loaded = host.load(say);
    expect([host.has(say), host.busy, host.gone]).toEqual([false, true, false]);
    const runs = ['one', 'two', 'three'].map((llmResult) =>
      host.run(say, { ...ordinaryContext, llmResult }, new OrdinaryAnswers()),
    );
    await loaded;
    expect(host.has(say)).toBe(true);
    expect((await Promise.all(runs)).map(({ response }) => response)).toEqual([
      { kind: 'block', reason: 'one' },
      { kind: 'block', reason: 'two' },
      { kind: 'block', reason: 'three' },
    ]);
    expect(host.busy).toBe(false);
  });

  it('stays when an action cannot be loaded', async () => {
    const host = hostOf();
    const broken = { ...injected('1'), glue: 'this is no script' };
    await expect(host.load(broken)).rejects.toMatchObject(failure('trap', /cannot be loaded/));
    expect([host.has(broken), host.gone]).toEqual([false, false]);
    expect(await ran(host)).toMatchObject({ response: undefined });
  });

  it('has room for some actions, and one is never too large for it alone', async () => {
    const host = hostOf();
    const large = { ...action, modules: [{ name: 'm', bytes: new Uint8Array(40 * 1024 * 1024), pages: 1 }] };
    expect(host.roomFor(large)).toBe(true);
    await host.load(action);
    expect(host.roomFor(large)).toBe(false);
    for (let number = 0; number < 31; number++) {
      expect(host.roomFor(injected(`${number}`))).toBe(true);
      await host.load(injected(`${number}`));
    }
    expect(host.roomFor(injected('one more'))).toBe(false);
    expect(host.crowded([action])).toBe(false);
    expect(host.crowded([action, injected('one more')])).toBe(true);
    const all = Array.from({ length: 31 }, (_, number) => injected(`${number}`));
    // It has nothing but what is kept, of which there is more than one host takes.
    expect(host.crowded([action, ...all, injected('one more')])).toBe(false);
  });

  it('is killed when a run takes too long, and says so', async () => {
    const host = hostOf({ limits: { runMs: 200 } });
    const endless = injected('for (;;);');
    await host.load(endless);
    await expect(host.run(endless, ordinaryContext, new OrdinaryAnswers())).rejects.toMatchObject(
      failure('timeout', /longer than 200 ms/),
    );
    expect(host.gone).toBe(true);
    await expect(host.load(action)).rejects.toMatchObject(failure('timeout', /longer than 200 ms/));
  });

  it('is heard first when the service itself was busy beyond the deadline', async () => {
    const soon = setTimeout;
    heldClock();
    // What it says last comes after the service has become busy, with what it says first.
    const script = `run();
      say({ kind: 'log', level: 'info', message: 'now' });
      for (const until = Date.now() + 50; Date.now() < until; );
      say({ ...DONE, response: { kind: 'block', reason: 'done' } });
      process.exit();`;
    const host = hostOf({ script, limits: HOST_LIMITS });
    class BusyAnswers extends OrdinaryAnswers {
      override log(): void {
        soon(() => vi.advanceTimersByTime(HOST_LIMITS.runMs), 0);
        // Until it has said all, and is not waited for yet.
        while (!readFileSync(`/proc/${host.pid}/stat`, 'latin1').includes(') Z '));
      }
    }
    expect(await ran(host, new BusyAnswers())).toMatchObject({ response: { kind: 'block', reason: 'done' } });
  });

  it.each([
    ['nothing that it knows', `run(); say({ kind: 'secret' }); stay();`],
    ['no JSON', `run(); sayTexts('{'); stay();`],
    ['an empty frame', `run(); sayTexts(''); stay();`],
    ['a response that there is not', `run(); say({ ...DONE, response: { kind: 'allow' } }); stay();`],
    ['a response without its text', `run(); say({ ...DONE, response: { kind: 'block' } }); stay();`],
    ['a fault that is not its own to tell', `run(); say({ kind: 'failed', fault: 'timeout', message: '' }); stay();`],
    ['that it is ready, instead of an outcome', `run(); say(READY); stay();`],
    ['an outcome, instead of having loaded', `load(); say(DONE); stay();`],
    [
      'something before its question is answered',
      `run(); say({ kind: 'question', ask: 'verify', raw: '' }, { kind: 'log', level: 'info', message: '' }); stay();`,
    ],
    ['a question that there is not', `run(); say({ kind: 'question', ask: 'password' }); stay();`],
  ])('is ended when it says %s', async (_what, script) => {
    const host = hostOf({ script });
    await expect(ran(host)).rejects.toMatchObject(failure('host', /said what it may not|spoke out of turn/));
    await host.ended;
  });

  it('is ended when it begins a frame that is too long', async () => {
    const host = hostOf({ script: 'run(); sayBytes(Buffer.alloc(4, 255)); stay();' });
    await expect(ran(host)).rejects.toMatchObject(failure('host', /ended/));
    await host.ended;
  });

  it('is ended when it speaks though nobody asked', async () => {
    const host = hostOf({ script: `run(); say({ ...DONE, ignored: 3 }, DONE); stay();` });
    // What came before holds.
    expect(await ran(host)).toMatchObject({ ignoredResponses: 3 });
    await host.ended;
    await expect(ran(host)).rejects.toMatchObject(failure('host', /said what it may not/));
  });

  it('is ended when it asks while it loads', async () => {
    const host = hostOf({ script: `load(); say({ kind: 'question', ask: 'tools' }); stay();` });
    await expect(host.load(action)).rejects.toMatchObject(failure('limit', /asked/));
    await host.ended;
  });

  it.each([
    ['before it said anything', 'run(); process.exit(1);', 'HostLost'],
    ['after it said something', `run(); say({ kind: 'log', level: 'info', message: 'x' }); process.exit(1);`, 'Error'],
    ['while it started', 'process.exit(1);', 'HostLost'],
  ])('that ends by itself %s is told apart', async (_when, script, name) => {
    const host = hostOf({ script });
    const error = await ran(host).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ActionFailure);
    expect(error).toMatchObject({ fault: 'host', message: 'its host process ended' });
    expect(error?.constructor === ActionFailure ? 'Error' : error?.constructor.name).toBe(name);
  });

  it('is ended when it logs more than a run may', async () => {
    const host = hostOf({ script: `run(); for (;;) say({ kind: 'log', level: 'debug', message: 'x' });` });
    const answers = new OrdinaryAnswers();
    await expect(ran(host, answers)).rejects.toMatchObject(failure('limit', /logged/));
    expect(answers.logged).toHaveLength(300);
    expect(host.gone).toBe(true);
  });

  it('is ended when a run asks too often', async () => {
    const host = hostOf({
      script: `run();
        for (let count = 0; ; count++) { say({ kind: 'question', ask: 'tool', name: '' + count }); heard(); heard(); }`,
    });
    let last = '';
    class CountingAnswers extends OrdinaryAnswers {
      override tool(name: string): undefined {
        last = name;
      }
    }
    await expect(ran(host, new CountingAnswers())).rejects.toMatchObject(failure('limit', /too much/));
    expect(last).toBe('19999');
  });

  it('is ended when a run is answered too much in all', async () => {
    const host = hostOf({
      script: `run();
        for (;;) { say({ kind: 'question', ask: 'tools' }); heard(); heard(); }`,
    });
    const mebibyte = 'x'.repeat(1024 * 1024);
    let count = 0;
    class LongAnswers extends OrdinaryAnswers {
      override tools(): string {
        count++;
        return mebibyte;
      }
    }
    await expect(ran(host, new LongAnswers())).rejects.toMatchObject(failure('limit', /too much/));
    expect(count).toBe(129);
  });

  describe('tells who still answers a question of its', () => {
    /** A forged host that asks; what it asks for is never there, and `asked` has the signal. */
    function asking(then: string, question = `ask: 'history', conversation: 'talk'`) {
      const host = hostOf({ script: `run(); say({ kind: 'question', ${question} }); ${then}` });
      const { promise: asked, resolve } = Promise.withResolvers<AbortSignal>();
      class SlowAnswers extends OrdinaryAnswers {
        override async history(_conversationId: string, signal: AbortSignal): Promise<string> {
          resolve(signal);
          await once(signal, 'abort');
          throw signal.reason;
        }
        override verify(raw: string, signal: AbortSignal): Promise<string> {
          return this.history(raw, signal);
        }
      }
      return { host, asked, run: ran(host, new SlowAnswers()) };
    }

    it('that it took too long', async () => {
      heldClock();
      const { asked, run } = asking('stay();');
      const signal = await asked;
      vi.advanceTimersByTime(PATIENCE.runMs);
      const reason = failure('timeout', /longer than/);
      await expect(run).rejects.toMatchObject(reason);
      expect(signal).toMatchObject({ aborted: true, reason });
    });

    it('that it ended by itself', async () => {
      const { asked, run } = asking('process.exit(1);');
      const reason = failure('host', /ended/);
      await expect(run).rejects.toMatchObject(reason);
      expect(await asked).toMatchObject({ aborted: true, reason });
    });

    it.each([
      ['a conversation', `ask: 'history', conversation: 'talk'`],
      ['a verdict', `ask: 'verify', raw: '{}'`],
    ])('that it was killed, at once: %s', async (_what, question) => {
      const { host, asked, run } = asking('stay();', question);
      const signal = await asked;
      expect(signal.aborted).toBe(false);
      const reason = host.kill();
      expect(signal).toMatchObject({ aborted: true, reason });
      await expect(run).rejects.toBe(reason);
    });
  });

  it('is ended when what it asks cannot be answered', async () => {
    const host = hostOf();
    const asks = injected(`imports['service:evaluator/conversation'].getHistory('talk')`);
    await host.load(asks);
    class BrokenAnswers extends OrdinaryAnswers {
      override history(): string {
        throw new Error('out of order');
      }
    }
    await expect(host.run(asks, ordinaryContext, new BrokenAnswers())).rejects.toMatchObject({
      ...failure('host', /could not be answered/),
      cause: new Error('out of order'),
    });
  });
});

/** The functions `log`, `print`, which takes a text, and `out` and `err`, which take bytes. */
const WAYS = `
  const log = imports['service:evaluator/log'].info;
  const [stdout, stderr] = [imports['wasi:cli/stdout'].getStdout(), imports['wasi:cli/stderr'].getStderr()];
  const out = (...bytes) => stdout.write(Uint8Array.from(bytes));
  const err = (...bytes) => stderr.write(Uint8Array.from(bytes));
  const print = (text) => stdout.write(new TextEncoder().encode(text));
`;

describe('the log of a run', () => {
  afterEach(endHosts);

  const lines = (count: number, line: string) => Array.from({ length: count }, () => ['debug', line]);
  const cut = ['warn', 'it logs too much: the rest of this run is dropped'];

  async function logged(script: string): Promise<unknown> {
    const logs = injected(WAYS + script);
    const host = hostOf();
    const answers = new OrdinaryAnswers();
    await host.load(logs);
    await host.run(logs, ordinaryContext, answers);
    return answers.logged;
  }

  it('has 200 lines of what an action prints, and those of another run do not count', async () => {
    const compiler = new ActionCompiler({ compileMs: PATIENCE.runMs });
    const prints = await compiler.compile(await printingAction()).finally(() => compiler.close());
    const host = hostOf();
    await host.load(prints);
    for (const line of ['grüß 😀', 'again', '']) {
      const answers = new OrdinaryAnswers();
      await host.run(prints, { ...ordinaryContext, llmResult: `${line}\n` }, answers);
      expect(answers.logged).toEqual([...lines(200, line), cut]);
    }
    expect(host.gone).toBe(false);
  });

  it('counts lines of all ways together', async () => {
    expect(
      await logged(`
        for (let time = 0; time < 70; time++) { log('logged'); print('out\\n'); err(0x65, 0x0a); }
        print('the last one');`),
    ).toEqual([
      ...Array.from({ length: 66 }, () => [['info', 'logged'], ...lines(1, 'out'), ...lines(1, 'e')]).flat(),
      ['info', 'logged'],
      ['debug', 'out'],
      cut,
    ]);
    expect(await logged(`for (let time = 0; time < 199; time++) log('x'); print('the last one');`)).toContainEqual([
      'debug',
      'the last one',
    ]);
  });

  it.each([
    ['a character in two writes', 'out(0xc3); out(0xbc, 0x0a);', ['ü']],
    ['a character in four writes', 'out(0x78, 0xf0); out(0x9f); out(0x98); out(0x80, 0x0a);', ['x😀']],
    ['characters on two streams', 'out(0xc3); err(0xc3, 0xa4, 0x0a); out(0xbc, 0x0a);', ['ä', 'ü']],
    ['a line of two writes on two streams', 'out(0x61); err(0x62, 0x0a); out(0x63, 0x0a);', ['b', 'ac']],
    ['bytes that are no UTF-8', 'out(0x61, 0xff, 0x62, 0xe4, 0x63, 0x80, 0x0a);', ['a\ufffdb\ufffdc\ufffd']],
    ['UTF-8 beside them', `print('aü€😀'); out(0xff); print('aü€😀\\n');`, ['aü€😀\ufffdaü€😀']],
    ['UTF-8 with them', 'out(0xff, 0xc3, 0xbc, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80, 0x0a);', ['\ufffdü€😀']],
    ['UTF-8 that is too long', 'out(0xc0, 0xaf, 0x61, 0xe0, 0x80, 0xaf, 0x0a);', ['\ufffda\ufffd']],
    ['a surrogate', 'out(0xed, 0xa0, 0x80, 0x0a);', ['\ufffd']],
    ['beyond Unicode', 'out(0xf4, 0x90, 0x80, 0x80, 0x61, 0xf8, 0x0a);', ['\ufffda\ufffd']],
    ['a character that does not go on', 'out(0xe2, 0x82); out(0x61, 0x0a);', ['\ufffda']],
    ['a character that the end cuts', 'out(0x61, 0x0a, 0xe2, 0x82);', ['a', '\ufffd']],
    ['a long write', `print(('ü'.repeat(499) + '\\n').repeat(100));`, Array(100).fill('ü'.repeat(499))],
  ])('has what is printed: %s', async (_what, script, expected) => {
    expect(await logged(script)).toEqual(expected.map((line) => ['debug', line]));
  });
});
