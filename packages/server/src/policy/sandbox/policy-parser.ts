import { realpathSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { dirname } from 'node:path';
import { z } from 'zod';
import { readSandboxScripts, SandboxProcess, type SandboxScripts } from './sandbox-process.ts';

/** What the process is asked for. */
export type ParserRequest =
  | { readonly kind: 'parse'; readonly text: string }
  | { readonly kind: 'validate'; readonly schema: object; readonly policies: Readonly<Record<string, string>> };

/** A problem of a policy, as Cedar's implementation describes it. */
const problem = z.object({
  /** Its id in the request; empty if the problem is of no policy. */
  policy: z.string(),
  message: z.string().transform((text) => text.slice(0, MAX_MESSAGE_LENGTH)),
  /** Where it begins, in bytes of the policy's text. */
  at: z.int().min(0),
  isWarning: z.boolean().optional(),
});
const response = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('parsed'), policy: z.unknown() }),
  z.object({ kind: z.literal('problems'), problems: z.array(problem) }),
]);

/** The response to a {@link ParserRequest}. */
export type ParserResponse = z.output<typeof response>;

const MAX_MESSAGE_LENGTH = 1_000;
/** A policy of the largest size, in its JSON form. */
const MAX_RESPONSE_BYTES = 16 * 1024 * 1024;
/** Time for one request, and memory of the process. */
const REQUEST_MS = 10_000;
const CPU_SECONDS = 60;
const FLAGS = ['--max-old-space-size=256', '--wasm-max-mem-pages=8192'];

/** How many requests may break a process. Each costs its start. */
const MAX_BROKEN = 8;

/** Parses and validates policies in processes that can be killed: a policy may break Cedar's implementation, or never end. */
export class PolicyParser {
  readonly #requestMs: number;
  readonly #running = new Set<SandboxProcess>();
  #scripts: SandboxScripts | undefined;
  #isClosed = false;

  /** `requestMs`: time limit of one request (default 10 s). */
  constructor({ requestMs = REQUEST_MS }: { readonly requestMs?: number } = {}) {
    this.#requestMs = requestMs;
  }

  /**
   * Returns the responses to requests, in their order. Undefined for one that breaks the process, also alone in a new one, and for those
   * after too many of these.
   */
  async respond(requests: readonly ParserRequest[]): Promise<readonly (ParserResponse | undefined)[]> {
    const responses: (ParserResponse | undefined)[] = [];
    for (let broken = 0; responses.length < requests.length && broken < MAX_BROKEN && !this.#isClosed; ) {
      const found = await this.#run(requests.slice(responses.length));
      responses.push(...found);
      // Others before it may have caused it, unless it was the first one.
      if (found.length > 0) continue;
      responses.push(undefined);
      broken++;
    }
    return Array.from(requests, (_, index) => responses[index]);
  }

  /** Kills the processes. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const process of this.#running) process.kill();
    await Promise.all(Array.from(this.#running, ({ exited }) => exited));
  }

  /** Returns the responses of one process, until it breaks. */
  async #run(requests: readonly ParserRequest[]): Promise<ParserResponse[]> {
    const responses: ParserResponse[] = [];
    this.#scripts ??= readSandboxScripts(['parsing', 'host'], { packages: true });
    const { loader, sources } = this.#scripts;
    const process = new SandboxProcess({
      script: ['--input-type=module', '--eval', loader],
      readable: READABLE,
      flags: FLAGS,
      cpuSeconds: CPU_SECONDS,
      maxFrameBytes: MAX_RESPONSE_BYTES,
      onFrame: (bytes) => {
        const parsed = response.safeParse(JSON.parse(bytes.toString())).data;
        if (!parsed) return process.kill();
        responses.push(parsed);
        const next = requests[responses.length];
        if (!next) return process.kill();
        process.send(next);
        deadline.refresh();
      },
      onExit: () => clearTimeout(deadline),
    });
    const deadline = setTimeout(() => process.kill(), this.#requestMs);
    this.#running.add(process);
    const [first] = requests;
    if (first) process.send(sources, first);
    await process.exited;
    this.#running.delete(process);
    return responses;
  }
}

/** The package, and the file that package resolution starts from. */
const READABLE = [packageFolders('@sluice/server'), packageFolders('@cedar-policy/cedar-wasm')].flat();

function packageFolders(name: string): string[] {
  const file = findPackageJSON(name, import.meta.url);
  if (file === undefined) throw new Error(`${name} is not installed: run npm install`);
  return [dirname(file), dirname(realpathSync(file))];
}
