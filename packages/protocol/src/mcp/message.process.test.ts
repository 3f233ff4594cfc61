import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { parseMessage } from './message.ts';

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

/** Bytes of the heap that are held. */
function held(): number {
  collect();
  return process.memoryUsage().heapUsed;
}

it.each(['{}', '[]', '{"a":1}'])('a request with large arguments, of %s, is held as its text', async (piece) => {
  const mebibyte = 1024 * 1024;
  const list = Array.from({ length: (4 * mebibyte) / (piece.length + 1) }, () => piece).join(',');
  const body = Buffer.from(
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"a":[${list}]}}}`,
  );
  const before = held();
  const message = parseMessage(body);
  // Within a turn what was parsed stays, for all who look at it.
  await nextTurn();
  // Its text has four; as a tree it takes 50 to 90.
  expect(held() - before).toBeLessThan(6 * mebibyte);
  expect(message).toMatchObject({ kind: 'request', method: 'tools/call' });
});
