import type { Interaction, RecordedBody } from '../inference/interaction.ts';

/** Pieces of JSON, texts or bytes, that follow each other. */
export type JsonPieces = Generator<string | Buffer>;

/** An interaction as it is answered (decisions 2.9). Bodies that are JSON are handed on as they were sent. */
export function* interactionJson(interaction: Interaction, withBodies: boolean): JsonPieces {
  const { request, response } = interaction;
  const head = {
    epoch_ms: interaction.epochMs,
    path: interaction.path,
    conversation_id: interaction.conversationId,
    completion_id: interaction.completionId,
    model: interaction.model,
  };
  yield JSON.stringify(head).slice(0, -1);
  if (withBodies) {
    yield ',"request_body":';
    yield bodyJson(request);
    yield ',"response_body":';
    yield bodyJson(response);
  }
  const rest = {
    status_code: interaction.statusCode,
    duration_ms: interaction.durationMs,
    ...(request.truncated && { request_truncated: true }),
    ...(response.truncated && { response_truncated: true }),
  };
  yield `,${JSON.stringify(rest).slice(1)}`;
}

function bodyJson({ body }: RecordedBody): string | Buffer {
  if (body === undefined) return 'null';
  return body.isJson ? body.bytes : JSON.stringify(body.bytes.toString());
}
