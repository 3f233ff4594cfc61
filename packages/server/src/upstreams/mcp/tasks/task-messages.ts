import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { applyEdits, members } from '@sluice/protocol/json/text';
import { withParam } from '@sluice/protocol/mcp/message';
import {
  readTask,
  relatedTaskOf,
  reportedTaskEdits,
  TASK_STATUS_NOTIFICATION,
  withTaskIds,
} from '@sluice/protocol/mcp/tasks';
import type { MessageTranslator } from '../relay/call-plan.ts';
import { tokenOf } from '../relay/in-flight-calls.ts';
import type { TaskRecord } from './task-record.ts';
import { MAX_TTL_MS, type Tasks } from './tasks.ts';

/** A session with a legacy upstream in which tasks were created. */
interface TaskSession {
  /** Address of the upstream. */
  readonly address: string;
  /** Session id there. */
  readonly session: string | undefined;
}

/**
 * Translates the ids of core tasks in the messages of one upstream session to and from one client: in notifications of
 * their status, and in the metadata of messages that are related to a task. What concerns tasks of other clients, with whom
 * the session may be shared, is dropped.
 */
export class TaskMessages implements MessageTranslator {
  readonly #tasks: Tasks;
  readonly #at: TaskSession;
  /** Whether a task is one of the client. */
  readonly #isOwn: (record: TaskRecord) => boolean;

  constructor(tasks: Tasks, at: TaskSession, isOwn: (record: TaskRecord) => boolean) {
    this.#tasks = tasks;
    this.#at = at;
    this.#isOwn = isOwn;
  }

  toClient(text: string, value: JsonObject): string | undefined {
    if (value.method === TASK_STATUS_NOTIFICATION) return this.#statusToClient(text, value);
    if (value.method === 'notifications/progress') return this.#progressToClient(text, value) ?? text;
    const content = value.method === undefined ? value.result : value.params;
    if (!isJsonObject(content) || relatedTaskOf(content) === undefined) return text;
    return withTaskIds(text, (id) => this.#find(id)?.id);
  }

  toUpstream(text: string): string {
    return withTaskIds(text, (id) => {
      const record = this.#tasks.get(id);
      return record && this.#isHere(record) && this.#isOwn(record) ? record.upstreamId : undefined;
    });
  }

  /** True for progress of a task, which continues after the call that created it. */
  isTaskProgress(value: JsonObject): boolean {
    return this.#progressing(value) !== undefined;
  }

  #statusToClient(text: string, { params }: JsonObject): string | undefined {
    const state = readTask('legacy', params);
    const record = state && this.#find(state.taskId);
    if (!state || !record || !this.#tasks.observe(record, state, { by: 'notified' })) return undefined;
    const status = record.isCanceled ? ('cancelled' as const) : undefined;
    for (const { key, start } of members(text)) {
      if (key !== 'params') continue;
      return applyEdits(
        text,
        reportedTaskEdits('legacy', text, start, { id: record.id, maxTtlMs: MAX_TTL_MS, status }),
      );
    }
    return undefined;
  }

  #progressToClient(text: string, value: JsonObject): string | undefined {
    const record = this.#progressing(value);
    if (!record?.progress) return undefined;
    return withParam(
      withTaskIds(text, () => record.id),
      'progressToken',
      record.progress.client,
    );
  }

  #progressing(value: JsonObject): TaskRecord | undefined {
    const token = tokenOf(value);
    const { address, session } = this.#at;
    const record = token === undefined ? undefined : this.#tasks.findProgress(address, session, token);
    return record && this.#isOwn(record) ? record : undefined;
  }

  #find(upstreamId: string): TaskRecord | undefined {
    const { address, session } = this.#at;
    const record = this.#tasks.findUpstream(address, session, upstreamId);
    return record && !record.isInternal && this.#isOwn(record) ? record : undefined;
  }

  #isHere({ address, session }: TaskRecord): boolean {
    return address === this.#at.address && session?.id === this.#at.session;
  }
}
