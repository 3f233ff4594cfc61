import type { ToolCallVerdict } from '@sluice/contract';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { truncateBytes } from '@sluice/protocol/text';
import type { BusyError } from '../http/fair-queue.ts';
import { type ErrorOutcome, rpcError } from '../http/outcome.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { EvaluatorDecision, EvaluatorFailure } from '../telemetry/metrics/service-metrics.ts';
import type { EvaluationInput } from './context.ts';
import type { ActionResponse } from './sandbox/action.ts';

/** JSON-RPC codes that are reserved for evaluators. */
const BLOCKED = -32001;
const MALFORMED = -32002;
/** JSON-RPC: server error. Of a request for whose evaluation there is no room. */
export const BUSY = -32000;

/** Longest warning in the log and in metadata. */
const MAX_WARNING_BYTES = 4096;

/** Verdict of an evaluator: run the next evaluator, pass without further evaluators, or reject the request. */
export type Verdict =
  | { readonly kind: 'continue' }
  | { readonly kind: 'stop' }
  | { readonly kind: 'reject'; readonly outcome: ErrorOutcome };

type Rejection = Exclude<EvaluatorDecision, ToolCallVerdict>;

/** A verdict and the decision that metrics count. */
type Decision =
  | (Exclude<Verdict, { readonly kind: 'reject' }> & { readonly decision: Exclude<EvaluatorDecision, Rejection> })
  | (Extract<Verdict, { readonly kind: 'reject' }> & { readonly decision: Rejection });

/**
 * Applies the response of an action to the request. Without a response the request passes. `log`: logger of the evaluation.
 */
export function applyResponse(
  response: ActionResponse | undefined,
  evaluator: string,
  input: Pick<EvaluationInput, 'metadata' | 'selection'>,
  log: Pick<TargetLogger, 'warn'>,
): Decision {
  const { metadata } = input;
  switch (response?.kind) {
    case undefined:
    case 'pass':
      return { kind: 'continue', decision: 'pass' };
    case 'block':
      return reject(BLOCKED, response.reason, evaluator, 'block');
    case 'reject_malformed':
      return reject(MALFORMED, response.reason, evaluator, 'reject_malformed');
    case 'warn': {
      const message = truncateBytes(response.message, MAX_WARNING_BYTES);
      log.warn('action warning', { message });
      metadata.set(`service.evaluator.${evaluator}.warning`, message);
      return { kind: 'continue', decision: 'warn' };
    }
    case 'filter_tools':
      if (ignoredReason(response, metadata.get('mcp.method')) !== undefined) {
        log.warn('action filter ignored: the request does not list tools');
        return { kind: 'continue', decision: 'pass' };
      }
      input.selection = new Set(response.tools);
      return { kind: 'stop', decision: 'filter_tools' };
    case 'set_metadata': {
      const { key, value } = response;
      const problem = metadataProblem(key, value);
      if (problem === undefined) metadata.set(key, value);
      // Without the value, which may be confidential.
      else log.warn('action metadata ignored', { key: truncateBytes(key, MAX_KEY_BYTES), problem });
      return { kind: 'continue', decision: 'set_metadata' };
    }
  }
}

/** Response to a request that an evaluator with `on_error: block` failed to evaluate. */
export function failureOutcome(evaluator: string, kind: Exclude<EvaluatorFailure, 'busy'>): ErrorOutcome {
  const what = kind === 'llm_failure' ? 'llm operation failed' : 'processor execution failed';
  return rpcError(INTERNAL_ERROR, `evaluator ${what}`, undefined, { evaluator, kind });
}

/** Response to a request for whose evaluation there is no room. */
export function busyOutcome({ retryAfterMs }: BusyError): ErrorOutcome {
  return rpcError(BUSY, 'evaluator busy', undefined, { kind: 'busy', retry_after_ms: retryAfterMs });
}

function reject(code: number, reason: string, evaluator: string, kind: 'block' | 'reject_malformed'): Decision {
  return { kind: 'reject', decision: kind, outcome: rpcError(code, reason, undefined, { evaluator, kind }) };
}

/**
 * Returns why a response to a request with this method is ignored and the request passes; undefined if the response is applied.
 */
export function ignoredReason(response: ActionResponse | undefined, method: string | undefined): string | undefined {
  switch (response?.kind) {
    case 'filter_tools':
      return method === 'tools/list' ? undefined : 'the request does not list tools';
    case 'set_metadata':
      return metadataProblem(response.key, response.value);
    default:
      return undefined;
  }
}

const MAX_KEY_BYTES = 64;
const MAX_VALUE_BYTES = 256;
const RESERVED_KEY = /^(?:mcp|service)\./;

function metadataProblem(key: string, value: string): string | undefined {
  if (RESERVED_KEY.test(key)) return 'keys starting with mcp. or service. are reserved';
  if (Buffer.byteLength(key) > MAX_KEY_BYTES) return `the key exceeds ${MAX_KEY_BYTES} bytes`;
  if (Buffer.byteLength(value) > MAX_VALUE_BYTES) return `the value exceeds ${MAX_VALUE_BYTES} bytes`;
  return undefined;
}
