import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { applyEdits, members } from '@sluice/protocol/json/text';
import { type Era, INTERNAL_ERROR, SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import type { Implementation } from '@sluice/protocol/mcp/message';
import { declaresTasks, readTask, reportedTaskEdits, type TaskState, withTaskIds } from '@sluice/protocol/mcp/tasks';
import { holderOf } from '../../../http/shares.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { CallPlan, CreatedTask, TaskHandler } from '../relay/call-plan.ts';
import { CLIENT_DISCONNECTED } from '../relay/in-flight-calls.ts';
import { sendResponse } from '../relay/response-rewrite.ts';
import type { UpstreamSession } from '../upstream.ts';
import type { TaskRecord } from './task-record.ts';
import { requestTask } from './task-requests.ts';
import { MAX_TTL_MS, type NewTask, sessionRecord, type Tasks } from './tasks.ts';

export interface TaskCreationOptions {
  readonly tasks: Tasks;
  /** Identity of the service, for requests of its own. */
  readonly clientInfo: Implementation;
  readonly log: TargetLogger;
}

/** Tasks in place of the results of calls: the client gets an id of ours, once the task is stored. */
export class TaskCreation implements TaskHandler {
  readonly #options: TaskCreationOptions;

  constructor(options: TaskCreationOptions) {
    this.#options = options;
  }

  isCreated({ message }: CallPlan, era: Era, { resultType, task }: JsonObject): boolean {
    if (era === 'modern') return resultType === 'task';
    return isJsonObject(task) && isJsonObject(message.params.task);
  }

  onCreated(created: CreatedTask): void {
    const { plan, session, value } = created;
    const { era } = session;
    const result = isJsonObject(value.result) ? value.result : {};
    const state = readTask(era, era === 'modern' ? result : result.task);
    if (!state) return fail(created, INTERNAL_ERROR, 'the upstream answered with an invalid task');
    if (era === 'modern' && !declaresTasks(plan.capabilities)) {
      this.#cancelUpstream(created, state.taskId);
      return fail(created, INTERNAL_ERROR, 'the upstream answered with a task to a client that does not support tasks');
    }
    let isClientDisconnected = created.isClientDisconnected;
    created.response.onDisconnect(() => {
      isClientDisconnected = true;
    });
    this.#store(created, state).then(
      (record) => {
        // A modern client that has disconnected has canceled its call.
        if (record && isClientDisconnected && plan.era === 'modern') {
          plan.observer.canceled(CLIENT_DISCONNECTED);
          this.#options.tasks.discard(record);
        } else if (record) {
          plan.observer.responded(value);
          if (!isClientDisconnected) respond(created, record);
        } else {
          this.#cancelUpstream(created, state.taskId);
          fail(created, SERVER_ERROR, 'too many tasks; wait for others to end, or cancel them', isClientDisconnected);
        }
      },
      (error: unknown) => {
        this.#options.log.error('task could not be stored', { error });
        this.#cancelUpstream(created, state.taskId);
        fail(created, INTERNAL_ERROR, 'the task could not be stored', isClientDisconnected);
      },
    );
  }

  /** Cancels the task of a record that was removed. */
  cancelOrphan(record: TaskRecord, session: UpstreamSession, upstream: CallPlan['upstream']): void {
    this.#cancel(upstream, session, record.upstreamId, []);
  }

  #store({ plan, session, requestId }: CreatedTask, state: TaskState): Promise<TaskRecord | undefined> {
    const { namespace = '', user, clientAddress, forward, upstream, entry, message, progressToken } = plan;
    const discovered = entry?.discovered;
    const task: NewTask = {
      namespace,
      user,
      holder: holderOf(namespace, user, clientAddress),
      clientSession: plan.session?.id,
      forward,
      address: upstream.transport.address,
      session: sessionRecord(session),
      era: session.era,
      tool: { key: entry?.key ?? '', upstreamKey: discovered?.upstreamKey, copied: discovered?.copied },
      progress: progressToken && {
        upstream: requestId,
        client: message.text.slice(progressToken.start, progressToken.end),
      },
    };
    return this.#options.tasks.create(task, state, session);
  }

  #cancelUpstream({ plan: { upstream, headers }, session }: CreatedTask, upstreamId: string): void {
    this.#cancel(upstream, session, upstreamId, sentHeaders(headers));
  }

  #cancel(
    upstream: CallPlan['upstream'],
    session: UpstreamSession,
    upstreamId: string,
    headers: readonly string[],
  ): void {
    const clientInfo = { ...this.#options.clientInfo };
    requestTask({ upstream, session, upstreamId, method: 'tasks/cancel', clientInfo, headers }).catch(
      (error: unknown) => this.#options.log.debug('task could not be canceled', { error }),
    );
  }
}

/** Headers of a call without those that mirror its message. */
function sentHeaders(headers: readonly string[]): string[] {
  return headers.filter((_, at) => !/^mcp-/i.test(headers[at - (at % 2)] ?? ''));
}

function fail(
  { plan, response, isClientDisconnected }: CreatedTask,
  code: number,
  what: string,
  isGone = isClientDisconnected,
): void {
  const message = `${plan.failure}: ${what}`;
  plan.observer.failed('UNKNOWN', message, '_OTHER');
  if (!isGone) response.sendError({ code, message });
}

/** Sends the client the result that creates the task, with our id. */
function respond({ plan, session, text, value, response }: CreatedTask, record: TaskRecord): void {
  sendResponse(response, plan, withOwnId(text, session.era, record), value, 200);
}

function withOwnId(text: string, era: Era, { id, upstreamId }: TaskRecord): string {
  const task = { id, maxTtlMs: MAX_TTL_MS };
  for (const { key, start } of members(text)) {
    if (key !== 'result') continue;
    if (era === 'modern') return applyEdits(text, reportedTaskEdits(era, text, start, task));
    const edits = [...members(text, start)].flatMap((member) =>
      member.key === 'task' ? reportedTaskEdits(era, text, member.start, task) : [],
    );
    return withTaskIds(applyEdits(text, edits), (other) => (other === upstreamId ? id : undefined));
  }
  return text;
}
