import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { endianness } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Scripts } from './host/loader.ts';
import { type FrameLimits, FrameReader, frame } from './ipc.ts';

/** The entry of the auxiliary vector that has the size of a page. */
const AT_PAGESZ = 6n;
/** Of most systems. */
const USUAL = 4096;

/**
 * Bytes of a page, in which Linux counts the memory of processes: 4096, or 16 or 64 KiB with some kernels of arm64. The
 * usual size where it cannot be read.
 */
export function pageBytes(read: (path: string) => Buffer = readFileSync): number {
  try {
    const vector = read('/proc/self/auxv');
    const word = (at: number) => (endianness() === 'LE' ? vector.readBigUInt64LE(at) : vector.readBigUInt64BE(at));
    for (let at = 0; at + 16 <= vector.length; at += 16) if (word(at) === AT_PAGESZ) return Number(word(at + 8));
  } catch {
    // No Linux.
  }
  return USUAL;
}

/** What a child process for untrusted components is started with. */
export interface SandboxOptions {
  /** A file to run, or text with `--eval`. */
  readonly script: readonly string[];
  /** Folders and files that it may read until it has started. */
  readonly readable: readonly string[];
  /** Flags of Node.js besides those of every sandbox. */
  readonly flags: readonly string[];
  /** Seconds of processor time, after which the system ends it: should the service be gone, a loop does not outlive it long. */
  readonly cpuSeconds: number;
  /** The longest frame that is taken from it, in bytes. */
  readonly maxFrameBytes: number;
  /** Of the first frame, and of all together. */
  readonly frameLimits?: FrameLimits;
  onFrame(bytes: Buffer): void;
  /**
   * Told once, when it has gone for whatever reason; `memory`: it reached the limit of its heap; `tooLong`: it said
   * more than is taken.
   */
  onEnd(how: { readonly memory: boolean; readonly tooLong: boolean }): void;
}

/**
 * Of every sandbox: no files but those of `readable`, no network, processes, threads, add-ons (`--permission`), no
 * code made of text. The rest is taken away in the process, before anything of a component comes in (`host/closed.ts`).
 */
const FLAGS = ['--permission', '--no-addons', '--disallow-code-generation-from-strings', '--no-warnings'];

/** `exec`, so that the process is the shell's: nothing is left of it, and no core files. */
const LIMITED = 'ulimit -c 0; ulimit -t "$0"; exec "$@"';

/** How V8 ends a process whose heap is full; anything else is a kill of ours or a fault of its own. */
const OUT_OF_MEMORY: ReadonlySet<string> = new Set(['SIGABRT', 'SIGTRAP', 'SIGILL']);

/** A child process that nothing comes out of but frames, without environment. */
export class SandboxProcess {
  /** Undefined where the system gave none. */
  readonly #child: ChildProcessByStdio<Writable, Readable, null> | undefined;
  readonly #pageBytes = pageBytes();
  #killed = false;
  /** When it has gone. */
  readonly ended: Promise<void>;

  /** Never throws: a process that could not be started has ended, which is told as of any other. */
  constructor({ script, readable, flags, cpuSeconds, maxFrameBytes, frameLimits, onFrame, onEnd }: SandboxOptions) {
    const reads = readable.map((path) => `--allow-fs-read=${path}`);
    const child = started([process.execPath, ...FLAGS, ...reads, ...flags, ...script], cpuSeconds);
    this.#child = child;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ended = promise;
    let tooLong = false;
    const end = (memory: boolean): void => {
      this.#killed = true;
      onEnd({ memory, tooLong });
      resolve();
    };
    if (!child) {
      process.nextTick(end, false);
      return;
    }
    const reader = new FrameReader(maxFrameBytes, frameLimits);
    child.stdout.on('data', (piece: Buffer) => {
      const frames = reader.take(piece);
      if (frames === undefined) {
        tooLong = true;
        return this.kill();
      }
      for (const bytes of frames) {
        // By what the frame before it said.
        if (this.#killed) return;
        onFrame(bytes);
      }
    });
    // It has gone, which `close` tells of.
    child.stdin.on('error', () => undefined);
    child.once('close', (_, signal) => end(signal !== null && OUT_OF_MEMORY.has(signal)));
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  send(...parts: readonly (object | Uint8Array)[]): void {
    const { stdin } = this.#child ?? {};
    if (stdin?.writable !== true) return;
    for (const part of parts) {
      stdin.write(frame(part instanceof Uint8Array ? part : Buffer.from(JSON.stringify(part))));
    }
  }

  /** Resident bytes; undefined where the system does not say. */
  residentBytes(): number | undefined {
    if (this.pid === undefined) return undefined;
    try {
      // Not `status`, which says it in bytes and takes many times as long.
      const [, pages] = readFileSync(`/proc/${this.pid}/statm`, 'latin1').split(' ');
      return Number(pages) * this.#pageBytes;
    } catch {
      return undefined;
    }
  }

  /** It cannot refuse, and is not listened to any more. */
  kill(): void {
    this.#killed = true;
    this.#child?.stdout?.destroy();
    this.#child?.kill('SIGKILL');
  }
}

/**
 * `spawn` throws for some of what may be wrong, such as too little memory, and tells of the rest later: then there is no
 * process id, and without file descriptors to be had no pipes either.
 */
function started(
  command: readonly string[],
  cpuSeconds: number,
): ChildProcessByStdio<Writable, Readable, null> | undefined {
  try {
    const child = spawn('/bin/sh', ['-c', LIMITED, String(cpuSeconds), ...command], {
      env: {},
      cwd: '/',
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    // What goes wrong with one that runs, `close` tells of.
    child.on('error', () => undefined);
    return child.pid === undefined ? undefined : child;
  } catch {
    return undefined;
  }
}

/** What a sandbox is started with: its scripts come as the first frame, so that it needs no file of ours. */
export interface SandboxScripts {
  /** A module, as text for `--eval`. */
  readonly loader: string;
  /** The first frame: `Scripts` as JSON. */
  readonly sources: Buffer;
}

/**
 * Reads the scripts in `folders`, of which `{first}/main` is run. Their types are taken out here, once: a process that
 * does so itself takes some 80 ms longer to start, and 25 MB more. `packages`: it may import packages of `node_modules`
 * too, as far as it may read them.
 */
export function readSandboxScripts(
  folders: readonly [string, ...string[]],
  { packages = false }: { readonly packages?: boolean } = {},
): SandboxScripts {
  const sources: Record<string, string> = {};
  for (const folder of folders) {
    const path = fileURLToPath(new URL(`./${folder}/`, import.meta.url));
    for (const name of readdirSync(path)) {
      if (/\.(?:test|fixture)\.ts$/.test(name)) continue;
      sources[`sandbox:///${folder}/${name}`] = javaScript(readFileSync(`${path}${name}`, 'utf8'));
    }
  }
  const main = `sandbox:///${folders[0]}/main.ts`;
  const scripts: Scripts = { main, sources, ...(packages && { packages: import.meta.url }) };
  const loader = javaScript(readFileSync(new URL('./host/loader.ts', import.meta.url), 'utf8'));
  return { loader, sources: Buffer.from(JSON.stringify(scripts)) };
}

function javaScript(source: string): string {
  // It warns of being new, to whoever reads the service's output and can do nothing about it.
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(source);
  } finally {
    process.emitWarning = emitWarning;
  }
}
