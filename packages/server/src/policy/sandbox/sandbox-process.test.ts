import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import { children } from './fixtures/child-processes.ts';
import { type SandboxOptions, SandboxProcess } from './sandbox-process.ts';

/** Writes a frame of a text. */
const SAY = `
const say = (text) => {
  const frame = Buffer.alloc(4 + text.length);
  frame.writeUInt32LE(text.length);
  frame.write(text, 4);
  require('node:fs').writeSync(1, frame);
};`;

/** Runs a script until it ends: the frames that it said, and how it was told of its end. */
async function ran(script: readonly string[], more: Partial<SandboxOptions> = {}) {
  const frames: string[] = [];
  const ends: boolean[] = [];
  const child = new SandboxProcess({
    script,
    readable: [],
    flags: [],
    cpuSeconds: 60,
    maxFrameBytes: 1024,
    onFrame: (bytes) => void frames.push(bytes.toString()),
    onEnd: ({ memory }) => void ends.push(memory),
    ...more,
  });
  // Nobody reads it.
  child.send({ to: 'whom it may concern' });
  await child.ended;
  return { frames, ends, child };
}

describe('a sandbox process', () => {
  afterEach(() => expect(children()).toEqual([]));

  it('is heard, and its end is told once', async () => {
    const { frames, ends, child } = await ran(['--eval', `${SAY} say('one'); say(''); say('two');`]);
    expect({ frames, ends }).toEqual({ frames: ['one', '', 'two'], ends: [false] });
    child.send({ to: 'nobody' });
    child.kill();
    expect(child.residentBytes()).toBeUndefined();
  });

  it('has no environment', async () => {
    const { frames } = await ran(['--eval', `${SAY} say(Object.keys(process.env).join());`]);
    // What the shell itself sets.
    expect(frames.join().split(',')).not.toContain('PATH');
    expect(frames.join()).not.toContain('HOME');
  });

  it('ends as any other when its script is not there', async () => {
    expect(await ran(['/no/such/script.js'])).toMatchObject({ frames: [], ends: [false] });
  });

  it('ends as any other when the system does not take its command line', async () => {
    const { frames, ends, child } = await ran(['--eval', `'${'x'.repeat(4 * 1024 * 1024)}'`]);
    expect({ frames, ends, pid: child.pid }).toEqual({ frames: [], ends: [false], pid: undefined });
    expect(child.residentBytes()).toBeUndefined();
    child.kill();
  });

  it('is not listened to after a frame that is too long', async () => {
    const script = `${SAY} say('one'); say('x'.repeat(1025)); say('two'); setInterval(() => {}, 1000);`;
    const { frames, ends } = await ran(['--eval', script]);
    expect(ends).toEqual([false]);
    // Nor to what came in one piece with it.
    expect(['', 'one']).toContain(frames.join());
  });

  it('is not listened to after it was killed, not even to what was read already', async () => {
    const heard: string[] = [];
    const child = new SandboxProcess({
      script: ['--eval', `const { writeSync } = require('node:fs'); writeSync(1, '\\1\\0\\0\\0a\\1\\0\\0\\0b');`],
      readable: [],
      flags: [],
      cpuSeconds: 60,
      maxFrameBytes: 1024,
      onFrame(bytes) {
        heard.push(bytes.toString());
        child.kill();
      },
      onEnd: () => undefined,
    });
    await child.ended;
    expect(heard).toEqual(['a']);
  });

  it('tells of a heap that is full', async () => {
    const script = 'const kept = []; for (;;) kept.push(new Array(1000).fill({}));';
    const { ends } = await ran(['--eval', script], { flags: ['--max-old-space-size=16'] });
    expect(ends).toEqual([true]);
  });

  it('is ended by the system when it has used up its processor time', async () => {
    const { ends } = await ran(['--eval', 'for (;;);'], { cpuSeconds: 1 });
    expect(ends).toEqual([false]);
  });

  it('ends as any other when there are no file descriptors to be had', async () => {
    // In a process of its own: in this one, everybody would be without.
    const script = `
      import { openSync } from 'node:fs';
      import { SandboxProcess } from ${JSON.stringify(import.meta.resolve('./sandbox-process.ts'))};
      try {
        for (;;) openSync('/dev/null');
      } catch {}
      const child = new SandboxProcess({
        script: [], readable: [], flags: [], cpuSeconds: 1, maxFrameBytes: 1,
        onFrame() {}, onEnd: (how) => console.log(JSON.stringify(how)),
      });
      child.send({});
      await child.ended;
      child.kill();
      console.log(child.pid, child.residentBytes());`;
    const limited = 'ulimit -n 64; exec "$0" --no-warnings --input-type=module --eval "$1"';
    const child = spawn('/bin/sh', ['-c', limited, process.execPath, script]);
    const [said, wrong] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    expect([said, wrong]).toEqual(['{"memory":false,"tooLong":false}\nundefined undefined\n', '']);
  });
});
