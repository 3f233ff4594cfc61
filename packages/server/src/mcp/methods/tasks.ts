import { INVALID_PARAMS, INVALID_REQUEST, SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import { declaresTasks, taskJson } from '@sluice/protocol/mcp/tasks';
import { type Access, visibleEntries } from '../../access/access.ts';
import { type ErrorOutcome, rpcError } from '../../http/outcome.ts';
import type { Registry } from '../../registry/registry.ts';
import { missingTasks } from '../../upstreams/mcp/mcp-connection.ts';
import type { PromotedCalls } from '../../upstreams/mcp/tasks/promoted-call.ts';
import type { TaskRequests } from '../../upstreams/mcp/tasks/requests.ts';
import { isUpstreamTask, type Task } from '../../upstreams/mcp/tasks/task.ts';
import { stateOf, type TaskOwner } from '../../upstreams/mcp/tasks/task-record.ts';
import type { Tasks } from '../../upstreams/mcp/tasks/tasks.ts';
import { taskNotFound } from '../../upstreams/mcp/tasks/translation.ts';
import type { ClientProfiles } from '../client-profile.ts';
import type { McpExchange, McpOutcome, McpRequest } from '../exchange.ts';
import { declarationsFor, offersTasks } from '../server-info.ts';

/** Dependencies of {@link taskRequest}. */
export interface TaskMethodParts {
  readonly access: Access;
  readonly registry: Registry;
  readonly profiles: ClientProfiles;
  readonly tasks: Tasks;
  readonly taskRequests: TaskRequests;
  readonly promotedCalls: PromotedCalls;
}

/** Tasks of one page of `tasks/list`. */
const PAGE_SIZE = 100;

const TOO_MANY_POLLS = rpcError(SERVER_ERROR, 'too many requests for the state of this task: poll less often');

/** Parsers that ignore case would read a second id that the service does not check. */
const SIMILAR_TO_ID = /^task_?id$/i;

/**
 * Handles a request about tasks: of the extension in the modern era, of core tasks in the legacy one. Ids are valid for the
 * namespace and the user that they were issued to; all others are not found, for whatever reason. Undefined for a method
 * that does not exist for this client.
 */
export async function taskRequest(request: McpRequest, parts: TaskMethodParts): Promise<McpOutcome | undefined> {
  const { message, namespace } = request;
  const { method } = message;
  const found = await findTask(request, parts);
  if (found.kind !== 'task') return found.kind === 'missing' ? found.error : found.outcome;
  const { task } = found;
  if (method === 'tasks/get' && !(await task.throttlePoll(task.record.pollIntervalMs))) return TOO_MANY_POLLS;
  if (task.isRemoved) return taskNotFound();
  if (!isUpstreamTask(task)) return parts.promotedCalls.request(message, task);
  const tool = visibleEntries(namespace, 'tool').served(task.record.tool.key);
  return parts.taskRequests.request(request, message, task, tool);
}

/** {@link FindMissing} of {@link taskRequest}. */
export async function findMissingTask(request: McpRequest, parts: TaskMethodParts): Promise<ErrorOutcome | undefined> {
  if (typeof request.message.params.taskId !== 'string') return undefined;
  const found = await findTask(request, parts);
  return found.kind === 'missing' ? found.error : undefined;
}

/** The task that a request is about; the error if the client has none with this id; the outcome of all other requests. */
type FoundTask =
  | { readonly kind: 'task'; readonly task: Task }
  | { readonly kind: 'missing'; readonly error: ErrorOutcome }
  | { readonly kind: 'other'; readonly outcome: McpOutcome | undefined };

async function findTask(request: McpRequest, parts: TaskMethodParts): Promise<FoundTask> {
  const { era, capabilities } = request;
  const { method, params } = request.message;
  const other = (outcome: McpOutcome | undefined): FoundTask => ({ kind: 'other', outcome });
  const { taskId } = params;
  const isOffered = isOfferedTo(request, parts);
  const task = typeof taskId === 'string' ? await parts.tasks.find(taskId, ownerOf(request)) : undefined;
  if (!isOffered && !task) return other(undefined);
  if (era === 'modern' && !declaresTasks(capabilities)) return other(missingTasks());
  if (method === 'tasks/list') {
    // Another replica may just have created or canceled one.
    await parts.tasks.refresh();
    return other(listTasks(request, parts));
  }
  if (typeof taskId !== 'string') return other(rpcError(INVALID_PARAMS, 'missing required parameter: taskId'));
  const similar = Object.keys(params).find((key) => key !== 'taskId' && SIMILAR_TO_ID.test(key));
  if (similar !== undefined) {
    return other(rpcError(INVALID_REQUEST, `member ${JSON.stringify(similar)} must be written "taskId" in "params"`));
  }
  if (task?.record.clientEra !== era) return { kind: 'missing', error: taskNotFound() };
  // Nothing of a tool that an operator has hidden reaches clients.
  const error = method === 'tasks/cancel' ? undefined : parts.access.checkStored(task.record);
  return error ? { kind: 'missing', error } : { kind: 'task', task };
}

function isOfferedTo(request: McpRequest, parts: TaskMethodParts): boolean {
  const { hasTasks } = visibleEntries(request.namespace, 'tool');
  return offersTasks(declarationsFor(request, parts), request.era, hasTasks);
}

/** The owner of the tasks of a client. */
export function ownerOf({ namespace, principal }: McpExchange): TaskOwner {
  return { namespace: namespace?.name, principal };
}

/**
 * The tasks of the client whose tools are not hidden, oldest first, as far as the records know them: an upstream would list those of
 * others too.
 */
function listTasks(request: McpRequest, { tasks, access }: TaskMethodParts): McpOutcome {
  const { cursor } = request.message.params;
  const before = typeof cursor === 'string' ? Buffer.from(cursor, 'base64url').toString() : '';
  if (cursor !== undefined && !/^\d+ /.test(before)) return rpcError(INVALID_PARAMS, 'invalid cursor');
  const own = tasks
    .list(ownerOf(request), request.session?.id)
    .filter((task) => placeOf(task) > before && !access.checkStored(task.record));
  own.sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
  const page = own.slice(0, PAGE_SIZE);
  const last = own.length > PAGE_SIZE ? page.at(-1) : undefined;
  const result = {
    tasks: page.map(({ record }) => taskJson('legacy', stateOf(record))),
    ...(last && { nextCursor: Buffer.from(placeOf(last)).toString('base64url') }),
  };
  return { kind: 'result', json: JSON.stringify(result) };
}

/** Place of a task in lists, which are ordered by time and then by id: places are compared as texts. */
function placeOf({ record: { created, id } }: Task): string {
  return `${String(created).padStart(16, '0')} ${id}`;
}
