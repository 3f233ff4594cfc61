import { createHash } from 'node:crypto';
import type { CompileWarning, Evaluator, ValidationIssue } from '@sluice/contract';
import type { LlmConnection } from '../app/config/bootstrap-file.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { CompiledSchema, ResultSchemas } from './llm/result-schema.ts';
import {
  type ActionFiles,
  ActionLoader,
  type Examined,
  examine,
  type HasNamespace,
  type SoundEvaluator,
  warnUnreachableTriggers,
} from './load.ts';
import type { RevisionStore } from './revision-store.ts';
import {
  activeRevision,
  type Content,
  checkExpected,
  contentOf,
  EvaluatorsError,
  type EvaluatorsErrorCode,
  type Expected,
  evaluatorsOf,
  NO_REVISIONS,
  newestOfStartUp,
  type Revision,
  type Revisions,
  withActive,
  withRejected,
} from './revisions.ts';
import type { Action, ActionCompiling } from './sandbox/action.ts';

/** An evaluator with all that a run of it needs. */
export interface LoadedEvaluator {
  /** As it is answered. */
  readonly definition: Evaluator;
  readonly connection: LlmConnection;
  readonly action: Action;
  /** Of `llm.result_schema`; undefined when there is none. */
  readonly schema: CompiledSchema | undefined;
}

/** The evaluators that are active at one time. Nothing changes it: a request finishes with the one that it began with. */
export class EvaluatorSet {
  /** The id of the active revision; 0 when there is none. */
  readonly revision: number;
  /** In the order in which they run. */
  readonly list: readonly LoadedEvaluator[];
  /** Names of those that belong to it and could not be loaded: they judge nothing. */
  readonly leftOut: readonly string[];
  readonly #byMethod: ReadonlyMap<string, readonly LoadedEvaluator[]>;
  /** Equal for evaluators that judge alike: definitions may be large, and are compared once per namespace. */
  readonly #fingerprints: ReadonlyMap<LoadedEvaluator, string>;

  constructor(revision: number, list: readonly LoadedEvaluator[], leftOut: readonly string[] = []) {
    this.revision = revision;
    this.list = list;
    this.leftOut = leftOut;
    this.#byMethod = Map.groupBy(list, ({ definition }) => definition.trigger.method);
    this.#fingerprints = new Map(list.map((evaluator) => [evaluator, fingerprintOf(evaluator)]));
  }

  /** Those that judge requests of this method to this namespace; undefined when none does. */
  judging(method: string, namespace: string): readonly LoadedEvaluator[] | undefined {
    const matching = this.#byMethod
      .get(method)
      ?.filter(({ definition: { trigger } }) => trigger.namespace === null || trigger.namespace === namespace);
    return matching?.length ? matching : undefined;
  }

  /** True when requests of this method to this namespace are judged by another set just as by this one. */
  judgesLike(other: EvaluatorSet, method: string, namespace: string): boolean {
    const ours = this.judging(method, namespace) ?? [];
    const theirs = other.judging(method, namespace) ?? [];
    const told = (set: EvaluatorSet, list: readonly LoadedEvaluator[]) => list.map((one) => set.#fingerprints.get(one));
    return told(this, ours).join() === told(other, theirs).join();
  }

  /** How many different actions they have. */
  get actionCount(): number {
    return new Set(this.list.map(({ action }) => action.checksum)).size;
  }
}

function fingerprintOf({ definition, action }: LoadedEvaluator): string {
  return createHash('sha256').update(JSON.stringify(definition)).update(action.checksum).digest('base64');
}

/** What {@link Evaluators} work with. */
export interface EvaluatorsParts {
  readonly connections: readonly LlmConnection[];
  readonly files: ActionFiles;
  readonly compiling: Pick<ActionCompiling, 'compile'>;
  readonly schemas: Pick<ResultSchemas, 'compile'>;
  readonly store: RevisionStore;
  readonly log: Pick<TargetLogger, 'info' | 'warn'>;
  /** Told of every set that becomes active. */
  readonly onUse?: (set: EvaluatorSet) => void;
  /** Unless given, nobody is warned of namespaces that there are not. */
  readonly hasNamespace?: HasNamespace;
  /** Epoch milliseconds; the real ones unless given. */
  readonly now?: () => number;
}

/** Who changes the evaluators, and what he believes is there. */
export interface UpdateOptions extends Expected {
  readonly actor: string | undefined;
}

/** What an update came to. */
export interface Update {
  readonly set: EvaluatorSet;
  /** One for each evaluator that was left out. */
  readonly warnings: readonly CompileWarning[];
}

/** Refusals that the reason of a rejected revision names. */
const MOST_REASONS = 10;

/**
 * The evaluators that are active, and how they change (specification, "Evaluator management endpoints"; decisions 4.5).
 *
 * Updates come one after the other, each as a whole or not at all: what is new is compiled, then kept as a revision, and
 * only when that is on disk does it take the place of what was active.
 */
export class Evaluators {
  #current = new EvaluatorSet(0, []);
  readonly #connections: ReadonlyMap<string, LlmConnection>;
  readonly #parts: EvaluatorsParts;
  readonly #loader: ActionLoader;
  readonly #now: () => number;
  #revisions: Revisions = NO_REVISIONS;
  #queue: Promise<unknown> = Promise.resolve();
  /** Updates under way and waiting. */
  #unfinished = 0;
  #saving: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(parts: EvaluatorsParts) {
    this.#parts = parts;
    this.#connections = new Map(parts.connections.map((connection) => [connection.name, connection]));
    this.#loader = new ActionLoader(parts.files, parts.compiling);
    this.#now = parts.now ?? Date.now;
  }

  /** What a request takes once, and keeps to its end. */
  get current(): EvaluatorSet {
    return this.#current;
  }

  /** Names of the connections that evaluators may ask, sorted. */
  get connections(): string[] {
    return [...this.#connections.keys()].toSorted();
  }

  /** Newest first. */
  get revisions(): readonly Revision[] {
    return this.#revisions.list.toReversed();
  }

  get activeRevision(): Revision | undefined {
    return activeRevision(this.#revisions);
  }

  revision(id: number): Revision | undefined {
    return this.#revisions.list.find((revision) => revision.id === id);
  }

  /**
   * Reads the revisions and loads what is to be active: the configuration's evaluators when they are others than those of
   * the last start that had any, else those of the active revision. What cannot be loaded is left out with a warning.
   * `unreadable`: names of those in the configuration that are no evaluators; whoever read it has told of them.
   * Throws the store's error.
   */
  async start(configured: readonly Evaluator[] | undefined, unreadable: readonly string[] = []): Promise<void> {
    this.#revisions = await this.#parts.store.load();
    const known = newestOfStartUp(this.#revisions)?.checksum;
    const content = configured && contentOf(configured);
    const isNew = content !== undefined && content.checksum !== known;
    const active = this.activeRevision;
    const evaluators = isNew ? configured : active && evaluatorsOf(active);
    if (!evaluators) return;

    const examined = await this.#examine(evaluators);
    const { loaded, warnings } = await this.#load(examined.filter(isSound));
    const problems = [...examined.flatMap(problemOf), ...warnings.map(problemOfAction)];
    this.#tellSkipped(problems);
    const names = problems.map(({ evaluator }) => evaluator);
    const leftOut = notAmong(loaded, isNew ? [...unreadable, ...names] : names);
    if (isNew) {
      const submission = { content, origin: 'startup', actor: undefined, at: this.#time() } as const;
      await this.#keep(withActive(this.#revisions, submission, leftOut));
    }
    this.#use(new EvaluatorSet(this.#revisions.activeId ?? 0, loaded, leftOut));
    this.#warnOfDoubts(loaded);
    const { revision } = this.current;
    const from = isNew ? 'the service-config file' : 'the active revision';
    this.#parts.log.info('evaluators loaded', { revision, evaluators: loaded.length, from });
  }

  /**
   * Puts these in the place of all that are active. Throws {@link EvaluatorsError}: BAD_REQUEST for an action outside of
   * SERVICE_ACTIONS_PATH, CONFLICT when another revision is active than was expected, UNPROCESSABLE for what breaks a
   * rule, which is kept as a rejected revision; in this order (decisions 4.5).
   */
  replace(evaluators: readonly Evaluator[], options: UpdateOptions): Promise<Update> {
    const content = contentOf(evaluators);
    // Those that have to wait do so as text, which takes a twentieth of the memory.
    const atOnce = this.#unfinished === 0 ? evaluators : undefined;
    return this.#afterOthers(async () => {
      const submitted = atOnce ?? evaluatorsOf(content);
      const outside = await this.#outside(submitted);
      if (outside.length > 0) throw refused('BAD_REQUEST', 'invalid evaluators', outside);
      checkExpected(options, this.#revisions.activeId ?? 0);
      return this.#submit(submitted, content, [], options.actor, 'invalid evaluators');
    });
  }

  /**
   * Submits the evaluators of a revision anew. Throws {@link EvaluatorsError}: NOT_FOUND without such a revision, then
   * as {@link replace} does, but UNPROCESSABLE for an action that has come to lie outside: the request is well formed.
   */
  activate(id: number, options: UpdateOptions): Promise<Update> {
    return this.#afterOthers(async () => {
      const revision = this.revision(id);
      if (!revision) throw new EvaluatorsError('NOT_FOUND', `revision not found: ${id}`);
      checkExpected(options, this.#revisions.activeId ?? 0);
      const evaluators = evaluatorsOf(revision);
      const outside = await this.#outside(evaluators);
      return this.#submit(evaluators, revision, outside, options.actor, `revision ${id} cannot be activated`);
    });
  }

  /** Waits for what is being written; updates that are not as far yet change nothing any more. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#saving;
  }

  #use(set: EvaluatorSet): void {
    this.#current = set;
    this.#parts.onUse?.(set);
  }

  #afterOthers(update: () => Promise<Update>): Promise<Update> {
    this.#unfinished++;
    const done = this.#queue.then(update).finally(() => this.#unfinished--);
    this.#queue = done.catch(() => {});
    return done;
  }

  async #submit(
    evaluators: readonly Evaluator[],
    content: Content,
    outside: readonly ValidationIssue[],
    actor: string | undefined,
    what: string,
  ): Promise<Update> {
    const submission = { content, origin: 'api', actor, at: this.#time() } as const;
    const examined = await this.#examine(evaluators);
    const refusals = [...outside, ...examined.flatMap(placedRefusals)];
    if (refusals.length > 0) {
      await this.#keep(withRejected(this.#revisions, submission, reasonOf(refusals)));
      throw refused('UNPROCESSABLE', what, refusals);
    }
    const { loaded, warnings } = await this.#load(examined.filter(isSound));
    const skipped = warnings.map(({ evaluator }) => evaluator);
    await this.#keep(withActive(this.#revisions, submission, skipped));
    this.#use(new EvaluatorSet(this.#revisions.activeId ?? 0, loaded, skipped));
    this.#tellSkipped(warnings.map(problemOfAction));
    this.#warnOfDoubts(loaded);
    const { revision } = this.current;
    this.#parts.log.info('evaluators replaced', { revision, evaluators: loaded.length, skipped, actor });
    return { set: this.current, warnings };
  }

  /** Nobody is judged by them, whatever their `on_error`. */
  #tellSkipped(problems: readonly Problem[]): void {
    for (const { evaluator, message } of problems) {
      this.#parts.log.warn(`evaluator ${JSON.stringify(evaluator)} is left out: ${message}`, { evaluator });
    }
  }

  #warnOfDoubts(loaded: readonly LoadedEvaluator[]): void {
    warnUnreachableTriggers(loaded, this.#parts.hasNamespace ?? (() => true), this.#parts.log);
  }

  #examine(evaluators: readonly Evaluator[]): Promise<Examined[]> {
    return examine(evaluators, { connections: this.#connections, schemas: this.#parts.schemas });
  }

  /** Those whose action may not be read. */
  async #outside(evaluators: readonly Evaluator[]): Promise<ValidationIssue[]> {
    const refusals: ValidationIssue[] = [];
    for (const [index, { processor }] of evaluators.entries()) {
      if (await this.#parts.files.mayRead(processor.path)) continue;
      refusals.push({ path: `evaluators.${index}.processor.path`, message: 'is not inside SERVICE_ACTIONS_PATH' });
    }
    return refusals;
  }

  async #load(sound: readonly SoundEvaluator[]): Promise<{ loaded: LoadedEvaluator[]; warnings: CompileWarning[] }> {
    const paths = sound.map(({ definition }) => definition.processor.path);
    const actions = await this.#loader.load(
      paths,
      this.current.list.map(({ action }) => action),
    );
    const loaded: LoadedEvaluator[] = [];
    const warnings: CompileWarning[] = [];
    for (const evaluator of sound) {
      const { name, processor } = evaluator.definition;
      const { path } = processor;
      const found = actions.get(path) ?? { problem: 'was not loaded' };
      if ('action' in found) loaded.push({ ...evaluator, action: found.action });
      else warnings.push({ evaluator: name, path, code: 'WASM_COMPILE_FAILED', message: found.problem });
    }
    return { loaded, warnings };
  }

  async #keep(revisions: Revisions): Promise<void> {
    if (this.#closed) throw new Error('evaluators do not change any more: the service stops');
    const saving = this.#parts.store.save(revisions);
    this.#saving = saving.catch(() => {});
    await saving;
    this.#revisions = revisions;
  }

  #time(): string {
    return new Date(this.#now()).toISOString();
  }
}

/** Each once, without those of evaluators that judge: of several that have one name, the first may be loaded. */
function notAmong(loaded: readonly LoadedEvaluator[], names: readonly string[]): string[] {
  const judging = new Set(loaded.map(({ definition }) => definition.name));
  return [...new Set(names)].filter((name) => !judging.has(name));
}

function isSound(examined: Examined): examined is SoundEvaluator {
  return !('refusals' in examined);
}

function placedRefusals(examined: Examined, index: number): ValidationIssue[] {
  if (!('refusals' in examined)) return [];
  return examined.refusals.map(({ path, message }) => ({ path: `evaluators.${index}.${path}`, message }));
}

/** Why an evaluator, of this name, is left out. */
type Problem = Pick<CompileWarning, 'evaluator' | 'message'>;

function problemOf(examined: Examined): Problem[] {
  if (!('refusals' in examined)) return [];
  return [{ evaluator: examined.definition.name, message: reasonOf(examined.refusals) }];
}

function problemOfAction({ evaluator, path, message }: CompileWarning): Problem {
  return { evaluator, message: `${path}: ${message}` };
}

function reasonOf(refusals: readonly ValidationIssue[]): string {
  const told = refusals.slice(0, MOST_REASONS).map(({ path, message }) => `${path} ${message}`);
  const more = refusals.length - told.length;
  return `${told.join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
}

function refused(code: EvaluatorsErrorCode, what: string, refusals: readonly ValidationIssue[]): EvaluatorsError {
  const [first] = refusals;
  return new EvaluatorsError(code, `${what}: ${first?.path} ${first?.message}`, refusals);
}
