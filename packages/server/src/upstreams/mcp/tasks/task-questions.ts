import { randomBytes } from 'node:crypto';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import { requiredCapabilities } from '@sluice/protocol/mcp/capabilities';
import { withoutElicitationId } from '@sluice/protocol/mcp/era';
import { paramText } from '@sluice/protocol/mcp/message';
import { readTask, relatedTaskOf, TASK_STATUS_NOTIFICATION, unrelated } from '@sluice/protocol/mcp/tasks';
import type { ServerRequests } from '../../client-requests.ts';
import type { Upstream, UpstreamSession } from '../upstream.ts';
import { clientEraOf, type TaskQuestion, type TaskRecord } from './task-record.ts';
import type { Tasks } from './tasks.ts';

/**
 * Requests of a legacy upstream that a task of a modern client needs input for: stored, so that they are the `inputRequests` of
 * `tasks/get` until the client responds, also in another process.
 */
export class TaskQuestions implements ServerRequests {
  readonly #tasks: Tasks;
  readonly #record: TaskRecord;

  constructor(tasks: Tasks, record: TaskRecord) {
    this.#tasks = tasks;
    this.#record = record;
  }

  get pending(): number {
    return this.#tasks.get(this.#record.id)?.questions?.length ?? 0;
  }

  relay(text: string, { method, params }: JsonObject): boolean {
    if (typeof method !== 'string' || requiredCapabilities(method, params) === undefined) return false;
    const sent = memberText(text, 'params');
    return this.#tasks.ask(this.#record, {
      key: `${method}#${randomBytes(6).toString('base64url')}`,
      requestId: memberText(text, 'id') ?? 'null',
      method,
      ...(sent !== undefined && {
        params: unrelated(method === 'elicitation/create' ? withoutElicitationId(sent) : sent),
      }),
    });
  }

  onCancelled(text: string): void {
    const canceled = paramText(text, 'requestId');
    this.#tasks.removeQuestions(this.#record, ({ requestId }) => requestId === canceled);
  }

  /** They belong to the task, not to the request on whose stream they arrived. */
  cancelAll(): void {}
  failAll(): void {}
}

/** Returns questions as the member `inputRequests` of a task, as JSON text. Some clients require `params`, which are optional. */
export function inputRequestsOf(questions: readonly TaskQuestion[]): string {
  const requests = questions.map(
    ({ key, method, params = '{}' }) =>
      `${JSON.stringify(key)}:{"method":${JSON.stringify(method)},"params":${params}}`,
  );
  return `{${requests.join(',')}}`;
}

/**
 * Handles a message on the notification stream of a session with a legacy upstream that is about a task of a modern client.
 * False for other messages, and for a request that must be rejected.
 */
export function onTaskMessage(
  tasks: Tasks,
  { transport: { address } }: Upstream,
  { sessionId }: UpstreamSession,
  text: string,
  value: JsonObject,
): boolean {
  const params = isJsonObject(value.params) ? value.params : {};
  const find = (id: string | undefined) => {
    const record = id === undefined ? undefined : tasks.findUpstream(address, sessionId, id);
    return record && clientEraOf(record) === 'modern' ? record : undefined;
  };
  if (value.method === TASK_STATUS_NOTIFICATION) {
    const state = readTask('legacy', params);
    const record = find(state?.taskId);
    if (state && record) tasks.observe(record, state, { by: 'notified' });
    return record !== undefined;
  }
  const record = find(relatedTaskOf(params));
  if (!record) return false;
  const questions = new TaskQuestions(tasks, record);
  if ('id' in value) return questions.relay(text, value);
  if (value.method === 'notifications/cancelled') questions.onCancelled(text);
  return true;
}
