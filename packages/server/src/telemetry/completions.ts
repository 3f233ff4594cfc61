import type { Correlation } from '../exchange/correlation.ts';
import type { ExchangeFacts } from '../exchange/facts.ts';
import { serverAddress } from './metrics/instruments.ts';
import type { Completion, RequestMetrics } from './metrics/request-metrics.ts';
import { spanOf } from './request-spans.ts';
import type { Span } from './tracing/span.ts';

/** A recorded chat completion, without its content. */
export interface RecordedCompletion extends Omit<Completion, 'operation' | 'seconds' | 'server'> {
  readonly completionId: string | undefined;
  /** Finish reasons of the choices, if the response has any. */
  readonly finishReasons: readonly string[];
  /** Kind of the error that a response with a status of success contains. */
  readonly errorType: string | undefined;
  /** HTTP status; 0 if the exchange ended before a response. */
  readonly statusCode: number;
  /** `performance.now()` at the end of the exchange. */
  readonly endedAt: number;
}

/** Metrics of completions. */
export type CompletionMetrics = Pick<RequestMetrics, 'completion'>;

/** The request of a completion. */
export interface CompletionRequest {
  /** `performance.now()` at its arrival. */
  readonly startedAt: number;
  readonly correlation: Correlation;
  readonly facts: ExchangeFacts;
}

/** Records a completion in metrics and as a span, possibly after the end of its request. */
export function recordCompletion(
  metrics: CompletionMetrics,
  request: CompletionRequest,
  completion: RecordedCompletion,
): void {
  const { failure, upstream: server = '' } = request.facts;
  const { statusCode, endedAt } = completion;
  const inResponse = failure ?? completion.errorType;
  const errorType = statusCode === 0 ? 'cancelled' : statusCode >= 400 ? String(statusCode) : inResponse;
  const seconds = (endedAt - request.startedAt) / 1000;
  metrics.completion({ ...completion, operation: 'chat', errorType, seconds, server });
  const span = spanOf(request.facts);
  if (!span) return;
  const child = completionSpan(span, request, completion);
  if (errorType !== undefined) child.failed(errorType);
  child.end(endedAt);
}

/**
 * Starts the span of a completion as a child of the request's span (OpenTelemetry's conventions for generative AI,
 * "Inference"). The provider `openai` is the format of the request, for any server.
 */
function completionSpan(parent: Span, request: CompletionRequest, completion: RecordedCompletion): Span {
  const { startedAt, correlation, facts } = request;
  const { requestModel, responseModel, completionId, inputTokens, outputTokens, finishReasons } = completion;
  const { conversationId } = correlation;
  const name = requestModel === undefined ? 'chat' : `chat ${requestModel}`;
  const span = parent.child({ name, role: 'client', startedAt });
  Object.assign(span.attributes, {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'openai',
    ...serverAddress(facts.upstream ?? ''),
    ...(requestModel !== undefined && { 'gen_ai.request.model': requestModel }),
    ...(responseModel !== undefined && { 'gen_ai.response.model': responseModel }),
    ...(completionId !== undefined && { 'gen_ai.response.id': completionId }),
    ...(conversationId !== undefined && { 'gen_ai.conversation.id': conversationId }),
    ...(inputTokens !== undefined && { 'gen_ai.usage.input_tokens': inputTokens }),
    ...(outputTokens !== undefined && { 'gen_ai.usage.output_tokens': outputTokens }),
    ...(finishReasons.length > 0 && { 'gen_ai.response.finish_reasons': [...finishReasons] }),
  });
  return span;
}
