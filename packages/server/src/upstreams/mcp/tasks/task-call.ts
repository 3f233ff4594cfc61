import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import { parseMessage } from '@sluice/protocol/mcp/message';
import { NO_CLIENT } from '../../client-facts.ts';
import { type CallOutcome, DetachedSink, textOf } from '../../response-sink.ts';
import type { CallContext, CallPlan } from '../relay/call-plan.ts';
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
    upstream,
    edits: [],
    needsTranslation: false,
    openSession: () => request.openSession(),
    failure: TASK_FAILURE,
    forward: upstream.forward,
  };
}

/** Sends the request of such a plan; never rejects. */
export function callTask(context: CallContext, plan: CallPlan): Promise<TaskReply> {
  const { promise, resolve } = Promise.withResolvers<TaskReply>();
  const sink = new DetachedSink(NO_CLIENT, (outcome) => resolve(replyOf(outcome)));
  new RelayedCall(context, plan, sink).start();
  return promise;
}

function replyOf(outcome: CallOutcome): TaskReply {
  switch (outcome.kind) {
    case 'response': {
      const { text, value } = outcome;
      const { result, error } = value;
      if (isJsonObject(error)) {
        const code = typeof error.code === 'number' ? error.code : undefined;
        return { kind: 'error', code, value: error, error: memberText(text, 'error') ?? '{}' };
      }
      return {
        kind: 'result',
        value: objectOf(result),
        isLarge: false,
        text: () => memberText(text, 'result') ?? '{}',
      };
    }
    case 'large': {
      const text = () => memberText(textOf(outcome.bytes), 'result') ?? '{}';
      return { kind: 'result', value: objectOf(outcome.value.result), isLarge: true, text };
    }
    case 'failed':
      return { kind: 'failed', message: outcome.error.message };
    default:
      return { kind: 'failed', message: `${TASK_FAILURE}: request canceled` };
  }
}

function objectOf(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}
