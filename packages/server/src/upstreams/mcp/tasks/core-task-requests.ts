import { memberText } from '@sluice/protocol/json/text';
import { INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { paramText, type RequestMessage } from '@sluice/protocol/mcp/message';
import { readTask, relatedTo, type TaskState, translatedTask, unrelated } from '@sluice/protocol/mcp/tasks';
import { withTimeout } from '@sluice/protocol/timing';
import { UpstreamError } from '../../../http/client/errors.ts';
import { type RpcError, rpcError } from '../../../http/outcome.ts';
import type { RequestOutcome } from '../../deferred-outcome.ts';
import type { CallContext, CallPlan } from '../relay/call-plan.ts';
import { postMessage } from '../rpc-request.ts';
import { callTask, TASK_FAILURE, type TaskReply, taskCallPlan } from './task-call.ts';
import { inputRequestsOf, TaskQuestions } from './task-questions.ts';
import type { TaskQuestion } from './task-record.ts';
import { ACKNOWLEDGED, type TaskTarget, taskSession } from './task-requests.ts';
import { TASK_NOT_FOUND } from './task-rewriter.ts';
import { boundedState, type Tasks } from './tasks.ts';

/** The state of a task for clients of the other era than its upstream. */
export type TaskReading =
  /** `members` are those of the task object in the client's era, as JSON text. */
  | { readonly kind: 'task'; readonly state: TaskState; readonly members: string }
  | { readonly kind: 'error'; readonly error: RpcError };

/** Time for the first question of a task that requires input to arrive, in milliseconds. */
const QUESTION_MS = 1_000;

/** Executes requests of modern clients about core tasks of legacy upstreams. */
export class CoreTaskRequests {
  readonly #context: CallContext;
  readonly #tasks: Tasks;
  /** Requests for results on whose streams upstreams send their questions, by task. */
  readonly #listening = new Map<string, Promise<TaskReply>>();
  /** Keys of the questions whose responses are being sent. */
  readonly #answering = new Set<string>();

  constructor(context: CallContext, tasks: Tasks) {
    this.#context = context;
    this.#tasks = tasks;
  }

  /** Returns the outcome of `tasks/get`, `tasks/update` or `tasks/cancel`. */
  async request(message: RequestMessage, target: TaskTarget): Promise<RequestOutcome> {
    if (message.method === 'tasks/update') return await this.#update(message, target);
    if (message.method === 'tasks/cancel') return await this.#cancel(target);
    const reading = await this.read(target);
    if (reading.kind === 'error') return reading;
    return { kind: 'result', json: `{"resultType":"complete",${reading.members}}` };
  }

  /** Reads the state of a task, with its result or the input that it waits for. */
  async read(target: TaskTarget): Promise<TaskReading> {
    const { record } = target;
    const reply = await callTask(this.#context, this.#plan(target, 'tasks/get'));
    if (reply.kind === 'error' && reply.code === INVALID_PARAMS) {
      this.#tasks.remove(record);
      return failed(TASK_NOT_FOUND, INVALID_PARAMS);
    }
    if (reply.kind !== 'result') return errorOf(reply);
    const state = readTask('legacy', reply.value);
    if (!state) return failed(`${TASK_FAILURE}: the upstream answered with an invalid task`);
    const hasResult = state.status === 'completed' || state.status === 'failed';
    const result = hasResult ? await callTask(this.#context, this.#plan(target, 'tasks/result')) : undefined;
    if (result?.kind === 'failed') return errorOf(result);
    const content = result && { [result.kind]: result.value };
    if (!this.#tasks.observe(record, state, { by: 'polled', content })) {
      return failed(`${TASK_FAILURE}: the upstream answered with another status of a task that has ended`);
    }
    const own = boundedState(state, record.id);
    if (result) return endedTask(own, reply.text(), result);
    if (state.status === 'cancelled') {
      return { kind: 'task', state: own, members: translatedTask('modern', own, reply.text()) };
    }
    const questions = await this.#questions(target, state);
    // Without open questions, there is nothing that the client could do.
    const status = questions.length > 0 ? 'input_required' : 'working';
    const members = translatedTask('modern', { ...own, status }, reply.text());
    const input = questions.length > 0 ? `,"inputRequests":${inputRequestsOf(questions)}` : '';
    return { kind: 'task', state: { ...own, status }, members: `${members}${input}` };
  }

  async #questions(target: TaskTarget, { status }: TaskState): Promise<readonly TaskQuestion[]> {
    const { id } = target.record;
    const open = () => this.#tasks.get(id)?.questions ?? [];
    if (status === 'input_required' && open().length === 0) {
      // Another replica may have got them.
      await this.#tasks.refresh();
      if (open().length === 0) await this.#awaitQuestion(target);
    }
    await this.#tasks.stored(target.record);
    return open();
  }

  /** Waits for a question on the stream of the result, which stays open for further ones until the task has ended. */
  async #awaitQuestion(target: TaskTarget): Promise<void> {
    const { record } = target;
    const listening = this.#listening.getOrInsertComputed(record.id, () => {
      const plan = { ...this.#plan(target, 'tasks/result'), waitsForTask: true };
      return callTask(this.#context, plan).finally(() => this.#listening.delete(record.id));
    });
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const stop = this.#tasks.onChange(record, () => {
      if (this.#tasks.get(record.id)?.questions?.length) resolve();
    });
    await withTimeout(QUESTION_MS, Promise.race([asked, listening]));
    stop();
  }

  /** Responses under keys that are not open, or that are no objects, are ignored, as the extension says. */
  async #update({ text }: RequestMessage, target: TaskTarget): Promise<RequestOutcome> {
    const { record, upstream, headers } = target;
    const responses = paramText(text, 'inputResponses');
    if (!responses?.startsWith('{')) return rpcError(INVALID_PARAMS, 'missing required parameter: inputResponses');
    await this.#tasks.refresh();
    const session = taskSession(this.#tasks, record, upstream);
    for (const { key, requestId } of this.#tasks.get(record.id)?.questions ?? []) {
      const response = memberText(responses, key);
      if (!response?.startsWith('{') || this.#answering.has(key)) continue;
      this.#answering.add(key);
      try {
        const result = relatedTo(response, record.upstreamId);
        const sent = `{"jsonrpc":"2.0","id":${requestId},"result":${result}}`;
        await postMessage(upstream.transport, [...session.identityHeaders, ...headers], sent);
        this.#tasks.removeQuestions(record, (question) => question.key === key);
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        return rpcError(INTERNAL_ERROR, `${TASK_FAILURE}: ${error.message}`);
      } finally {
        this.#answering.delete(key);
      }
    }
    await this.#tasks.stored(record);
    return ACKNOWLEDGED;
  }

  /** In the extension, a cancellation is a request that the upstream need not honor, and so no error if it is too late. */
  async #cancel(target: TaskTarget): Promise<RequestOutcome> {
    const reply = await callTask(this.#context, this.#plan(target, 'tasks/cancel'));
    if (reply.kind === 'failed') return errorOf(reply);
    if (reply.kind === 'error') {
      return reply.code === INVALID_PARAMS || reply.code === METHOD_NOT_FOUND ? ACKNOWLEDGED : errorOf(reply);
    }
    const state = readTask('legacy', reply.value);
    const by = state?.status === 'cancelled' ? 'cancelled' : 'polled';
    if (state) this.#tasks.observe(target.record, state, { by });
    return ACKNOWLEDGED;
  }

  #plan(target: TaskTarget, method: string): CallPlan {
    const { record, upstream, headers } = target;
    const { era, upstreamId } = record;
    const openSession = target.sessions();
    return {
      ...taskCallPlan({ era, upstream, upstreamId, method, clientInfo: {}, headers, openSession }),
      serverRequests: () => new TaskQuestions(this.#tasks, record),
    };
  }
}

/** A task that has failed with a result, which has `isError`, is completed for modern clients. */
function endedTask(state: TaskState, text: string, reply: Exclude<TaskReply, { kind: 'failed' }>): TaskReading {
  const isResult = reply.kind === 'result';
  const own = { ...state, status: isResult ? ('completed' as const) : ('failed' as const) };
  const content = isResult ? `"result":${unrelated(reply.text())}` : `"error":${reply.error}`;
  return { kind: 'task', state: own, members: `${translatedTask('modern', own, text)},${content}` };
}

function failed(message: string, code: number = INTERNAL_ERROR): TaskReading & { kind: 'error' } {
  return { kind: 'error', error: { code, message } };
}

/** Returns the error of an upstream, or why there is no response, for a client. */
export function errorOf(reply: Exclude<TaskReply, { kind: 'result' }>): TaskReading & { kind: 'error' } {
  if (reply.kind === 'failed') return failed(reply.message);
  const message: unknown = JSON.parse(memberText(reply.error, 'message') ?? '""');
  const data = memberText(reply.error, 'data');
  const error = {
    code: reply.code ?? INTERNAL_ERROR,
    message: typeof message === 'string' ? message : '',
    ...(data !== undefined && { data }),
  };
  return { kind: 'error', error };
}
