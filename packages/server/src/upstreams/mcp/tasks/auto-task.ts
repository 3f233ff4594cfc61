import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { applyEdits, insertEdit, members, memberText, removeEdits } from '@sluice/protocol/json/text';
import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { parseMessage, type RequestMessage } from '@sluice/protocol/mcp/message';
import { isTerminal, type TaskStatus, taskJson } from '@sluice/protocol/mcp/tasks';
import { detach } from '@sluice/protocol/text';
import type { Target } from '../../../access/target.ts';
import { type RpcError, rpcError } from '../../../http/outcome.ts';
import { type ClientFacts, NO_CLIENT } from '../../client-facts.ts';
import type { RequestOutcome } from '../../deferred-outcome.ts';
import {
  type CallOutcome,
  DetachedSink,
  ForwardingSink,
  lengthOf,
  type ResponseBody,
  type ResponseSink,
  textOf,
} from '../../response-sink.ts';
import { RETRY_PARAMS } from '../era-translation/messages.ts';
import { stateOf, type TaskRecord } from './task-record.ts';
import { ACKNOWLEDGED } from './task-requests.ts';

/** A call that may become a task. */
export interface AutoCall {
  readonly target: Pick<Target, 'entry' | 'forward' | 'message'>;
  /** Address of its upstream or capability service. */
  readonly address: string;
  /** Starts another round of the call, with the input of the client. */
  readonly repeat: (message: RequestMessage, sink: ResponseSink) => void;
}

/** What an {@link AutoTask} needs of all of them together. */
export interface AutoTaskOwner {
  /** Stores the task of a client; undefined if that may have no more. Rejects with `StoreError`. */
  create(task: AutoTask, call: AutoCall): Promise<TaskRecord | undefined>;
  /** Removes the task of a call that does not need it after all. */
  remove(record: TaskRecord): void;
  /** The record as it is now; undefined if the task was removed. */
  current(record: TaskRecord): TaskRecord | undefined;
  /** Records the status. */
  report(record: TaskRecord, status: TaskStatus, statusMessage: string | undefined): void;
  /** Reserves memory for what the task keeps, in place of what it has; false if there is none. */
  reserve(record: TaskRecord, bytes: number): boolean;
  onError(error: unknown): void;
}

/** Time between polls that clients are advised to wait, in milliseconds. */
export const POLL_INTERVAL_MS = 1_000;
/** Longest result, and longest part of the request and its questions, in bytes. */
const MAX_RESULT_BYTES = 16 * 1024 * 1024;
const MAX_REQUEST_BYTES = 1024 * 1024;
/** Errors up to this size are reported even if there is no room for them, in bytes. */
const MAX_FREE_BYTES = 512;
/** Maximum number of times that an upstream may require input. */
const MAX_ROUNDS = 100;

/**
 * A call of a client that declares the tasks extension to a tool with the label `service.task=auto`. Until it has taken a
 * certain time it is an ordinary one; then its client gets a task, and the call continues. Its result is kept here until the
 * task is removed. If it requires input after that, the task does, and the call continues with a retry, as it would for any
 * modern client.
 */
export class AutoTask extends ForwardingSink {
  /** The call, until it is a task. */
  #call: AutoCall | undefined;
  readonly #owner: AutoTaskOwner;
  /** The client, until it has its response. */
  #client: ResponseSink | undefined;
  #timer: NodeJS.Timeout | undefined = undefined;
  #hasBody = false;
  /** Set once the call is a task. */
  #record: TaskRecord | undefined = undefined;
  /** Ends the call upstream, as if its client had disconnected. */
  #disconnect: (() => void) | undefined = undefined;
  /** What another round takes; undefined if there is no room for it, or once the task has ended. */
  #continuation: Continuation | undefined = undefined;
  #round = 0;
  /** Pending requests for input by the key that the client knows: the upstream's own key, and the request as JSON text. */
  readonly #inputs = new Map<string, { readonly key: string; readonly text: string }>();
  /** Members of the `inputResponses` of the next round. */
  #inputResponses: string[] = [];
  /** The `requestState` of the next round, as JSON text. */
  #requestState: string | undefined = undefined;
  /** The last member of the state of the ended task: `"result":…` or `"error":…`. */
  #end: Buffer | undefined = undefined;
  #status: TaskStatus = 'working';

  constructor(call: AutoCall, owner: AutoTaskOwner, client: ResponseSink) {
    super(client);
    this.#call = call;
    this.#owner = owner;
    this.#client = client;
  }

  /** Starts the call by `send`; it becomes a task when it takes longer than `afterMs`. */
  start(send: (sink: ResponseSink) => void, afterMs: number): void {
    this.#client?.onDisconnect(() => {
      if (!this.#client) return;
      this.#release();
      this.#disconnect?.();
    });
    this.#timer = setTimeout(() => {
      this.#becomeTask().catch((error: unknown) => this.#owner.onError(error));
    }, afterMs).unref();
    send(this);
  }

  async #becomeTask(): Promise<void> {
    if (!this.#client || this.#hasBody || !this.#call) return;
    const call = this.#call;
    const { message } = call.target;
    const { length } = message.bytes ?? message.text;
    const params = length <= MAX_REQUEST_BYTES ? memberText(message.text, 'params') : undefined;
    const record = await this.#owner.create(this, call);
    if (!record) return;
    // It has its response, or has disconnected.
    if (!this.#client || this.#hasBody) return this.#owner.remove(record);
    const current = this.#owner.current(record);
    if (!current) return;
    const client = this.#release();
    this.#record = record;
    // The call may take long: it must not retain the request of its client.
    this.#call = undefined;
    const { capabilities, mcpHeaders, copiedHeaders } = this.client;
    const clientSize = JSON.stringify([capabilities, mcpHeaders, copiedHeaders]).length;
    if (params !== undefined && this.#owner.reserve(record, params.length + clientSize)) {
      const edits = removeEdits(params, 0, (key) => RETRY_PARAMS.includes(key));
      this.#continuation = { params: detach(applyEdits(params, edits)), clientSize, repeat: call.repeat };
    } else this.#forgetClient();
    const result = { resultType: 'task', ...taskJson('modern', stateOf(record)) };
    client?.complete({ kind: 'result', json: JSON.stringify(result) });
    // An operator was faster.
    if (current.isCanceled) this.cancel();
  }

  // The response to the call.

  override onDisconnect(listener: () => void): void {
    this.#disconnect = listener;
  }

  /** A result that is sent while it arrives is one that its client gets. */
  override startBody(length: number | undefined, isFirst: boolean): ResponseBody | undefined {
    const body = super.startBody(length, isFirst);
    if (!body) return undefined;
    this.#hasBody = true;
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
        return isTooLarge ? this.#fail(`its result is larger than ${MAX_RESULT_BYTES} bytes`) : this.#onResponse(text);
      }
      case 'result':
        return this.#onResult(outcome.json);
      case 'failed':
        return this.#onFailed(errorMembers(outcome.error));
      case 'canceled':
        return this.cancel();
    }
  }

  #onResponse(text: string): void {
    const result = memberText(text, 'result');
    if (result !== undefined) this.#onResult(result);
    else this.#onFailed(memberText(text, 'error') ?? '{}');
  }

  // The task.

  /** The state of the task as result of `tasks/get`; the record is that of now. */
  state(record: TaskRecord): RequestOutcome {
    const state = taskJson('modern', { ...stateOf(record), status: this.#status });
    const known = JSON.stringify({ resultType: 'complete', ...state }).slice(0, -1);
    if (this.#status === 'input_required') {
      const requests = Array.from(this.#inputs, ([key, { text }]) => `${JSON.stringify(key)}:${text}`);
      return { kind: 'result', json: `${known},"inputRequests":{${requests.join(',')}}}` };
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
    if (isTerminal(this.#status)) return ACKNOWLEDGED;
    const given = [...members(inputResponses)].map(
      ({ key, start, end }) => [key, inputResponses.slice(start, end)] as const,
    );
    if (given.some(([key, text]) => this.#inputs.has(key) && !text.startsWith('{'))) {
      return rpcError(INVALID_PARAMS, 'members of "inputResponses" must be objects');
    }
    for (const [key, text] of given) {
      const input = this.#inputs.get(key);
      if (!input) continue;
      this.#inputs.delete(key);
      this.#inputResponses.push(detach(`${JSON.stringify(input.key)}:${text}`));
    }
    if (this.#status !== 'input_required') return ACKNOWLEDGED;
    if (this.#inputs.size === 0) this.#repeat();
    else if (!this.#reserveRound()) this.#abandon('there is no room for its input');
    return ACKNOWLEDGED;
  }

  /** Ends the task, and the call upstream. */
  cancel(): void {
    if (!this.#record || isTerminal(this.#status)) return;
    this.#clear();
    this.#set('cancelled');
    this.#disconnect?.();
  }

  /** Drops what it keeps: others need the place. */
  displace(): void {
    const problem = 'it made room for the tasks of others';
    if (this.#status === 'input_required') return this.#abandon(problem);
    this.#clear();
    // It continues, but cannot get input.
    if (this.#status === 'working' || this.#status === 'cancelled') return;
    this.#end = errorOf(problem);
    this.#status = 'failed';
  }

  /** Returns the client that gets the response; undefined once the call is a task, or if the client has disconnected. */
  #release(): ResponseSink | undefined {
    const client = this.#client;
    clearTimeout(this.#timer);
    if (!client) return undefined;
    this.#client = undefined;
    // Later rounds belong to no request of the client.
    this.#detach({ ...client.client, facts: undefined });
    return client;
  }

  #detach(client: ClientFacts): void {
    this.inner = new DetachedSink(
      client,
      (outcome) => this.#onOutcome(outcome),
      (text) => this.#onNotification(text),
    );
  }

  /** Drops what only another round needs of the client. */
  #forgetClient(): void {
    const { capabilities, mcpHeaders, copiedHeaders } = NO_CLIENT;
    this.#detach({ ...this.client, capabilities, mcpHeaders, copiedHeaders });
  }

  /** Messages of progress become those of the task. */
  #onNotification(data: string): void {
    const value = tryParseJson(data);
    if (!isJsonObject(value) || value.method !== 'notifications/progress' || !isJsonObject(value.params)) return;
    const { message } = value.params;
    if (typeof message === 'string' && this.#record) this.#owner.report(this.#record, this.#status, message);
  }

  #onResult(result: string): void {
    const type = memberText(result, 'resultType');
    if (type === '"input_required"') return this.#requireInput(result);
    if (type === '"task"') return this.#fail('the upstream answered with a task after the call had become one');
    this.#finish('completed', `"result":${result}`);
  }

  #onFailed(error: string): void {
    this.#finish('failed', `"error":${error}`);
  }

  #fail(what: string): void {
    this.#clear();
    if (!isTerminal(this.#status)) this.#end = errorOf(what);
    this.#set('failed');
  }

  /** Fails while the call waits for input. */
  #abandon(what: string): void {
    this.#fail(what);
    this.#disconnect?.();
  }

  #finish(status: 'completed' | 'failed', end: string): void {
    const record = this.#record;
    if (!record || isTerminal(this.#status)) return;
    this.#clear();
    const bytes = Buffer.from(end);
    if (bytes.length > MAX_RESULT_BYTES) return this.#fail(`its result is larger than ${MAX_RESULT_BYTES} bytes`);
    const hasRoom = this.#owner.reserve(record, bytes.length);
    if (!hasRoom && (status === 'completed' || bytes.length > MAX_FREE_BYTES)) {
      return this.#fail('there is no room for its result');
    }
    this.#end = bytes;
    this.#set(status);
  }

  /** Drops what another round would take, and the memory that is reserved. */
  #clear(): void {
    if (this.#record) this.#owner.reserve(this.#record, 0);
    if (this.#continuation) this.#forgetClient();
    this.#continuation = undefined;
    this.#inputs.clear();
    this.#inputResponses = [];
    this.#requestState = undefined;
  }

  /** Reserves memory for what another round takes. */
  #reserveRound(): boolean {
    if (!this.#record) return false;
    const inputs = this.#inputs.entries().flatMap(([key, { text }]) => [key, text]);
    const texts = [this.#continuation?.params, this.#requestState, ...this.#inputResponses, ...inputs];
    return this.#owner.reserve(
      this.#record,
      texts.reduce((sum, text) => sum + (text?.length ?? 0), this.#continuation?.clientSize ?? 0),
    );
  }

  #requireInput(result: string): void {
    if (!this.#record || isTerminal(this.#status)) return;
    const requests = memberText(result, 'inputRequests') ?? '{}';
    const requestState = memberText(result, 'requestState');
    if (!this.#continuation) return this.#fail('it requires input, and its request is too large to be continued');
    if (++this.#round > MAX_ROUNDS) return this.#fail(`the upstream required input more than ${MAX_ROUNDS} times`);
    if (!requests.startsWith('{')) return this.#fail('the upstream sent inputRequests that are not an object');
    if (requests.length <= MAX_REQUEST_BYTES) {
      this.#requestState = requestState && detach(requestState);
      const own = detach(requests);
      for (const { key, start, end } of members(own)) {
        this.#inputs.set(this.#keyOf(key), { key, text: own.slice(start, end) });
      }
    }
    if (requests.length > MAX_REQUEST_BYTES || !this.#reserveRound()) {
      return this.#fail('there is no room for its requests for input');
    }
    if (this.#inputs.size === 0) this.#repeat();
    else this.#set('input_required');
  }

  /** The key that the client knows an input by: unique for the life of the task. */
  #keyOf(key: string): string {
    return this.#round === 1 && !/#\d+$/.test(key) ? key : `${key}#${this.#round}`;
  }

  /** Continues the call with the input. */
  #repeat(): void {
    if (!this.#continuation) return;
    const { params, repeat } = this.#continuation;
    const more = [
      ...(this.#inputResponses.length > 0 ? [`"inputResponses":{${this.#inputResponses.join(',')}}`] : []),
      ...(this.#requestState === undefined ? [] : [`"requestState":${this.#requestState}`]),
    ].join(',');
    const sent = more === '' ? params : applyEdits(params, [insertEdit(params, 0, more)]);
    const text = `{"jsonrpc":"2.0","id":${this.client.idText},"method":"tools/call","params":${sent}}`;
    this.#inputResponses = [];
    this.#requestState = undefined;
    this.#reserveRound();
    this.#set('working');
    const parsed = parseMessage(Buffer.from(text));
    if (parsed.kind !== 'request') return this.#fail('the input could not be sent');
    repeat(parsed, this);
  }

  #set(status: TaskStatus): void {
    if (!this.#record || isTerminal(this.#status)) return;
    this.#status = status;
    this.#owner.report(this.#record, status, this.#owner.current(this.#record)?.statusMessage);
  }
}

/** What another round of a call takes. */
interface Continuation extends Pick<AutoCall, 'repeat'> {
  /** Params of its request, as JSON text. */
  readonly params: string;
  /** Size of what it needs of the client, in characters. */
  readonly clientSize: number;
}

/** An error as JSON text. */
function errorMembers({ code, message, data }: RpcError): string {
  return `{"code":${code},"message":${JSON.stringify(message)}${data === undefined ? '' : `,"data":${data}`}}`;
}

/** The last member of the state of a task that has failed here. */
function errorOf(what: string): Buffer {
  const error = { code: INTERNAL_ERROR, message: `the call has no result: ${what}` };
  return Buffer.from(`"error":${JSON.stringify(error)}`);
}
