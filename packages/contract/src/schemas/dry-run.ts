import { z } from 'zod';
import { evaluatorInput } from './evaluators.ts';
import { namespaceName } from './fields.ts';
import { jsonObject } from './json.ts';

/** Maximum length of an answer that replaces the call of the LLM, in characters. */
const MAX_ANSWER = 100_000;

/** Body of `POST /api/v1/evaluators/dry-run`. */
export const dryRunInput = z
  .object({
    evaluator: evaluatorInput,
    request: z
      .object({
        method: z.string().trim().min(1, 'must not be empty').describe('MCP method, such as `tools/call`.'),
        namespace: namespaceName.default('default').describe('Namespace of the request.'),
        params: jsonObject.optional().describe('Parameters of the request, such as `{"name":"echo","arguments":{}}`.'),
        conversation_id: z.string().min(1).max(256).optional().describe('Conversation whose history is available.'),
      })
      .describe('The request to evaluate.'),
    answer: z
      .string()
      .max(MAX_ANSWER, `must have at most ${MAX_ANSWER} characters`)
      .optional()
      .describe('Answer to evaluate instead of calling the LLM.'),
  })
  .meta({ id: 'DryRunInput' });

/** Result of a dry run. */
export const dryRunResult = z
  .object({
    verdict: z
      .enum([
        'pass',
        'warn',
        'block',
        'reject_malformed',
        'filter_tools',
        'set_metadata',
        'llm_failure',
        'action_failure',
      ])
      .describe('Decision of the action, or why there is none'),
    rejected: z.boolean().describe('Whether such a request would be rejected'),
    matches: z.boolean().describe('Whether the trigger matches the request'),
    reason: z.string().optional().describe('Reason of the action, its warning, or the failure'),
    error: z
      .object({ code: z.number().int(), message: z.string(), data: jsonObject.optional() })
      .optional()
      .describe('JSON-RPC error that the client would get'),
    tools: z.array(z.string()).optional().describe('Names of the tools that `tools/list` would return'),
    metadata: z.record(z.string(), z.string()).optional().describe('Metadata that the action set'),
    ignored_responses: z.number().int().describe('Responses of the action that others replaced'),
    prompt: z.string().describe('User prompt of the LLM'),
    llm: z
      .object({
        answer: z.string().describe('Answer that the action got'),
        calls: z.number().int().describe('Calls of the model; 0 with an `answer` in the request'),
        duration_ms: z.number(),
        schema_error: z.string().optional().describe('Why the answer does not match `result_schema`'),
      })
      .optional()
      .describe('Omitted if the LLM failed'),
    action: z
      .object({
        duration_ms: z.number().describe('Without the start of the host process'),
        memory_bytes: z
          .number()
          .int()
          .optional()
          .describe('Largest resident memory of the host process, if it is known'),
        fault: z.enum(['trap', 'timeout', 'memory', 'limit', 'host']).optional(),
      })
      .optional()
      .describe('Omitted if the action did not run'),
    log: z
      .array(z.object({ level: z.enum(['debug', 'info', 'warn', 'error']), message: z.string() }))
      .describe('Log lines of the action; `debug` is its output'),
    copies: z
      .array(z.object({ tool: z.string(), namespace: z.string() }))
      .describe('Tools that the action would copy to other namespaces, at most 100'),
  })
  .meta({ id: 'DryRunResult' });

export type DryRunInput = z.output<typeof dryRunInput>;
export type DryRunResult = z.infer<typeof dryRunResult>;
