import type { ErrorCode, Evaluator, EvaluatorWarning, ValidationIssue } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { ConfigError } from '../http/settings.ts';
import { OperationError } from '../registry/operation-error.ts';
import { isDiskFull } from '../registry/store/files.ts';
import { ReadOnlyStoreError } from '../registry/store/store.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { type ActionFiles, ActionLoader, type LoadOptions } from './action-loader.ts';
import {
  EvaluatorSet,
  type LoadedEvaluator,
  unreachableTriggers,
  type ValidationResult,
  validateEvaluators,
} from './evaluator-set.ts';
import type { LlmConnection } from './llm/client.ts';
import type { ResultSchemas } from './llm/result-schema.ts';
import { OutdatedRevisionsError, type RevisionStore } from './revision-store.ts';
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
  type RevisionInput,
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
  /** By default no warnings about missing namespaces are logged. */
  readonly namespaceExists?: (name: string) => boolean;
  /** SERVICE_EVALUATORS_STRICT: reject evaluators that cannot be loaded, at the start and by default in updates. */
  readonly strict?: boolean;
  /** Returns epoch milliseconds; replaceable in tests. */
  readonly now?: () => number;
}

/** Author and precondition of an update. */
export interface UpdateOptions extends ExpectedRevision {
  readonly actor: string | undefined;
  /** Whether to reject evaluators whose action cannot be loaded instead of skipping them; the default if undefined. */
  readonly strict?: boolean | undefined;
}

/** Result of an update. */
export interface UpdateResult {
  readonly set: EvaluatorSet;
  /** One for each evaluator that was skipped or cannot match a request. */
  readonly warnings: readonly EvaluatorWarning[];
  /** Ids of the replicas that may not have applied it. */
  readonly unconfirmed: readonly string[];
}

/** Evaluators that are to become active. */
interface EvaluatorUpdate {
  readonly evaluators: readonly Evaluator[];
  readonly content: RevisionContent;
  readonly options: UpdateOptions;
  /** Components of an earlier revision, for files that do not exist; by default those of the active one. */
  readonly recorded?: ReadonlyMap<string, string> | undefined;
  /** Issues of actions outside SERVICE_ACTIONS_PATH by evaluator. */
  readonly outside?: readonly (readonly ValidationIssue[])[];
  /** See {@link maySkip}. */
  readonly skippable?: ReadonlySet<string> | undefined;
  readonly errorPrefix: string;
}

/** Issues that the failure reason of a rejected revision contains. */
const MAX_REASON_ISSUES = 10;

/**
 * Loads, replaces and activates evaluators.
 *
 * Updates run one after the other and are atomic: new evaluators are compiled, then stored as a revision, and become
 * active when that is durable.
 */
export class Evaluators {
  /** The active set. */
  current = new EvaluatorSet(0, []);
  /** A set has become active. */
  readonly activated = new Emitter<EvaluatorSet>();
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
    this.#loader = new ActionLoader(options.files, options.compiler, options.store.actions);
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

  /** The content of the store. */
  get storedRevisions(): Revisions {
    return this.#revisions;
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
   * evaluators whose configuration is invalid, of which a warning has been logged. Throws the error of the store, and
   * {@link ConfigError} for an evaluator that would be skipped if that is not allowed.
   */
  async start(configured: readonly Evaluator[] | undefined, unreadable: readonly string[] = []): Promise<void> {
    const { store } = this.#options;
    this.#revisions = await store.load();
    await this.#retryOutdated(() => this.#start(configured, unreadable));
    store.newer?.subscribe(({ revisions, waitUntil }) => {
      const onError = (error: unknown) =>
        this.#options.log.error('evaluators of another replica were not loaded', { error });
      this.#queue = this.#queue.then(() => this.#adopt(revisions)).catch(onError);
      waitUntil(this.#queue);
    });
  }

  async #start(configured: readonly Evaluator[] | undefined, unreadable: readonly string[]): Promise<void> {
    const known = latestStartupRevision(this.#revisions)?.checksum;
    const content = configured && serializeEvaluators(configured);
    const isNew = content !== undefined && content.checksum !== known;
    const active = this.activeRevision;
    const evaluators = isNew ? configured : active && parseEvaluators(active);
    if (!evaluators) return;

    const recorded = isNew || active === undefined ? undefined : this.#componentsOf(active.id);
    const { loaded, skips } = await this.#loadRecorded(evaluators, recorded);
    const [first] = skips;
    if (this.#options.strict && (first || unreadable.length > 0)) {
      const name = JSON.stringify(first?.evaluator ?? unreadable[0]);
      const reason = `evaluator ${name} ${first ? `cannot be loaded: ${reasonOf(first)}` : 'is invalid'}`;
      throw new ConfigError(`${reason}; evaluators are not skipped because of SERVICE_EVALUATORS_STRICT`);
    }
    this.#logSkipped(skips);
    const skipped = skippedNames(skips, loaded, isNew ? unreadable : []);
    if (isNew) {
      const input = { content, origin: 'startup', actor: undefined, at: this.#time() } as const;
      await this.#saveAtStart(addActive(this.#revisions, input, skipped), loaded);
    } else if (this.#options.store.actions && !recorded && loaded.length > 0) {
      await this.#save(this.#revisions, loaded);
    }
    this.#activate(loaded, skipped);
    const { revision } = this.current;
    const from = isNew ? 'the bootstrap file' : 'the active revision';
    this.#options.log.info('evaluators loaded', { revision, evaluators: loaded.length, from });
  }

  /**
   * Replaces all active evaluators. Throws {@link OperationError}, checked in this order: BAD_REQUEST for an action outside
   * SERVICE_ACTIONS_PATH, CONFLICT if another revision is active than expected, UNPROCESSABLE for invalid evaluators, and with
   * `strict` for actions that cannot be loaded; they are stored as a rejected revision.
   */
  replace(evaluators: readonly Evaluator[], options: UpdateOptions): Promise<UpdateResult> {
    const content = serializeEvaluators(evaluators);
    // Queued updates contain only text, which takes a twentieth of the memory.
    const unqueued = this.#pendingUpdates === 0 ? evaluators : undefined;
    return this.#enqueue(async () => {
      const submitted = unqueued ?? parseEvaluators(content);
      const outside = (await this.#actionsOutside(submitted)).flat();
      if (outside.length > 0) throw toError('BAD_REQUEST', 'invalid evaluators', outside);
      checkExpected(options, this.#revisions.activeId ?? 0);
      return this.#submit({ evaluators: submitted, content, options, errorPrefix: 'invalid evaluators' });
    });
  }

  /**
   * Submits the evaluators of a revision again. Throws {@link OperationError}: NOT_FOUND for an unknown revision, else as {@link
   * replace}, but UNPROCESSABLE for an action that is now outside SERVICE_ACTIONS_PATH. Without `strict`, evaluators that were
   * skipped when the revision was loaded may be skipped again for any reason, so that the service can return to each set that it
   * has run.
   */
  activate(id: number, options: UpdateOptions): Promise<UpdateResult> {
    return this.#enqueue(async () => {
      const revision = this.revision(id);
      if (!revision) throw new OperationError('NOT_FOUND', `revision not found: ${id}`);
      checkExpected(options, this.#revisions.activeId ?? 0);
      const evaluators = parseEvaluators(revision);
      return this.#submit({
        evaluators,
        content: revision,
        options,
        recorded: this.#componentsOf(id),
        outside: await this.#actionsOutside(evaluators),
        skippable: revision.status === 'rejected' ? undefined : new Set(revision.skipped),
        errorPrefix: `revision ${id} cannot be activated`,
      });
    });
  }

  /**
   * Validates an evaluator and loads its action without storing or activating anything. Throws {@link OperationError}:
   * BAD_REQUEST for an action outside SERVICE_ACTIONS_PATH, UNPROCESSABLE for an invalid evaluator or an action that cannot
   * be loaded. Issues have paths from `evaluator` on.
   */
  async prepare(evaluator: Evaluator): Promise<LoadedEvaluator> {
    const prefix = 'invalid evaluator';
    const outside = await this.#issuesOutside(evaluator, 'evaluator');
    if (outside.length > 0) throw toError('BAD_REQUEST', prefix, outside);
    const validated = await this.#validate([evaluator]);
    const issues = validated.flatMap((result) => issuesOf(result, 'evaluator'));
    if (issues.length > 0) throw toError('UNPROCESSABLE', prefix, issues);
    const { loaded, warnings } = await this.#load(validated, { recorded: this.#componentsOf() });
    const [usable] = loaded;
    if (usable) return usable;
    const message = warnings[0]?.message ?? 'cannot be loaded';
    throw toError('UNPROCESSABLE', prefix, [{ path: 'evaluator.processor.path', message }]);
  }

  /** Waits for a revision that is being stored; queued updates are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#saving;
  }

  /** Makes the active revision of another replica active here. */
  async #adopt(revisions: Revisions): Promise<void> {
    this.#revisions = revisions;
    const active = this.activeRevision;
    if (!active || active.id === this.current.revision) return;
    const { loaded, skips } = await this.#loadRecorded(parseEvaluators(active), this.#componentsOf(active.id));
    this.#logSkipped(skips);
    this.#activate(loaded, skippedNames(skips, loaded));
    this.#options.log.info('evaluators of another replica loaded', { revision: active.id, evaluators: loaded.length });
  }

  /** Runs an update, and again after those of other replicas that were stored meanwhile. */
  async #retryOutdated<T>(update: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await update();
      } catch (error) {
        if (!(error instanceof OutdatedRevisionsError)) throw error;
        await this.#adopt(error.revisions);
      }
    }
  }

  /** Later updates do not wait for the confirmation of the other replicas. */
  async #enqueue(update: () => Promise<Omit<UpdateResult, 'unconfirmed'>>): Promise<UpdateResult> {
    this.#pendingUpdates++;
    const updated = this.#queue.then(() => this.#retryOutdated(update)).finally(() => this.#pendingUpdates--);
    this.#queue = updated.catch(() => {});
    return { ...(await updated), unconfirmed: (await this.#options.store.confirm?.()) ?? [] };
  }

  async #submit({
    evaluators,
    content,
    options: { actor, strict = this.#options.strict ?? false },
    recorded = this.#componentsOf(),
    outside = [],
    skippable,
    errorPrefix,
  }: EvaluatorUpdate): Promise<Omit<UpdateResult, 'unconfirmed'>> {
    const input = { content, origin: 'api', actor, at: this.#time() } as const;
    const validated = await this.#validate(evaluators);
    const invalid = validated.map((result, index) => [
      ...(outside[index] ?? []),
      ...issuesOf(result, `evaluators.${index}`),
    ]);
    const isSkipped = evaluators.map(({ name }, index) => !strict && maySkip(name, validated[index], skippable));
    const issues = invalid.flatMap((each, index) => (isSkipped[index] ? [] : each));
    if (issues.length > 0) return this.#reject(input, errorPrefix, issues);
    const usable = validated.filter((_, index) => invalid[index]?.length === 0);
    const { loaded, warnings } = await this.#load(usable, { recorded });
    if (strict && warnings.length > 0) {
      const failed = warnings.map(({ evaluator, message }) => {
        const index = evaluators.findIndex(({ name }) => name === evaluator);
        return { path: `evaluators.${index}.processor.path`, message };
      });
      return this.#reject(input, errorPrefix, failed);
    }
    const skips = [...evaluators.flatMap(({ name }, index) => invalidWarning(name, invalid[index])), ...warnings];
    const skipped = skippedNames(skips, loaded);
    await this.#save(addActive(this.#revisions, input, skipped), loaded);
    this.#logSkipped(skips);
    const unreachable = this.#activate(loaded, skipped);
    const { revision } = this.current;
    this.#options.log.info('evaluators replaced', { revision, evaluators: loaded.length, skipped, actor });
    return { set: this.current, warnings: [...skips, ...unreachable] };
  }

  /** Stores a rejected revision, and throws the error. */
  async #reject(input: RevisionInput, errorPrefix: string, issues: readonly ValidationIssue[]): Promise<never> {
    await this.#save(addRejected(this.#revisions, input, formatIssues(issues)));
    throw toError('UNPROCESSABLE', errorPrefix, issues);
  }

  /** Makes the evaluators of the active revision active; returns warnings about those that cannot match. */
  #activate(loaded: readonly LoadedEvaluator[], skipped: readonly string[]): EvaluatorWarning[] {
    const set = new EvaluatorSet(this.#revisions.activeId ?? 0, loaded, skipped);
    this.current = set;
    this.activated.emit(set);
    const warnings = unreachableTriggers(set.list, this.#options.namespaceExists ?? (() => true));
    for (const { evaluator, message } of warnings) {
      this.#options.log.warn(`evaluator ${JSON.stringify(evaluator)} may never match: ${message}`, { evaluator });
    }
    return warnings;
  }

  /** A skipped evaluator evaluates nothing, regardless of its `on_error`. */
  #logSkipped(skips: readonly EvaluatorWarning[]): void {
    for (const skip of skips) {
      const { evaluator } = skip;
      this.#options.log.warn(`evaluator ${JSON.stringify(evaluator)} skipped: ${reasonOf(skip)}`, { evaluator });
    }
  }

  #validate(evaluators: readonly Evaluator[]): Promise<ValidationResult[]> {
    return validateEvaluators(evaluators, { connections: this.#connections, schemas: this.#options.schemas });
  }

  /** Issues of actions outside SERVICE_ACTIONS_PATH by evaluator. */
  #actionsOutside(evaluators: readonly Evaluator[]): Promise<ValidationIssue[][]> {
    return Array.fromAsync(evaluators, (evaluator, index) => this.#issuesOutside(evaluator, `evaluators.${index}`));
  }

  /** `at`: path of the evaluator. */
  async #issuesOutside({ processor }: Evaluator, at: string): Promise<ValidationIssue[]> {
    if (await this.#options.files.isAllowed(processor.path)) return [];
    return [{ path: `${at}.processor.path`, message: 'is not inside SERVICE_ACTIONS_PATH' }];
  }

  /** Checksums of the actions of a revision, by default of the active one, that replicas share. */
  #componentsOf(revision = this.#revisions.activeId): ReadonlyMap<string, string> | undefined {
    return revision === undefined ? undefined : this.#options.store.actions?.of(revision);
  }

  /** Loads exactly the components that are recorded, if they are; skips evaluators with problems. */
  async #loadRecorded(
    evaluators: readonly Evaluator[],
    recorded: LoadOptions['recorded'],
  ): Promise<{ loaded: LoadedEvaluator[]; skips: EvaluatorWarning[] }> {
    const validated = await this.#validate(evaluators);
    const { loaded, warnings } = await this.#load(validated, { recorded, isExact: true });
    const invalid = validated.flatMap(({ definition, issues }) => invalidWarning(definition.name, issues));
    return { loaded, skips: [...invalid, ...warnings] };
  }

  /** Loads the actions of valid evaluators. */
  async #load(
    results: readonly ValidationResult[],
    options: Omit<LoadOptions, 'known'>,
  ): Promise<{ loaded: LoadedEvaluator[]; warnings: EvaluatorWarning[] }> {
    const evaluators = results.flatMap(({ valid }) => valid ?? []);
    const actions = await this.#loader.load(
      evaluators.map(({ definition }) => definition.processor.path),
      {
        ...options,
        known: this.current.list.map(({ action }) => action),
        onIgnored: (path) =>
          this.#options.log.warn(
            'action file differs from the active revision and is ignored; submit the evaluators again to use it',
            { path },
          ),
      },
    );
    const loaded: LoadedEvaluator[] = [];
    const warnings: EvaluatorWarning[] = [];
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
  async #saveAtStart(revisions: Revisions, loaded: readonly LoadedEvaluator[]): Promise<void> {
    try {
      await this.#save(revisions, loaded);
    } catch (error) {
      if (!isDiskFull(error) && !(error instanceof ReadOnlyStoreError)) throw error;
      const reason = isDiskFull(error) ? 'disk full: ' : '';
      this.#options.log.error(`${reason}bootstrap evaluators are active but not stored`, { error });
      this.#revisions = revisions;
    }
  }

  /** `loaded`: the evaluators of the active revision, if they are new. */
  async #save(revisions: Revisions, loaded?: readonly LoadedEvaluator[]): Promise<void> {
    if (this.#isClosed) throw new Error('service is shutting down');
    const components = loaded?.map(({ definition, action }) => [definition.processor.path, action.checksum] as const);
    const saving = this.#options.store.save(revisions, components && new Map(components));
    this.#saving = saving.catch(() => {});
    await saving;
    this.#revisions = revisions;
  }

  #time(): string {
    return new Date(this.#now()).toISOString();
  }
}

/** The names of evaluators with problems, each once, without loaded ones: the first of several with one name may be loaded. */
function skippedNames(
  skips: readonly EvaluatorWarning[],
  loaded: readonly LoadedEvaluator[],
  unreadable: readonly string[] = [],
): string[] {
  const names = new Set([...unreadable, ...skips.map(({ evaluator }) => evaluator)]);
  return [...names.difference(new Set(loaded.map(({ definition }) => definition.name)))];
}

/** The issues of an evaluator with paths that start at the request body. `at`: path of the evaluator. */
function issuesOf({ issues }: ValidationResult, at: string): ValidationIssue[] {
  return issues.map(({ path, message }) => ({ path: `${at}.${path}`, message }));
}

function invalidWarning(evaluator: string, issues: readonly ValidationIssue[] = []): EvaluatorWarning[] {
  return issues.length === 0 ? [] : [{ evaluator, code: 'INVALID_EVALUATOR', message: formatIssues(issues) }];
}

/** Why an evaluator is skipped. */
function reasonOf({ path, message }: EvaluatorWarning): string {
  return path === undefined ? message : `${path}: ${message}`;
}

/**
 * Returns whether an evaluator may be skipped although it is invalid: it was when the revision was loaded. `skippable` are
 * the names of those that were; a later evaluator of the same name was skipped too. Undefined: none may.
 */
function maySkip(
  name: string,
  result: ValidationResult | undefined,
  skippable: ReadonlySet<string> | undefined,
): boolean {
  if (!skippable) return false;
  if (skippable.has(name)) return true;
  return result !== undefined && !result.valid && result.issues.every(({ path }) => path === 'name');
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
