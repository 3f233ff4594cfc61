import { setImmediate as nextTurn } from 'node:timers/promises';

/** Characters of items that are written together. */
const WRITTEN_TOGETHER = 32 * 1024;
/** Characters that are parsed without yielding to the event loop. */
const PARSED_PER_TURN = 512 * 1024;

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

/** The items in a text of {@link jsonLines}. Rejects if the last line is not complete, and with what `parse` throws. */
export async function parseJsonLines<Item>(text: string, parse: (item: unknown) => Item): Promise<Item[]> {
  const items: Item[] = [];
  let parsed = 0;
  for (let start = 0; start < text.length; ) {
    const end = text.indexOf('\n', start);
    if (end < 0) throw new Error('incomplete response');
    items.push(parse(JSON.parse(text.slice(start, end))));
    parsed += end - start;
    if (parsed > PARSED_PER_TURN) {
      parsed = 0;
      await nextTurn();
    }
    start = end + 1;
  }
  return items;
}
