import { afterEach, describe, expect, it } from 'vitest';
import { ActionFailure, type ActionRun } from './action-world.ts';
import { children } from './fixtures/child-processes.ts';
import { injected } from './fixtures/injected.ts';
import { OrdinaryAnswers, ordinaryContext } from './fixtures/ordinary-answers.ts';
import { HOST_LIMITS, Host } from './host.ts';
import { readHostScripts } from './host-scripts.ts';

/** Where a deadline is not what is tested, a busy machine is to have time. */
const PATIENCE = { runMs: 30_000 };

const hosts = new Set<Host>();
const action = injected('');

/** A host process with the real scripts, or one whose script does what no real one should be able to. */
function hostOf({ script, limits = PATIENCE }: { script?: string; limits?: typeof HOST_LIMITS } = {}): Host {
  const scripts = readHostScripts();
  const host = new Host(
    script === undefined ? scripts : { ...scripts, loader: FORGER + script },
    limits,
    () => undefined,
  );
  hosts.add(host);
  return host;
}

/** What a forged host has: `heard` takes the next frame, and `say` and `sayBytes` say something. */
const FORGER = `
import { readSync, writeSync } from 'node:fs';
const read = (length) => {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; ) {
    const count = readSync(0, bytes, at, length - at, null);
    if (count === 0) process.exit(0);
    at += count;
  }
  return bytes;
};
const heard = () => read(read(4).readUInt32LE()).toString();
const framed = (text) => {
  const frame = Buffer.alloc(4 + Buffer.byteLength(text));
  frame.writeUInt32LE(frame.length - 4);
  frame.write(text, 4);
  return frame;
};
const sayBytes = (bytes) => writeSync(1, bytes);
const sayTexts = (...texts) => sayBytes(Buffer.concat(texts.map(framed)));
const say = (...messages) => sayTexts(...messages.map((message) => JSON.stringify(message)));
const READY = { kind: 'ready' };
const LOADED = { kind: 'loaded' };
const DONE = { kind: 'done', ignored: 0 };
/** The scripts; then what is to be loaded and its glue. */
heard();
const load = () => { say(READY); heard(); heard(); };
const run = () => { load(); say(LOADED); heard(); heard(); };
const stay = () => { for (;;) heard(); };
`;

async function ran(host: Host, answers = new OrdinaryAnswers()): Promise<ActionRun> {
  await host.load(action);
  return host.run(action, ordinaryContext, answers);
}

const failure = (fault: string, message: RegExp) => ({ fault, message: expect.stringMatching(message) });

describe('a host', () => {
  afterEach(async () => {
    for (const host of hosts) host.kill();
    await Promise.all([...hosts].map(({ ended }) => ended));
    hosts.clear();
    expect(children()).toEqual([]);
  });

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
    const host = hostOf({ limits: HOST_LIMITS });
    // What it says last comes after the service has become busy, with what it says first.
    const slow = injected(`
      imports['service:evaluator/log'].info('now');
      for (const until = Date.now() + 50; Date.now() < until; );
      say('done');`);
    await host.load(slow);
    class BusyAnswers extends OrdinaryAnswers {
      override log(): void {
        for (const until = performance.now() + 1.5 * HOST_LIMITS.runMs; performance.now() < until; );
      }
    }
    expect(await host.run(slow, ordinaryContext, new BusyAnswers())).toMatchObject({
      response: { kind: 'block', reason: 'done' },
    });
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

  it('is ended when a run logs too much by ways that the host does not count', async () => {
    const host = hostOf();
    const lines = (count: number) =>
      injected(`imports['wasi:cli/stdout'].getStdout().write(new TextEncoder().encode('x\\n'.repeat(${count})));`);
    const answers = new OrdinaryAnswers();
    await host.load(lines(300));
    await host.run(lines(300), ordinaryContext, answers);
    expect(answers.logged).toHaveLength(300);
    await host.load(lines(301));
    await expect(host.run(lines(301), ordinaryContext, answers)).rejects.toMatchObject(failure('limit', /logged/));
    expect(answers.logged).toHaveLength(600);
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
