import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { type ErrorOutcome, rpcError } from '../answer/outcome.ts';
import type { RequestContext } from '../pipeline/context.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { EvaluatorDecision, EvaluatorFailure } from '../telemetry/metrics/evaluator-counters.ts';
import type { ActionResponse } from './actions/action-world.ts';
import { cutBytes } from './cut-bytes.ts';
import { setMetadata } from './metadata.ts';
import { withoutEffect } from './without-effect.ts';

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
