import { type Evaluator, namespaceName, type ValidationIssue } from '@sluice/contract';
import type { LlmConnection } from '../../config/llm-connections.ts';
import { type CompiledSchema, ResultSchemaError, type ResultSchemas } from '../result-schemas/result-schemas.ts';

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
