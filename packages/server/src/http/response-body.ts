import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { ResponseLike } from './exchange.ts';

/**
 * Sends a body as fast as the client reads it, and ends the response, whose head was written. A client that disconnects ends the
 * body; then nothing more is read of it. If the body fails, closes the connection, since the response is incomplete, and rejects
 * with the error.
 */
export async function sendBody(body: Readable, response: ResponseLike): Promise<void> {
  if (response.destroyed) return void body.destroy();
  response.on('close', () => body.destroy());
  response.on('drain', () => body.resume());
  body.on('data', (chunk: Buffer) => {
    if (!response.write(chunk)) body.pause();
  });
  try {
    await finished(body);
  } catch (error) {
    // It was ended because the client has disconnected.
    if (response.destroyed) return;
    response.destroy();
    throw error;
  }
  response.end();
}

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
