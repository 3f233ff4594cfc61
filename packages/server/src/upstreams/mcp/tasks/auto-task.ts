import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { applyEdits, insertEdit, members, memberText, removeEdits } from '@sluice/protocol/json/text';
import { acceptsJson } from '@sluice/protocol/mcp/accept';
import { INTERNAL_ERROR, INVALID_PARAMS, META_CLIENT_CAPABILITIES } from '@sluice/protocol/mcp/constants';
import { parseMessage, type RequestMessage } from '@sluice/protocol/mcp/message';
import { isTerminal, type TaskStatus, taskJson } from '@sluice/protocol/mcp/tasks';
import { detach } from '@sluice/protocol/text';
import { type Outcome, type RpcError, rpcError } from '../../../http/outcome.ts';
import type { Caller, CallOutcome, CallResponse, ClientResponse, DeferredOutcome } from '../../downstream.ts';
import { RETRY_PARAMS } from '../era-translation/messages.ts';
import { stateOf, type TaskRecord } from './task-record.ts';
import { ACKNOWLEDGED } from './task-requests.ts';

/** A call that may become a task. */
export interface AutoCall {
  readonly caller: Caller;
  readonly message: RequestMessage;
  /** Returns the outcome of another round of the call, with the input of the client. */
  readonly repeat: (caller: Caller, message: RequestMessage) => CallOutcome;
}

/** What an {@link AutoTask} needs of the store of all. */
export interface AutoTaskStore {
  /** Stores the task of a caller; undefined if that may have no more. Rejects with `StoreError`. */
  create(task: AutoTask, caller: Caller): Promise<TaskRecord | undefined>;
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
 * certain time it is an ordinary one; then its client gets a task, and the call goes on. Its result is kept here until the
 * task is removed. If it requires input after that, the task does, and the call continues with a retry, as it would for any
 * modern client.
 */
export class AutoTask implements ClientResponse {
  readonly idText: string;
  /** The call, until it is a task. */
  #call: AutoCall | undefined;
  readonly #store: AutoTaskStore;
  /** The client, until it has its response. */
  #client: ClientResponse | undefined;
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
  #answers: string[] = [];
  /** The `requestState` of the next round, as JSON text. */
  #requestState: string | undefined = undefined;
  /** The last member of the state of the ended task: `"result":…` or `"error":…`. */
  #end: Buffer | undefined = undefined;
  #status: TaskStatus = 'working';

  constructor(call: AutoCall, store: AutoTaskStore, client: ClientResponse) {
    this.#call = call;
    this.#store = store;
    this.#client = client;
    this.idText = client.idText;
  }

  /** Starts the call; it becomes a task when it takes longer than `afterMs`. */
  start(outcome: DeferredOutcome, afterMs: number): void {
    this.#client?.onDisconnect(() => {
      if (!this.#client) return;
      this.#release();
      this.#disconnect?.();
    });
    this.#timer = setTimeout(() => {
      this.#becomeTask().catch((error: unknown) => this.#store.onError(error));
    }, afterMs).unref();
    outcome.start(this);
  }

  async #becomeTask(): Promise<void> {
    if (!this.#client || this.#hasBody || !this.#call) return;
    const { message, caller, repeat } = this.#call;
    const { length } = message.bytes ?? message.text;
    const params = length <= MAX_REQUEST_BYTES ? memberText(message.text, 'params') : undefined;
    const record = await this.#store.create(this, caller);
    if (!record) return;
    const client = this.#client;
    // It has its response, or has disconnected.
    if (!client || this.#hasBody) return this.#store.remove(record);
    const current = this.#store.current(record);
    if (!current) return;
    this.#client = undefined;
    this.#record = record;
    // The call may take long: it must not retain the request of its client.
    this.#call = undefined;
    if (params !== undefined && this.#store.reserve(record, params.length)) {
      const edits = removeEdits(params, 0, (key) => RETRY_PARAMS.includes(key));
      this.#continuation = { caller: withoutRequest(caller), params: detach(applyEdits(params, edits)), repeat };
    }
    const result = { resultType: 'task', ...taskJson('modern', stateOf(record)) };
    client.sendCallResult(JSON.stringify(result), acceptsJson(caller.headers.accept));
    // An operator was faster.
    if (current.isCanceled) this.cancel();
  }

  // The response to the call.

  get isStreaming(): boolean {
    return this.#client?.isStreaming ?? true;
  }

  onDisconnect(listener: () => void): void {
    this.#disconnect = listener;
  }

  /** Nothing is sent any more once the call is a task, so that nothing has to be waited for. */
  onDrain(listener: () => void): void {
    if (this.#client) this.#client.onDrain(listener);
    else queueMicrotask(listener);
  }

  beginStream(): void {
    this.#client?.beginStream();
  }

  sendEvent(data: string): boolean {
    if (this.#client) return this.#client.sendEvent(data);
    this.#onNotification(data);
    return true;
  }

  disconnect(retryMs: number): void {
    this.#client?.disconnect(retryMs);
  }

  /** A result that is sent while it arrives is one that its client gets. */
  get beginBody(): CallResponse['beginBody'] {
    const client = this.#client;
    if (!client?.beginBody) return undefined;
    return (length) => {
      this.#hasBody = true;
      clearTimeout(this.#timer);
      return client.beginBody?.(length) ?? { write: () => true, end: () => undefined };
    };
  }

  sendResponse(...response: Parameters<CallResponse['sendResponse']>): void {
    const client = this.#release();
    if (client) return client.sendResponse(...response);
    const [text] = response;
    const result = memberText(text, 'result');
    if (result !== undefined) this.#onResult(result);
    else this.#onFailed(memberText(text, 'error') ?? '{}');
  }

  sendBytes(...response: Parameters<CallResponse['sendBytes']>): void {
    const client = this.#release();
    if (client) return client.sendBytes(...response);
    const [{ before, after, free }, failed, , status, json] = response;
    const size = [...before, ...after].reduce((sum, { length }) => sum + length, 0);
    const text =
      size > MAX_RESULT_BYTES ? undefined : Buffer.concat([...before, Buffer.from('0'), ...after]).toString();
    free?.();
    if (text === undefined) this.#fail(`its result is larger than ${MAX_RESULT_BYTES} bytes`);
    else this.sendResponse(text, failed, status, json);
  }

  sendError(error: RpcError, status?: number): void {
    const client = this.#release();
    if (client) return client.sendError(error, status);
    const { code, message, data } = error;
    this.#onFailed(
      `{"code":${code},"message":${JSON.stringify(message)}${data === undefined ? '' : `,"data":${data}`}}`,
    );
  }

  endWithoutResponse(acceptsEventStream: boolean): void {
    this.#release()?.endWithoutResponse(acceptsEventStream);
    this.cancel();
  }

  sendResult(json: string): void {
    const client = this.#release();
    if (client) client.sendResult(json);
    else this.#onResult(json);
  }

  sendCallResult(json: string, isJsonAccepted: boolean): void {
    const client = this.#release();
    if (client) client.sendCallResult(json, isJsonAccepted);
    else this.#onResult(json);
  }

  // The task.

  /** The state of the task as result of `tasks/get`; the record is that of now. */
  state(record: TaskRecord): CallOutcome {
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
    const start = (response: CallResponse) => response.sendBytes({ before, after }, false, undefined, 200, true);
    return { kind: 'deferred', start };
  }

  /** Takes input of the client, as JSON text. Responses under keys that are not pending are ignored. */
  update(inputResponses: string | undefined): Outcome {
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
      this.#answers.push(detach(`${JSON.stringify(input.key)}:${text}`));
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
    // It goes on, but cannot get input.
    if (this.#status === 'working' || this.#status === 'cancelled') return;
    this.#end = errorOf(problem);
    this.#status = 'failed';
  }

  /** Returns the client that gets the response; undefined once the call is a task, or if the client has disconnected. */
  #release(): ClientResponse | undefined {
    const client = this.#client;
    clearTimeout(this.#timer);
    this.#client = undefined;
    return client;
  }

  /** Messages of progress become those of the task. */
  #onNotification(data: string): void {
    const value = tryParseJson(data);
    if (!isJsonObject(value) || value.method !== 'notifications/progress' || !isJsonObject(value.params)) return;
    const { message } = value.params;
    if (typeof message === 'string' && this.#record) this.#store.report(this.#record, this.#status, message);
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
    const hasRoom = this.#store.reserve(record, bytes.length);
    if (!hasRoom && (status === 'completed' || bytes.length > MAX_FREE_BYTES)) {
      return this.#fail('there is no room for its result');
    }
    this.#end = bytes;
    this.#set(status);
  }

  /** Drops what another round would take, and the memory that is reserved. */
  #clear(): void {
    if (this.#record) this.#store.reserve(this.#record, 0);
    this.#continuation = undefined;
    this.#inputs.clear();
    this.#answers = [];
    this.#requestState = undefined;
  }

  /** Reserves memory for what another round takes. */
  #reserveRound(): boolean {
    if (!this.#record) return false;
    const inputs = this.#inputs.entries().flatMap(([key, { text }]) => [key, text]);
    const texts = [this.#continuation?.params, this.#requestState, ...this.#answers, ...inputs];
    return this.#store.reserve(
      this.#record,
      texts.reduce((sum, text) => sum + (text?.length ?? 0), 0),
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
    const { params, caller, repeat } = this.#continuation;
    const more = [
      ...(this.#answers.length > 0 ? [`"inputResponses":{${this.#answers.join(',')}}`] : []),
      ...(this.#requestState === undefined ? [] : [`"requestState":${this.#requestState}`]),
    ].join(',');
    const sent = more === '' ? params : applyEdits(params, [insertEdit(params, 0, more)]);
    const text = `{"jsonrpc":"2.0","id":${this.idText},"method":"tools/call","params":${sent}}`;
    this.#answers = [];
    this.#requestState = undefined;
    this.#reserveRound();
    this.#set('working');
    const parsed = parseMessage(Buffer.from(text));
    if (parsed.kind !== 'request') return this.#fail('the input could not be sent');
    const { _meta } = parsed.params;
    const capabilities = isJsonObject(_meta) ? _meta[META_CLIENT_CAPABILITIES] : undefined;
    const outcome = repeat({ ...caller, ...(isJsonObject(capabilities) && { capabilities }) }, parsed);
    if (outcome.kind === 'deferred') outcome.start(this);
    else if (outcome.kind === 'error') this.sendError(outcome.error);
    else if (outcome.kind === 'result') this.#onResult(outcome.json.toString());
    else this.#fail('the input could not be sent');
  }

  #set(status: TaskStatus): void {
    if (!this.#record || isTerminal(this.#status)) return;
    this.#status = status;
    this.#store.report(this.#record, status, this.#store.current(this.#record)?.statusMessage);
  }
}

/** What another round of a call takes. */
interface Continuation extends Pick<AutoCall, 'caller' | 'repeat'> {
  /** Params of its request, as JSON text. */
  readonly params: string;
}

/** The last member of the state of a task that has failed here. */
function errorOf(what: string): Buffer {
  const error = { code: INTERNAL_ERROR, message: `the call has no result: ${what}` };
  return Buffer.from(`"error":${JSON.stringify(error)}`);
}

/** The caller of a later round, which belongs to no request of the client. Its capabilities are in the params. */
function withoutRequest({ namespace, era, headers, principal, correlation }: Caller): Caller {
  return {
    namespace: namespace && { name: namespace.name },
    era,
    headers,
    session: undefined,
    principal,
    capabilities: {},
    correlation,
    head: undefined,
    facts: undefined,
  };
}
