import { constants, type FileHandle, open, readlink, realpath, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { type Evaluator, namespaceName, type ValidationIssue } from '@sluice/contract';
import type { LlmConnection } from '../app/config/bootstrap-file.ts';
import { errorCode } from '../registry/store/files.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { MCP_METHODS } from '../telemetry/metrics/request-metrics.ts';
import { type CompiledSchema, ResultSchemaError, type ResultSchemas } from './llm/result-schema.ts';
import {
  type Action,
  ActionCompileError,
  type ActionCompiling,
  actionBytes,
  componentChecksum,
} from './sandbox/action.ts';
import { limits } from './sandbox/validate/reader.ts';

/** Why a file cannot be an action; the message is fit to be answered and names no path but what was submitted. */
export class ActionFileError extends Error {
  override readonly name = 'ActionFileError';
}

/** Whether a path lies below a folder. Both without links. */
export function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way !== '' && way !== '..' && !way.startsWith(`..${sep}`);
}

/**
 * The bytes of a file whose path was followed to its end. Throws {@link ActionFileError} when it is none, or does not lie
 * inside of `root`, if that is given: what was opened is asked where it lies, because a folder on the way may have
 * become a link since its path was followed.
 */
export async function readResolved(path: string, root: string | undefined): Promise<Buffer> {
  const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = constants;
  // A pipe or a device could keep whoever opens it waiting for ever, so that it is not opened.
  if (!(await stat(path)).isFile()) throw new ActionFileError('is not a file');
  const handle = await open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  try {
    if (root !== undefined && !isInside(root, await openedPlace(handle, path))) {
      throw new ActionFileError('is not inside SERVICE_ACTIONS_PATH');
    }
    const found = await handle.stat();
    if (!found.isFile()) throw new ActionFileError('is not a file');
    if (found.size > limits.fileBytes) {
      throw new ActionFileError(`has more than ${limits.fileBytes} bytes; leave out debug information`);
    }
    const bytes = Buffer.alloc(found.size);
    let length = 0;
    while (length < bytes.length) {
      const { bytesRead } = await handle.read(bytes, length, bytes.length - length, length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return bytes.subarray(0, length);
  } finally {
    await handle.close();
  }
}

/** Where an open file lies. Where no `/proc` says it, its path is followed anew and has to lead to the same file. */
async function openedPlace(handle: FileHandle, path: string): Promise<string> {
  try {
    return await readlink(`/proc/self/fd/${handle.fd}`);
  } catch {
    const place = await realpath(path);
    const [there, opened] = await Promise.all([stat(place), handle.stat()]);
    if (there.dev !== opened.dev || there.ino !== opened.ino) throw new ActionFileError('is not the file that it was');
    return place;
  }
}

/** Where actions lie. */
export interface ActionFolders {
  /** Absolute; relative paths start here. */
  readonly baseFolder: string;
  /** SERVICE_ACTIONS_PATH, absolute: only what is inside of it may be read. Undefined: anything may. */
  readonly actionsPath: string | undefined;
}

/** The files that `processor.path` names (decisions 4.5). */
export class ActionFiles {
  readonly #folders: ActionFolders;

  constructor(folders: ActionFolders) {
    this.#folders = folders;
  }

  /** Whether a path may be read at all, after resolving links. A file that does not exist is where it would be. */
  async mayRead(path: string): Promise<boolean> {
    const { actionsPath } = this.#folders;
    if (actionsPath === undefined) return true;
    try {
      return isInside(await realpath(actionsPath), await placeOf(this.#absolute(path)));
    } catch {
      // What cannot be followed to its end is not known to be inside.
      return false;
    }
  }

  /** The file's bytes. Throws {@link ActionFileError} when it is none that may be read. */
  async read(path: string): Promise<Buffer> {
    try {
      const { actionsPath } = this.#folders;
      const place = await realpath(this.#absolute(path));
      const root = actionsPath === undefined ? undefined : await realpath(actionsPath);
      // Once more: a link may have been changed since it was asked whether the path may be read.
      if (root !== undefined && !isInside(root, place)) {
        throw new ActionFileError('is not inside SERVICE_ACTIONS_PATH');
      }
      return await readResolved(place, root);
    } catch (error) {
      if (error instanceof ActionFileError) throw error;
      const missing = ['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '');
      const from = isAbsolute(path) ? '' : ' (a relative path begins at the folder of the service-config file)';
      throw new ActionFileError(missing ? `no such file${from}` : 'the file cannot be read', { cause: error });
    }
  }

  #absolute(path: string): string {
    return resolve(this.#folders.baseFolder, path);
  }
}

/** The path without links. Of what does not exist, that of the nearest folder that does, and what is to come below it. */
async function placeOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const parent = dirname(path);
    if (errorCode(error) !== 'ENOENT' || parent === path) throw error;
    return join(await placeOf(parent), path.slice(parent.length));
  }
}

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

/** What evaluators are held against. */
export interface Surroundings {
  /** By name. */
  readonly connections: ReadonlyMap<string, LlmConnection>;
  readonly schemas: Pick<ResultSchemas, 'compile'>;
}

/** An evaluator that keeps all rules, but for its action. */
export interface SoundEvaluator {
  readonly definition: Evaluator;
  readonly connection: LlmConnection;
  readonly schema: CompiledSchema | undefined;
}

/** What became of one: it is sound, or this is wrong with it. Paths begin below the evaluator. */
export type Examined =
  | SoundEvaluator
  | { readonly definition: Evaluator; readonly refusals: readonly ValidationIssue[] };

/**
 * Holds evaluators against the rules that a well-formed one may break (decisions 4.5: what is answered with 422), in
 * their order. Actions are not looked at.
 */
export async function examine(evaluators: readonly Evaluator[], surroundings: Surroundings): Promise<Examined[]> {
  const names = new Set<string>();
  const examined: Examined[] = [];
  for (const definition of evaluators) {
    const refusals: ValidationIssue[] = [];
    const refuse = (path: string, message: string) => refusals.push({ path, message });
    const { name, trigger, llm, processor } = definition;
    if (name === '') refuse('name', 'must not be empty');
    else if (names.has(name)) refuse('name', 'is the name of an earlier evaluator too');
    names.add(name);
    if (trigger.method === '') refuse('trigger.method', 'must not be empty');
    const wrong = trigger.namespace === null ? undefined : namespaceName.safeParse(trigger.namespace).error;
    if (wrong) refuse('trigger.namespace', wrong.issues[0]?.message ?? 'is not a name of a namespace');
    const connection = surroundings.connections.get(llm.connection);
    if (!connection) refuse('llm.connection', unknownConnection(llm.connection, [...surroundings.connections.keys()]));
    if (processor.path === '') refuse('processor.path', 'must not be empty');
    const schema = await compiled(definition, surroundings.schemas);
    if ('problem' in schema) refuse('llm.result_schema', schema.problem);
    else if (connection && refusals.length === 0) {
      examined.push({ definition, connection, schema: schema.compiled });
      continue;
    }
    examined.push({ definition, refusals });
  }
  return examined;
}

function unknownConnection(name: string, known: readonly string[]): string {
  const there = known.length === 0 ? 'there are none' : `known are ${known.toSorted().join(', ')}`;
  return `is ${JSON.stringify(name)}, which is no connection: ${there}; llm_connections of the service-config file has them`;
}

type Compiled = { readonly compiled: CompiledSchema | undefined } | { readonly problem: string };

async function compiled({ llm }: Evaluator, schemas: Surroundings['schemas']): Promise<Compiled> {
  if (llm.result_schema === null) return { compiled: undefined };
  try {
    return { compiled: await schemas.compile(llm.result_schema) };
  } catch (error) {
    if (!(error instanceof ResultSchemaError)) throw error;
    // Behind the path, which says it already.
    return { problem: error.message.replace(/^the schema /, '') };
  }
}

/** Whether there is a namespace of this name. */
export type HasNamespace = (name: string) => boolean;

/**
 * Warns of evaluators that judge nothing as things are, because of a mistyped trigger most likely. They are loaded all the
 * same: a method may be an upstream's own, and a namespace may be made later.
 */
export function warnUnreachableTriggers(
  loaded: readonly { readonly definition: Evaluator }[],
  hasNamespace: HasNamespace,
  log: Pick<TargetLogger, 'warn'>,
): void {
  for (const { definition } of loaded) {
    const { name: evaluator, trigger } = definition;
    const doubts = doubtsOf(trigger, hasNamespace);
    if (doubts.length === 0) continue;
    log.warn(`evaluator ${JSON.stringify(evaluator)} may judge nothing: ${doubts.join('; ')}`, { evaluator });
  }
}

function doubtsOf({ method, namespace }: Evaluator['trigger'], hasNamespace: HasNamespace): string[] {
  const doubts: string[] = [];
  if (!MCP_METHODS.has(method)) doubts.push(`MCP has no method ${JSON.stringify(method)}`);
  if (namespace !== null && !hasNamespace(namespace)) doubts.push(`there is no namespace "${namespace}" yet`);
  return doubts;
}
