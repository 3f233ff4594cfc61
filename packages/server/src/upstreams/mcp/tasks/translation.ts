import { randomBytes } from 'node:crypto';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { applyEdits, findMembers, memberText } from '@sluice/protocol/json/text';
import { requiredCapabilities } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { paramText, withParam } from '@sluice/protocol/mcp/message-text';
import {
  type ReportedTask,
  readTask,
  relatedTaskOf,
  reportedMember,
  reportedTaskEdits,
  TASK_STATUS_NOTIFICATION,
  type TaskState,
  withoutRelatedTask,
  withTaskIds,
} from '@sluice/protocol/mcp/tasks';
import { type ErrorOutcome, type ResultOutcome, rpcError } from '../../../http/outcome.ts';
import type { ServerRequests } from '../../client-requests.ts';
import { progressNotification, tokenOf } from '../../progress.ts';
import { inputRequest } from '../era-translation/input-requests.ts';
import type { MessageTranslator, ResponseRewriter } from '../relay/call-spec.ts';
import { errorResponse, replaceRetiredCode } from '../relay/response-rewrite.ts';
import type { Upstream } from '../upstream.ts';
import type { UpstreamSession } from '../upstream-sessions.ts';
import { boundedTtl, MAX_TTL_MS, type Task, type UpstreamTask } from './task.ts';
import { eraOf, type TaskRecord, type UpstreamRecord } from './task-record.ts';
import type { TaskPlace, Tasks } from './tasks.ts';

/** Prefix of the messages of failed requests about tasks. */
export const TASK_FAILURE = 'forwarded request failed';
/** Acknowledgment of `tasks/update` and `tasks/cancel`. */
export const ACKNOWLEDGED: ResultOutcome = { kind: 'result', json: '{"resultType":"complete"}' };

/** The outcome for an id that is not that of a task of this owner: the same for all reasons. */
export function taskNotFound(): ErrorOutcome {
  return rpcError(INVALID_PARAMS, 'task not found');
}

/** The outcome for a response that cannot be used: `problem` is what the upstream answered with. */
export function unusableTask(problem: string): ErrorOutcome {
  return rpcError(INTERNAL_ERROR, `${TASK_FAILURE}: the upstream answered with ${problem}`);
}

/** A state that an upstream reports, under our id and with a time to live within ours. */
export function ownState({ id }: TaskRecord, state: TaskState): TaskState {
  return { ...state, taskId: id, ttlMs: boundedTtl(state) };
}

/**
 * Reads a reported state and records it; `content` is the message with it. Returns the state under our id, or the problem with what
 * the upstream has reported.
 */
export function observeState(task: UpstreamTask, value: JsonObject, content: JsonObject = value): TaskState | string {
  const state = readTask(eraOf(task.record), value);
  if (!state) return 'an invalid task';
  const isConsistent = task.observe(state, { by: 'polled', content });
  return isConsistent ? ownState(task.record, state) : 'another status of a task that has ended';
}

/** What a client sees of a task in place of what its upstream reports: our id, and a status that is final. */
function reportedTask({ id, isCanceled }: TaskRecord): ReportedTask {
  return { id, maxTtlMs: MAX_TTL_MS, status: isCanceled ? 'cancelled' : undefined };
}

/** Replaces what the upstream of a task reports at a path in a message: all of it, since a member may be repeated. */
export function withReportedTask({ record }: Task, text: string, ...path: readonly string[]): string {
  const task = reportedTask(record);
  const found = findMembers(text, path);
  return applyEdits(
    text,
    found.flatMap(({ start }) => reportedTaskEdits(eraOf(record), text, start, task)),
  );
}

/**
 * Records what the upstream of a task responds to a request about it, and replaces that for a client of the same era.
 * `onAccepted` is called when the response is a result.
 */
export function taskRewriter(
  task: UpstreamTask,
  method: string,
  capabilities: JsonObject,
  onAccepted: () => void = () => undefined,
): ResponseRewriter {
  const era = eraOf(task.record);
  /** Returns the problem with a result, if there is one. The end of a task also becomes known by other results than its state. */
  const observe = (result: JsonObject): string | undefined => {
    const observed = method === 'tasks/get' ? observeState(task, result) : undefined;
    if (method === 'tasks/result') task.end({ by: 'polled', content: { result } });
    if (method === 'tasks/cancel') task.end({ by: 'cancelled' });
    return typeof observed === 'string' ? observed : undefined;
  };
  return {
    rewrite(text, value) {
      const { error, result } = value;
      const id = memberText(text, 'id') ?? 'null';
      if (isJsonObject(error)) {
        // An upstream that does not know the task any more has discarded it. Its message may contain its own id.
        if (error.code === INVALID_PARAMS && method === 'tasks/get') {
          task.remove();
          return errorResponse(id, { ...taskNotFound().error });
        }
        return era === 'legacy' ? undefined : replaceRetiredCode(text, value, method, capabilities);
      }
      if (!isJsonObject(result)) return undefined;
      const problem = observe(result);
      if (problem) return errorResponse(id, { ...unusableTask(problem).error });
      onAccepted();
      return { text: withReportedTask(task, text, 'result'), value };
    },
    rewriteLarge({ members: positions, textOf }, { result }, id) {
      const problem = positions ? observe(isJsonObject(result) ? result : {}) : 'a damaged result';
      if (problem !== undefined || !positions) return errorResponse(id, { ...unusableTask(problem ?? '').error });
      return positions.flatMap((member) => {
        const text = reportedMember(era, member.key, textOf(member), reportedTask(task.record));
        return text === undefined ? [] : [{ start: member.start, end: member.end, text }];
      });
    },
  };
}

/** The result of a task as that of the call, for a client that does not know the task; then as the call's own rewriter does. */
export function plainResultRewriter(inner: ResponseRewriter | undefined): ResponseRewriter {
  return {
    onRejected: (method, params) => inner?.onRejected?.(method, params),
    rewrite(text, value) {
      const { result } = value;
      const isRelated = isJsonObject(result) && relatedTaskOf(result) !== undefined;
      const plain = isRelated ? withoutRelatedTask(text, 'result', '_meta') : text;
      return inner?.rewrite(plain, value) ?? { text: plain, value };
    },
    rewriteLarge(result, value, id) {
      const edits = inner?.rewriteLarge(result, value, id) ?? [];
      if ('text' in edits) return edits;
      const metas = (result.members ?? []).filter(({ key }) => key === '_meta');
      return [
        ...edits,
        ...metas.map((meta) => ({ start: meta.start, end: meta.end, text: withoutRelatedTask(result.textOf(meta)) })),
      ];
    },
  };
}

/**
 * Translates the ids of core tasks in the messages of one upstream session to and from one client: in notifications of
 * their status, and in the metadata of messages that are related to a task. What concerns other tasks is dropped, such as those of
 * other clients, with whom the session may be shared. `isVisible` returns whether a task is one of the client, of a tool that is
 * not hidden.
 */
export function taskMessages(
  tasks: Tasks,
  place: TaskPlace,
  isVisible: (record: UpstreamRecord) => boolean,
): MessageTranslator {
  const find = (upstreamId: string): UpstreamTask | undefined => {
    const task = tasks.findAt('id', place, upstreamId);
    return task && !task.record.isInternal && isVisible(task.record) ? task : undefined;
  };
  const findProgress = (value: JsonObject): UpstreamRecord | undefined => {
    const token = tokenOf(value);
    return token === undefined ? undefined : tasks.findAt('token', place, token)?.record;
  };
  return {
    toClient(text, value) {
      const { method, params, result } = value;
      if (method === TASK_STATUS_NOTIFICATION) {
        const state = readTask('legacy', params);
        const task = state && find(state.taskId);
        if (!state || !task?.observe(state, { by: 'notified' })) return undefined;
        return withReportedTask(task, text, 'params');
      }
      if (method === 'notifications/progress') {
        const record = findProgress(value);
        if (!record?.progress) return text;
        if (!isVisible(record)) return undefined;
        const own = withTaskIds(text, () => record.id);
        return withParam(own, 'progressToken', record.progress.client);
      }
      const content = method === undefined ? result : params;
      if (!isJsonObject(content) || relatedTaskOf(content) === undefined) return text;
      return withTaskIds(text, (id) => find(id)?.id);
    },
    toUpstream: (text) =>
      withTaskIds(text, (id) => {
        const { record } = tasks.get(id) ?? {};
        const isHere = record?.kind === 'core' && record.address === place.address;
        return isHere && record.session?.id === place.session && isVisible(record) ? record.upstreamId : undefined;
      }),
    isTaskProgress: (value) => findProgress(value) !== undefined,
  };
}

/**
 * Translates the messages of a task for a client that does not know it. `requestId` is that of its call upstream, `token` its
 * progress token as JSON text, if it requests progress.
 */
export function plainMessages(upstreamId: string, requestId: string, token: string | undefined): MessageTranslator {
  let progress = 0;
  let last: string | undefined;
  const isTaskProgress = (value: JsonObject): boolean =>
    token !== undefined && value.method === 'notifications/progress' && tokenOf(value) === requestId;
  return {
    toClient(text, value) {
      const params = isJsonObject(value.params) ? value.params : {};
      if (value.method === TASK_STATUS_NOTIFICATION) {
        const { taskId, statusMessage } = params;
        const isNew = taskId === upstreamId && typeof statusMessage === 'string' && statusMessage !== last;
        if (!isNew || token === undefined) return undefined;
        last = statusMessage;
        return progressNotification(token, ++progress, statusMessage);
      }
      const plain = relatedTaskOf(params) === undefined ? text : withoutRelatedTask(text, 'params', '_meta');
      return isTaskProgress(value) ? withParam(plain, 'progressToken', token ?? 'null') : plain;
    },
    toUpstream: (text) => text,
    isTaskProgress,
  };
}

/**
 * Requests of a legacy upstream that a task of a modern client needs input for: stored, so that they are the `inputRequests` of
 * `tasks/get` until the client responds, also in another process.
 */
export function storedRequests(task: UpstreamTask): ServerRequests {
  return {
    get pending() {
      return task.record.inputRequests.length;
    },
    relay(text, { method, params }) {
      if (typeof method !== 'string' || requiredCapabilities(method, params) === undefined) return false;
      return task.addInputRequest({
        key: `${method}#${randomBytes(6).toString('base64url')}`,
        requestId: memberText(text, 'id') ?? 'null',
        request: inputRequest(withoutRelatedTask(text, 'params', '_meta'), method),
      });
    },
    onCancelled(text) {
      const canceled = paramText(text, 'requestId');
      task.removeInputRequests(({ requestId }) => requestId === canceled);
    },
    // They belong to the task, not to the request on whose stream they arrived.
    cancelAll: () => undefined,
    failAll: () => undefined,
  };
}

/**
 * Handles a message on the notification stream of a session with a legacy upstream that is about a task of a modern client.
 * False for other messages, and for a request that must be rejected.
 */
export function onTaskMessage(
  tasks: Tasks,
  { transport: { address } }: Upstream,
  { sessionId: session }: UpstreamSession,
  text: string,
  value: JsonObject,
): boolean {
  const params = isJsonObject(value.params) ? value.params : {};
  const state = value.method === TASK_STATUS_NOTIFICATION ? readTask('legacy', params) : undefined;
  const id = state?.taskId ?? relatedTaskOf(params);
  const task = id === undefined ? undefined : tasks.findAt('id', { address, session }, id);
  if (task?.record.clientEra !== 'modern') return false;
  const requests = storedRequests(task);
  if ('id' in value) return requests.relay(text, value);
  if (state) task.observe(state, { by: 'notified' });
  else if (value.method === 'notifications/cancelled') requests.onCancelled(text);
  return true;
}
