import { EventStreamDecoder } from '@sluice/protocol/mcp/event-stream';

/** The type of an answer that stays open and tells one event after the other. */
export const EVENT_STREAM = 'text/event-stream';

/**
 * The data of each event of a stream (HTML standard, "Server-sent events"), as they come; ends when the stream does.
 * Comments, which keep it alive, are no events. Whoever stops early closes the stream.
 */
export async function* readEvents(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, void> {
  const come: string[] = [];
  const decoder = new EventStreamDecoder({
    onEvent: ({ data }) => {
      // One without data says where to resume, which the management API knows nothing of.
      if (data !== '') come.push(data);
    },
    onEventError: (error) => {
      throw error;
    },
  });
  for await (const { buffer, byteOffset, byteLength } of stream) {
    decoder.write(Buffer.from(buffer, byteOffset, byteLength));
    yield* come.splice(0);
  }
}
