import type { Interaction, RecordedBody } from './interaction-store.ts';
import { RequestFields } from './request-fields.ts';
import { toStoredBody } from './stored-body.ts';

/** Members that a test sets. */
interface InteractionInput {
  readonly epochMs?: number;
  readonly conversationId?: string;
  readonly completionId?: string;
  readonly model?: string;
  readonly statusCode?: number;
  readonly requestText?: string;
  readonly responseText?: string;
  /** Whether the response is truncated. */
  readonly truncated?: boolean;
}

/** Returns an interaction as the recorder creates it. */
export function recordedInteraction(input: InteractionInput): Interaction {
  return {
    epochMs: input.epochMs ?? 1,
    path: '/v1/chat/completions',
    conversationId: input.conversationId,
    completionId: input.completionId,
    model: input.model,
    statusCode: input.statusCode ?? 200,
    durationMs: 7,
    request: body(input.requestText, false),
    response: body(input.responseText, input.truncated ?? false),
  };
}

function body(text: string | undefined, truncated: boolean): RecordedBody {
  if (text === undefined) return { body: undefined, truncated };
  const bytes = Buffer.from(text);
  const json = new RequestFields();
  json.write(bytes);
  return { body: toStoredBody(bytes, truncated, json), truncated };
}
