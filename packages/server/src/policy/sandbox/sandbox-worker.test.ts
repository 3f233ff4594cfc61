import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ActionFailure, type ActionRun } from './action.ts';
import { ActionCompiler } from './compiler.ts';
import { children } from './fixtures/child-processes.ts';
import { FORGED_HOST_PRELUDE } from './fixtures/forged-host.ts';
import { injected } from './fixtures/injected.ts';
import { printingAction } from './fixtures/printing-action.ts';
import { ordinaryContext, TestHostFunctions } from './fixtures/test-host-functions.ts';
import { readSandboxScripts } from './sandbox-process.ts';
import { HOST_LIMITS, SandboxWorker } from './sandbox-worker.ts';

/** Generous, so that a slow machine does not exceed it where the deadline is not the subject. */
const TIMEOUT = { runMs: 30_000 };

const hosts = new Set<SandboxWorker>();
const action = injected('');

/** Host process with the real scripts, or with a forged one. */
function startHost({ script, limits = TIMEOUT }: { script?: string; limits?: typeof HOST_LIMITS } = {}): SandboxWorker {
  const scripts = readSandboxScripts(['host']);
  const host = new SandboxWorker(
    script === undefined ? scripts : { ...scripts, loader: FORGED_HOST_PRELUDE + script },
    limits,
    () => undefined,
  );
  hosts.add(host);
  return host;
}

async function loadAndRun(host: SandboxWorker, functions = new TestHostFunctions()): Promise<ActionRun> {
  await host.load(action);
  return host.run(action, ordinaryContext, functions);
}

const failure = (fault: string, message: RegExp) => ({ fault, message: expect.stringMatching(message) });

/** Replaces timers, so that the test decides when a deadline passes. */
function useFakeTimers(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
}

async function killHosts(): Promise<void> {
  vi.useRealTimers();
  for (const host of hosts) host.kill();
  await Promise.all([...hosts].map(({ exited }) => exited));
  hosts.clear();
  expect(children()).toEqual([]);
}

describe('a host', () => {
  afterEach(killHosts);

  it('executes one command at a time, in order', async () => {
    const host = startHost();
    const say = injected('say(ctx.llmResult)');
    const loaded = host.load(say);
    expect([host.has(say), host.isBusy, host.hasExited]).toEqual([false, true, false]);
    const runs = ['one', 'two', 'three'].map((llmResult) =>
      host.run(say, { ...ordinaryContext, llmResult }, new TestHostFunctions()),
    );
    await loaded;
    expect(host.has(say)).toBe(true);
    expect((await Promise.all(runs)).map(({ response }) => response)).toEqual([
      { kind: 'block', reason: 'one' },
      { kind: 'block', reason: 'two' },
      { kind: 'block', reason: 'three' },
    ]);
    expect(host.isBusy).toBe(false);
  });

  it('keeps running when an action cannot be loaded', async () => {
    const host = startHost();
    const broken = { ...injected('1'), glue: 'not a valid script' };
    await expect(host.load(broken)).rejects.toMatchObject(failure('trap', /cannot be loaded/));
    expect([host.has(broken), host.hasExited]).toEqual([false, false]);
    expect(await loadAndRun(host)).toMatchObject({ response: undefined });
  });

  it('limits loaded actions, except a single large one', async () => {
    const host = startHost();
    const large = { ...action, modules: [{ name: 'm', bytes: new Uint8Array(40 * 1024 * 1024), pages: 1 }] };
    expect(host.hasCapacityFor(large)).toBe(true);
    await host.load(action);
    expect(host.hasCapacityFor(large)).toBe(false);
    for (let number = 0; number < 31; number++) {
      expect(host.hasCapacityFor(injected(`${number}`))).toBe(true);
      await host.load(injected(`${number}`));
    }
    expect(host.hasCapacityFor(injected('one more'))).toBe(false);
    expect(host.needsReplacementFor([action])).toBe(false);
    expect(host.needsReplacementFor([action, injected('one more')])).toBe(true);
    const all = Array.from({ length: 31 }, (_, number) => injected(`${number}`));
    // It has active actions only, of which there are more than fit.
    expect(host.needsReplacementFor([action, ...all, injected('one more')])).toBe(false);
  });

  it('is killed when a run exceeds the deadline', async () => {
    const host = startHost({ limits: { runMs: 200 } });
    const endless = injected('for (;;);');
    await host.load(endless);
    await expect(host.run(endless, ordinaryContext, new TestHostFunctions())).rejects.toMatchObject(
      failure('timeout', /execution exceeded 200 ms/),
    );
    expect(host.hasExited).toBe(true);
    await expect(host.load(action)).rejects.toMatchObject(failure('timeout', /execution exceeded 200 ms/));
  });

  it('has its pending messages read first when the service itself was blocked beyond the deadline', async () => {
    const soon = setTimeout;
    useFakeTimers();
    // The last message is sent while the service is blocked by handling the first one.
    const script = `run();
      send({ kind: 'log', level: 'info', message: 'now' });
      for (const until = Date.now() + 50; Date.now() < until; );
      send({ ...DONE, response: { kind: 'block', reason: 'done' } });
      process.exit();`;
    const host = startHost({ script, limits: HOST_LIMITS });
    class SlowLog extends TestHostFunctions {
      override log(): void {
        soon(() => vi.advanceTimersByTime(HOST_LIMITS.runMs), 0);
        // Until it has sent everything and exited, without its exit having been reported.
        while (!readFileSync(`/proc/${host.pid}/stat`, 'latin1').includes(') Z '));
      }
    }
    expect(await loadAndRun(host, new SlowLog())).toMatchObject({ response: { kind: 'block', reason: 'done' } });
  });

  it.each([
    ['an unknown message', `run(); send({ kind: 'secret' }); stay();`],
    ['invalid JSON', `run(); sendTexts('{'); stay();`],
    ['an empty frame', `run(); sendTexts(''); stay();`],
    ['an unknown response', `run(); send({ ...DONE, response: { kind: 'allow' } }); stay();`],
    ['a response without its text', `run(); send({ ...DONE, response: { kind: 'block' } }); stay();`],
    [
      'a fault that only the service reports',
      `run(); send({ kind: 'failed', fault: 'timeout', message: '' }); stay();`,
    ],
    ['ready instead of a result', `run(); send(READY); stay();`],
    ['a result instead of loaded', `load(); send(DONE); stay();`],
    [
      'a message during a host function call',
      `run(); send({ kind: 'call', function: 'verify', raw: '' }, { kind: 'log', level: 'info', message: '' }); stay();`,
    ],
    ['a call of an unknown function', `run(); send({ kind: 'call', function: 'password' }); stay();`],
  ])('is killed when it sends %s', async (_what, script) => {
    const host = startHost({ script });
    await expect(loadAndRun(host)).rejects.toMatchObject(failure('host', /invalid message|unexpected message/));
    await host.exited;
  });

  it('is killed when it begins an oversized frame', async () => {
    const host = startHost({ script: 'run(); sendBytes(Buffer.alloc(4, 255)); stay();' });
    await expect(loadAndRun(host)).rejects.toMatchObject(failure('host', /oversized/));
    await host.exited;
  });

  it('is killed when it sends a message without a command', async () => {
    const host = startHost({ script: `run(); send({ ...DONE, ignored: 3 }, DONE); stay();` });
    // The preceding message is valid.
    expect(await loadAndRun(host)).toMatchObject({ ignoredResponses: 3 });
    await host.exited;
    await expect(loadAndRun(host)).rejects.toMatchObject(failure('host', /invalid message/));
  });

  it('is killed when it calls a host function while loading', async () => {
    const host = startHost({ script: `load(); send({ kind: 'call', function: 'tools' }); stay();` });
    await expect(host.load(action)).rejects.toMatchObject(failure('limit', /outside of a run/));
    await host.exited;
  });

  it.each([
    ['before it sent anything', 'run(); process.exit(1);', 'HostExitedError'],
    [
      'after it sent something',
      `run(); send({ kind: 'log', level: 'info', message: 'x' }); process.exit(1);`,
      'ActionFailure',
    ],
    ['while it started', 'process.exit(1);', 'HostExitedError'],
  ])('that exits on its own %s is distinguished', async (_when, script, name) => {
    const host = startHost({ script });
    const error = await loadAndRun(host).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ActionFailure);
    expect(error).toMatchObject({ fault: 'host', message: 'host process exited' });
    expect(error?.constructor.name).toBe(name);
  });

  it('is killed when it exceeds the log lines of a run', async () => {
    const host = startHost({ script: `run(); for (;;) send({ kind: 'log', level: 'debug', message: 'x' });` });
    const functions = new TestHostFunctions();
    await expect(loadAndRun(host, functions)).rejects.toMatchObject(failure('limit', /log lines/));
    expect(functions.logged).toHaveLength(300);
    expect(host.hasExited).toBe(true);
  });

  it('is killed when a run makes too many calls', async () => {
    const host = startHost({
      script: `run();
        for (let count = 0; ; count++) { send({ kind: 'call', function: 'tool', name: '' + count }); readFrame(); readFrame(); }`,
    });
    let last = '';
    class CountingFunctions extends TestHostFunctions {
      override tool(name: string): undefined {
        last = name;
      }
    }
    await expect(loadAndRun(host, new CountingFunctions())).rejects.toMatchObject(
      failure('limit', /more than 20000 host function calls/),
    );
    expect(last).toBe('19999');
  });

  it('is killed when the results of a run are too large in total', async () => {
    const host = startHost({
      script: `run();
        for (;;) { send({ kind: 'call', function: 'tools' }); readFrame(); readFrame(); }`,
    });
    const mebibyte = 'x'.repeat(1024 * 1024);
    let count = 0;
    class LargeResults extends TestHostFunctions {
      override tools(): string {
        count++;
        return mebibyte;
      }
    }
    await expect(loadAndRun(host, new LargeResults())).rejects.toMatchObject(
      failure('limit', /returned more than 128 MiB/),
    );
    expect(count).toBe(129);
  });

  describe('aborts a host function in progress', () => {
    /** A forged host that calls a function that never completes; `called` resolves with its signal. */
    function startCall(then: string, call = `function: 'history', conversation: 'talk'`) {
      const host = startHost({ script: `run(); send({ kind: 'call', ${call} }); ${then}` });
      const { promise: called, resolve } = Promise.withResolvers<AbortSignal>();
      class NeverCompleting extends TestHostFunctions {
        override async history(_conversationId: string, signal: AbortSignal): Promise<string> {
          resolve(signal);
          await once(signal, 'abort');
          throw signal.reason;
        }
        override verify(raw: string, signal: AbortSignal): Promise<string> {
          return this.history(raw, signal);
        }
      }
      return { host, called, run: loadAndRun(host, new NeverCompleting()) };
    }

    it('when the run exceeds the deadline', async () => {
      useFakeTimers();
      const { called, run } = startCall('stay();');
      const signal = await called;
      vi.advanceTimersByTime(TIMEOUT.runMs);
      const reason = failure('timeout', /execution exceeded/);
      await expect(run).rejects.toMatchObject(reason);
      expect(signal).toMatchObject({ aborted: true, reason });
    });

    it('when the process exits', async () => {
      const { called, run } = startCall('process.exit(1);');
      const reason = failure('host', /exited/);
      await expect(run).rejects.toMatchObject(reason);
      expect(await called).toMatchObject({ aborted: true, reason });
    });

    it.each([
      ['history', `function: 'history', conversation: 'talk'`],
      ['verify', `function: 'verify', raw: '{}'`],
    ])('immediately when the process is killed: %s', async (_function, call) => {
      const { host, called, run } = startCall('stay();', call);
      const signal = await called;
      expect(signal.aborted).toBe(false);
      const reason = host.kill();
      expect(signal).toMatchObject({ aborted: true, reason });
      await expect(run).rejects.toBe(reason);
    });
  });

  it('is killed when a host function fails', async () => {
    const host = startHost();
    const caller = injected(`imports['service:evaluator/conversation'].getHistory('talk')`);
    await host.load(caller);
    class FailingFunctions extends TestHostFunctions {
      override history(): string {
        throw new Error('out of order');
      }
    }
    await expect(host.run(caller, ordinaryContext, new FailingFunctions())).rejects.toMatchObject({
      ...failure('host', /host function failed/),
      cause: new Error('out of order'),
    });
  });
});

/** The functions `log`, `print`, which takes a text, and `out` and `err`, which take bytes. */
const OUTPUTS = `
  const log = imports['service:evaluator/log'].info;
  const [stdout, stderr] = [imports['wasi:cli/stdout'].getStdout(), imports['wasi:cli/stderr'].getStderr()];
  const out = (...bytes) => stdout.write(Uint8Array.from(bytes));
  const err = (...bytes) => stderr.write(Uint8Array.from(bytes));
  const print = (text) => stdout.write(new TextEncoder().encode(text));
`;

describe('the log of a run', () => {
  afterEach(killHosts);

  const lines = (count: number, line: string) => Array.from({ length: count }, () => ['debug', line]);
  const limitReached = ['warn', 'log limit reached: further lines of this run are dropped'];

  async function logged(script: string): Promise<unknown> {
    const logs = injected(OUTPUTS + script);
    const host = startHost();
    const functions = new TestHostFunctions();
    await host.load(logs);
    await host.run(logs, ordinaryContext, functions);
    return functions.logged;
  }

  it('has up to 200 lines of output per run', async () => {
    const compiler = new ActionCompiler({ compileMs: TIMEOUT.runMs });
    const prints = await compiler.compile(await printingAction()).finally(() => compiler.close());
    const host = startHost();
    await host.load(prints);
    for (const line of ['grüß 😀', 'again', '']) {
      const functions = new TestHostFunctions();
      await host.run(prints, { ...ordinaryContext, llmResult: `${line}\n` }, functions);
      expect(functions.logged).toEqual([...lines(200, line), limitReached]);
    }
    expect(host.hasExited).toBe(false);
  });

  it('counts log functions and output streams together', async () => {
    expect(
      await logged(`
        for (let time = 0; time < 70; time++) { log('logged'); print('out\\n'); err(0x65, 0x0a); }
        print('the last one');`),
    ).toEqual([
      ...Array.from({ length: 66 }, () => [['info', 'logged'], ...lines(1, 'out'), ...lines(1, 'e')]).flat(),
      ['info', 'logged'],
      ['debug', 'out'],
      limitReached,
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
    ['invalid UTF-8', 'out(0x61, 0xff, 0x62, 0xe4, 0x63, 0x80, 0x0a);', ['a\ufffdb\ufffdc\ufffd']],
    ['UTF-8 around an invalid byte', `print('aü€😀'); out(0xff); print('aü€😀\\n');`, ['aü€😀\ufffdaü€😀']],
    [
      'UTF-8 after an invalid byte',
      'out(0xff, 0xc3, 0xbc, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80, 0x0a);',
      ['\ufffdü€😀'],
    ],
    ['overlong UTF-8', 'out(0xc0, 0xaf, 0x61, 0xe0, 0x80, 0xaf, 0x0a);', ['\ufffd\ufffda\ufffd\ufffd\ufffd']],
    ['a surrogate', 'out(0xed, 0xa0, 0x80, 0x0a);', ['\ufffd\ufffd\ufffd']],
    [
      'a code point beyond Unicode',
      'out(0xf4, 0x90, 0x80, 0x80, 0x61, 0xf8, 0x0a);',
      ['\ufffd\ufffd\ufffd\ufffda\ufffd'],
    ],
    ['an incomplete character in a line', 'out(0xe2, 0x82); out(0x61, 0x0a);', ['\ufffda']],
    ['an incomplete character at the end', 'out(0x61, 0x0a, 0xe2, 0x82);', ['a', '\ufffd']],
    ['a long write', `print(('ü'.repeat(499) + '\\n').repeat(100));`, Array(100).fill('ü'.repeat(499))],
  ])('has the output: %s', async (_what, script, expected) => {
    expect(await logged(script)).toEqual(expected.map((line) => ['debug', line]));
  });
});
