import { z } from 'zod';

/** How many events of tool calls the service keeps, and how many a client of the stream may be behind (decisions 6, 8). */
export const KEPT_TOOL_CALL_EVENTS = 1000;

/** How many clients of the stream there may be at a time. */
export const MOST_TOOL_CALL_WATCHERS = 100;

/** What carries a tool call out: an upstream MCP server, a capability service's InvokeTool, or one that executes code. */
export const toolCallTransport = z.enum(['mcp', 'grpc', 'code']);

/** What a failed tool call is counted as (specification, "Events"; decisions 6). */
export const toolCallErrorCategory = z.enum([
  'SERVICE_UNAVAILABLE',
  'TOOL_DEFINITION_ERROR',
  'INVALID_ARGUMENTS',
  'EXECUTION_ERROR',
  'UNKNOWN',
]);

const eventId = z.uuid().describe('The same in the STARTED event of a call and in the one that ends it');
const timestamp = z.iso.datetime({ precision: 3 }).describe('UTC');
const duration = z.number().nonnegative().describe('Milliseconds');

/** What every event says of its call. */
const identity = {
  transport: toolCallTransport,
  namespace: z.string(),
  toolName: z.string().describe('Of code: `code-execution/{engine}/{language}`'),
  toolType: z.string(),
  serviceId: z.string().optional().describe('The name of the capability service'),
  serviceAddress: z
    .string()
    .describe('`host:port` of the capability service, or the origin of the upstream; empty when there is none'),
  conversationId: z.string().optional(),
  requestId: z.string().optional().describe("The call's own header `x-request-id`"),
};

const started = z.object({
  eventId,
  eventType: z.literal('STARTED'),
  timestamp,
  ...identity,
  argumentNames: z
    .array(z.string())
    .optional()
    .describe('Without those that carry credentials (`service_auth_`), the first 100; of code none at all'),
  argumentCount: z.number().int().nonnegative().describe('How many arguments there are, whatever their names'),
  headers: z
    .record(z.string(), z.literal('[REDACTED]'))
    .describe('The names of the headers that the arguments or the request add, the first 100'),
  body: z.literal('[CODE]').optional().describe('Where code is executed'),
});

const completed = z.object({
  eventId,
  eventType: z.literal('COMPLETED'),
  timestamp,
  ...identity,
  isError: z.boolean().describe('The tool says itself that it failed'),
  content: z.array(z.string()).describe('The texts of the result, together at most 16 KiB'),
  contentTruncated: z.literal(true).optional().describe('There was more text than that'),
  duration,
});

const failed = z.object({
  eventId,
  eventType: z.literal('FAILED'),
  timestamp,
  ...identity,
  duration,
  errorCategory: toolCallErrorCategory,
  errorMessage: z.string().describe('At most 1000 characters'),
});

/** What is told of a tool call while it goes on (specification, "Events"; decisions 6). */
export const toolCallEvent = z.discriminatedUnion('eventType', [started, completed, failed]).meta({
  id: 'ToolCallEvent',
  description:
    'A tool call began, was carried out, or failed. One that failed before it could begin has a FAILED event alone.',
});

export type ToolCallTransport = z.infer<typeof toolCallTransport>;
export type ToolCallErrorCategory = z.infer<typeof toolCallErrorCategory>;
export type ToolCallEvent = z.infer<typeof toolCallEvent>;
