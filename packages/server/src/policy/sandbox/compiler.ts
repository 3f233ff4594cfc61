import { readFileSync, realpathSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { FairLimiter, WaitBudget } from '../../http/fair-queue.ts';
import { type Action, ActionCompileError, type ComponentCompiler, componentChecksum } from './action.ts';
import { readSandboxScripts, SandboxProcess, type SandboxScripts } from './sandbox-process.ts';

const COMPILE_MS = 10_000;
const CPU_SECONDS = 30;
const MAX_RESIDENT_BYTES = 512 * 1024 * 1024;
const MEMORY_CHECK_MS = 20;
/**
 * Limits of the first frame and of the whole response. A component of 30 MiB has modules of at most as much, and glue; the
 * names of 256 modules take about 12 KiB.
 */
const MAX_HEAD_BYTES = 64 * 1024;
const MAX_RESPONSE_BYTES = 48 * 1024 * 1024;
/** Concurrent compilations. Each takes half a core and some hundred MiB for a moment. */
const MAX_CONCURRENT = 2;

const PROCESS_EXITED = 'compiler process exited';
const RESPONSE_INVALID = 'compiler process sent an invalid response';
const RESPONSE_TOO_LARGE =
  'compiler process sent too much data: limits are 64 KiB for the first frame and 48 MiB in total';
const MEMORY_EXCEEDED = 'compilation exceeded 512 MiB of memory; make the component smaller';

/** The optimizing compiler would take twice as long to compile jco's tools as they run. */
const FLAGS = ['--max-old-space-size=320', '--wasm-max-mem-pages=8192', '--liftoff-only'];

/** jco, and the file that package resolution starts from. */
const READABLE = [fileURLToPath(new URL('../../../package.json', import.meta.url)), ...jcoFolders()];

/** WIT of the world `evaluator-action`, the authoritative definition of the imports and exports of actions. */
const WIT_FILE = fileURLToPath(import.meta.resolve('@sluice/actions/wit'));

/** First frame of a response of the compiler process; `compiled` is followed by a frame with the glue and one per module. */
const responseHead = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('compiled'),
    modules: z
      .array(z.object({ name: z.string().regex(/^action\.core\d*\.wasm$/), pages: z.int().min(0).max(1024) }))
      .max(256),
  }),
  z.object({ kind: z.literal('rejected'), message: z.string().max(1000) }),
]);

/** See `responseHead`. */
export type CompileResponse = z.output<typeof responseHead>;

/** Compiles components to actions, each in a process of its own with 10 s and 512 MiB. */
export class ActionCompiler implements ComponentCompiler {
  readonly #wit = readFileSync(WIT_FILE);
  readonly #compileMs: number;
  readonly #limiter = new FairLimiter(Number.POSITIVE_INFINITY, MAX_CONCURRENT);
  readonly #processes = new Set<SandboxProcess>();
  #scripts: SandboxScripts | undefined;
  #isClosed = false;

  /** `compileMs`: time limit of one component (default 10 s). */
  constructor({ compileMs = COMPILE_MS }: { readonly compileMs?: number } = {}) {
    this.#compileMs = compileMs;
  }

  async compile(component: Uint8Array, knownChecksum?: string): Promise<Action> {
    const checksum = knownChecksum ?? (await componentChecksum(component));
    const compile = async (): Promise<Omit<Action, 'checksum'>> => {
      if (this.#isClosed) throw new ActionCompileError('service is shutting down');
      return await this.#compileInProcess(component);
    };
    return { checksum, ...(await this.#limiter.run(compile, new WaitBudget('', ''), '', undefined)) };
  }

  /** Kills compilations in progress and rejects pending ones. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const processes = [...this.#processes];
    for (const process of processes) process.kill();
    await Promise.all(processes.map(({ exited }) => exited));
  }

  #compileInProcess(component: Uint8Array): Promise<Omit<Action, 'checksum'>> {
    const { promise, resolve, reject } = Promise.withResolvers<Omit<Action, 'checksum'>>();
    const frames: Buffer[] = [];
    let head: CompileResponse | undefined;
    const isComplete = () => frames.length >= (head?.kind === 'compiled' ? 2 + head.modules.length : 1);
    let failure = PROCESS_EXITED;
    this.#scripts ??= readSandboxScripts(['compiling', 'validate', 'host'], { packages: true });
    const { loader, sources } = this.#scripts;
    const process = new SandboxProcess({
      script: ['--input-type=module', '--eval', loader],
      readable: READABLE,
      flags: FLAGS,
      cpuSeconds: CPU_SECONDS,
      maxFrameBytes: MAX_RESPONSE_BYTES,
      frameLimits: { first: MAX_HEAD_BYTES, total: MAX_RESPONSE_BYTES },
      onFrame(bytes) {
        frames.push(bytes);
        if (frames.length === 1) head = parseHead(bytes);
        if (isComplete()) process.kill();
      },
      onExit: ({ outOfMemory, frameLimitExceeded }) => {
        clearTimeout(deadline);
        clearInterval(memoryCheck);
        this.#processes.delete(process);
        const compiled = isComplete() ? toAction(head, frames) : undefined;
        if (frameLimitExceeded) failure = RESPONSE_TOO_LARGE;
        if (typeof compiled === 'object') resolve(compiled);
        else reject(new ActionCompileError(compiled ?? (outOfMemory ? MEMORY_EXCEEDED : failure)));
      },
    });
    const abort = (reason: string) => {
      failure = reason;
      process.kill();
    };
    const timeoutMessage = `compilation exceeded ${this.#compileMs / 1000} s; make the component smaller`;
    const deadline = setTimeout(abort, this.#compileMs, timeoutMessage);
    const memoryCheck = setInterval(() => {
      if ((process.residentBytes() ?? 0) > MAX_RESIDENT_BYTES) abort(MEMORY_EXCEEDED);
    }, MEMORY_CHECK_MS);
    this.#processes.add(process);
    process.send(sources, component, this.#wit);
    return promise;
  }
}

/** Folders that contain jco's scripts and their imports: the installed one and, where `node_modules` is a link, its target. */
function jcoFolders(): string[] {
  const packageFile = findPackageJSON('@bytecodealliance/jco-transpile', import.meta.url);
  if (packageFile === undefined) throw new Error('@bytecodealliance/jco-transpile is not installed: run npm install');
  const folder = dirname(dirname(packageFile));
  const target = dirname(dirname(realpathSync(packageFile)));
  // The link itself is read, too.
  return folder === target ? [target] : [dirname(folder), target];
}

/** Returns the action, or the reason for the failure. */
function toAction(
  head: CompileResponse | undefined,
  [, glue, ...modules]: readonly Buffer[],
): Omit<Action, 'checksum'> | string {
  if (head?.kind === 'rejected') return head.message;
  if (head === undefined || glue === undefined) return RESPONSE_INVALID;
  return {
    // Copies, because the frames share the memory of the chunks they came in.
    glue: glue.toString(),
    modules: head.modules.map((module, index) => ({ ...module, bytes: Buffer.from(modules[index] ?? []) })),
  };
}

function parseHead(bytes: Buffer): CompileResponse | undefined {
  try {
    return responseHead.safeParse(JSON.parse(bytes.toString())).data;
  } catch {
    return undefined;
  }
}
