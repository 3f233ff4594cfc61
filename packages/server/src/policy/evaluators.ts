import type { ErrorCode, Evaluator, EvaluatorWarning, ValidationIssue } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { ConfigError } from '../http/settings.ts';
import { OperationError } from '../registry/operation-error.ts';
import { type NewRevision, RevisionHistory } from '../registry/store/revision-history.ts';
import type { RevisionStore } from '../registry/store/revision-store.ts';
import {
  checkExpected,
  type ExpectedRevision,
  type Revision,
  type RevisionContent,
  serializeContent,
} from '../registry/store/revisions.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { type ActionFiles, ActionLoader, type LoadOptions } from './action-loader.ts';
import { EVALUATOR_REVISIONS } from './evaluator-revisions.ts';
import {
  EvaluatorSet,
  type LoadedEvaluator,
  unreachableTriggers,
  type ValidationResult,
  validateEvaluators,
} from './evaluator-set.ts';
import type { LlmConnection } from './llm/client.ts';
import type { ResultSchemas } from './llm/result-schema.ts';
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
  /** Throws once the caller may not make the update any more, which may wait for others and for actions that are loaded. */
  readonly requireStill?: (() => void) | undefined;
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
  /** The revisions, of which one is active. */
  readonly history: RevisionHistory<Evaluator[]>;

  constructor(options: EvaluatorsOptions) {
    this.#options = options;
    this.#connections = new Map(options.connections.map((connection) => [connection.name, connection]));
    this.#loader = new ActionLoader(options.files, options.compiler, options.store.components);
    this.history = new RevisionHistory({
      ...options,
      kind: EVALUATOR_REVISIONS,
      adopt: (active) => this.#adopt(active),
    });
  }

  /** Names of the LLM connections, sorted. */
  get connectionNames(): string[] {
    return [...this.#connections.keys()].toSorted();
  }

  /**
   * Reads the revisions and loads evaluators: those of the configuration if they differ from the last startup revision,
   * else those of the active revision. Evaluators that cannot be loaded are skipped with a warning. `unreadable`: names of
   * evaluators whose configuration is invalid, of which a warning has been logged. Throws the error of the store, and
   * {@link ConfigError} for an evaluator that would be skipped if that is not allowed.
   */
  start(configured: readonly Evaluator[] | undefined, unreadable: readonly string[] = []): Promise<void> {
    return this.history.open(() => this.#start(configured, unreadable));
  }

  async #start(configured: readonly Evaluator[] | undefined, unreadable: readonly string[]): Promise<void> {
    const content = configured && serializeContent(configured);
    const isNew = content !== undefined && this.history.isNewAtStart(content);
    const { active } = this.history;
    const evaluators = isNew ? configured : active && this.history.contentOf(active);
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
      const revision = { content, actor: undefined, skipped, components: componentsOf(loaded) };
      await this.history.activateAtStart(revision);
    } else if (this.#options.store.components && !recorded && loaded.length > 0) {
      await this.history.saveComponents(componentsOf(loaded));
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
    const content = serializeContent(evaluators);
    // Queued updates contain only text, which takes a twentieth of the memory.
    const unqueued = this.history.isIdle ? evaluators : undefined;
    return this.history.update(async () => {
      const submitted = unqueued ?? this.history.contentOf(content);
      const outside = (await this.#actionsOutside(submitted)).flat();
      if (outside.length > 0) throw toError('BAD_REQUEST', 'invalid evaluators', outside);
      checkExpected(options, this.history.activeId);
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
    return this.history.update(async () => {
      const revision = this.history.get(id);
      if (!revision) throw new OperationError('NOT_FOUND', `revision not found: ${id}`);
      checkExpected(options, this.history.activeId);
      const evaluators = this.history.contentOf(revision);
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
  close(): Promise<void> {
    return this.history.close();
  }

  /** Makes the active revision of another replica active here. */
  async #adopt(active: Revision): Promise<void> {
    if (active.id === this.current.revision) return;
    const { loaded, skips } = await this.#loadRecorded(this.history.contentOf(active), this.#componentsOf(active.id));
    this.#logSkipped(skips);
    this.#activate(loaded, skippedNames(skips, loaded));
    this.#options.log.info('evaluators of another replica loaded', { revision: active.id, evaluators: loaded.length });
  }

  async #submit({
    evaluators,
    content,
    options: { actor, strict = this.#options.strict ?? false, requireStill },
    recorded = this.#componentsOf(),
    outside = [],
    skippable,
    errorPrefix,
  }: EvaluatorUpdate): Promise<Omit<UpdateResult, 'unconfirmed'>> {
    const revision = { content, actor };
    const validated = await this.#validate(evaluators);
    const invalid = validated.map((result, index) => [
      ...(outside[index] ?? []),
      ...issuesOf(result, `evaluators.${index}`),
    ]);
    const isSkipped = evaluators.map(({ name }, index) => !strict && maySkip(name, validated[index], skippable));
    const issues = invalid.flatMap((each, index) => (isSkipped[index] ? [] : each));
    if (issues.length > 0) return this.#reject(revision, errorPrefix, issues);
    const usable = validated.filter((_, index) => invalid[index]?.length === 0);
    const { loaded, warnings } = await this.#load(usable, { recorded });
    if (strict && warnings.length > 0) {
      const failed = warnings.map(({ evaluator, message }) => {
        const index = evaluators.findIndex(({ name }) => name === evaluator);
        return { path: `evaluators.${index}.processor.path`, message };
      });
      return this.#reject(revision, errorPrefix, failed);
    }
    const skips = [...evaluators.flatMap(({ name }, index) => invalidWarning(name, invalid[index])), ...warnings];
    const skipped = skippedNames(skips, loaded);
    requireStill?.();
    await this.history.activate({ ...revision, skipped, components: componentsOf(loaded) });
    this.#logSkipped(skips);
    const unreachable = this.#activate(loaded, skipped);
    const { revision: id } = this.current;
    this.#options.log.info('evaluators replaced', { revision: id, evaluators: loaded.length, skipped, actor });
    return { set: this.current, warnings: [...skips, ...unreachable] };
  }

  /** Stores a rejected revision, and throws the error. */
  async #reject(revision: NewRevision, errorPrefix: string, issues: readonly ValidationIssue[]): Promise<never> {
    await this.history.reject(revision, formatIssues(issues));
    throw toError('UNPROCESSABLE', errorPrefix, issues);
  }

  /** Makes the evaluators of the active revision active; returns warnings about those that cannot match. */
  #activate(loaded: readonly LoadedEvaluator[], skipped: readonly string[]): EvaluatorWarning[] {
    const set = new EvaluatorSet(this.history.activeId, loaded, skipped);
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
  #componentsOf(revision = this.history.activeId): ReadonlyMap<string, string> | undefined {
    return this.#options.store.components?.of(revision);
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
}

/** The checksums of the components of evaluators by path. */
function componentsOf(loaded: readonly LoadedEvaluator[]): ReadonlyMap<string, string> {
  return new Map(loaded.map(({ definition, action }) => [definition.processor.path, action.checksum]));
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
