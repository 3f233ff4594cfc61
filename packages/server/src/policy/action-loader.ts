import { realpath } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { ContainedFileError, isInside, readContainedFile } from '../http/secrets/contained-file.ts';
import { errorCode } from '../registry/store/files.ts';
import type { SharedComponents } from '../registry/store/revision-store.ts';
import {
  type Action,
  ActionCompileError,
  actionSize,
  type ComponentCompiler,
  componentChecksum,
} from './sandbox/action.ts';
import { COMPONENT_LIMITS } from './sandbox/validate/reader.ts';

/** Files that are read and compiled concurrently; each may have 30 MiB. */
const CONCURRENCY = 4;

/** Limit of the actions that are cached after their evaluators were replaced. */
const MAX_CACHED_BYTES = 64 * 1024 * 1024;

/** Action of a path, or the problem of its file. */
export type ActionResult = { readonly action: Action } | { readonly problem: string };

/** What is known of the actions that are loaded. */
export interface LoadOptions {
  /** Actions that are loaded already. */
  readonly known: Iterable<Action>;
  /** Checksums of the components of a revision, by path, for files that do not exist. */
  readonly recorded?: ReadonlyMap<string, string> | undefined;
  /** Whether exactly these components are loaded, whatever the files have become. */
  readonly isExact?: boolean;
  /** Called with a path whose file has another component than the one that is loaded. */
  readonly onIgnored?: (path: string) => void;
}

/** A component: its bytes are undefined if its action is known. */
interface Component {
  readonly checksum: string;
  readonly bytes: Buffer | undefined;
}

/** Reads and compiles actions. */
export class ActionLoader {
  readonly #files: ActionFiles;
  readonly #compiler: Pick<ComponentCompiler, 'compile'>;
  readonly #shared: SharedComponents | undefined;
  /** Recently loaded actions by checksum, so that a rollback to an earlier revision does not compile again. */
  readonly #recent = new Map<string, Action>();

  constructor(files: ActionFiles, compiler: Pick<ComponentCompiler, 'compile'>, shared?: SharedComponents) {
    this.#files = files;
    this.#compiler = compiler;
    this.#shared = shared;
  }

  /**
   * Returns the actions of files by path, and shares their components with other replicas. Each file is read once; each content
   * is compiled once, and not at all if `known` or the cache has its action. Throws if the compiler or the database does not
   * work.
   */
  async load(paths: Iterable<string>, options: LoadOptions): Promise<ReadonlyMap<string, ActionResult>> {
    const compiled = new Map<string, Promise<Action>>();
    for (const action of [...this.#recent.values(), ...options.known])
      compiled.set(action.checksum, Promise.resolve(action));
    const results = new Map<string, ActionResult>();
    const pending = new Set(paths).values();
    const loadPending = async (): Promise<void> => {
      for (const path of pending) results.set(path, await this.#loadOne(path, compiled, options));
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, loadPending));
    for (const result of results.values()) if ('action' in result) this.#cache(result.action);
    return results;
  }

  async #loadOne(path: string, compiled: Map<string, Promise<Action>>, options: LoadOptions): Promise<ActionResult> {
    try {
      const { checksum, bytes } = await this.#read(path, compiled, options);
      const action = await (bytes
        ? compiled.getOrInsertComputed(checksum, () => this.#compiler.compile(bytes, checksum))
        : compiled.get(checksum));
      if (!action) throw new ActionFileError('no such file');
      if (bytes) await this.#shared?.store(checksum, bytes);
      return { action };
    } catch (error) {
      if (error instanceof ActionFileError || error instanceof ActionCompileError) return { problem: error.message };
      throw error;
    }
  }

  async #read(
    path: string,
    compiled: ReadonlyMap<string, unknown>,
    { recorded, isExact = false, onIgnored }: LoadOptions,
  ): Promise<Component> {
    const checksum = recorded?.get(path);
    if (checksum === undefined) return await this.#readFile(path);
    const file = await this.#readFile(path).catch((error: unknown) => {
      if (error instanceof ActionFileError) return error;
      throw error;
    });
    const isRead = !(file instanceof ActionFileError);
    if (isRead && (!isExact || file.checksum === checksum)) return file;
    const stored = compiled.has(checksum) ? { checksum, bytes: undefined } : await this.#readShared(checksum);
    if (stored && isRead) onIgnored?.(path);
    if (stored) return stored;
    // What is missing was removed by hand: the file is the best guess.
    if (isRead) return file;
    throw file;
  }

  async #readFile(path: string): Promise<Component> {
    const bytes = await this.#files.read(path);
    return { checksum: await componentChecksum(bytes), bytes };
  }

  async #readShared(checksum: string): Promise<Component | undefined> {
    const bytes = await this.#shared?.read(checksum);
    return bytes && (await componentChecksum(bytes)) === checksum ? { checksum, bytes } : undefined;
  }

  #cache(action: Action): void {
    this.#recent.delete(action.checksum);
    this.#recent.set(action.checksum, action);
    let bytes = this.#recent.values().reduce((sum, each) => sum + actionSize(each), 0);
    for (const oldest of this.#recent.values()) {
      if (bytes <= MAX_CACHED_BYTES) return;
      this.#recent.delete(oldest.checksum);
      bytes -= actionSize(oldest);
    }
  }
}

/** A file that is not readable as an action; the message may be returned to clients and contains no path. */
export class ActionFileError extends Error {
  override readonly name = 'ActionFileError';
}

const PROBLEMS = {
  outside: 'is not inside SERVICE_ACTIONS_PATH',
  'not-a-file': 'is not a file',
  'too-large': `exceeds ${COMPONENT_LIMITS.fileBytes} bytes; remove debug information`,
  replaced: 'changed while it was being read',
} as const;

/** Options of {@link ActionFiles}. */
export interface ActionFilesOptions {
  /** Base of relative paths; absolute. */
  readonly baseFolder: string;
  /** SERVICE_ACTIONS_PATH, absolute: only files inside may be read. Undefined: all files. */
  readonly actionsPath: string | undefined;
}

/** Reads the files that `processor.path` names. */
export class ActionFiles {
  readonly #options: ActionFilesOptions;

  constructor(options: ActionFilesOptions) {
    this.#options = options;
  }

  /** Returns whether a path is inside SERVICE_ACTIONS_PATH after resolving links. The file does not have to exist. */
  async isAllowed(path: string): Promise<boolean> {
    const { actionsPath } = this.#options;
    if (actionsPath === undefined) return true;
    try {
      return isInside(await realpath(actionsPath), await resolveLinks(this.#absolute(path)));
    } catch {
      // A path that cannot be resolved is not known to be inside.
      return false;
    }
  }

  /** Reads a file. Throws {@link ActionFileError}. */
  async read(path: string): Promise<Buffer> {
    try {
      // Checked again: a link may have changed since `isAllowed`.
      return await readContainedFile(this.#absolute(path), this.#options.actionsPath, COMPONENT_LIMITS.fileBytes);
    } catch (error) {
      if (error instanceof ContainedFileError) throw new ActionFileError(PROBLEMS[error.problem]);
      const isMissing = ['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '');
      const hint = isAbsolute(path) ? '' : ' (relative paths start at the folder of the bootstrap file)';
      throw new ActionFileError(isMissing ? `no such file${hint}` : 'the file cannot be read', { cause: error });
    }
  }

  #absolute(path: string): string {
    return resolve(this.#options.baseFolder, path);
  }
}

/** Resolves the links of a path. If it does not exist, those of its nearest existing folder. */
async function resolveLinks(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const parent = dirname(path);
    if (errorCode(error) !== 'ENOENT' || parent === path) throw error;
    return join(await resolveLinks(parent), path.slice(parent.length));
  }
}
