import type { RecordedCompletion } from '../../inference/exchange-recording.ts';
import { serverAddress } from '../metrics/server-address.ts';
import { correlationOf } from '../tool-calls/correlation.ts';
import type { Span } from '../tracing/span.ts';
import type { RequestObservation } from './request-observation.ts';

/**
 * The span of a completion, a child of its request's (OpenTelemetry's conventions for generative AI, "Inference"). Never what was asked or answered.
 * `openai` is what they call this form of request, whoever serves it.
 */
export function completionSpan(observation: RequestObservation, request: Span, completion: RecordedCompletion): Span {
  const { startedAt, upstream } = observation;
  const { requestModel, responseModel, completionId, inputTokens, outputTokens, finishReasons } = completion;
  const { conversationId } = correlationOf(observation.request.headers);
  const name = requestModel === undefined ? 'chat' : `chat ${requestModel}`;
  const span = request.child({ name, role: 'client', startedAt });
  span.common = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'openai',
    ...(upstream !== undefined && serverAddress(upstream)),
    ...(requestModel !== undefined && { 'gen_ai.request.model': requestModel }),
    ...(responseModel !== undefined && { 'gen_ai.response.model': responseModel }),
    ...(completionId !== undefined && { 'gen_ai.response.id': completionId }),
    ...(conversationId !== undefined && { 'gen_ai.conversation.id': conversationId }),
    ...(inputTokens !== undefined && { 'gen_ai.usage.input_tokens': inputTokens }),
    ...(outputTokens !== undefined && { 'gen_ai.usage.output_tokens': outputTokens }),
    ...(finishReasons.length > 0 && { 'gen_ai.response.finish_reasons': [...finishReasons] }),
  };
  return span;
}
