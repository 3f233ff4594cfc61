import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { endianness } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Scripts } from './host/loader.ts';
import { encodeFrame } from './host/parent-pipe.ts';
import { type FrameLimits, FrameReader } from './ipc.ts';

/**
 * Flags of every sandbox: no files except `readable`, no network, processes, threads or add-ons (`--permission`), no
 * `eval`. The process removes the rest itself before it reads anything of a component (`host/lockdown.ts`).
 */
const FLAGS = ['--permission', '--no-addons', '--disallow-code-generation-from-strings', '--no-warnings'];

const SHELL = '/bin/sh';
/** Limits the processor time and disables core dumps. `exec` replaces the shell, so the child's process id is Node's. */
const LIMITED_COMMAND = 'ulimit -c 0; ulimit -t "$0"; exec "$@"';

/** How V8 terminates a process whose heap is full. Any other signal is a kill by the service or a fault of the process. */
const OUT_OF_MEMORY_SIGNALS: ReadonlySet<string> = new Set(['SIGABRT', 'SIGTRAP', 'SIGILL']);

/** Options of a child process for untrusted components. */
export interface SandboxOptions {
  /** Script file, or `--eval` with its text. */
  readonly script: readonly string[];
  /** Folders and files that may be read until lockdown. */
  readonly readable: readonly string[];
  /** Further flags of Node.js. */
  readonly flags: readonly string[];
  /** Processor time in seconds until the system kills the process, so that no loop outlives the service for long. */
  readonly cpuSeconds: number;
  /** Maximum length of a received frame, in bytes. */
  readonly maxFrameBytes: number;
  /** Limits of the first frame and of all frames together. */
  readonly frameLimits?: FrameLimits;
  onFrame(bytes: Buffer): void;
  /** Called once, when the process has ended for any reason. */
  onExit(exit: SandboxExit): void;
}

/** How a sandbox process has ended. */
export interface SandboxExit {
  /** The process reached its heap limit. */
  readonly outOfMemory: boolean;
  /** The process was killed because it exceeded a frame limit. */
  readonly frameLimitExceeded: boolean;
}

/** Child process without environment whose only output is frames. */
export class SandboxProcess {
  /** Undefined if the process could not be started. */
  readonly #child: ChildProcessByStdio<Writable, Readable, null> | undefined;
  readonly #pageSize = pageSize();
  #isKilled = false;
  /** Resolves after `onExit`. */
  readonly exited: Promise<void>;

  /** Never throws: a process that cannot be started is reported as exited, like any other. */
  constructor(options: SandboxOptions) {
    const { script, readable, flags, cpuSeconds, maxFrameBytes, frameLimits, onFrame, onExit } = options;
    const permissions = readable.map((path) => `--allow-fs-read=${path}`);
    const child = spawnLimited([process.execPath, ...FLAGS, ...permissions, ...flags, ...script], cpuSeconds);
    this.#child = child;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.exited = promise;
    let frameLimitExceeded = false;
    const finish = (outOfMemory: boolean): void => {
      this.#isKilled = true;
      onExit({ outOfMemory, frameLimitExceeded });
      resolve();
    };
    if (!child) {
      process.nextTick(finish, false);
      return;
    }
    const reader = new FrameReader(maxFrameBytes, frameLimits);
    child.stdout.on('data', (chunk: Buffer) => {
      const frames = reader.push(chunk);
      if (frames === undefined) {
        frameLimitExceeded = true;
        return this.kill();
      }
      for (const frame of frames) {
        // A previous frame may have led to the kill.
        if (this.#isKilled) return;
        onFrame(frame);
      }
    });
    // A broken pipe means that the process has exited, which `close` reports.
    child.stdin.on('error', () => undefined);
    child.once('close', (_, signal) => finish(signal !== null && OUT_OF_MEMORY_SIGNALS.has(signal)));
  }

  /** Undefined if the process could not be started. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Sends a frame per part: bytes unchanged, objects as JSON. */
  send(...parts: readonly (object | Uint8Array)[]): void {
    const { stdin } = this.#child ?? {};
    if (stdin?.writable !== true) return;
    for (const part of parts) {
      stdin.write(encodeFrame(part instanceof Uint8Array ? part : Buffer.from(JSON.stringify(part))));
    }
  }

  /** Resident memory in bytes; undefined if the system does not report it. */
  residentBytes(): number | undefined {
    if (this.pid === undefined) return undefined;
    try {
      // `status` has the value in bytes, but takes many times as long to read.
      const [, pages] = readFileSync(`/proc/${this.pid}/statm`, 'latin1').split(' ');
      return Number(pages) * this.#pageSize;
    } catch {
      return undefined;
    }
  }

  /** Sends SIGKILL and discards all further output. */
  kill(): void {
    this.#isKilled = true;
    this.#child?.stdout?.destroy();
    this.#child?.kill('SIGKILL');
  }
}

/**
 * Starts a process with limited processor time; undefined if that fails. `spawn` throws for some failures, such as too
 * little memory; others leave the process without an id or, for lack of file descriptors, without pipes. The container image
 * has no shell, and so no limit: there, all processes end with the service, which is the first one.
 */
function spawnLimited(
  [program, ...args]: readonly [string, ...string[]],
  cpuSeconds: number,
): ChildProcessByStdio<Writable, Readable, null> | undefined {
  const [command, argv] = existsSync(SHELL)
    ? [SHELL, ['-c', LIMITED_COMMAND, String(cpuSeconds), program, ...args]]
    : [program, args];
  try {
    const child = spawn(command, argv, {
      env: {},
      cwd: '/',
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    // `close` reports the end of a process that did start.
    child.on('error', () => undefined);
    return child.pid === undefined ? undefined : child;
  } catch {
    return undefined;
  }
}

/** Scripts of a sandbox. They are sent as the first frame, so the process needs no access to our files. */
export interface SandboxScripts {
  /** Text of the module for `--eval`. */
  readonly loader: string;
  /** First frame: `Scripts` as JSON. */
  readonly sources: Buffer;
}

/**
 * Reads the scripts in `folders`; the process runs `{first folder}/main.ts`. Types are stripped once here: a process that
 * strips them itself takes about 80 ms longer to start and 25 MB more memory. `packages` allows imports of packages in
 * `node_modules`, within the readable folders.
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
      sources[`sandbox:///${folder}/${name}`] = stripTypes(readFileSync(`${path}${name}`, 'utf8'));
    }
  }
  const main = `sandbox:///${folders[0]}/main.ts`;
  const scripts: Scripts = { main, sources, ...(packages && { packages: import.meta.url }) };
  const loader = stripTypes(readFileSync(new URL('./host/loader.ts', import.meta.url), 'utf8'));
  return { loader, sources: Buffer.from(JSON.stringify(scripts)) };
}

function stripTypes(source: string): string {
  // Suppresses the experimental warning, which operators cannot act on.
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(source);
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Entry of the auxiliary vector with the page size. */
const AT_PAGESZ = 6n;
/** Page size of most systems. */
const DEFAULT_PAGE_SIZE = 4096;

/**
 * Memory page size in bytes, the unit in which Linux reports process memory: 4096, or 16 or 64 KiB with some arm64
 * kernels. The default where it cannot be read.
 */
export function pageSize(read: (path: string) => Buffer = readFileSync): number {
  try {
    const vector = read('/proc/self/auxv');
    const word = (at: number) => (endianness() === 'LE' ? vector.readBigUInt64LE(at) : vector.readBigUInt64BE(at));
    for (let at = 0; at + 16 <= vector.length; at += 16) if (word(at) === AT_PAGESZ) return Number(word(at + 8));
  } catch {
    // Not Linux.
  }
  return DEFAULT_PAGE_SIZE;
}
