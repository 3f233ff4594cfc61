import type { JsonObject } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import { INTERNAL_ERROR, INVALID_PARAMS, SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { paramText } from '@sluice/protocol/mcp/message-text';
import { declaresTasks, isTerminal, type TaskStatus, taskJson } from '@sluice/protocol/mcp/tasks';
import type { Target } from '../../../access/target.ts';
import { errorJson, rpcError } from '../../../http/outcome.ts';
import { Quota } from '../../../http/quota.ts';
import { TASK_LABEL } from '../../../registry/entries.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import { type ClientFacts, NO_CLIENT } from '../../client-facts.ts';
import type { RequestOutcome } from '../../deferred-outcome.ts';
import { progressParams } from '../../progress.ts';
import {
  type CallOutcome,
  DetachedSink,
  ForwardingSink,
  joinListeners,
  lengthOf,
  type ResponseBody,
  type ResponseSink,
  textOf,
} from '../../response-sink.ts';
import { eventTaskOf } from './events.ts';
import { NO_ROOM, PromotedInput } from './promoted-input.ts';
import type { Task } from './task.ts';
import { stateOf } from './task-record.ts';
import { newTask, type Tasks } from './tasks.ts';
import { ACKNOWLEDGED } from './translation.ts';

/** Default of SERVICE_TASK_AUTO_AFTER_MS. */
export const AUTO_AFTER_MS = 10_000;
/** Default of SERVICE_MAX_TASK_RESULT_BYTES. */
export const MAX_TASK_RESULT_BYTES = 64 * 1024 * 1024;
/** Time for which the result of the longest call can be polled, and advised time between polls, in milliseconds. */
const RESULT_MS = 3_600_000;
const POLL_INTERVAL_MS = 1_000;
/** Longest result, in bytes. */
const MAX_RESULT_BYTES = 16 * 1024 * 1024;
/** Errors up to this size are reported even if there is no room for them, in bytes. */
const MAX_FREE_BYTES = 512;

/** A call that may become a task. */
export interface PromotableCall {
  readonly target: Pick<Target, 'entry' | 'forward' | 'message'>;
  /** Address of its upstream or capability service. */
  readonly address: string;
  /** Starts another round of the call, with the input of the client. */
  readonly repeat: (message: RequestMessage, sink: ResponseSink) => void;
}

export interface PromotedCallsOptions {
  readonly tasks: Tasks;
  /** Id of this process, which alone knows the calls and their results. */
  readonly replica: string;
  /** Whether another process with this id may be alive; undefined without any. */
  readonly isAlive: ((replica: string) => Promise<boolean>) | undefined;
  /** Time after which a call becomes a task, in milliseconds. */
  readonly afterMs: number;
  /** Longest time that a call may take, in milliseconds. */
  readonly maxCallMs: number;
  /** Memory for what all tasks keep. */
  readonly maxBytes: number;
  readonly log: Pick<TargetLogger, 'error'>;
}

/** Calls that become tasks when they take long, for tools with the label `service.task=auto` (docs/tasks.md). */
export class PromotedCalls {
  readonly options: PromotedCallsOptions;
  readonly #calls = new Map<string, PromotedCall>();
  readonly #bytes: Quota<string>;

  constructor(options: PromotedCallsOptions) {
    this.options = options;
    this.#bytes = new Quota(options.maxBytes);
    const { tasks } = options;
    tasks.removed.subscribe(({ id }) => {
      const call = this.#calls.get(id);
      this.#calls.delete(id);
      this.#bytes.delete(id);
      call?.cancel();
    });
    tasks.canceled.subscribe(({ id }) => this.#calls.get(id)?.cancel());
    // Those of an earlier process, unless it may be alive.
    if (options.isAlive) return;
    for (const task of tasks.all()) if (task.record.kind === 'call') lose(task);
  }

  /** Whether a request becomes a task if it takes long: only calls of tools do, whatever else has the label. */
  accepts({ entry, message }: Target, { era, capabilities }: ClientFacts): boolean {
    if (message.method !== 'tools/call' || entry?.labels[TASK_LABEL] !== 'auto') return false;
    return era === 'modern' && declaresTasks(capabilities);
  }

  /** Starts a call that becomes a task if it takes long: `send` sends it, with this sink around that of its client. */
  start(call: PromotableCall, sink: ResponseSink, send: (sink: ResponseSink) => void): void {
    new PromotedCall(call, this, sink).start(send);
  }

  /** The outcome of a request about a task of this kind. */
  async request({ method, text }: RequestMessage, task: Task): Promise<RequestOutcome> {
    const call = this.#calls.get(task.id);
    if (!call) return this.#requestLost(method, task);
    if (method === 'tasks/get') return call.state(task);
    if (method === 'tasks/update') return call.update(paramText(text, 'inputResponses'));
    call.cancel();
    return ACKNOWLEDGED;
  }

  /** Stores the task of a call; undefined if its client may have no more. Rejects with `StoreError`. */
  async create(call: PromotedCall, { target, address }: PromotableCall): Promise<Task | undefined> {
    const { tasks, replica, maxCallMs } = this.options;
    const { client } = call;
    const { facts } = client;
    const now = new Date().toISOString();
    const members = { ...newTask(client, target, address), kind: 'call', replica } as const;
    const ttlMs = maxCallMs + RESULT_MS;
    const state = {
      statusMessage: undefined,
      createdAt: now,
      lastUpdatedAt: now,
      ttlMs,
      pollIntervalMs: POLL_INTERVAL_MS,
    };
    const task = await tasks.create({ ...members, eventId: facts?.call?.eventId }, { status: 'working', ...state });
    // It may have been removed before it was durable.
    if (!task || task.isRemoved) return undefined;
    this.#calls.set(task.id, call);
    const eventTask = () => eventTaskOf(task.record);
    if (facts?.call) facts.call.task = eventTask;
    return task;
  }

  /** Reserves memory for what a task keeps, in place of what it has; false if there is none. */
  reserve({ id, record: { holder } }: Task, bytes: number): boolean {
    return this.#calls.has(id) && this.#bytes.reserve(id, holder, bytes);
  }

  /** The outcome for a task whose call is not known here. */
  async #requestLost(method: string, task: Task): Promise<RequestOutcome> {
    const { record } = task;
    const { isAlive, replica: own } = this.options;
    const replica = record.kind === 'call' ? record.replica : own;
    if (replica !== own && (await isAlive?.(replica))) {
      return rpcError(SERVER_ERROR, 'the replica that has this call cannot be reached: try again later', 503);
    }
    lose(task);
    if (method !== 'tasks/get') return ACKNOWLEDGED;
    const state = taskJson('modern', { ...stateOf(task.record), status: 'failed' });
    return { kind: 'result', json: JSON.stringify({ resultType: 'complete', ...state, error: LOST }) };
  }
}

/** Records the status of a task, the message of progress with it, and the error. */
function report(task: Task, status: TaskStatus, statusMessage = task.record.statusMessage, content?: JsonObject): void {
  const by = status === 'cancelled' ? 'cancelled' : 'returned';
  const lastUpdatedAt = new Date().toISOString();
  task.observe({ ...stateOf(task.record), status, statusMessage, lastUpdatedAt }, { by, content });
}

function lose(task: Task): void {
  if (!isTerminal(task.record.status)) report(task, 'failed', undefined, { error: LOST });
}

const LOST: JsonObject = {
  code: INTERNAL_ERROR,
  message: 'outcome unknown: the call or its result was lost in a restart of the service',
};

/**
 * A call of a client that declares the tasks extension to a tool with the label `service.task=auto`. Until it has taken a
 * certain time it is an ordinary one; then its client gets a task, and the call continues. Its result is kept here until the
 * task is removed. If it requires input after that, the task does, and the call continues with a retry, as it would for any
 * modern client.
 */
class PromotedCall extends ForwardingSink {
  readonly #owner: PromotedCalls;
  /** The call, until it is a task or its response has begun. */
  #call: PromotableCall | undefined;
  /** The client, until it has its response. */
  #client: ResponseSink | undefined;
  #timer: NodeJS.Timeout | undefined = undefined;
  #task: Task | undefined = undefined;
  /** Ends the call upstream, as if its client had disconnected. */
  #disconnect: (() => void) | undefined = undefined;
  /** Starts another round; undefined if there is no room for what that takes, or once the task has ended. */
  #next: { readonly input: PromotedInput; readonly repeat: PromotableCall['repeat'] } | undefined = undefined;
  /** The last member of the state of the ended task: `"result":…` or `"error":…`. */
  #end: Buffer | undefined = undefined;

  constructor(call: PromotableCall, owner: PromotedCalls, client: ResponseSink) {
    super(client);
    this.#call = call;
    this.#owner = owner;
    this.#client = client;
  }

  /** Starts the call; it becomes a task when it takes longer than the time for that. */
  start(send: (sink: ResponseSink) => void): void {
    const { afterMs, log } = this.#owner.options;
    this.#client?.onDisconnect(() => {
      if (this.#release()) this.#disconnect?.();
    });
    this.#timer = setTimeout(() => {
      this.#promote().catch((error: unknown) => log.error('task could not be stored', { error }));
    }, afterMs).unref();
    try {
      send(this);
    } catch (error) {
      // Others respond: it must not become a task.
      this.#release();
      throw error;
    }
  }

  get #status(): TaskStatus {
    return this.#task?.record.status ?? 'working';
  }

  async #promote(): Promise<void> {
    const call = this.#call;
    if (!call) return;
    const input = PromotedInput.of(call.target.message);
    const task = await this.#owner.create(this, call);
    // It has its response, or has disconnected.
    if (!this.#call) return task?.remove();
    if (!task || task.isRemoved) return;
    const client = this.#release();
    this.#task = task;
    this.#next = input && { input, repeat: call.repeat };
    if (!this.#reserveInput()) this.#clear();
    const result = { resultType: 'task', ...taskJson('modern', stateOf(task.record)) };
    client?.complete({ kind: 'result', json: JSON.stringify(result) });
    // An operator was faster.
    if (task.record.isCanceled) this.cancel();
  }

  override onDisconnect(listener: () => void): void {
    this.#disconnect = joinListeners(this.#disconnect, listener);
  }

  /** A result that is sent while it arrives is one that its client gets. */
  override startBody(length: number | undefined, isFirst: boolean): ResponseBody | undefined {
    const body = super.startBody(length, isFirst);
    if (!body) return undefined;
    this.#call = undefined;
    clearTimeout(this.#timer);
    return body;
  }

  override complete(outcome: CallOutcome): void {
    (this.#release() ?? this.inner).complete(outcome);
  }

  #onOutcome(outcome: CallOutcome): void {
    switch (outcome.kind) {
      case 'response':
        return this.#onResponse(outcome.text);
      case 'large': {
        const { bytes } = outcome;
        const isTooLarge = lengthOf(bytes) > MAX_RESULT_BYTES;
        const text = isTooLarge ? '' : textOf(bytes);
        bytes.free?.();
        return isTooLarge ? this.#fail(TOO_LARGE) : this.#onResponse(text);
      }
      case 'result':
        return this.#onResult(outcome.json);
      case 'failed':
        return this.#finish('failed', `"error":${errorJson(outcome.error)}`);
      case 'canceled':
        return this.cancel();
    }
  }

  #onResponse(text: string): void {
    const result = memberText(text, 'result');
    if (result !== undefined) this.#onResult(result);
    else this.#finish('failed', `"error":${memberText(text, 'error') ?? '{}'}`);
  }

  #onResult(result: string): void {
    const type = memberText(result, 'resultType');
    if (type === '"input_required"') return this.#requireInput(result);
    if (type === '"task"') return this.#fail('the upstream answered with a task after the call had become one');
    this.#finish('completed', `"result":${result}`);
  }

  #onNotification(data: string): void {
    const { message } = progressParams(data) ?? {};
    if (typeof message === 'string' && this.#task) report(this.#task, this.#status, message);
  }

  /** Returns the client that gets the response; undefined once the call is a task, or if the client has disconnected. */
  #release(): ResponseSink | undefined {
    const client = this.#client;
    clearTimeout(this.#timer);
    this.#client = undefined;
    // The call may take long: it must not retain the request of its client, to which later rounds do not belong.
    this.#call = undefined;
    if (client) this.#detach({ ...client.client, facts: undefined });
    return client;
  }

  #detach(client: ClientFacts): void {
    this.inner = new DetachedSink(
      client,
      (outcome) => this.#onOutcome(outcome),
      (text) => this.#onNotification(text),
    );
  }

  /** The state of the task as result of `tasks/get`. */
  state({ record }: Task): RequestOutcome {
    const { status } = record;
    const state = taskJson('modern', { ...stateOf(record), status });
    const known = JSON.stringify({ resultType: 'complete', ...state }).slice(0, -1);
    if (status === 'input_required') {
      return { kind: 'result', json: `${known},"inputRequests":${this.#next?.input.inputRequests ?? '{}'}}` };
    }
    const end = this.#end;
    if (!end) return { kind: 'result', json: `${known}}` };
    // The bytes are not copied: any number of clients may read them slowly.
    const before = [Buffer.from('{"jsonrpc":"2.0","id":')];
    const after = [Buffer.from(`,"result":${known},`), end, Buffer.from('}}')];
    const own: CallOutcome = { kind: 'large', bytes: { before, after }, value: { result: {} }, status: 200 };
    return { kind: 'deferred', start: (sink) => sink.complete(own) };
  }

  /** Takes input of the client, as JSON text. Responses under keys that are not pending are ignored. */
  update(inputResponses: string | undefined): RequestOutcome {
    if (!inputResponses?.startsWith('{')) {
      return rpcError(INVALID_PARAMS, 'parameter "inputResponses" must be an object');
    }
    const { input } = this.#next ?? {};
    if (isTerminal(this.#status) || !input) return ACKNOWLEDGED;
    if (!input.takeResponses(inputResponses)) {
      return rpcError(INVALID_PARAMS, 'members of "inputResponses" must be objects');
    }
    if (this.#status !== 'input_required') return ACKNOWLEDGED;
    if (input.isComplete) this.#repeat();
    else if (!this.#reserveInput()) this.#abandon('there is no room for its input');
    return ACKNOWLEDGED;
  }

  /** Ends the task, and the call upstream. */
  cancel(): void {
    if (!this.#task || isTerminal(this.#status)) return;
    this.#finish('cancelled');
    this.#disconnect?.();
  }

  /** Ends the task; `end` is the last member of its state. */
  #finish(status: TaskStatus, end = ''): void {
    const task = this.#task;
    if (!task || isTerminal(this.#status)) return;
    this.#clear();
    const bytes = Buffer.from(end);
    if (bytes.length > MAX_RESULT_BYTES) return this.#fail(TOO_LARGE);
    const hasRoom = this.#owner.reserve(task, bytes.length);
    if (!hasRoom && (status === 'completed' || bytes.length > MAX_FREE_BYTES)) {
      return this.#fail('there is no room for its result');
    }
    this.#end = end === '' ? undefined : bytes;
    report(task, status);
  }

  #fail(what: string): void {
    this.#finish('failed', noResult(what));
  }

  /** Fails while the call waits for input. */
  #abandon(what: string): void {
    this.#fail(what);
    this.#disconnect?.();
  }

  /** Drops what another round would take, also of the client, and the memory that is reserved. */
  #clear(): void {
    if (this.#task) this.#owner.reserve(this.#task, 0);
    const { capabilities, mcpHeaders, copiedHeaders } = NO_CLIENT;
    this.#detach({ ...this.client, capabilities, mcpHeaders, copiedHeaders });
    this.#next = undefined;
  }

  #reserveInput(): boolean {
    if (!this.#task || !this.#next) return false;
    const { capabilities, mcpHeaders, copiedHeaders } = this.client;
    const { length } = JSON.stringify([capabilities, mcpHeaders, copiedHeaders]);
    return this.#owner.reserve(this.#task, this.#next.input.size + length);
  }

  #requireInput(result: string): void {
    if (!this.#task || isTerminal(this.#status)) return;
    const { input } = this.#next ?? {};
    if (!input) return this.#fail('it requires input, and its request is too large to be continued');
    const problem = input.require(result) ?? (this.#reserveInput() ? undefined : NO_ROOM);
    if (problem !== undefined) return this.#fail(problem);
    if (input.isComplete) this.#repeat();
    else report(this.#task, 'input_required');
  }

  #repeat(): void {
    if (!this.#task || !this.#next) return;
    const { input, repeat } = this.#next;
    const message = input.nextRequest(this.client.idText);
    this.#reserveInput();
    report(this.#task, 'working');
    // The next round has listeners of its own.
    this.#disconnect = undefined;
    repeat(message, this);
  }
}

const TOO_LARGE = `its result is larger than ${MAX_RESULT_BYTES} bytes`;

/** The last member of the state of a task that has failed here. */
function noResult(what: string): string {
  return `"error":${errorJson({ code: INTERNAL_ERROR, message: `the call has no result: ${what}` })}`;
}
