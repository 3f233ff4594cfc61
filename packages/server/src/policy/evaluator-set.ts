import { createHash } from 'node:crypto';
import { type Evaluator, type EvaluatorWarning, namespaceName, type ValidationIssue } from '@sluice/contract';
import { CLIENT_METHODS, KNOWN_METHODS } from '@sluice/protocol/mcp/methods';
import type { LlmConnection } from './llm/client.ts';
import { type CompiledSchema, ResultSchemaError, type ResultSchemas } from './llm/result-schema.ts';
import type { Action } from './sandbox/action.ts';

/** A valid evaluator, whose action is not loaded yet. */
export interface ValidEvaluator {
  readonly definition: Evaluator;
  readonly connection: LlmConnection;
  /** Compiled `llm.result_schema`, if there is one. */
  readonly schema: CompiledSchema | undefined;
}

/** An evaluator that can run. */
export interface LoadedEvaluator extends ValidEvaluator {
  readonly action: Action;
}

/** Immutable set of active evaluators. A request uses the set that is active when it arrives. */
export class EvaluatorSet {
  /** Id of the active revision; 0 if there is none. */
  readonly revision: number;
  /** In order of execution. */
  readonly list: readonly LoadedEvaluator[];
  /** Names of the evaluators that could not be loaded and are not run. */
  readonly skipped: readonly string[];
  readonly #byMethod: ReadonlyMap<string, readonly LoadedEvaluator[]>;
  /** Equal for equivalent evaluators. Definitions may be large and are compared once per namespace. */
  readonly #fingerprints: ReadonlyMap<LoadedEvaluator, string>;

  constructor(revision: number, list: readonly LoadedEvaluator[], skipped: readonly string[] = []) {
    this.revision = revision;
    this.list = list;
    this.skipped = skipped;
    this.#byMethod = Map.groupBy(list, ({ definition }) => definition.trigger.method);
    this.#fingerprints = new Map(list.map((evaluator) => [evaluator, fingerprint(evaluator)]));
  }

  /** Returns the evaluators that match requests with this method and namespace; undefined if none does. */
  matching(method: string, namespace: string): readonly LoadedEvaluator[] | undefined {
    if (EXEMPT_METHODS.has(method)) return undefined;
    const matching = this.#byMethod
      .get(method)
      ?.filter(({ definition: { trigger } }) => trigger.namespace === null || trigger.namespace === namespace);
    return matching?.length ? matching : undefined;
  }

  /** Returns whether another set evaluates requests with this method and namespace in the same way. */
  isEquivalent(other: EvaluatorSet, method: string, namespace: string): boolean {
    return this.#fingerprint(method, namespace) === other.#fingerprint(method, namespace);
  }

  /** Number of different actions. */
  get actionCount(): number {
    return new Set(this.list.map(({ action }) => action.checksum)).size;
  }

  #fingerprint(method: string, namespace: string): string {
    return (this.matching(method, namespace) ?? []).map((evaluator) => this.#fingerprints.get(evaluator)).join();
  }
}

function fingerprint({ definition, action }: LoadedEvaluator): string {
  return createHash('sha256').update(JSON.stringify(definition)).update(action.checksum).digest('base64');
}

/** Connections and schema compiler for the validation. */
export interface ValidationContext {
  /** By name. */
  readonly connections: ReadonlyMap<string, LlmConnection>;
  readonly schemas: Pick<ResultSchemas, 'compile'>;
}

/** A valid evaluator, or the issues of an invalid one, with paths that start at the evaluator. */
export interface ValidationResult {
  readonly definition: Evaluator;
  readonly issues: readonly ValidationIssue[];
  /** Undefined if there are issues. */
  readonly valid: ValidEvaluator | undefined;
}

/**
 * Validates the semantic rules of evaluators (violations are 422); the contract has validated their shape. Returns the results in
 * the same order. Actions are not validated.
 */
export async function validateEvaluators(
  evaluators: readonly Evaluator[],
  { connections, schemas }: ValidationContext,
): Promise<ValidationResult[]> {
  const names = new Set<string>();
  const results: ValidationResult[] = [];
  for (const definition of evaluators) {
    const issues: ValidationIssue[] = [];
    const addIssue = (path: string, message: string) => issues.push({ path, message });
    const { name, trigger, llm, processor } = definition;
    if (name === '') addIssue('name', 'must not be empty');
    else if (names.has(name)) addIssue('name', 'is the name of an earlier evaluator');
    names.add(name);
    if (trigger.method === '') addIssue('trigger.method', 'must not be empty');
    const namespaceError = trigger.namespace === null ? undefined : namespaceName.safeParse(trigger.namespace).error;
    if (namespaceError) addIssue('trigger.namespace', namespaceError.issues[0]?.message ?? 'is not a namespace name');
    const connection = connections.get(llm.connection);
    if (!connection) addIssue('llm.connection', unknownConnection(llm.connection, [...connections.keys()]));
    if (processor.path === '') addIssue('processor.path', 'must not be empty');
    const schema = await compileSchema(definition, schemas);
    const isUsable = !(schema instanceof ResultSchemaError);
    if (!isUsable) addIssue('llm.result_schema', schema.problem);
    const valid = connection && isUsable && issues.length === 0 ? { definition, connection, schema } : undefined;
    results.push({ definition, issues, valid });
  }
  return results;
}

function unknownConnection(name: string, known: readonly string[]): string {
  const hint = known.length === 0 ? 'none is configured' : `known connections: ${known.toSorted().join(', ')}`;
  return `is an unknown connection ${JSON.stringify(name)}; ${hint} in llm_connections of the bootstrap file`;
}

async function compileSchema(
  { llm }: Evaluator,
  schemas: ValidationContext['schemas'],
): Promise<CompiledSchema | ResultSchemaError | undefined> {
  try {
    return llm.result_schema === null ? undefined : await schemas.compile(llm.result_schema);
  } catch (error) {
    if (error instanceof ResultSchemaError) return error;
    throw error;
  }
}

/** Methods that are never evaluated: clients could not connect without them. */
const EXEMPT_METHODS: ReadonlySet<string> = new Set(['initialize', 'ping']);

/**
 * Returns warnings about evaluators that currently match no request. They are loaded nevertheless: the namespace may be created
 * later.
 */
export function unreachableTriggers(
  loaded: readonly { readonly definition: Evaluator }[],
  namespaceExists: (name: string) => boolean,
): EvaluatorWarning[] {
  return loaded.flatMap(({ definition: { name: evaluator, trigger } }) => {
    const { method, namespace } = trigger;
    const reasons: string[] = [];
    // Unknown methods are evaluated.
    if (KNOWN_METHODS.has(method) && (!CLIENT_METHODS.has(method) || EXEMPT_METHODS.has(method))) {
      reasons.push(`${JSON.stringify(method)} is never evaluated`);
    }
    if (namespace !== null && !namespaceExists(namespace)) reasons.push(`namespace "${namespace}" does not exist`);
    return reasons.length === 0 ? [] : [{ evaluator, code: 'TRIGGER_NEVER_MATCHES', message: reasons.join('; ') }];
  });
}
