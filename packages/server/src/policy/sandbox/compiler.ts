import { readFileSync, realpathSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { type Action, ActionCompileError, type ActionCompiling, componentChecksum } from './action.ts';
import type { CompileRequest } from './compiling/main.ts';
import { readSandboxScripts, SandboxProcess, type SandboxScripts } from './sandbox-process.ts';

const COMPILE_MS = 10_000;
const CPU_SECONDS = 30;
const MAX_RESIDENT_BYTES = 512 * 1024 * 1024;
const WATCH_MS = 20;
/**
 * What the process may say, in all and at first. A component of 30 MiB has modules of as much in all, and glue; the
 * names of 256 modules take some 12 KiB.
 */
const MAX_BYTES = 48 * 1024 * 1024;
const MAX_HEAD_BYTES = 64 * 1024;
const SAID_TOO_MUCH = 'the compiling process said more than it may: 64 KiB at first, and 48 MiB in all';
const TOO_MUCH_MEMORY = 'compiling it takes too much memory; make it smaller';
/** Each takes half a core and some hundred MiB for a moment. */
const MAX_AT_ONCE = 2;

/** jco's tools are compiled once and run for a moment: the compiler that makes fast code would take twice as long as they do. */
const FLAGS = ['--max-old-space-size=320', '--wasm-max-mem-pages=8192', '--liftoff-only'];

/** jco, and what tells where packages are. */
const READABLE = [fileURLToPath(new URL('../../../package.json', import.meta.url)), ...jcoFolders()];

/** The WIT of the world `evaluator-action`: the authoritative reference of what actions import and export. */
const WIT_FILE = fileURLToPath(import.meta.resolve('@sluice/actions/wit'));

const answer = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('compiled'),
    modules: z
      .array(z.object({ name: z.string().regex(/^action\.core\d*\.wasm$/), pages: z.int().min(0).max(1024) }))
      .max(256),
  }),
  z.object({ kind: z.literal('refused'), message: z.string().max(1000) }),
]);

/** Compiles components to actions, each in a process of its own with 10 s and 512 MiB (decisions 4.9). */
export class ActionCompiler implements ActionCompiling {
  readonly #wit = readFileSync(WIT_FILE);
  readonly #compileMs: number;
  readonly #waiting: (() => void)[] = [];
  readonly #processes = new Set<SandboxProcess>();
  #scripts: SandboxScripts | undefined;
  #working = 0;
  #closed = false;

  /** `compileMs`: how long one component may take (default 10 s). */
  constructor({ compileMs = COMPILE_MS }: { readonly compileMs?: number } = {}) {
    this.#compileMs = compileMs;
  }

  async compile(component: Uint8Array, checksum?: string): Promise<Action> {
    const known = checksum ?? (await componentChecksum(component));
    if (this.#working < MAX_AT_ONCE) this.#working++;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      if (this.#closed) throw new ActionCompileError('the service is stopping');
      return { checksum: known, ...(await this.#compileIn(component)) };
    } finally {
      const next = this.#waiting.shift();
      // Its turn goes on to who waits longest.
      if (next) next();
      else this.#working--;
    }
  }

  /** Ends compilations, those under way and those that wait. */
  async close(): Promise<void> {
    this.#closed = true;
    const processes = [...this.#processes];
    for (const process of processes) process.kill();
    await Promise.all(processes.map(({ ended }) => ended));
  }

  #compileIn(component: Uint8Array): Promise<Omit<Action, 'checksum'>> {
    const { promise, resolve, reject } = Promise.withResolvers<Omit<Action, 'checksum'>>();
    const frames: Buffer[] = [];
    let expected = 1;
    let reason = 'the compiling process ended';
    this.#scripts ??= readSandboxScripts(['compiling', 'validate', 'host'], { packages: true });
    const { loader, sources } = this.#scripts;
    const process = new SandboxProcess({
      script: ['--input-type=module', '--eval', loader],
      readable: READABLE,
      flags: FLAGS,
      cpuSeconds: CPU_SECONDS,
      maxFrameBytes: MAX_BYTES,
      frameLimits: { first: MAX_HEAD_BYTES, all: MAX_BYTES },
      onFrame(bytes) {
        frames.push(bytes);
        if (frames.length === 1) expected = framesOf(bytes);
        if (frames.length >= expected) process.kill();
      },
      onEnd: ({ memory, tooLong }) => {
        clearTimeout(deadline);
        clearInterval(watch);
        this.#processes.delete(process);
        const compiled = frames.length >= expected ? actionOf(frames) : undefined;
        if (tooLong) reason = SAID_TOO_MUCH;
        if (typeof compiled === 'object') resolve(compiled);
        else reject(new ActionCompileError(compiled ?? (memory ? TOO_MUCH_MEMORY : reason)));
      },
    });
    const giveUp = (why: string) => {
      reason = why;
      process.kill();
    };
    const tooSlow = `compiling it took longer than ${this.#compileMs / 1000} s; make it smaller`;
    const deadline = setTimeout(giveUp, this.#compileMs, tooSlow);
    const watch = setInterval(() => {
      if ((process.residentBytes() ?? 0) > MAX_RESIDENT_BYTES) giveUp(TOO_MUCH_MEMORY);
    }, WATCH_MS);
    this.#processes.add(process);
    process.send(sources, { kind: 'compile' } satisfies CompileRequest, component, this.#wit);
    return promise;
  }
}

/** Where jco's scripts, and those that they import, are found and lie. Where `node_modules` is a link, these are two. */
function jcoFolders(): string[] {
  const found = findPackageJSON('@bytecodealliance/jco-transpile', import.meta.url);
  if (found === undefined) throw new Error('@bytecodealliance/jco-transpile is not installed: run npm install');
  const folder = dirname(dirname(found));
  const real = dirname(dirname(realpathSync(found)));
  // The link itself is read, too.
  return folder === real ? [real] : [dirname(folder), real];
}

/** How many frames an answer has, by its first one. */
function framesOf(head: Buffer): number {
  const parsed = headOf(head);
  return parsed?.kind === 'compiled' ? 2 + parsed.modules.length : 1;
}

/** The action, or why there is none. */
function actionOf([head, glue, ...modules]: readonly Buffer[]): Omit<Action, 'checksum'> | string {
  const parsed = head && headOf(head);
  if (parsed === undefined || glue === undefined) {
    return parsed?.kind === 'refused' ? parsed.message : 'the compiling process said what it may not';
  }
  if (parsed.kind === 'refused') return parsed.message;
  return {
    // Copies, so that they do not hold the pieces they came in.
    glue: glue.toString(),
    modules: parsed.modules.map((module, index) => ({ ...module, bytes: Buffer.from(modules[index] ?? []) })),
  };
}

function headOf(bytes: Buffer): z.infer<typeof answer> | undefined {
  try {
    return answer.safeParse(JSON.parse(bytes.toString())).data;
  } catch {
    return undefined;
  }
}
