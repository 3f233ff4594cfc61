import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import type { ErrorOutcome, ResultOutcome } from '../http/outcome.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { ResponseSink } from './response-sink.ts';

/** The response is written later; `start` starts a call to an upstream, or a stream of notifications. */
export interface DeferredOutcome<Sink = ResponseSink> {
  readonly kind: 'deferred';
  /** JSON text of the response id, if it is not that of the request. */
  readonly idText?: string;
  start(sink: Sink): void;
}

/** Outcome of a request that is executed upstream. */
export type RequestOutcome = ResultOutcome | ErrorOutcome | DeferredOutcome;

/** Returns an outcome that waits for an upstream: meanwhile its client waits as for a call. */
export function deferOutcome(outcome: () => Promise<RequestOutcome>, log: TargetLogger): DeferredOutcome {
  const respond = async (sink: ResponseSink): Promise<void> => {
    try {
      startOutcome(await outcome(), sink);
    } catch (error) {
      log.error('request failed', { error });
      sink.complete({ kind: 'failed', error: { code: INTERNAL_ERROR, message: 'internal error' } });
    }
  };
  const onError = (error: unknown) => log.error('error of a request could not be sent', { error });
  return { kind: 'deferred', start: (sink) => void respond(sink).catch(onError) };
}

/** Sends an outcome whose request was deferred already. */
export function startOutcome(outcome: RequestOutcome, sink: ResponseSink): void {
  switch (outcome.kind) {
    case 'result':
      return sink.complete({ kind: 'result', json: String(outcome.json) });
    case 'error':
      return sink.complete({ kind: 'failed', error: outcome.error, status: outcome.status });
    case 'deferred':
      return outcome.start(sink);
  }
}
