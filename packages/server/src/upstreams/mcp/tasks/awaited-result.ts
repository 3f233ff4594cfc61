import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { applyEdits, members } from '@sluice/protocol/json/text';
import { type RequestMessage, withParam } from '@sluice/protocol/mcp/message';
import {
  isTerminal,
  readTask,
  relatedTaskOf,
  TASK_STATUS_NOTIFICATION,
  type TaskState,
  unrelated,
  withoutRelatedTask,
} from '@sluice/protocol/mcp/tasks';
import type {
  CallPlan,
  CreatedTask,
  MessageTranslator,
  ResponseRewriter,
  RewrittenResponse,
} from '../relay/call-plan.ts';
import { tokenOf } from '../relay/in-flight-calls.ts';
import type { ByteEdit, ResultPositions } from '../relay/large-message.ts';
import { progressTokenOf } from '../relay/request-rewrite.ts';
import { pollDelayMs } from './polled-task.ts';
import { type OwnTaskRequest, requestTask } from './task-requests.ts';

/** Removes the related task from the `_meta` of the member `content` of a message: its params or its result. */
function withoutTask(text: string, content: 'params' | 'result'): string {
  const member = [...members(text)].find(({ key }) => key === content);
  return member ? applyEdits(text, [{ ...member, text: unrelated(text.slice(member.start, member.end)) }]) : text;
}

/** The result of a task as that of the call, for a client that does not know the task; then as the call's own rewriter does. */
class PlainResultRewriter implements ResponseRewriter {
  readonly #inner: ResponseRewriter | undefined;

  constructor(inner: ResponseRewriter | undefined) {
    this.#inner = inner;
  }

  onRejected(method: string, params: JsonValue | undefined): void {
    this.#inner?.onRejected?.(method, params);
  }

  rewrite(text: string, value: JsonObject): RewrittenResponse | undefined {
    const { result } = value;
    const plain = isJsonObject(result) && relatedTaskOf(result) !== undefined ? withoutTask(text, 'result') : text;
    return this.#inner?.rewrite(plain, value) ?? { text: plain, value };
  }

  rewriteLarge(result: ResultPositions, value: JsonObject, id: string): readonly ByteEdit[] | RewrittenResponse {
    const inner = this.#inner?.rewriteLarge(result, value, id) ?? [];
    if ('text' in inner) return inner;
    const metas = (result.members ?? []).filter(({ key }) => key === '_meta');
    return [
      ...inner,
      ...metas.map(({ start, end, ...meta }) => ({
        start,
        end,
        text: withoutRelatedTask(result.textOf({ start, end, ...meta })),
      })),
    ];
  }
}

/** Translates the messages of a task for a client that does not know it. */
class PlainMessages implements MessageTranslator {
  readonly #upstreamId: string;
  readonly #requestId: string;
  /** The client's progress token as JSON text, if it requests progress. */
  readonly #token: string | undefined;
  #progress = 0;
  #statusMessage: string | undefined = undefined;

  constructor(upstreamId: string, requestId: string, token: string | undefined) {
    this.#upstreamId = upstreamId;
    this.#requestId = requestId;
    this.#token = token;
  }

  /** Changes of the status message become progress. */
  toClient(text: string, value: JsonObject): string | undefined {
    const params = isJsonObject(value.params) ? value.params : {};
    if (value.method === TASK_STATUS_NOTIFICATION) {
      const { taskId, statusMessage } = params;
      if (taskId !== this.#upstreamId || typeof statusMessage !== 'string' || this.#token === undefined)
        return undefined;
      if (statusMessage === this.#statusMessage) return undefined;
      this.#statusMessage = statusMessage;
      const message = JSON.stringify(statusMessage);
      const progress = `{"progressToken":${this.#token},"progress":${++this.#progress},"message":${message}}`;
      return `{"jsonrpc":"2.0","method":"notifications/progress","params":${progress}}`;
    }
    const plain = relatedTaskOf(params) === undefined ? text : withoutTask(text, 'params');
    return this.isTaskProgress(value) ? withParam(plain, 'progressToken', this.#token ?? 'null') : plain;
  }

  toUpstream(text: string): string {
    return text;
  }

  isTaskProgress(value: JsonObject): boolean {
    return this.#token !== undefined && value.method === 'notifications/progress' && tokenOf(value) === this.#requestId;
  }
}

/** Returns the text of the client's progress token, if it requests progress. */
export function clientTokenOf({ message, progressToken }: CallPlan): string | undefined {
  return progressToken && message.text.slice(progressToken.start, progressToken.end);
}

/**
 * The plan of the request that waits for the result of a core task, in place of the call of a client that does not support
 * tasks. Requests of the upstream arrive on its stream, as on that of a call.
 */
export function awaitedResult(
  { plan, session, requestId }: CreatedTask,
  upstreamId: string,
  message: RequestMessage,
  headers: readonly string[],
  onAbandoned: () => void,
): CallPlan {
  return {
    ...plan,
    message,
    headers,
    edits: [],
    progressToken: progressTokenOf(message),
    rewriter: new PlainResultRewriter(plan.rewriter),
    openSession: () => session,
    tasks: undefined,
    messages: new PlainMessages(upstreamId, requestId, clientTokenOf(plan)),
    waitsForTask: true,
    onAbandoned,
  };
}

/**
 * Polls a core task whose result is awaited, and passes its states on as the notifications that an upstream need not send.
 * Returns the function that stops it.
 */
export function pollStatus(
  request: Omit<OwnTaskRequest, 'method'>,
  created: TaskState,
  onStatus: (notification: string, value: JsonObject) => void,
): () => void {
  let state = created;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  const report = () => {
    const { taskId, statusMessage = null } = state;
    const value = { jsonrpc: '2.0', method: TASK_STATUS_NOTIFICATION, params: { taskId, statusMessage } };
    onStatus(JSON.stringify(value), value);
    timer = setTimeout(poll, pollDelayMs(state)).unref();
  };
  const poll = async () => {
    // A failed request is repeated. If the task no longer exists, the request for its result fails, and the polling ends.
    const response = await requestTask({ ...request, method: 'tasks/get' }).catch(() => undefined);
    if (isStopped) return;
    const outcome = response?.outcome;
    const read =
      outcome?.kind === 'result' && isJsonObject(outcome.result) ? readTask('legacy', outcome.result) : undefined;
    if (read && isTerminal(read.status)) return;
    if (read) state = read;
    report();
  };
  timer = setTimeout(report, 0).unref();
  return () => {
    isStopped = true;
    clearTimeout(timer);
  };
}
