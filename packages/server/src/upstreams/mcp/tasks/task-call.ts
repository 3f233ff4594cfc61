import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import { parseMessage } from '@sluice/protocol/mcp/message';
import type { RpcError } from '../../../http/outcome.ts';
import { ANONYMOUS } from '../../../identity/principal.ts';
import { CallObserver } from '../../../telemetry/call-observer.ts';
import type { CallResponse, ResponseBytes } from '../../downstream.ts';
import type { CallContext, CallPlan, ResponseRewriter } from '../relay/call-plan.ts';
import type { ByteEdit, ResultPositions } from '../relay/large-message.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import type { Upstream, UpstreamSession } from '../upstream.ts';
import { type TaskRequest, taskHeaders, taskMessage } from './task-requests.ts';

/** Response of an upstream to a request about a task. */
export type TaskReply =
  | {
      readonly kind: 'result';
      /** The members that a large message stores. */
      readonly value: JsonObject;
      /** Returns the result as JSON text. */
      text(): string;
      /** True for a large response, whose text is not to be scanned without need. */
      readonly isLarge: boolean;
    }
  /** `error` is `value` as JSON text. */
  | { readonly kind: 'error'; readonly code: number | undefined; readonly value: JsonObject; readonly error: string }
  /** There was no response. */
  | { readonly kind: 'failed'; readonly message: string };

/** A request about a task that is sent as a call: the response may be large, and the upstream may send requests meanwhile. */
export interface TaskCallRequest extends TaskRequest {
  readonly upstream: Upstream;
  /** Headers that the client's own requests would have: names and values, alternating. */
  readonly headers: readonly string[];
  openSession(): UpstreamSession | Promise<UpstreamSession>;
}

/** Prefix of the messages of failed requests about tasks. */
export const TASK_FAILURE = 'forwarded request failed';

/** Returns the plan of such a request, on behalf of no client. */
export function taskCallPlan(request: TaskCallRequest): CallPlan {
  const { upstream, era, upstreamId, method, headers } = request;
  const message = parseMessage(Buffer.from(taskMessage(request, 0)));
  if (message.kind !== 'request') throw new Error('invalid request about a task');
  return {
    message,
    capabilities: {},
    headers: [...headers, ...taskHeaders(era, method, upstreamId)],
    trace: undefined,
    streams: false,
    json: true,
    upstream,
    edits: [],
    progressToken: undefined,
    rewriter: undefined,
    needsTranslation: false,
    serverRequests: undefined,
    openSession: () => request.openSession(),
    observer: new CallObserver(),
    summary: undefined,
    failure: TASK_FAILURE,
    forward: upstream.forward,
    namespace: undefined,
    entry: undefined,
    principal: ANONYMOUS,
    clientAddress: undefined,
    tasks: undefined,
    // The end of a connection to the client does not end the request.
    era: 'legacy',
    session: undefined,
  };
}

/** Sends the request of such a plan; never rejects. */
export function callTask(context: CallContext, plan: CallPlan): Promise<TaskReply> {
  const { promise, resolve } = Promise.withResolvers<TaskReply>();
  const response = new CollectedResponse(resolve);
  new RelayedCall(context, { ...plan, rewriter: response }, response).start();
  return promise;
}

/** Collects the response to a request of our own. */
class CollectedResponse implements CallResponse, ResponseRewriter {
  readonly idText = '0';
  readonly isStreaming = false;
  readonly #onReply: (reply: TaskReply) => void;
  #value: JsonObject = {};

  constructor(onReply: (reply: TaskReply) => void) {
    this.#onReply = onReply;
  }

  onRejected(): void {}
  onDisconnect(): void {}
  onDrain(): void {}
  beginStream(): void {}
  sendEvent(): boolean {
    return true;
  }
  disconnect(): void {}

  rewrite(_text: string, value: JsonObject): undefined {
    this.#value = value;
  }

  rewriteLarge(_result: ResultPositions, value: JsonObject): readonly ByteEdit[] {
    this.#value = value;
    return [];
  }

  sendResponse(text: string): void {
    const { result, error } = this.#value;
    if (isJsonObject(error)) {
      const code = typeof error.code === 'number' ? error.code : undefined;
      return this.#onReply({ kind: 'error', code, value: error, error: memberText(text, 'error') ?? '{}' });
    }
    const value = isJsonObject(result) ? result : {};
    this.#onReply({ kind: 'result', value, isLarge: false, text: () => memberText(text, 'result') ?? '{}' });
  }

  sendBytes({ before, after }: ResponseBytes): void {
    const { result } = this.#value;
    const text = () => {
      const message = Buffer.concat([...before, Buffer.from(this.idText), ...after]).toString();
      return memberText(message, 'result') ?? '{}';
    };
    this.#onReply({ kind: 'result', value: isJsonObject(result) ? result : {}, isLarge: true, text });
  }

  sendError({ message }: RpcError): void {
    this.#onReply({ kind: 'failed', message });
  }

  endWithoutResponse(): void {
    this.#onReply({ kind: 'failed', message: `${TASK_FAILURE}: request canceled` });
  }
}
