import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, createReadStream } from 'node:fs';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { LogDestination } from './log-destination.ts';
import { LogSink, PIECE_LENGTH } from './log-sink.ts';

/** A process whose standard error is the sink. Its script has `sink`, and reports on standard output. */
function processWithSink(script: string, stderr: 'pipe' | number = 'pipe') {
  const module = (name: string) => JSON.stringify(new URL(name, import.meta.url).href);
  const source = `import { standardError } from ${module('./log-destination.ts')};
    import { LogSink } from ${module('./log-sink.ts')};
    const sink = new LogSink(standardError(), 8 * 1024 * 1024);
    const write = (line) => sink.write(line, 'info');
    process.once('exit', sink.flush); ${script}`;
  return spawn(process.execPath, ['--input-type=module', '-e', source], { stdio: ['ignore', 'pipe', stderr] });
}

/** A path in a separate folder, which is removed after the test. */
async function ownPath(name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-log-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return join(folder, name);
}

/** A destination whose reader takes a piece with `take`. */
class Reader implements LogDestination {
  readonly pieces: string[] = [];
  #done: ((written: boolean) => void) | undefined = undefined;

  readonly write = (piece: Buffer, done: (written: boolean) => void): void => {
    expect(this.#done, 'one piece at a time').toBeUndefined();
    this.pieces.push(String(piece));
    this.#done = done;
  };

  readonly writeNow = (bytes: Buffer): void => void this.pieces.push(String(bytes));

  /** Takes the piece that is being written; false if there is none. `written` is false for a failed write. */
  take(written = true): boolean {
    const done = this.#done;
    this.#done = undefined;
    done?.(written);
    return done !== undefined;
  }

  /** Lines of all pieces, also of those that follow. */
  takeAll(): string[] {
    while (this.take());
    return this.pieces.join('').trimEnd().split('\n');
  }
}

const LINE = `${'x'.repeat(999)}\n`;
/** Lines of one piece. */
const PIECE_LINES = Math.ceil(PIECE_LENGTH / LINE.length);

describe('the log sink', () => {
  it('writes the first lines at the end of the turn, and further ones together within 50 ms', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const reader = new Reader();
    const sink = new LogSink(reader);
    sink.write('1\n', 'info');
    sink.write('2\n', 'info');
    expect(reader.pieces).toEqual([]);
    await turn();
    expect(reader.pieces).toEqual(['1\n2\n']);
    reader.take();
    sink.write('3\n', 'info');
    await turn();
    sink.write('4\n', 'error');
    expect(reader.pieces).toHaveLength(1);
    vi.advanceTimersByTime(50);
    expect(reader.pieces).toEqual(['1\n2\n', '3\n4\n']);
    sink.write('5\n', 'info');
    sink.flush();
    expect(reader.pieces.at(-1)).toBe('5\n');
  });

  it('loses no line while the limit is not reached, then drops info before errors, and says how many', () => {
    const reader = new Reader();
    const sink = new LogSink(reader, 1_000_000);
    for (let n = 0; n < 1_000; n++) sink.write(LINE, n % 2 === 0 ? 'info' : 'debug');
    expect(sink.dropped()).toBe(0);
    for (let n = 0; n < 10; n++) sink.write(LINE, 'info');
    for (let n = 0; n < 10; n++) sink.write(LINE, 'debug');
    expect(sink.dropped()).toBe(20);
    for (let n = 0; n < 125; n++) sink.write(`${n}${LINE.slice(String(n).length)}`, n % 2 === 0 ? 'warn' : 'error');
    expect(sink.dropped()).toBe(20);
    sink.write(LINE, 'error');
    expect(sink.dropped()).toBe(21);
    reader.takeAll();
    sink.flush();
    const lines = reader.takeAll();
    expect(lines.filter((line) => line.startsWith('x'))).toHaveLength(1_000);
    expect(lines.filter((line) => /^\d+x/.test(line))).toHaveLength(125);
    const counts = lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
    expect(counts).toMatchObject([{ level: 'warn', target: 'service', count: 21 }]);
  });

  it('counts the lines of a failed write, and continues', () => {
    const reader = new Reader();
    const sink = new LogSink(reader);
    for (let n = 0; n < PIECE_LINES; n++) sink.write(LINE, 'info');
    for (let n = 0; n < PIECE_LINES; n++) sink.write(LINE, 'info');
    expect(reader.pieces).toHaveLength(1);
    reader.take(false);
    expect(sink.dropped()).toBe(PIECE_LINES);
    reader.take();
    sink.flush();
    expect(reader.pieces.at(-1)).toContain(`"count":${PIECE_LINES}`);
  });

  it('waits for the reader when it is closed, then says how many lines are lost', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const reader = new Reader();
    const sink = new LogSink(reader);
    for (let n = 0; n < 100; n++) sink.write(LINE, 'info');
    const closing = sink.close(5_000);
    await vi.advanceTimersByTimeAsync(4_999);
    expect(reader.pieces).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    const first = (reader.pieces[0]?.match(/\n/g) ?? []).length;
    reader.take();
    expect(JSON.parse(reader.pieces[1] ?? '')).toMatchObject({ level: 'warn', count: 100 - first });
    reader.take();
    expect(await closing).toBe(100 - first);

    const other = new Reader();
    const fast = new LogSink(other);
    for (let n = 0; n < 100; n++) fast.write(LINE, 'info');
    const done = fast.close(5_000);
    expect(other.takeAll()).toHaveLength(100);
    expect(await done).toBe(0);
  });

  it('continues when a named pipe gets a new reader', async () => {
    const fifo = await ownPath('log.fifo');
    execFileSync('/bin/sh', ['-c', 'mkfifo "$1"', 'sh', fifo]);
    // A pipe can be opened for writing only while it has a reader.
    const first = await open(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
    const end = await open(fifo, constants.O_WRONLY);
    const child = processWithSink(
      `process.stderr.once('error', (error) => process.stdout.write(error.code));
      setInterval(() => write('line\\n'), 5);`,
      end.fd,
    );
    try {
      await first.close();
      const [code] = child.stdout === null ? [] : await once(child.stdout, 'data');
      expect(String(code)).toBe('EPIPE');
      const [line] = await once(createReadStream(fifo), 'data');
      expect(String(line)).toMatch(/^(?:line\n|\{"ts")/);
    } finally {
      child.kill();
      await end.close();
    }
  });

  it('neither blocks the service nor fills memory while a pipe is not read', async () => {
    const child = processWithSink(`
      for (let n = 0; n < 200; n++) {
        for (let k = 0; k < 100; k++) write('x'.repeat(1000) + '\\n');
        await new Promise(setImmediate);
      }
      process.stdout.write('dropped ' + sink.dropped(), () => process.exit(0));`);
    const output = child.stdout === null ? '' : await text(child.stdout);
    // About 8 MiB wait, and the pipe has some.
    expect(Number(/^dropped (\d+)$/.exec(output)?.[1])).toBeGreaterThan(11_000);
    expect(Number(/^dropped (\d+)$/.exec(output)?.[1])).toBeLessThan(12_000);
  });

  it('loses no line of a process that exits at once, in a pipe and in a file', async () => {
    const script = `for (let n = 0; n < 100; n++) write(n + '\\n'); process.exit(3);`;
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

  it.each(['a file', 'a pipe'])(
    'has lost nothing after SIGKILL but lines of the last 100 ms, with %s',
    async (kind) => {
      const path = await ownPath('log.txt');
      const file = await open(path, 'w');
      try {
        // The process says which line was written 100 ms ago.
        const script = `let n = 0;
        setInterval(() => {
          for (let k = 0; k < 100; k++) write(++n + '\\n');
          const written = n;
          setTimeout(() => process.stdout.write(written + '\\n'), 100);
        }, 2);`;
        const child = kind === 'a file' ? processWithSink(script, file.fd) : processWithSink(script);
        const read = child.stderr === null ? undefined : text(child.stderr);
        let said = '';
        child.stdout?.on('data', (data) => {
          said += data;
          if (said.length > 5_000) child.kill('SIGKILL');
        });
        await once(child, 'close');
        const last = Number(said.slice(0, said.lastIndexOf('\n')).split('\n').at(-1));
        const log = (await read) ?? (await readFile(path, 'utf8'));
        const logged = log.split('\n').slice(0, -1).map(Number);
        expect(last).toBeGreaterThan(10_000);
        expect(logged.length).toBeGreaterThanOrEqual(last);
        expect(logged).toEqual(Array.from({ length: logged.length }, (_, at) => at + 1));
      } finally {
        await file.close();
      }
    },
  );
});
