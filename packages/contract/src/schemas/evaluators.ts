import { z } from 'zod';
import { unknownField } from '../validate.ts';
import { nameOrEmpty, namespaceName } from './fields.ts';
import { boundedArray, jsonObject } from './json.ts';
import { expectedRevision, revision } from './revisions.ts';

/** Kind of LLM task. */
const operation = z.enum(['classify', 'filter', 'augment']);

/** Reaction to a failure of the LLM call or the action. */
const onError = z.enum(['continue', 'block']);

/** An evaluator in responses. */
export const evaluator = z
  .object({
    name: z.string(),
    trigger: z.object({
      method: z.string(),
      namespace: z.string().nullable().describe('Namespace of matching requests; null matches all namespaces.'),
    }),
    llm: z.object({
      operation,
      prompt: z.string(),
      connection: z.string(),
      result_schema: jsonObject.nullable(),
    }),
    processor: z.object({ path: z.string().describe('Path of the action, as submitted.') }),
    on_error: onError,
  })
  .meta({ id: 'Evaluator' });

/** An evaluator in a list: without its prompt for callers who may read no bodies. */
export const listedEvaluator = evaluator
  .extend({
    llm: evaluator.shape.llm.extend({
      prompt: z.string().optional().describe('Omitted for callers without the right `read_bodies`.'),
    }),
  })
  .meta({ id: 'ListedEvaluator' });

const llmMembers = {
  operation: operation.describe('Kind of LLM task.'),
  prompt: z.string().describe('System prompt.'),
  connection: z.string().trim().describe('Name of an entry in `llm_connections`.'),
  result_schema: jsonObject
    .nullable()
    .default(null)
    .describe(
      'JSON Schema of the LLM output: draft 2020-12, or the draft named by `$schema`. References to other documents are not supported.',
    ),
};

/**
 * An evaluator in requests. Only its shape is validated here; the service checks semantic rules, such as a known connection, and
 * responds with UNPROCESSABLE.
 */
export const evaluatorInput = z
  .object({
    name: nameOrEmpty.describe('Unique name.'),
    trigger: z.object({
      method: z.string().trim().describe('MCP method, such as `tools/call`.'),
      namespace: z
        .string()
        .trim()
        .nullable()
        .default(null)
        .describe('Namespace of matching requests; null matches all namespaces.'),
    }),
    llm: z
      .strictObject(llmMembers, {
        error: ({ code }) =>
          code === 'unrecognized_keys'
            ? `${unknownField(Object.keys(llmMembers))} (connection settings come from llm_connections in the bootstrap file)`
            : undefined,
      })
      .describe(
        'LLM call. Unknown members are rejected: `model`, `url` and `api_key` are set in `llm_connections` of the bootstrap file.',
      ),
    processor: z.object({
      path: z
        .string()
        .describe("Compiled action on the server. A relative path resolves against the bootstrap file's folder."),
    }),
    on_error: onError
      .default('continue')
      .describe('Continue or block the request if the LLM call or the action fails.'),
  })
  .meta({ id: 'EvaluatorInput' });

/** Unknown member of a submitted evaluator. */
export interface UnknownMember {
  /** Path, such as `['trigger', 'namespce']`. */
  readonly path: readonly string[];
  /** Known members at this place. */
  readonly known: readonly string[];
}

/**
 * Returns the unknown members of a submitted evaluator. The API ignores them, but in a file they are most likely misspelled,
 * which would change the policy. Unknown members of `llm` are rejected by the schema.
 */
export function findUnknownMembers(submitted: unknown): UnknownMember[] {
  const { trigger, processor } = evaluatorInput.shape;
  return [
    ...findUnknownIn(submitted, evaluatorInput, []),
    ...findUnknownIn(memberOf(submitted, 'trigger'), trigger, ['trigger']),
    ...findUnknownIn(memberOf(submitted, 'processor'), processor, ['processor']),
  ];
}

function findUnknownIn(submitted: unknown, schema: z.ZodObject, path: readonly string[]): UnknownMember[] {
  const known = Object.keys(schema.shape);
  const members = typeof submitted === 'object' && submitted !== null ? Object.keys(submitted) : [];
  return members.filter((member) => !known.includes(member)).map((member) => ({ path: [...path, member], known }));
}

function memberOf(submitted: unknown, name: 'trigger' | 'processor'): unknown {
  return typeof submitted === 'object' && submitted !== null ? Reflect.get(submitted, name) : undefined;
}

/** Body of `PUT /api/v1/evaluators`: the complete list. */
export const evaluatorsInput = z
  .object({
    evaluators: boundedArray(evaluatorInput).describe('Evaluators in order of execution. An empty list deletes all.'),
    expected_revision: expectedRevision,
  })
  .meta({ id: 'EvaluatorsInput' });

/** Warning about a submitted evaluator: it was skipped, or cannot match a request. */
export const evaluatorWarning = z
  .object({
    evaluator: z.string().describe('Name of the evaluator.'),
    path: z.string().optional().describe('Path of the action, as submitted; if its compilation failed.'),
    code: z
      .enum(['WASM_COMPILE_FAILED', 'INVALID_EVALUATOR', 'TRIGGER_NEVER_MATCHES'])
      .describe(
        'The first two: the evaluator was skipped. `INVALID_EVALUATOR`: it was skipped for the same reason when the activated revision was loaded first. `TRIGGER_NEVER_MATCHES`: it is active, but no request has its method, or its namespace does not exist.',
      ),
    message: z.string(),
  })
  .meta({ id: 'EvaluatorWarning' });

/** Revision of the evaluator set, without the evaluators. */
export const evaluatorRevision = revision.meta({ id: 'EvaluatorRevision' });

/** Revision with its evaluators. */
export const evaluatorRevisionContent = revision
  .extend({
    evaluators: z.array(evaluator).describe('Evaluators as submitted; those of a rejected revision may be invalid.'),
    skipped: z.array(z.string()).describe('Names of the evaluators that were skipped.'),
  })
  .meta({ id: 'EvaluatorRevisionContent' });

/** Body of `PUT /api/v1/evaluators/namespaces/{namespace}`. */
export const bindingInput = z
  .object({
    conversation_id: z
      .string()
      .refine((id) => id !== '', 'must not be empty')
      .refine((id) => [...id].length <= 256, 'must have at most 256 characters')
      .meta({ minLength: 1, maxLength: 256 })
      .describe('Conversation id for requests of the namespace.'),
  })
  .meta({ id: 'BindingInput' });

/** Binding of a namespace to a conversation. */
export const binding = z.object({ namespace: namespaceName, conversation_id: z.string() }).meta({ id: 'Binding' });

/** Response of unbinding: the namespace, even if it was not bound. */
export const unbindResult = z.object({ unbound: z.string() }).meta({ id: 'Unbound' });

export type Evaluator = z.infer<typeof evaluator>;
export type ListedEvaluator = z.infer<typeof listedEvaluator>;
export type EvaluatorInput = z.input<typeof evaluatorInput>;
export type EvaluatorWarning = z.infer<typeof evaluatorWarning>;
export type Binding = z.infer<typeof binding>;
