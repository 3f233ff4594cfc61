import type { ToolCallOutcome } from '@sluice/contract';
import type { Exchange } from '../exchange/exchange.ts';
import type { ResponseEnd } from '../exchange/facts.ts';
import { AccessLog } from './access-log.ts';
import type { Logger, LogTarget } from './log.ts';
import { CLIENT_CLOSED_REQUEST, type RequestMetrics, type UpDownCounter } from './metrics/request-metrics.ts';
import { RequestSpan } from './request-spans.ts';
import type { Tracing } from './tracing/tracing.ts';

/** Shared by the listeners. */
export interface RequestTelemetryParts {
  readonly metrics: RequestMetrics;
  readonly logger: Logger;
  /** Undefined if no traces are exported. */
  readonly tracing: Pick<Tracing, 'begin'> | undefined;
}

/**
 * Telemetry of the requests of one listener: access log, metrics and spans. An exchange is read once, at its end. Part of the
 * hot path: text and objects are created for outputs that are enabled.
 */
export class RequestTelemetry {
  /** Name of the listener. */
  readonly listener: string;
  readonly #metrics: RequestMetrics;
  readonly #active: UpDownCounter;
  readonly #accessLog: AccessLog;
  readonly #tracing: Pick<Tracing, 'begin'> | undefined;

  /** The access log is written to `target`; for `probes` see {@link AccessLog}. */
  constructor(
    listener: string,
    target: LogTarget,
    { metrics, logger, tracing }: RequestTelemetryParts,
    probes?: ReadonlySet<string>,
  ) {
    this.listener = listener;
    this.#metrics = metrics;
    this.#active = metrics.activeRequests(listener);
    this.#accessLog = new AccessLog(logger.lines(target, 'request'), probes);
    this.#tracing = tracing;
  }

  /** A request has arrived. */
  begin(exchange: Exchange): void {
    if (!exchange.head.inBatch) this.#active.value++;
    if (this.#tracing) exchange.facts.span = new RequestSpan(exchange, this.#tracing);
  }

  /** The response is complete, or the client has disconnected. */
  end(exchange: Exchange, end: ResponseEnd): void {
    const { status = CLIENT_CLOSED_REQUEST } = end;
    const { head, facts, message } = exchange;
    const { error, failure, span } = facts;
    const seconds = (performance.now() - head.startedAt) / 1000;
    const errorType = error ? String(error.code) : (failure ?? (status >= 400 ? String(status) : undefined));
    const outcome = facts.outcome ?? outcomeOfRequest(status, errorType);
    facts.outcome = outcome;
    if (!head.inBatch) {
      this.#active.value--;
      this.#metrics.http.record({ listener: this.listener, method: head.method, status, seconds });
    }
    if (message && message.kind !== 'response') {
      this.#metrics.mcpServer.record({
        method: message.method,
        subject: facts.subject,
        namespace: exchange.namespace?.name,
        errorType,
        outcome,
        seconds,
      });
    }
    if (span instanceof RequestSpan) span.end(exchange, status, errorType);
    this.#accessLog.write(exchange, end, seconds * 1000);
  }
}

/** The outcome of a request that was neither rejected by an evaluator nor sent upstream. */
function outcomeOfRequest(status: number, errorType: string | undefined): ToolCallOutcome {
  if (status === CLIENT_CLOSED_REQUEST) return 'canceled';
  return errorType === undefined ? 'completed' : 'failed';
}
