import { storedBody } from './body-capture.ts';
import type { Interaction, RecordedBody } from './interaction-store.ts';
import { JsonScanner } from './json-scanner.ts';

/** What an interaction of a test says; the rest does not matter to it. */
interface Told {
  readonly epochMs?: number;
  readonly conversationId?: string;
  readonly completionId?: string;
  readonly model?: string;
  readonly statusCode?: number;
  readonly requestText?: string;
  readonly responseText?: string;
  /** Whether the response is. */
  readonly truncated?: boolean;
}

/** An interaction as the recorder would have made it. */
export function recordedInteraction(told: Told): Interaction {
  return {
    epochMs: told.epochMs ?? 1,
    path: '/v1/chat/completions',
    conversationId: told.conversationId,
    completionId: told.completionId,
    model: told.model,
    statusCode: told.statusCode ?? 200,
    durationMs: 7,
    request: body(told.requestText, false),
    response: body(told.responseText, told.truncated ?? false),
  };
}

function body(text: string | undefined, truncated: boolean): RecordedBody {
  if (text === undefined) return { body: undefined, truncated };
  const bytes = Buffer.from(text);
  const outline = new JsonScanner();
  outline.write(bytes);
  return { body: storedBody(bytes, truncated, outline), truncated };
}
