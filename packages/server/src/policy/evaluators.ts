import type { CompileWarning, ErrorCode, Evaluator, ValidationIssue } from '@sluice/contract';
import { OperationError } from '../registry/operations.ts';
import { isDiskFull } from '../registry/store/files.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { type ActionFiles, ActionLoader } from './action-loader.ts';
import {
  EvaluatorSet,
  type LoadedEvaluator,
  type ValidationResult,
  type ValidEvaluator,
  validateEvaluators,
  warnUnreachableTriggers,
} from './evaluator-set.ts';
import type { LlmConnection } from './llm/client.ts';
import type { ResultSchemas } from './llm/result-schema.ts';
import type { RevisionStore } from './revision-store.ts';
import {
  activeRevision,
  addActive,
  addRejected,
  checkExpected,
  type ExpectedRevision,
  latestStartupRevision,
  NO_REVISIONS,
  parseEvaluators,
  type Revision,
  type RevisionContent,
  type Revisions,
  serializeEvaluators,
} from './revisions.ts';
import type { ComponentCompiler } from './sandbox/action.ts';

/** Options of {@link Evaluators}. */
export interface EvaluatorsOptions {
  readonly connections: readonly LlmConnection[];
  readonly files: ActionFiles;
  readonly compiler: Pick<ComponentCompiler, 'compile'>;
  readonly schemas: Pick<ResultSchemas, 'compile'>;
  readonly store: RevisionStore;
  readonly log: Pick<TargetLogger, 'info' | 'warn' | 'error'>;
  /** Called with each set that becomes active. */
  readonly onActivated?: (set: EvaluatorSet) => void;
  /** By default no warnings about missing namespaces are logged. */
  readonly namespaceExists?: (name: string) => boolean;
  /** Returns epoch milliseconds; replaceable in tests. */
  readonly now?: () => number;
}

/** Author and precondition of an update. */
export interface UpdateOptions extends ExpectedRevision {
  readonly actor: string | undefined;
}

/** Result of an update. */
export interface UpdateResult {
  readonly set: EvaluatorSet;
  /** One for each evaluator that was skipped. */
  readonly warnings: readonly CompileWarning[];
}

/** Issues that the failure reason of a rejected revision contains. */
const MAX_REASON_ISSUES = 10;

/**
 * Loads, replaces and activates evaluators (specification, "Evaluator management endpoints"; decisions 4.5).
 *
 * Updates run one after the other and are atomic: new evaluators are compiled, then stored as a revision, and become
 * active when that is durable.
 */
export class Evaluators {
  /** The active set. */
  current = new EvaluatorSet(0, []);
  readonly #connections: ReadonlyMap<string, LlmConnection>;
  readonly #options: EvaluatorsOptions;
  readonly #loader: ActionLoader;
  readonly #now: () => number;
  #revisions: Revisions = NO_REVISIONS;
  #queue: Promise<unknown> = Promise.resolve();
  /** Updates that are queued or in progress. */
  #pendingUpdates = 0;
  #saving: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: EvaluatorsOptions) {
    this.#options = options;
    this.#connections = new Map(options.connections.map((connection) => [connection.name, connection]));
    this.#loader = new ActionLoader(options.files, options.compiler);
    this.#now = options.now ?? Date.now;
  }

  /** Names of the LLM connections, sorted. */
  get connectionNames(): string[] {
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
   * Reads the revisions and loads evaluators: those of the configuration if they differ from the last startup revision,
   * else those of the active revision. Evaluators that cannot be loaded are skipped with a warning. `unreadable`: names of
   * evaluators whose configuration is invalid, of which a warning has been logged. Throws the error of the store.
   */
  async start(configured: readonly Evaluator[] | undefined, unreadable: readonly string[] = []): Promise<void> {
    this.#revisions = await this.#options.store.load();
    const known = latestStartupRevision(this.#revisions)?.checksum;
    const content = configured && serializeEvaluators(configured);
    const isNew = content !== undefined && content.checksum !== known;
    const active = this.activeRevision;
    const evaluators = isNew ? configured : active && parseEvaluators(active);
    if (!evaluators) return;

    const validated = await this.#validate(evaluators);
    const { loaded, warnings } = await this.#load(validated.filter(isValid));
    const problems = [...validated.flatMap(toProblem), ...warnings.map(toActionProblem)];
    this.#logSkipped(problems);
    const names = problems.map(({ evaluator }) => evaluator);
    const skipped = withoutLoaded(isNew ? [...unreadable, ...names] : names, loaded);
    if (isNew) {
      const input = { content, origin: 'startup', actor: undefined, at: this.#time() } as const;
      await this.#saveAtStart(addActive(this.#revisions, input, skipped));
    }
    this.#activate(new EvaluatorSet(this.#revisions.activeId ?? 0, loaded, skipped));
    const { revision } = this.current;
    const from = isNew ? 'the bootstrap file' : 'the active revision';
    this.#options.log.info('evaluators loaded', { revision, evaluators: loaded.length, from });
  }

  /**
   * Replaces all active evaluators. Throws {@link OperationError}, checked in this order (decisions 4.5): BAD_REQUEST for
   * an action outside SERVICE_ACTIONS_PATH, CONFLICT if another revision is active than expected, UNPROCESSABLE for
   * invalid evaluators, which are stored as a rejected revision.
   */
  replace(evaluators: readonly Evaluator[], options: UpdateOptions): Promise<UpdateResult> {
    const content = serializeEvaluators(evaluators);
    // Queued updates hold text only, which takes a twentieth of the memory.
    const unqueued = this.#pendingUpdates === 0 ? evaluators : undefined;
    return this.#enqueue(async () => {
      const submitted = unqueued ?? parseEvaluators(content);
      const outside = await this.#actionsOutside(submitted);
      if (outside.length > 0) throw toError('BAD_REQUEST', 'invalid evaluators', outside);
      checkExpected(options, this.#revisions.activeId ?? 0);
      return this.#submit(submitted, content, [], options.actor, 'invalid evaluators');
    });
  }

  /**
   * Submits the evaluators of a revision again. Throws {@link OperationError}: NOT_FOUND for an unknown revision, else
   * as {@link replace}, but UNPROCESSABLE for an action that is now outside SERVICE_ACTIONS_PATH.
   */
  activate(id: number, options: UpdateOptions): Promise<UpdateResult> {
    return this.#enqueue(async () => {
      const revision = this.revision(id);
      if (!revision) throw new OperationError('NOT_FOUND', `revision not found: ${id}`);
      checkExpected(options, this.#revisions.activeId ?? 0);
      const evaluators = parseEvaluators(revision);
      const outside = await this.#actionsOutside(evaluators);
      return this.#submit(evaluators, revision, outside, options.actor, `revision ${id} cannot be activated`);
    });
  }

  /** Waits for a revision that is being stored; queued updates are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#saving;
  }

  #enqueue(update: () => Promise<UpdateResult>): Promise<UpdateResult> {
    this.#pendingUpdates++;
    const result = this.#queue.then(update).finally(() => this.#pendingUpdates--);
    this.#queue = result.catch(() => {});
    return result;
  }

  async #submit(
    evaluators: readonly Evaluator[],
    content: RevisionContent,
    outside: readonly ValidationIssue[],
    actor: string | undefined,
    errorPrefix: string,
  ): Promise<UpdateResult> {
    const input = { content, origin: 'api', actor, at: this.#time() } as const;
    const validated = await this.#validate(evaluators);
    const issues = [...outside, ...validated.flatMap(toIssues)];
    if (issues.length > 0) {
      await this.#save(addRejected(this.#revisions, input, formatIssues(issues)));
      throw toError('UNPROCESSABLE', errorPrefix, issues);
    }
    const { loaded, warnings } = await this.#load(validated.filter(isValid));
    const skipped = warnings.map(({ evaluator }) => evaluator);
    await this.#save(addActive(this.#revisions, input, skipped));
    this.#logSkipped(warnings.map(toActionProblem));
    this.#activate(new EvaluatorSet(this.#revisions.activeId ?? 0, loaded, skipped));
    const { revision } = this.current;
    this.#options.log.info('evaluators replaced', { revision, evaluators: loaded.length, skipped, actor });
    return { set: this.current, warnings };
  }

  #activate(set: EvaluatorSet): void {
    this.current = set;
    this.#options.onActivated?.(set);
    warnUnreachableTriggers(set.list, this.#options.namespaceExists ?? (() => true), this.#options.log);
  }

  /** A skipped evaluator evaluates nothing, whatever its `on_error`. */
  #logSkipped(problems: readonly Problem[]): void {
    for (const { evaluator, message } of problems) {
      this.#options.log.warn(`evaluator ${JSON.stringify(evaluator)} skipped: ${message}`, { evaluator });
    }
  }

  #validate(evaluators: readonly Evaluator[]): Promise<ValidationResult[]> {
    return validateEvaluators(evaluators, { connections: this.#connections, schemas: this.#options.schemas });
  }

  async #actionsOutside(evaluators: readonly Evaluator[]): Promise<ValidationIssue[]> {
    const issues: ValidationIssue[] = [];
    for (const [index, { processor }] of evaluators.entries()) {
      if (await this.#options.files.isAllowed(processor.path)) continue;
      issues.push({ path: `evaluators.${index}.processor.path`, message: 'is not inside SERVICE_ACTIONS_PATH' });
    }
    return issues;
  }

  async #load(
    evaluators: readonly ValidEvaluator[],
  ): Promise<{ loaded: LoadedEvaluator[]; warnings: CompileWarning[] }> {
    const actions = await this.#loader.load(
      evaluators.map(({ definition }) => definition.processor.path),
      this.current.list.map(({ action }) => action),
    );
    const loaded: LoadedEvaluator[] = [];
    const warnings: CompileWarning[] = [];
    for (const evaluator of evaluators) {
      const { name, processor } = evaluator.definition;
      const { path } = processor;
      const result = actions.get(path) ?? { problem: 'was not loaded' };
      if ('action' in result) loaded.push({ ...evaluator, action: result.action });
      else warnings.push({ evaluator: name, path, code: 'WASM_COMPILE_FAILED', message: result.problem });
    }
    return { loaded, warnings };
  }

  /** On a full disk, the evaluators of the bootstrap file are active without being stored, until the next update. */
  async #saveAtStart(revisions: Revisions): Promise<void> {
    try {
      await this.#save(revisions);
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      this.#options.log.error('disk full: the evaluators of the bootstrap file are active, but not stored', { error });
      this.#revisions = revisions;
    }
  }

  async #save(revisions: Revisions): Promise<void> {
    if (this.#isClosed) throw new Error('service is shutting down');
    const saving = this.#options.store.save(revisions);
    this.#saving = saving.catch(() => {});
    await saving;
    this.#revisions = revisions;
  }

  #time(): string {
    return new Date(this.#now()).toISOString();
  }
}

/** The names, each once, without those of loaded evaluators: the first of several with one name may be loaded. */
function withoutLoaded(names: readonly string[], loaded: readonly LoadedEvaluator[]): string[] {
  const loadedNames = new Set(loaded.map(({ definition }) => definition.name));
  return [...new Set(names)].filter((name) => !loadedNames.has(name));
}

function isValid(result: ValidationResult): result is ValidEvaluator {
  return !('issues' in result);
}

/** Issues with paths that start at the request body. */
function toIssues(result: ValidationResult, index: number): ValidationIssue[] {
  if (!('issues' in result)) return [];
  return result.issues.map(({ path, message }) => ({ path: `evaluators.${index}.${path}`, message }));
}

/** Why an evaluator is skipped. */
type Problem = Pick<CompileWarning, 'evaluator' | 'message'>;

function toProblem(result: ValidationResult): Problem[] {
  if (!('issues' in result)) return [];
  return [{ evaluator: result.definition.name, message: formatIssues(result.issues) }];
}

function toActionProblem({ evaluator, path, message }: CompileWarning): Problem {
  return { evaluator, message: `${path}: ${message}` };
}

function formatIssues(issues: readonly ValidationIssue[]): string {
  const formatted = issues.slice(0, MAX_REASON_ISSUES).map(({ path, message }) => `${path} ${message}`);
  const more = issues.length - formatted.length;
  return `${formatted.join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
}

function toError(code: ErrorCode, prefix: string, issues: readonly ValidationIssue[]): OperationError {
  const [first] = issues;
  return new OperationError(code, `${prefix}: ${first?.path} ${first?.message}`, issues);
}
