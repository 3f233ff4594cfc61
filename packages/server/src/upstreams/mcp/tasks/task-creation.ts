import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { applyEdits, type Edit, members, memberText } from '@sluice/protocol/json/text';
import { translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { type Era, INTERNAL_ERROR, SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import { type Implementation, membersOf, parseMessage, type RequestMessage } from '@sluice/protocol/mcp/message';
import {
  META_RELATED_TASK,
  readTask,
  relatedTaskOf,
  reportedTaskEdits,
  type TaskState,
  translatedTask,
  withTaskIds,
} from '@sluice/protocol/mcp/tasks';
import { quotaOwner } from '../../../http/shares.ts';
import { toStored } from '../../../identity/principal.ts';
import type { CallObserver } from '../../../telemetry/call-observer.ts';
import type { ClientFacts } from '../../client-facts.ts';
import type { DownstreamSession } from '../../downstream.ts';
import { ObservedSink } from '../../observed-sink.ts';
import type { ResponseSink } from '../../response-sink.ts';
import { LegacyResponseRewriter } from '../era-translation/messages.ts';
import { digestOf } from '../era-translation/request-state.ts';
import type { SuspendedCalls } from '../era-translation/suspended-calls.ts';
import type { CallContext, CallPlan, CreatedTask, PolledCall, TaskHandler } from '../relay/call-plan.ts';
import { CLIENT_DISCONNECTED } from '../relay/in-flight-calls.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import { progressTokenOf } from '../relay/request-rewrite.ts';
import { sendResponse } from '../relay/response-rewrite.ts';
import type { Upstream, UpstreamSession } from '../upstream.ts';
import { awaitedResult, clientTokenOf, pollStatus } from './awaited-result.ts';
import { PolledTask } from './polled-task.ts';
import { taskCallPlan } from './task-call.ts';
import { continuedCall } from './task-events.ts';
import { stateOf, type TaskRecord } from './task-record.ts';
import { requestTask, taskMessage, taskSession } from './task-requests.ts';
import { boundedState, MAX_TTL_MS, type NewTask, sessionRecord, type Tasks } from './tasks.ts';

/** Prefix of the messages of failed calls. */
const CALL_FAILURE = 'forwarded tool call failed';

export interface TaskCreationOptions extends CallContext {
  readonly tasks: Tasks;
  /** Identity of the service, for requests of its own. */
  readonly clientInfo: Implementation;
  /** Whether tasks are polled on behalf of clients that do not support them. */
  readonly isEnabled: boolean;
  /** Observes the call of a record that another process has begun. */
  observerOf(record: TaskRecord): CallObserver;
  /** A client with a session has got a task. */
  onCreated(record: TaskRecord, session: DownstreamSession, headers: readonly string[]): void;
  /** Seals the state of calls that continue with a retry. */
  readonly suspendedCalls: Pick<SuspendedCalls, 'createTaskState'>;
  /** Maximum time until the retry, in milliseconds. */
  readonly suspendedMs: number;
}

/** Tasks in place of the results of calls: the client gets an id of ours, once the task is stored. */
export class TaskCreation implements TaskHandler {
  readonly #options: TaskCreationOptions;

  constructor(options: TaskCreationOptions) {
    this.#options = options;
  }

  isCreated({ message, declaresTasks: isDeclared }: CallPlan, era: Era, { resultType, task }: JsonObject): boolean {
    if (era === 'modern') return resultType === 'task';
    return isJsonObject(task) && (isDeclared === true || isJsonObject(message.params.task));
  }

  onCreated(created: CreatedTask, text: string, value: JsonObject): void {
    const { plan, session, sink } = created;
    const { era } = session;
    const result = isJsonObject(value.result) ? value.result : {};
    const state = readTask(era, era === 'modern' ? result : result.task);
    if (!state) return fail(created, INTERNAL_ERROR, 'the upstream answered with an invalid task');
    if (!plan.acceptsTask) {
      if (this.#options.isEnabled) return era === 'modern' ? this.#poll(created, state) : this.#await(created, state);
      this.#cancelUpstream(created, state.taskId);
      return fail(created, INTERNAL_ERROR, 'the upstream answered with a task to a client that does not support tasks');
    }
    let isClientDisconnected = created.isClientDisconnected;
    sink.onDisconnect(() => {
      isClientDisconnected = true;
    });
    this.#store(created, state).then(
      (record) => {
        // A modern client that has disconnected has canceled its call.
        if (record && isClientDisconnected && sink.client.era === 'modern') {
          sink.observer?.canceled(CLIENT_DISCONNECTED);
          this.#options.tasks.discard(record);
        } else if (record) {
          sink.observer?.continuedAsTask();
          respond(created, text, value, record, state);
          const { session: clientSession } = sink.client;
          if (clientSession) this.#options.onCreated(record, clientSession, sentHeaders(plan.headers));
        } else {
          this.#cancelUpstream(created, state.taskId);
          fail(created, SERVER_ERROR, 'too many tasks; wait for others to end, or cancel them');
        }
      },
      (error: unknown) => {
        this.#options.log.error('task could not be stored', { error });
        this.#cancelUpstream(created, state.taskId);
        fail(created, INTERNAL_ERROR, 'the task could not be stored');
      },
    );
  }

  relatedTaskEdits({ params, paramMembers }: RequestMessage, client: ClientFacts, address: string): Edit[] {
    const related = membersOf(paramMembers, '_meta').find(({ key }) => key === META_RELATED_TASK);
    if (!related) return [];
    const record = this.#options.tasks.get(relatedTaskOf(params) ?? '');
    const isOwn = record?.namespace === client.namespace && record?.principal.key === client.principal.key;
    const taskId = isOwn && record?.address === address ? record.upstreamId : '';
    return [{ start: related.start, end: related.end, text: JSON.stringify({ taskId }) }];
  }

  /** Continues to poll a task whose client has provided input; `id` is that of its record. */
  resume(plan: CallPlan, id: string, sink: ResponseSink): void {
    const { tasks } = this.#options;
    const record = tasks.get(id);
    const created = { plan, requestId: record?.progress?.upstream ?? '', sink, isClientDisconnected: false };
    const { inputResponses } = plan.message.params;
    const isValid = inputResponses === undefined || isJsonObject(inputResponses);
    if (!record || record.address !== plan.upstream.transport.address || !isValid) {
      return fail(created, INTERNAL_ERROR, 'the task is no longer known; call the tool again');
    }
    const session = taskSession(tasks, record, plan.upstream);
    const state = { ...stateOf(record), taskId: record.upstreamId };
    this.#poll(
      { ...created, session },
      state,
      record,
      memberText(memberText(plan.message.text, 'params') ?? '{}', 'inputResponses'),
    );
  }

  /** Takes a call up again that waited for a task in a process that has ended; `sink` is that of the call. */
  takeUp(record: TaskRecord, upstream: Upstream, headers: readonly string[], sink: ResponseSink): void {
    const { callId = 'null', progress, era, upstreamId } = record;
    const meta = progress ? `{"_meta":{"progressToken":${progress.client}}}` : '{}';
    const message = parseMessage(
      Buffer.from(`{"jsonrpc":"2.0","id":${callId},"method":"tools/call","params":${meta}}`),
    );
    if (message.kind !== 'request') throw new Error('invalid call');
    const bound = taskSession(this.#options.tasks, record, upstream);
    const openSession = () => bound;
    const request = { era, upstream, upstreamId, method: 'tasks/get', clientInfo: {}, headers, openSession };
    const plan: CallPlan = {
      ...taskCallPlan(request),
      message,
      progressToken: progressTokenOf(message),
      rewriter: era === 'modern' ? new LegacyResponseRewriter(CALL_FAILURE, false) : undefined,
      failure: CALL_FAILURE,
    };
    const requestId = progress?.upstream ?? '';
    const observed = new ObservedSink(sink, this.#options.observerOf(record));
    const created = { plan, session: bound, requestId, sink: observed, isClientDisconnected: false };
    const state = { ...stateOf(record), taskId: upstreamId };
    if (era === 'modern') this.#poll(created, state, record);
    else this.#await(created, state, record);
  }

  /** Polls the task on behalf of its client; `record` and the input of the client if it continues with a retry. */
  #poll(created: CreatedTask, state: TaskState, record?: TaskRecord, input?: string): void {
    const { tasks, suspendedCalls, suspendedMs } = this.#options;
    const { plan, session, sink } = created;
    const upstreamId = state.taskId;
    const clientInfo = { ...this.#options.clientInfo };
    const headers = sentHeaders(plan.headers);
    const capabilities = translatedCapabilities(sink.client.capabilities, true);
    const request = { upstream: plan.upstream, session, upstreamId, clientInfo, capabilities, headers };
    const openSession = () => session;
    const call = { ...request, era: session.era, method: 'tasks/get', openSession };
    const poll = { ...taskCallPlan(call), forward: plan.forward };
    let stored = record;
    const forget = this.#remember(created, state, record);
    const polled = new PolledTask(this.#options, created, state, {
      poll: (polls, rewriter) => new RelayedCall(this.#options, { ...poll, rewriter }, polls).start(),
      update: async (inputResponses) => {
        await requestTask({ ...request, method: 'tasks/update' }, `"inputResponses":${inputResponses}`);
      },
      cancel: () => this.#cancelUpstream(created, upstreamId),
      suspend: async (current) => {
        stored ??= await this.#store(created, current, { isInternal: true, maxLifeMs: suspendedMs });
        const { namespace = '', principal } = sink.client;
        const binding = { namespace, principal, digest: digestOf(plan.message) };
        return stored && suspendedCalls.createTaskState(stored.id, binding);
      },
      onEnd: () => {
        if (stored) tasks.remove(stored);
        forget();
      },
    });
    polled.start(input);
  }

  /** Waits for the result of a core task on behalf of its client; `record` if another process has begun that. */
  #await(created: CreatedTask, state: TaskState, record?: TaskRecord): void {
    const { taskId: upstreamId } = state;
    const { plan, session, sink } = created;
    const token = clientTokenOf(plan);
    const request = { era: session.era, upstreamId, method: 'tasks/result', clientInfo: {} };
    const meta = token === undefined ? undefined : `"_meta":{"progressToken":${token}}`;
    const message = parseMessage(Buffer.from(taskMessage(request, 0, meta)));
    if (message.kind !== 'request') throw new Error('invalid request for a result');
    const forget = this.#remember(created, state, record);
    let stopPolling = () => {};
    const awaited = awaitedResult(created, upstreamId, message, sentHeaders(plan.headers), () => {
      stopPolling();
      this.#cancelUpstream(created, upstreamId);
    });
    const onSettled = () => {
      stopPolling();
      forget();
    };
    const call = new RelayedCall(this.#options, { ...awaited, onSettled }, sink);
    if (token !== undefined && sink.client.accepts.sse) {
      const { upstream } = plan;
      const polled = { upstream, session, upstreamId, clientInfo: {}, headers: sentHeaders(plan.headers) };
      stopPolling = pollStatus(polled, state, (text, value) => call.onSessionMessage(text, value));
    }
    call.start();
  }

  /**
   * Stores the task of a call of a legacy client, so that the call continues where its stream is resumed after a restart; `record`
   * if it is stored already. Returns the function that removes it at the end of the call.
   */
  #remember(created: CreatedTask, state: TaskState, record: TaskRecord | undefined): () => void {
    const { tasks, calls, log } = this.#options;
    const { session, idText } = created.sink.client;
    if (record) return () => tasks.remove(record);
    if (!session) return () => undefined;
    const more = { isInternal: true, maxLifeMs: calls.limits.totalMs, callId: idText } as const;
    const storing = this.#store(created, state, more).catch((error: unknown) => {
      log.debug('the task of a call could not be stored', { error });
      return undefined;
    });
    return () => void storing.then((stored) => stored && tasks.remove(stored));
  }

  /** Cancels the task of a record that was removed. */
  cancelOrphan(record: TaskRecord, session: UpstreamSession, upstream: CallPlan['upstream']): void {
    this.#cancel(upstream, session, record.upstreamId, []);
  }

  #store(
    { plan, session, requestId, sink }: CreatedTask,
    state: TaskState,
    more: Pick<NewTask, 'isInternal' | 'maxLifeMs' | 'callId'> = {},
  ): Promise<TaskRecord | undefined> {
    const { forward, upstream, entry, message, progressToken } = plan;
    const { namespace = '', principal, address, session: clientSession, era } = sink.client;
    const discovered = entry?.discovered;
    const task: NewTask = {
      namespace,
      principal: toStored(principal),
      holder: quotaOwner(namespace, principal, address),
      clientSession: clientSession?.id,
      forward,
      address: upstream.transport.address,
      session: sessionRecord(session),
      era: session.era,
      ...(session.era !== era && { clientEra: era }),
      tool: { key: entry?.key ?? '', upstreamKey: discovered?.upstreamKey, copied: discovered?.copied },
      progress: progressToken && {
        upstream: requestId,
        client: message.text.slice(progressToken.start, progressToken.end),
      },
      ...continuedCall(sink.observer?.continued),
      ...more,
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

function fail({ plan, sink }: PolledCall, code: number, what: string): void {
  sink.complete({ kind: 'failed', error: { code, message: `${plan.failure}: ${what}` } });
}

/** Sends the client the result that creates the task, with our id, in the form of its era. */
function respond(
  { plan, session, sink }: CreatedTask,
  text: string,
  value: JsonObject,
  record: TaskRecord,
  state: TaskState,
): void {
  const { era } = sink.client;
  if (era === session.era) return sendResponse(sink, plan, withOwnId(text, session.era, record), value, 200);
  const result = memberText(text, 'result') ?? '{}';
  // The status may have another meaning in the other era, and is known once the client asks for it.
  const own = { ...boundedState(state, record.id), status: 'working' as const };
  const created =
    era === 'modern'
      ? `"resultType":"task",${translatedTask('modern', own, memberText(result, 'task'))}`
      : `"task":{${translatedTask('legacy', own, result)}}`;
  sink.complete({ kind: 'result', json: `{${created}}` });
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
