import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, createReadStream } from 'node:fs';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createLogSink } from './log.ts';

/** A process whose standard error is the sink. Its script has `sink` and reports on standard output. */
function processWithSink(script: string, stderr: 'pipe' | number = 'pipe') {
  const module = JSON.stringify(new URL('./log.ts', import.meta.url).href);
  const source = `import { createLogSink } from ${module}; const sink = createLogSink(process.stderr);
    process.once('exit', sink.flush); ${script}`;
  return spawn(process.execPath, ['--input-type=module', '-e', source], { stdio: ['ignore', 'pipe', stderr] });
}

/** A path in a separate folder, which is removed after the test. */
async function ownPath(name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-log-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return join(folder, name);
}

describe('the log sink', () => {
  it('writes the lines of one turn at once and in order', async () => {
    const chunks: string[] = [];
    const stream = new Writable({
      decodeStrings: false,
      write: (chunk, _, done) => {
        chunks.push(String(chunk));
        done();
      },
    });
    const sink = createLogSink(stream);
    sink.write('1\n');
    sink.write('2\n');
    expect(chunks).toEqual([]);
    await turn();
    expect(chunks).toEqual(['1\n2\n']);
    sink.write('3\n');
    sink.flush();
    expect(chunks).toEqual(['1\n2\n', '3\n']);
    await turn();
    expect(chunks).toHaveLength(2);
  });

  it('drops lines beyond its limit while there is no reader, and logs their number afterwards', async () => {
    const stream = new PassThrough({ highWaterMark: 10 });
    const sink = createLogSink(stream, 100);
    for (let n = 0; n < 50; n++) {
      sink.write('0123456789012345678\n');
      await turn();
    }
    const kept = 100 / 20 + 1;
    expect(sink.dropped()).toBe(50 - kept);
    const reading = text(stream);
    await once(stream, 'drain');
    await turn();
    sink.write('later\n');
    await turn();
    stream.end();
    const lines = (await reading).trimEnd().split('\n');
    expect(lines.filter((line) => line.startsWith('0'))).toHaveLength(kept);
    expect(JSON.parse(lines[kept] ?? '')).toMatchObject({ level: 'warn', target: 'service', count: 50 - kept });
    expect(lines.at(-1)).toBe('later');
    expect(sink.dropped()).toBe(50 - kept);
  });

  it('continues when a named pipe gets a new reader', async () => {
    const fifo = await ownPath('log.fifo');
    execFileSync('/bin/sh', ['-c', 'mkfifo "$1"', 'sh', fifo]);
    // A pipe can be opened for writing only while it has a reader.
    const first = await open(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
    const end = await open(fifo, constants.O_WRONLY);
    const child = processWithSink(
      `process.stderr.once('error', (error) => process.stdout.write(error.code));
      setInterval(() => sink.write('line\\n'), 5);`,
      end.fd,
    );
    try {
      await first.close();
      const [code] = child.stdout === null ? [] : await once(child.stdout, 'data');
      expect(String(code)).toBe('EPIPE');
      const [line] = await once(createReadStream(fifo), 'data');
      expect(String(line)).toMatch(/^line\n/);
    } finally {
      child.kill();
      await end.close();
    }
  });

  it('survives the end of the reader of a pipe', async () => {
    const child = processWithSink(`
      let [n, gone] = [0, false];
      process.stderr.once('error', () => { gone = true; });
      const timer = setInterval(() => {
        sink.write('x'.repeat(1000) + '\\n');
        if (gone && ++n === 200) { clearInterval(timer); process.stdout.write('pending ' + process.stderr.writableLength); }
      }, 1);`);
    child.stderr?.destroy();
    const output = child.stdout === null ? '' : await text(child.stdout);
    expect(output).toBe('pending 0');
    if (child.exitCode === null) await once(child, 'exit');
    expect(child.exitCode).toBe(0);
  });

  it('neither blocks the service nor fills memory while a pipe is not read', async () => {
    const child = processWithSink(`
      for (let n = 0; n < 200; n++) {
        for (let k = 0; k < 100; k++) sink.write('x'.repeat(1000) + '\\n');
        await new Promise(setImmediate);
      }
      process.stdout.write('pending ' + process.stderr.writableLength, () => process.exit(0));`);
    const output = child.stdout === null ? '' : await text(child.stdout);
    expect(output).toMatch(/^pending \d+$/);
    expect(Number(output.slice('pending '.length))).toBeLessThanOrEqual(8 * 1024 * 1024 + 200_000);
  });

  it('loses no line of a process that exits at once, in a pipe and in a file', async () => {
    const script = `for (let n = 0; n < 100; n++) sink.write(n + '\\n'); process.exit(3);`;
    const expected = `${Array.from({ length: 100 }, (_, n) => n).join('\n')}\n`;
    const piped = processWithSink(script);
    expect(piped.stderr === null ? '' : await text(piped.stderr)).toBe(expected);

    const path = await ownPath('log.txt');
    const file = await open(path, 'w');
    try {
      const filed = processWithSink(script, file.fd);
      await once(filed, 'close');
      expect(filed.exitCode).toBe(3);
      expect(await readFile(path, 'utf8')).toBe(expected);
    } finally {
      await file.close();
    }
  });
});
