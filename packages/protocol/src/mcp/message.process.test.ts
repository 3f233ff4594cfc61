import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { parseMessage } from './message.ts';

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

/** Bytes of the heap in use. */
function pending(): number {
  collect();
  return process.memoryUsage().heapUsed;
}

it.each(['{}', '[]', '{"a":1}'])('a request with large arguments, of %s, is retained as its text', async (piece) => {
  const mebibyte = 1024 * 1024;
  const list = Array.from({ length: (4 * mebibyte) / (piece.length + 1) }, () => piece).join(',');
  const body = Buffer.from(
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"a":[${list}]}}}`,
  );
  const before = pending();
  const message = parseMessage(body);
  // Within a turn, parsed params are retained and shared.
  await nextTurn();
  // The text takes four; the parsed tree 50 to 90.
  expect(pending() - before).toBeLessThan(6 * mebibyte);
  expect(message).toMatchObject({ kind: 'request', method: 'tools/call' });
});
