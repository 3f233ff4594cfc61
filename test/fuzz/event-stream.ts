/** Content type of event streams. */
export const EVENT_STREAM = 'text/event-stream';

/** Terminates a comment or an event. */
const END = '\n\n';

/** Reads the text of a response. Of an event stream it reads the first event or comment, and closes the connection. */
export async function textOf(contentType: unknown, body: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    if (contentType === EVENT_STREAM && text.includes(END)) break;
  }
  return text + decoder.decode();
}

/** Returns the faults in the first text of an event stream. */
export function eventStreamFaults(text: string): readonly string[] {
  if (!text.endsWith(END)) return ['the stream ended without an event or comment'];
  const invalid = text.split('\n').find((line) => !/^(?:$|:|(?:event|id|data): )/.test(line));
  return invalid === undefined ? [] : [`invalid event stream line: "${invalid}"`];
}
