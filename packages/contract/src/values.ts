/** Values of the contract that clients need without its schemas, which take longer to load than a command to run. */
import { TASK_STATUSES } from '@sluice/protocol/mcp/tasks';

/** The namespace that always exists and that entries belong to by default. */
export const DEFAULT_NAMESPACE = 'default';

/** Largest page of a list. */
export const MAX_PAGE_SIZE = 1_000;

/** Number of stored tool-call events, and maximum backlog of an event-stream client. */
export const TOOL_CALL_EVENT_CAPACITY = 1000;

/** Log levels, most severe first. */
export const LOG_LEVELS = ['error', 'warn', 'info', 'debug', 'trace'] as const;

/** Number of stored lines of the log. */
export const LOG_CAPACITY = 1_000;

/** Categories of failed tool calls. */
export const TOOL_CALL_ERROR_CATEGORIES = [
  'SERVICE_UNAVAILABLE',
  'TOOL_DEFINITION_ERROR',
  'INVALID_ARGUMENTS',
  'EXECUTION_ERROR',
  'POLICY_BLOCKED',
  'UNKNOWN',
] as const;

/** Members of a time series that count the calls without a good result, by cause, and their titles. */
export const CALL_CAUSES = [
  { member: 'failed', title: 'Failed' },
  { member: 'tool_errors', title: 'Tool errors' },
  { member: 'timeouts', title: 'Timeouts' },
  { member: 'canceled', title: 'Canceled' },
  { member: 'blocked', title: 'Blocked' },
] as const;

/** What time series can be grouped by. */
export const TIME_SERIES_GROUPINGS = ['namespace', 'forward', 'tool', 'method', 'outcome'] as const;

/** Kinds of entries that a forward exposes, in the plural. */
export const EXPOSED_KINDS = ['tools', 'resources', 'prompts'] as const;

/** Topics of the event stream. The topic of an event is its type. */
export const EVENT_TOPICS = ['tool-calls', 'tasks', 'forwards', 'services', 'evaluators', 'registry'] as const;

/** Filters of tasks: open, ended, all, or one status. */
export const TASK_FILTERS = ['open', 'ended', 'all', ...TASK_STATUSES] as const;

/** Types of capability services. */
export const SERVICE_TYPES = [
  'tool-invoker',
  'resource-provider',
  'multi-capability',
  'code-execution-engine',
] as const;

/** Error codes of the management API. */
export const ERROR_CODES = [
  'BAD_REQUEST',
  'UNAUTHORIZED',
  'FORBIDDEN',
  'NOT_FOUND',
  'METHOD_NOT_ALLOWED',
  'CONFLICT',
  'PAYLOAD_TOO_LARGE',
  'UNPROCESSABLE',
  'INTERNAL',
  'BAD_GATEWAY',
  'UNAVAILABLE',
] as const;

/** HTTP status of each error code. */
export const ERROR_STATUS = {
  BAD_REQUEST: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  CONFLICT: 409,
  PAYLOAD_TOO_LARGE: 413,
  UNPROCESSABLE: 422,
  INTERNAL: 500,
  BAD_GATEWAY: 502,
  UNAVAILABLE: 503,
} as const satisfies Record<(typeof ERROR_CODES)[number], number>;

/** Whether a name is `.` or `..`, which a URL path cannot contain, percent-encoded or not. */
export function isDotName(name: string): boolean {
  return name === '.' || name === '..';
}
