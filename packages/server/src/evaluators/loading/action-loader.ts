import { type Action, ActionCompileError, type ActionCompiling, actionBytes } from '../actions/action-world.ts';
import { componentChecksum } from '../actions/component-checksum.ts';
import { ActionFileError } from './action-file-error.ts';
import type { ActionFiles } from './action-files.ts';

/** Files that are read and compiled at one time: each may have 30 MiB. */
const AT_ONCE = 4;

/** Actions that are kept though nobody may use them any more. */
const MAX_RECENT_BYTES = 64 * 1024 * 1024;

/** What a path led to: an action, or what is wrong there. */
export type LoadedAction = { readonly action: Action } | { readonly problem: string };

/** Makes actions of files. */
export class ActionLoader {
  readonly #files: ActionFiles;
  readonly #compiling: Pick<ActionCompiling, 'compile'>;
  /** What was loaded lately, by checksum: who goes back to earlier evaluators does not wait for the compiler. */
  readonly #recent = new Map<string, Action>();

  constructor(files: ActionFiles, compiling: Pick<ActionCompiling, 'compile'>) {
    this.#files = files;
    this.#compiling = compiling;
  }

  /**
   * The actions of files, by path. Each file is read once; each content is compiled once, and not at all where one of
   * `known` came of it, or one of those that were loaded lately. Throws when compiling as such does not work.
   */
  async load(paths: Iterable<string>, known: Iterable<Action>): Promise<ReadonlyMap<string, LoadedAction>> {
    const compiled = new Map<string, Promise<Action>>();
    for (const action of [...this.#recent.values(), ...known]) compiled.set(action.checksum, Promise.resolve(action));
    const loaded = new Map<string, LoadedAction>();
    const left = new Set(paths).values();
    const work = async (): Promise<void> => {
      for (const path of left) loaded.set(path, await this.#loadOne(path, compiled));
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    for (const each of loaded.values()) if ('action' in each) this.#remember(each.action);
    return loaded;
  }

  #remember(action: Action): void {
    this.#recent.delete(action.checksum);
    this.#recent.set(action.checksum, action);
    let bytes = this.#recent.values().reduce((sum, each) => sum + actionBytes(each), 0);
    for (const oldest of this.#recent.values()) {
      if (bytes <= MAX_RECENT_BYTES) return;
      this.#recent.delete(oldest.checksum);
      bytes -= actionBytes(oldest);
    }
  }

  async #loadOne(path: string, compiled: Map<string, Promise<Action>>): Promise<LoadedAction> {
    try {
      const bytes = await this.#files.read(path);
      const checksum = await componentChecksum(bytes);
      const compiling = compiled.get(checksum) ?? this.#compiling.compile(bytes, checksum);
      compiled.set(checksum, compiling);
      return { action: await compiling };
    } catch (error) {
      if (error instanceof ActionFileError || error instanceof ActionCompileError) return { problem: error.message };
      throw error;
    }
  }
}
