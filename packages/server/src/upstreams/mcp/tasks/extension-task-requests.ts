import type { JsonObject } from '@sluice/protocol/json/parse';
import { translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR, INVALID_PARAMS, SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import type { Implementation, RequestMessage } from '@sluice/protocol/mcp/message';
import { isTerminal, readTask, type TaskState, translatedTask } from '@sluice/protocol/mcp/tasks';
import { rpcError } from '../../../http/outcome.ts';
import type { CallObserver } from '../../../telemetry/call-observer.ts';
import type { ClientFacts } from '../../client-facts.ts';
import type { RequestOutcome } from '../../deferred-outcome.ts';
import { ObservedSink } from '../../observed-sink.ts';
import type { ResponseSink } from '../../response-sink.ts';
import { LegacyResponseRewriter } from '../era-translation/messages.ts';
import type { CallContext, CallPlan } from '../relay/call-plan.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import { progressTokenOf } from '../relay/request-rewrite.ts';
import { errorOf, type TaskReading } from './core-task-requests.ts';
import { PolledTask } from './polled-task.ts';
import { callTask, TASK_FAILURE, type TaskCallRequest, taskCallPlan } from './task-call.ts';
import { stateOf } from './task-record.ts';
import { requestTask, type TaskTarget } from './task-requests.ts';
import { TASK_NOT_FOUND } from './task-rewriter.ts';
import { boundedState, type Tasks } from './tasks.ts';

const CANCELED = 'the task was canceled';

/** Executes requests of legacy clients about tasks of the extension, of modern upstreams. */
export class ExtensionTaskRequests {
  readonly #context: CallContext;
  readonly #tasks: Tasks;
  /** Identity of clients that have no session. */
  readonly #clientInfo: Implementation;

  constructor(context: CallContext, tasks: Tasks, clientInfo: Implementation) {
    this.#context = context;
    this.#tasks = tasks;
    this.#clientInfo = clientInfo;
  }

  /** Returns the outcome of `tasks/get`, `tasks/result` or `tasks/cancel`. */
  async request(
    client: ClientFacts,
    message: RequestMessage,
    target: TaskTarget,
    observer: CallObserver,
  ): Promise<RequestOutcome> {
    if (message.method === 'tasks/cancel') return await this.#cancel(client, target);
    if (message.method === 'tasks/result') return this.#result(client, message, target, observer);
    const reading = await this.read(client, target);
    return reading.kind === 'error' ? reading : { kind: 'result', json: `{${reading.members}}` };
  }

  /** Reads the state of a task, for legacy clients. */
  async read(client: ClientFacts, target: TaskTarget): Promise<TaskReading> {
    const { record } = target;
    // For good: the upstream need not honor a cancellation.
    if (record.isCanceled) {
      const state = boundedState(stateOf(record), record.id);
      return { kind: 'task', state, members: translatedTask('legacy', state) };
    }
    const reply = await callTask(this.#context, taskCallPlan(this.#call(client, target, 'tasks/get')));
    if (reply.kind === 'error' && reply.code === INVALID_PARAMS) {
      this.#tasks.remove(record);
      return { kind: 'error', error: { code: INVALID_PARAMS, message: TASK_NOT_FOUND } };
    }
    if (reply.kind !== 'result') return errorOf(reply);
    const state = readTask('modern', reply.value);
    const problem = state ? this.#observe(target, state, reply.value) : 'an invalid task';
    if (!state || problem !== undefined) {
      return {
        kind: 'error',
        error: { code: INTERNAL_ERROR, message: `${TASK_FAILURE}: the upstream answered with ${problem}` },
      };
    }
    const { status } = stateOf(this.#tasks.get(record.id) ?? record);
    const own = { ...boundedState(state, record.id), status };
    return {
      kind: 'task',
      state: own,
      members: translatedTask('legacy', own, reply.isLarge ? undefined : reply.text()),
    };
  }

  /** Waits for the end of the task, and asks the client for input meanwhile. */
  #result(client: ClientFacts, message: RequestMessage, target: TaskTarget, observer: CallObserver): RequestOutcome {
    const { record, upstream } = target;
    if (record.isCanceled) return rpcError(INTERNAL_ERROR, `${TASK_FAILURE}: ${CANCELED}`);
    const session = upstream.sessions.modern;
    const request = this.#call(client, target, 'tasks/get');
    const poll = taskCallPlan(request);
    const plan: CallPlan = {
      ...poll,
      message,
      progressToken: progressTokenOf(message),
      rewriter: new LegacyResponseRewriter(TASK_FAILURE, false),
    };
    const start = (sink: ResponseSink) => {
      const call = { plan, sink: new ObservedSink(sink, observer), isClientDisconnected: false };
      new PolledTask(
        this.#context,
        call,
        { ...stateOf(record), taskId: record.upstreamId },
        {
          poll: (polled, rewriter) => void this.#poll(target, { ...poll, rewriter }, polled),
          update: async (inputResponses) => {
            await requestTask({ ...request, session, method: 'tasks/update' }, `"inputResponses":${inputResponses}`);
          },
          observe: (state, value) => this.#observe(target, state, value),
          onGone: () => this.#tasks.remove(record),
          knownAs: record.id,
        },
      ).start();
    };
    return { kind: 'deferred', start };
  }

  /** Any number of requests may wait for one task: together they poll as often as a single one, whatever the upstream suggests. */
  async #poll({ record }: TaskTarget, plan: CallPlan, sink: ResponseSink): Promise<void> {
    if (await this.#tasks.pollTurn({ id: record.id })) return new RelayedCall(this.#context, plan, sink).start();
    const error = { code: SERVER_ERROR, message: 'too many requests for the result of the task' };
    sink.complete({ kind: 'failed', error });
  }

  /** That a task is canceled is durable before the response. */
  async #cancel(client: ClientFacts, target: TaskTarget): Promise<RequestOutcome> {
    const { record } = target;
    const reading = await this.read(client, target);
    if (reading.kind === 'error') return reading;
    const { status } = reading.state;
    if (isTerminal(status)) {
      return rpcError(INVALID_PARAMS, `cannot cancel a task that has ended: its status is ${status}`);
    }
    await this.#tasks.cancel(record);
    const { modern: session } = target.upstream.sessions;
    requestTask({ ...this.#call(client, target, 'tasks/cancel'), session }).catch((error: unknown) =>
      this.#context.log.debug('task could not be canceled', { error }),
    );
    const canceled = { ...reading.state, status: 'cancelled' as const, lastUpdatedAt: new Date().toISOString() };
    return { kind: 'result', json: `{${translatedTask('legacy', canceled)}}` };
  }

  #call({ era: own, capabilities: given, session }: ClientFacts, target: TaskTarget, method: string): TaskCallRequest {
    const { record, upstream, headers } = target;
    const { era, upstreamId } = record;
    const capabilities = own === 'modern' ? given : translatedCapabilities(given, session !== undefined);
    const clientInfo = session?.clientInfo ?? { ...this.#clientInfo };
    return { era, upstream, upstreamId, method, clientInfo, capabilities, headers, openSession: target.sessions() };
  }

  /** Records a reported state. Returns the problem with it, if there is one. */
  #observe({ record: { id } }: TaskTarget, state: TaskState, reported: JsonObject): string | undefined {
    const record = this.#tasks.get(id);
    if (!record || record.isCanceled) return CANCELED;
    const isConsistent = this.#tasks.observe(record, state, { by: 'polled', content: reported });
    return isConsistent ? undefined : 'another status of a task that has ended';
  }
}
