import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { type ErrorOutcome, type RequestContext, rpcError } from '../http/context.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { EvaluatorDecision, EvaluatorFailure } from '../telemetry/metrics/service-metrics.ts';
import type { ActionResponse } from './sandbox/action.ts';

/**
 * The first characters of a text that have no more than `bytes` bytes of UTF-8 together. Surrogates without their other
 * half become U+FFFD; no character is cut in two.
 */
export function cutBytes(text: string, bytes: number): string {
  // A pair of surrogates that is cut in two here has no room anyway.
  const head = text.slice(0, bytes).toWellFormed();
  if (Buffer.byteLength(head) <= bytes) return head;
  const encoded = Buffer.from(head);
  let end = bytes;
  while (((encoded[end] ?? 0) & 0xc0) === 0x80) end--;
  return encoded.toString('utf8', 0, end);
}

const MAX_KEY_BYTES = 64;
const MAX_VALUE_BYTES = 256;
/** Those of the service itself. */
const RESERVED = /^(?:mcp|service)\./;

/**
 * Sets what an action says of a request (decisions 4.9, "SetMetadata"). Keys that are the service's are refused, keys over
 * 64 and values over 256 bytes dropped; both are told to the log, without the value.
 */
export function setMetadata(
  metadata: Map<string, string>,
  { key, value }: { readonly key: string; readonly value: string },
  log: Pick<TargetLogger, 'warn'>,
): void {
  const problem = metadataProblem(key, value);
  if (problem === undefined) metadata.set(key, value);
  else log.warn('metadata of an action is not set', { key: cutBytes(key, MAX_KEY_BYTES), problem });
}

/** Why metadata of an action is not set; undefined when it is. */
export function metadataProblem(key: string, value: string): string | undefined {
  if (RESERVED.test(key)) return 'keys beginning with mcp. or service. are those of the service';
  if (Buffer.byteLength(key) > MAX_KEY_BYTES) return `the key is longer than ${MAX_KEY_BYTES} bytes`;
  if (Buffer.byteLength(value) > MAX_VALUE_BYTES) return `the value is longer than ${MAX_VALUE_BYTES} bytes`;
  return undefined;
}

/**
 * Why the service does nothing of what an action decided of a request of `method`: in both cases it passes (decisions 4.9,
 * "Outcome"). Undefined where the decision counts.
 */
export function withoutEffect(response: ActionResponse | undefined, method: string | undefined): string | undefined {
  switch (response?.kind) {
    case 'filter_tools':
      return method === 'tools/list' ? undefined : 'the request lists no tools';
    case 'set_metadata':
      return metadataProblem(response.key, response.value);
    default:
      return undefined;
  }
}

/** JSON-RPC codes that are the evaluators' alone (decisions 4.7). */
const BLOCKED = -32001;
const MALFORMED = -32002;

/** In bytes; longer ones are cut in the log and in metadata. */
const MAX_WARNING = 4096;

/** Where a request is, after an evaluator: it goes on to the next one, is let pass by all others, or is refused. */
export type Effect =
  | { readonly kind: 'next' }
  | { readonly kind: 'last' }
  | { readonly kind: 'refused'; readonly outcome: ErrorOutcome };

/** The effect of a decision, and the decision as it is counted. */
type Decided = Effect & { readonly decision: EvaluatorDecision };

/**
 * Carries out what an action decided (decisions 4.9, "Outcome"). Without a response the request passes. `log`: of the run.
 */
export function effectOf(
  response: ActionResponse | undefined,
  evaluator: string,
  context: RequestContext,
  log: Pick<TargetLogger, 'warn'>,
): Decided {
  const { metadata } = context;
  switch (response?.kind) {
    case undefined:
    case 'pass':
      return { kind: 'next', decision: 'pass' };
    case 'block':
      return refused(BLOCKED, response.reason, evaluator, 'block');
    case 'reject_malformed':
      return refused(MALFORMED, response.reason, evaluator, 'reject_malformed');
    case 'warn': {
      const message = cutBytes(response.message, MAX_WARNING);
      log.warn('an action warns', { message });
      metadata.set(`service.evaluator.${evaluator}.warning`, message);
      return { kind: 'next', decision: 'warn' };
    }
    case 'filter_tools':
      if (withoutEffect(response, metadata.get('mcp.method')) !== undefined) {
        log.warn('an action filters tools of a request that lists none: it passes');
        return { kind: 'next', decision: 'pass' };
      }
      context.onlyTools = new Set(response.tools);
      return { kind: 'last', decision: 'filter_tools' };
    case 'set_metadata':
      setMetadata(metadata, response, log);
      return { kind: 'next', decision: 'set_metadata' };
  }
}

/** What a request is answered that an evaluator with `on_error: block` could not judge. */
export function failed(evaluator: string, kind: EvaluatorFailure): ErrorOutcome {
  const what = kind === 'llm_failure' ? 'llm operation failed' : 'processor execution failed';
  return rpcError(INTERNAL_ERROR, `evaluator ${what}`, undefined, { evaluator, kind });
}

function refused(code: number, reason: string, evaluator: string, kind: 'block' | 'reject_malformed'): Decided {
  return { kind: 'refused', decision: kind, outcome: rpcError(code, reason, undefined, { evaluator, kind }) };
}
