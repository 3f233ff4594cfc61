import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import type { RpcError } from '../../../http/outcome.ts';
import { NO_CLIENT } from '../../client-facts.ts';
import { type CallOutcome, DetachedSink, textOf } from '../../response-sink.ts';
import type { CallDeps, CallSpec, ResponseRewriter } from './call-spec.ts';
import { RelayedCall } from './relayed-call.ts';

/** What an upstream responds to a request of our own. */
export type Reply = ReplyResult | ReplyError;

export interface ReplyResult {
  readonly kind: 'result';
  /** The members that a large message stores. */
  readonly value: JsonObject;
  /** Returns the result as JSON text. */
  text(): string;
  /** True for a large response, whose text is not to be scanned without need. */
  readonly isLarge: boolean;
  /** The member `result` of a large one, as JSON text. */
  readonly inlined: string | undefined;
}

/** An error, which is also an outcome. */
export interface ReplyError {
  readonly kind: 'error';
  readonly error: RpcError;
  /** The error of the upstream as JSON text; undefined if there was no response. */
  readonly text: string | undefined;
}

/** Sends the request of a spec, on behalf of no client, and returns what the upstream responds; never rejects. */
export function collect(context: CallDeps, spec: CallSpec, namespace: string | undefined): Promise<Reply> {
  const { promise, resolve } = Promise.withResolvers<Reply>();
  let inlined: string | undefined;
  const rewriter: ResponseRewriter = {
    rewrite: () => undefined,
    rewriteLarge({ members, textOf: textOfMember }) {
      const result = members?.find(({ key }) => key === 'result');
      inlined = result && textOfMember(result);
      return [];
    },
  };
  const onOutcome = (outcome: CallOutcome) => resolve(replyOf(outcome, inlined, spec.failure));
  new RelayedCall(context, { ...spec, rewriter }, new DetachedSink({ ...NO_CLIENT, namespace }, onOutcome)).start();
  return promise;
}

function replyOf(outcome: CallOutcome, inlined: string | undefined, failure: string): Reply {
  if (outcome.kind !== 'response' && outcome.kind !== 'large') {
    const message = outcome.kind === 'failed' ? outcome.error.message : `${failure}: request canceled`;
    return { kind: 'error', error: { code: INTERNAL_ERROR, message }, text: undefined };
  }
  const isLarge = outcome.kind === 'large';
  const { result, error } = outcome.value;
  const member = (key: string) => memberText(isLarge ? textOf(outcome.bytes) : outcome.text, key) ?? '{}';
  if (isJsonObject(error)) return errorOf(member('error'), error);
  return { kind: 'result', value: isJsonObject(result) ? result : {}, isLarge, inlined, text: () => member('result') };
}

function errorOf(text: string, { code, message }: JsonObject): ReplyError {
  const data = memberText(text, 'data');
  const known = typeof code === 'number' ? code : INTERNAL_ERROR;
  const error = { code: known, message: typeof message === 'string' ? message : '' };
  return { kind: 'error', error: data === undefined ? error : { ...error, data }, text };
}
