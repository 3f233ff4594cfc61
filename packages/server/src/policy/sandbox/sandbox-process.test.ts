import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import { children } from './fixtures/child-processes.ts';
import { type SandboxOptions, SandboxProcess } from './sandbox-process.ts';

/** Defines `send`, which writes a frame. */
const SEND = `
const send = (text) => {
  const frame = Buffer.alloc(4 + text.length);
  frame.writeUInt32LE(text.length);
  frame.write(text, 4);
  require('node:fs').writeSync(1, frame);
};`;

/** Runs a script until it exits; returns its frames and, for each report of its exit, whether it was out of memory. */
async function runScript(script: readonly string[], more: Partial<SandboxOptions> = {}) {
  const frames: string[] = [];
  const ends: boolean[] = [];
  const child = new SandboxProcess({
    script,
    readable: [],
    flags: [],
    cpuSeconds: 60,
    maxFrameBytes: 1024,
    onFrame: (bytes) => void frames.push(bytes.toString()),
    onExit: ({ outOfMemory }) => void ends.push(outOfMemory),
    ...more,
  });
  // Not read by the script.
  child.send({ kind: 'unread' });
  await child.exited;
  return { frames, ends, child };
}

describe('a sandbox process', () => {
  afterEach(() => expect(children()).toEqual([]));

  it('delivers its frames and reports its exit once', async () => {
    const { frames, ends, child } = await runScript(['--eval', `${SEND} send('one'); send(''); send('two');`]);
    expect({ frames, ends }).toEqual({ frames: ['one', '', 'two'], ends: [false] });
    child.send({ kind: 'too late' });
    child.kill();
    expect(child.residentBytes()).toBeUndefined();
  });

  it('has no environment', async () => {
    const { frames } = await runScript(['--eval', `${SEND} send(Object.keys(process.env).join());`]);
    // The shell itself sets some.
    expect(frames.join().split(',')).not.toContain('PATH');
    expect(frames.join()).not.toContain('HOME');
  });

  it('exits like any other when its script does not exist', async () => {
    expect(await runScript(['/no/such/script.js'])).toMatchObject({ frames: [], ends: [false] });
  });

  it('exits like any other when its command line is too long for the system', async () => {
    const { frames, ends, child } = await runScript(['--eval', `'${'x'.repeat(4 * 1024 * 1024)}'`]);
    expect({ frames, ends, pid: child.pid }).toEqual({ frames: [], ends: [false], pid: undefined });
    expect(child.residentBytes()).toBeUndefined();
    child.kill();
  });

  it('is killed after an oversized frame', async () => {
    const script = `${SEND} send('one'); send('x'.repeat(1025)); send('two'); setInterval(() => {}, 1000);`;
    const { frames, ends } = await runScript(['--eval', script]);
    expect(ends).toEqual([false]);
    // Frames in the same chunk are discarded, too.
    expect(['', 'one']).toContain(frames.join());
  });

  it('delivers nothing after it was killed, not even frames that were read already', async () => {
    const frames: string[] = [];
    const child = new SandboxProcess({
      script: ['--eval', `const { writeSync } = require('node:fs'); writeSync(1, '\\1\\0\\0\\0a\\1\\0\\0\\0b');`],
      readable: [],
      flags: [],
      cpuSeconds: 60,
      maxFrameBytes: 1024,
      onFrame(bytes) {
        frames.push(bytes.toString());
        child.kill();
      },
      onExit: () => undefined,
    });
    await child.exited;
    expect(frames).toEqual(['a']);
  });

  it('reports a full heap', async () => {
    const script = 'const chunks = []; for (;;) chunks.push(new Array(1000).fill({}));';
    const { ends } = await runScript(['--eval', script], { flags: ['--max-old-space-size=16'] });
    expect(ends).toEqual([true]);
  });

  it('is killed by the system when it has used up its processor time', async () => {
    const { ends } = await runScript(['--eval', 'for (;;);'], { cpuSeconds: 1 });
    expect(ends).toEqual([false]);
  });

  it('exits like any other when there are no file descriptors', async () => {
    // In a process of its own, which is left without any.
    const script = `
      import { openSync } from 'node:fs';
      import { SandboxProcess } from ${JSON.stringify(import.meta.resolve('./sandbox-process.ts'))};
      try {
        for (;;) openSync('/dev/null');
      } catch {}
      const child = new SandboxProcess({
        script: [], readable: [], flags: [], cpuSeconds: 1, maxFrameBytes: 1,
        onFrame() {}, onExit: (exit) => console.log(JSON.stringify(exit)),
      });
      child.send({});
      await child.exited;
      child.kill();
      console.log(child.pid, child.residentBytes());`;
    const limited = 'ulimit -n 64; exec "$0" --no-warnings --input-type=module --eval "$1"';
    const child = spawn('/bin/sh', ['-c', limited, process.execPath, script]);
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    expect([stdout, stderr]).toEqual(['{"outOfMemory":false,"frameLimitExceeded":false}\nundefined undefined\n', '']);
  });
});
