/** Characters of items that are written together. */
const WRITTEN_TOGETHER = 32 * 1024;

/** Items as JSON, one in a line: each can be parsed by itself, since all of them at once could block the event loop. */
export function* jsonLines(items: Iterable<unknown>): Generator<Buffer> {
  let text = '';
  for (const item of items) {
    text += `${JSON.stringify(item)}\n`;
    if (text.length < WRITTEN_TOGETHER) continue;
    yield Buffer.from(text);
    text = '';
  }
  yield Buffer.from(text);
}
