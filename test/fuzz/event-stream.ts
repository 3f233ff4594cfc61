/** What the document calls an answer that stays open and sends events. */
export const EVENT_STREAM = 'text/event-stream';

/** Ends a comment or an event. */
const END = '\n\n';

/** The text of an answer. Event streams stay open: of one it is what came first, and the connection is closed. */
export async function textOf(contentType: unknown, body: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const piece of body) {
    text += decoder.decode(piece, { stream: true });
    if (contentType === EVENT_STREAM && text.includes(END)) break;
  }
  return text + decoder.decode();
}

/** What is wrong with the text that an event stream began with. */
export function wrongInEvents(text: string): readonly string[] {
  if (!text.endsWith(END)) return ['the stream ended before it had said anything'];
  const strange = text.split('\n').find((line) => !/^(?:$|:|(?:event|id|data): )/.test(line));
  return strange === undefined ? [] : [`"${strange}" is no line of an event stream`];
}
