import { z } from 'zod';
import { TOOL_CALL_ERROR_CATEGORIES } from '../values.ts';
import { taskEnd, taskState } from './tasks.ts';

/** Maximum number of concurrent event-stream clients. */
export const MAX_TOOL_CALL_STREAMS = 100;

/** Transport of a tool call: upstream MCP server, capability service (gRPC), or code execution. */
export const toolCallTransport = z.enum(['mcp', 'grpc', 'code']);

/** Category of a failed tool call. */
export const toolCallErrorCategory = z.enum(TOOL_CALL_ERROR_CATEGORIES);

/**
 * How a call ended: with a result, one that reports an error (`isError`, or code that failed), without a usable result, without
 * one in time, canceled by its client, or blocked by an evaluator and so never sent.
 */
export const toolCallOutcome = z.enum(['completed', 'tool_error', 'failed', 'timeout', 'canceled', 'blocked']);

/** Whether an outcome is an error of the tool or of what executes it. */
export function isErrorOutcome(outcome: ToolCallOutcome): boolean {
  return outcome === 'tool_error' || outcome === 'failed' || outcome === 'timeout';
}

const eventId = z.uuid().describe('Shared by the STARTED event of a call and its terminal event');
const timestamp = z.iso.datetime({ precision: 3 }).describe('UTC');
const duration = z.number().nonnegative().describe('Milliseconds');

/** Verdict of an evaluation that a call has passed; the failures are those of evaluators with `on_error: continue`. */
export const toolCallVerdict = z.enum([
  'pass',
  'warn',
  'filter_tools',
  'set_metadata',
  'llm_failure',
  'action_failure',
]);

/** Members of every event. */
const identity = {
  transport: toolCallTransport,
  namespace: z.string(),
  toolName: z.string().describe('Tool name; `code-execution/{engine}/{language}` for code'),
  toolType: z.string(),
  forward: z.string().optional().describe('Forward that the tool was discovered from'),
  serviceId: z.string().optional().describe('Name of the capability service'),
  serviceAddress: z
    .string()
    .describe('`host:port` of the capability service, or origin of the upstream; empty if there is none'),
  conversationId: z.string().optional(),
  requestId: z.string().optional().describe('Request header `x-request-id` of the call'),
  via: z
    .literal('console')
    .optional()
    .describe('The call was made through the MCP endpoint of the management listener'),
  user: z.string().optional().describe('User reported by the authenticating proxy, at most 256 characters'),
  evaluations: z
    .array(z.object({ evaluator: z.string(), verdict: toolCallVerdict, duration }))
    .optional()
    .describe('Evaluations that the call has passed, in order; omitted if there were none'),
};

/** The task that continued a call. */
const toolCallTask = z
  .object({
    id: z.string(),
    end: taskEnd.optional().describe('How its end became known; omitted for a call that became a task'),
    states: z.array(taskState).describe('The latest states that became known, oldest first'),
  })
  .optional()
  .describe('The task that continued the call');

const started = z.object({
  eventId,
  eventType: z.literal('STARTED'),
  timestamp,
  ...identity,
  argumentNames: z
    .array(z.string())
    .optional()
    .describe('Argument names, at most 100, without credentials (`service_auth_`); omitted for code'),
  argumentCount: z.number().int().nonnegative().describe('Number of arguments'),
  headers: z
    .record(z.string(), z.literal('[REDACTED]'))
    .describe('Names of the headers added by the arguments or the request, at most 100'),
  body: z.literal('[CODE]').optional().describe('Present for code execution'),
});

const completed = z.object({
  eventId,
  eventType: z.literal('COMPLETED'),
  timestamp,
  ...identity,
  outcome: toolCallOutcome.extract(['completed', 'tool_error']),
  isError: z.boolean().describe('The tool reported an error'),
  content: z.array(z.string()).describe('Text contents of the result, 16 KiB at most'),
  contentTruncated: z.literal(true).optional().describe('The content was truncated'),
  duration,
  task: toolCallTask,
});

const failed = z.object({
  eventId,
  eventType: z.literal('FAILED'),
  timestamp,
  ...identity,
  duration,
  outcome: toolCallOutcome.exclude(['completed']),
  errorCategory: toolCallErrorCategory,
  errorMessage: z.string().describe('At most 1000 characters'),
  evaluator: z.string().optional().describe('Evaluator that rejected the call, which was not sent'),
  reason: z.string().optional().describe('Reason of that evaluator, at most 1000 characters'),
  task: toolCallTask,
});

/** Event of a tool call. */
export const toolCallEvent = z.discriminatedUnion('eventType', [started, completed, failed]).meta({
  id: 'ToolCallEvent',
  description:
    'Start, completion or failure of a tool call. A call that fails before it starts has only a FAILED event.',
});

export type ToolCallTransport = z.infer<typeof toolCallTransport>;
export type ToolCallErrorCategory = z.infer<typeof toolCallErrorCategory>;
export type ToolCallOutcome = z.infer<typeof toolCallOutcome>;
export type ToolCallVerdict = z.infer<typeof toolCallVerdict>;
export type ToolCallEvent = z.infer<typeof toolCallEvent>;
