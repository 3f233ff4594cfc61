import type { RecordedCompletion } from '../../inference/exchange-recording.ts';
import { serverAddress } from '../metrics/server-address.ts';
import { correlationOf } from '../tool-calls/correlation.ts';
import type { SpanStart } from '../tracing/span.ts';
import type { RequestObservation } from './request-observation.ts';

/**
 * The span of a completion (OpenTelemetry's conventions for generative AI, "Inference"). Never what was asked or answered.
 * `openai` is what they call this form of request, whoever serves it.
 */
export function completionSpan(observation: RequestObservation, completion: RecordedCompletion): SpanStart {
  const { startedAt, upstream, request } = observation;
  const { requestModel, responseModel, completionId, inputTokens, outputTokens, finishReasons } = completion;
  const { conversationId } = correlationOf(request.headers);
  return {
    name: requestModel === undefined ? 'chat' : `chat ${requestModel}`,
    role: 'client',
    startedAt,
    attributes: {
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
    },
  };
}
