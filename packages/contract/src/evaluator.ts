import { z } from 'zod';
import { byValue, jsonObject, listOf } from './json.ts';
import { nameOrNothing, namespaceName } from './names.ts';

/** What the model is asked for. */
const operation = z.enum(['classify', 'filter', 'augment']);

/** What becomes of a request when the model or the action fails. */
const onError = z.enum(['continue', 'block']);

/** An evaluator as it is answered (specification, "Evaluator"; decisions 2.10): all members are there. */
export const evaluator = z
  .object({
    name: z.string(),
    trigger: z.object({
      method: z.string(),
      namespace: z.string().nullable().describe('Only requests of this namespace; null: of all.'),
    }),
    llm: z.object({
      operation,
      prompt: z.string(),
      connection: z.string(),
      result_schema: jsonObject.nullable(),
    }),
    processor: z.object({ path: z.string().describe('As it was submitted.') }),
    on_error: onError,
  })
  .meta({ id: 'Evaluator' });

const llm = {
  operation: operation.describe('What the model is asked for.'),
  prompt: z.string().describe('The system prompt.'),
  connection: z.string().trim().describe('The name of one of `llm_connections`; another one is unprocessable.'),
  result_schema: jsonObject
    .nullable()
    .default(null)
    .describe(
      'A JSON Schema that the answer of the model must fit: draft 2020-12, or the one that `$schema` names. One that cannot be used, or that refers to another document, is unprocessable.',
    ),
};

/**
 * An evaluator as it is submitted. What cannot be read is refused here; what can, but has no meaning (an empty name, an
 * unknown connection), is the service's to judge, which answers UNPROCESSABLE (decisions 4.5).
 */
export const evaluatorInput = z
  .object({
    name: nameOrNothing.describe('Unique; an empty one is unprocessable.'),
    trigger: z.object({
      method: z.string().trim().describe('The MCP method, such as `tools/call`; an empty one is unprocessable.'),
      namespace: z
        .string()
        .trim()
        .nullable()
        .default(null)
        .describe('Only requests of this namespace; an invalid name is unprocessable.'),
    }),
    llm: z
      .strictObject(llm, {
        error: ({ code }) =>
          code === 'unrecognized_keys'
            ? `is not known; known are ${Object.keys(llm).join(', ')}, and what a connection consists of is set in the service's configuration`
            : undefined,
      })
      .describe(
        'Nothing else: a model, a url or an api_key belongs to `llm_connections`, which no request can change.',
      ),
    processor: z.object({
      path: z
        .string()
        .describe("The compiled action, on the service's own disk; a relative path starts where its configuration is."),
    }),
    on_error: onError
      .default('continue')
      .describe('Whether a request goes on or is refused when the model or the action fails.'),
  })
  .meta({ id: 'EvaluatorInput' });

/** A member that nobody knows. */
export interface UnknownMember {
  /** Such as `['trigger', 'namespce']`. */
  readonly path: readonly string[];
  /** What may stand in its place. */
  readonly known: readonly string[];
}

/**
 * Members of a submitted evaluator that mean nothing. A request may have them (decisions 4.1), but whoever writes a file
 * has most likely mistyped one, and a policy is not what it was meant to be. Those of `llm` are refused anyway.
 */
export function unknownMembers(submitted: unknown): UnknownMember[] {
  const { trigger, processor } = evaluatorInput.shape;
  return [
    ...strangers(submitted, evaluatorInput, []),
    ...strangers(memberOf(submitted, 'trigger'), trigger, ['trigger']),
    ...strangers(memberOf(submitted, 'processor'), processor, ['processor']),
  ];
}

function strangers(submitted: unknown, schema: z.ZodObject, path: readonly string[]): UnknownMember[] {
  const known = Object.keys(schema.shape);
  const members = typeof submitted === 'object' && submitted !== null ? Object.keys(submitted) : [];
  return members.filter((member) => !known.includes(member)).map((member) => ({ path: [...path, member], known }));
}

function memberOf(submitted: unknown, name: 'trigger' | 'processor'): unknown {
  return typeof submitted === 'object' && submitted !== null ? Reflect.get(submitted, name) : undefined;
}

/** The number of a revision as a request names it, by its value. */
const expectedRevision = byValue(z.number().int().nonnegative())
  .optional()
  .describe('Refuses the request with CONFLICT when another revision is active; 0: when any is.');

/** Body of `PUT /api/v1/evaluators` (decisions 4.5): all evaluators that there are to be. */
export const evaluatorsInput = z
  .object({
    evaluators: listOf(evaluatorInput).describe('In the order in which they run; none at all clears them.'),
    expected_revision: expectedRevision,
  })
  .meta({ id: 'EvaluatorsInput' });

/** Body of `POST /api/v1/evaluators/revisions/{id}/activate`; there need not be one. */
export const activationInput = z.object({ expected_revision: expectedRevision }).meta({ id: 'ActivationInput' });

/** Why an evaluator was left out of those that were loaded (decisions 4.5). */
export const compileWarning = z
  .object({
    evaluator: z.string().describe('Its name.'),
    path: z.string().describe('Of its action, as it was submitted.'),
    code: z.literal('WASM_COMPILE_FAILED'),
    message: z.string(),
  })
  .meta({ id: 'CompileWarning' });

/** A set of evaluators that was submitted (decisions 2.10), without what it consists of. */
export const evaluatorRevision = z
  .object({
    id: z.number().int().positive().describe('They are counted from 1.'),
    created_at: z.iso.datetime({ precision: 3 }).describe('UTC'),
    activated_at: z.iso.datetime({ precision: 3 }).optional().describe('UTC; not there when it never was active.'),
    status: z.enum(['active', 'superseded', 'rejected']),
    checksum: z
      .string()
      .regex(/^[0-9a-f]{16}$/)
      .describe('Equal for equal evaluators.'),
    origin: z.enum(['startup', 'api']).describe('The configuration of the service, or a request.'),
    actor: z.string().optional().describe('Who submitted it, as far as an authenticating proxy said so.'),
    failure_reason: z.string().optional().describe('Why it was rejected.'),
  })
  .meta({ id: 'EvaluatorRevision' });

/** A revision with what it consists of. */
export const evaluatorRevisionContent = evaluatorRevision
  .extend({
    evaluators: z.array(evaluator).describe('As they were submitted; of a rejected revision they may break rules.'),
    skipped: z.array(z.string()).describe('The names of those that could not be loaded.'),
  })
  .meta({ id: 'EvaluatorRevisionContent' });

/** Body of `PUT /api/v1/evaluators/namespaces/{namespace}` (decisions 2.10). */
export const bindingInput = z
  .object({
    conversation_id: z
      .string()
      .refine((id) => id !== '', 'must not be empty')
      .refine((id) => [...id].length <= 256, 'must have at most 256 characters')
      .meta({ minLength: 1, maxLength: 256 })
      .describe('The conversation that requests of the namespace belong to.'),
  })
  .meta({ id: 'BindingInput' });

/** A namespace and the conversation that it is bound to. */
export const binding = z.object({ namespace: namespaceName, conversation_id: z.string() }).meta({ id: 'Binding' });

/** What unbinding is answered: the name of the namespace, also when nothing was bound to it. */
export const unbound = z.object({ unbound: z.string() }).meta({ id: 'Unbound' });

export type Evaluator = z.infer<typeof evaluator>;
export type EvaluatorInput = z.input<typeof evaluatorInput>;
export type CompileWarning = z.infer<typeof compileWarning>;
export type EvaluatorRevision = z.infer<typeof evaluatorRevision>;
export type EvaluatorRevisionContent = z.infer<typeof evaluatorRevisionContent>;
export type Binding = z.infer<typeof binding>;
