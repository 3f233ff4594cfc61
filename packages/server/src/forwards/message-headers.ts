/** Names and values, alternating, that every POST of a message to an upstream carries (mcp 1). */
export const MESSAGE_HEADERS: readonly string[] = [
  'Content-Type',
  'application/json',
  'Accept',
  'application/json, text/event-stream',
];
