/**
 * Tasks: core tasks of 2025-11-25, and the extension `io.modelcontextprotocol/tasks` of 2026-07-28. Reads their states and
 * edits their ids in the text of messages.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '../json/parse.ts';
import {
  applyEdits,
  type Edit,
  findMembers,
  members,
  memberText,
  removeAt,
  stringValue,
  withMembers,
} from '../json/text.ts';
import type { ClientCapabilities } from './capabilities.ts';
import type { Era } from './constants.ts';
import { TASKS_EXTENSION } from './methods.ts';

/** Core tasks: `_meta` of a message that belongs to a task. */
export const META_RELATED_TASK = 'io.modelcontextprotocol/related-task';
/** Core tasks: a task has another status. */
export const TASK_STATUS_NOTIFICATION = 'notifications/tasks/status';
/** Extension: the state of a task, on a stream of `subscriptions/listen`. */
export const TASK_NOTIFICATION = 'notifications/tasks';

/** All statuses of tasks. */
export const TASK_STATUSES = ['working', 'input_required', 'completed', 'failed', 'cancelled'] as const;

/** Status of a task. */
export type TaskStatus = (typeof TASK_STATUSES)[number];

/** True for a status that never changes. */
export function isTerminal(status: TaskStatus): status is 'completed' | 'failed' | 'cancelled' {
  return status !== 'working' && status !== 'input_required';
}

/** State of a task as its receiver reports it. */
export interface TaskState {
  readonly taskId: string;
  readonly status: TaskStatus;
  readonly statusMessage: string | undefined;
  /** ISO 8601. */
  readonly createdAt: string;
  /** ISO 8601. */
  readonly lastUpdatedAt: string;
  /** Milliseconds from the creation; null: unlimited. */
  readonly ttlMs: number | null;
  /** Milliseconds between polls, if the receiver suggests that. */
  readonly pollIntervalMs: number | undefined;
}

/** Names of the durations of a task by era. */
const TTL: Readonly<Record<Era, string>> = { legacy: 'ttl', modern: 'ttlMs' };
const POLL_INTERVAL: Readonly<Record<Era, string>> = { legacy: 'pollInterval', modern: 'pollIntervalMs' };

/** Longest id of an upstream's task: it is sent in a header. */
const MAX_ID_LENGTH = 1024;
/** Longest time in ISO 8601 that is kept. */
const MAX_TIME_LENGTH = 64;

/** Reads the state of a task in the form of this era; undefined if it is none. */
export function readTask(era: Era, value: JsonValue | undefined): TaskState | undefined {
  if (!isJsonObject(value)) return undefined;
  const { taskId, status: given, statusMessage, createdAt, lastUpdatedAt } = value;
  const status = TASK_STATUSES.find((known) => known === given);
  const ttlMs = durationOf(value[TTL[era]]);
  if (typeof taskId !== 'string' || taskId === '' || taskId.length > MAX_ID_LENGTH || status === undefined)
    return undefined;
  const created = timeOf(createdAt) ?? new Date().toISOString();
  return {
    taskId,
    status,
    statusMessage: typeof statusMessage === 'string' ? statusMessage : undefined,
    createdAt: created,
    lastUpdatedAt: timeOf(lastUpdatedAt) ?? created,
    ttlMs: ttlMs ?? null,
    pollIntervalMs: durationOf(value[POLL_INTERVAL[era]]),
  };
}

function timeOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' && value.length <= MAX_TIME_LENGTH ? value : undefined;
}

function durationOf(value: JsonValue | undefined): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? Math.max(0, value) : undefined;
}

/** The state of a task as JSON members of this era, for results of our own. */
export function taskJson(era: Era, task: TaskState): JsonObject {
  const { taskId, status, statusMessage, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs } = task;
  return {
    taskId,
    status,
    ...(statusMessage !== undefined && { statusMessage }),
    createdAt,
    lastUpdatedAt,
    [TTL[era]]: ttlMs,
    ...(pollIntervalMs !== undefined && { [POLL_INTERVAL[era]]: pollIntervalMs }),
  };
}

/** True if a modern client declares the extension. */
export function declaresTasks({ extensions }: ClientCapabilities): boolean {
  if (!isJsonObject(extensions)) return false;
  const declared = extensions[TASKS_EXTENSION];
  return declared !== undefined && declared !== null && declared !== false;
}

/** Adds the extension to the capabilities of a modern client. */
export function withTasksExtension(capabilities: JsonObject): JsonObject {
  const { extensions } = capabilities;
  return { ...capabilities, extensions: { ...(isJsonObject(extensions) && extensions), [TASKS_EXTENSION]: {} } };
}

/** What clients see of a task in place of what its upstream reports. */
export interface ReportedTask {
  readonly id: string;
  /** Longest time to live, in milliseconds. */
  readonly maxTtlMs: number;
  /** Status that replaces the reported one. */
  readonly status?: TaskStatus | undefined;
}

/** Returns the text of a value of a task object, or of its `_meta`, for clients; undefined if it is unchanged. */
export function reportedMember(era: Era, key: string, text: string, task: ReportedTask): string | undefined {
  if (key === 'taskId') return JSON.stringify(task.id);
  if (key === 'status') return task.status === undefined ? undefined : JSON.stringify(task.status);
  if (key === TTL[era]) {
    const ttlMs = text === 'null' ? Number.POSITIVE_INFINITY : Number(text);
    return ttlMs > task.maxTtlMs ? String(task.maxTtlMs) : undefined;
  }
  return key === '_meta'
    ? applyEdits(
        text,
        idEdits(text, [META_RELATED_TASK, 'taskId'], () => task.id),
      )
    : undefined;
}

/** Keys that {@link reportedMember} may change. */
export const REPORTED_MEMBERS: readonly string[] = ['taskId', 'status', ...Object.values(TTL), '_meta'];

/** Returns the edits of a task object that begins at `start`, for clients. */
export function reportedTaskEdits(era: Era, text: string, start: number, task: ReportedTask): Edit[] {
  return [...members(text, start)].flatMap((member) => {
    const reported = reportedMember(era, member.key, text.slice(member.start, member.end), task);
    return reported === undefined ? [] : [{ start: member.start, end: member.end, text: reported }];
  });
}

/** Members of a task object that both eras have, with the names of each. */
export const TASK_MEMBERS: readonly string[] = [
  'taskId',
  'status',
  'statusMessage',
  'createdAt',
  'lastUpdatedAt',
  'ttl',
  'ttlMs',
  'pollInterval',
  'pollIntervalMs',
];
/** Members that are written in the form of an era, or that another one of it has. */
const TRANSLATED: ReadonlySet<string> = new Set([
  ...TASK_MEMBERS,
  ...['resultType', 'result', 'error', 'inputRequests', '_meta'],
]);

/**
 * Returns the members of a task in the form of an era, as JSON text; `text` is the task object of the other era, whose unknown
 * members are kept.
 */
export function translatedTask(era: Era, state: TaskState, text = '{}'): string {
  const parts = [JSON.stringify(taskJson(era, state)).slice(1, -1)];
  for (const { key, start, end } of members(text)) {
    if (!TRANSLATED.has(key)) parts.push(`${JSON.stringify(key)}:${text.slice(start, end)}`);
  }
  const meta = memberText(text, '_meta');
  if (meta?.startsWith('{')) parts.push(`"_meta":${withoutRelatedTask(meta)}`);
  return parts.join(',');
}

/** Removes the related task from each `_meta` at a path; without one, the text is a `_meta`. */
export function withoutRelatedTask(text: string, ...path: readonly string[]): string {
  return removeAt(text, path, (key) => key === META_RELATED_TASK);
}

/** Relates params or a result, as JSON text, to the task with this id only. */
export function relatedTo(content: string, taskId: string): string {
  const given = memberText(content, '_meta');
  const meta = withoutRelatedTask(given?.startsWith('{') ? given : '{}');
  const related = withMembers(meta, `"${META_RELATED_TASK}":${JSON.stringify({ taskId })}`);
  const rest = removeAt(content, [], (key) => key === '_meta');
  return withMembers(rest, `"_meta":${related}`);
}

/** Id of the task that an object's `_meta` relates it to. */
export function relatedTaskOf({ _meta: meta }: JsonObject): string | undefined {
  const related = isJsonObject(meta) ? meta[META_RELATED_TASK] : undefined;
  const id = isJsonObject(related) ? related.taskId : undefined;
  return typeof id === 'string' ? id : undefined;
}

/**
 * Replaces the ids of tasks in the text of a message of the legacy era: those of a status notification, and of related
 * tasks. `idOf` returns the other id; undefined for an id that is unchanged.
 */
export function withTaskIds(text: string, idOf: (id: string) => string | undefined): string {
  const isStatus = stringValue(memberText(text, 'method') ?? '""') === TASK_STATUS_NOTIFICATION;
  const edits = [
    ...(isStatus ? idEdits(text, ['params', 'taskId'], idOf) : []),
    ...['params', 'result'].flatMap((name) => idEdits(text, [name, '_meta', META_RELATED_TASK, 'taskId'], idOf)),
  ];
  return edits.length === 0 ? text : applyEdits(text, edits);
}

/** Returns the edits that replace the ids at a path. */
function idEdits(text: string, path: readonly string[], idOf: (id: string) => string | undefined): Edit[] {
  return findMembers(text, path).flatMap(({ start, end }) => {
    const id: unknown = JSON.parse(text.slice(start, end));
    const other = typeof id === 'string' ? idOf(id) : undefined;
    return other === undefined ? [] : [{ start, end, text: JSON.stringify(other) }];
  });
}
