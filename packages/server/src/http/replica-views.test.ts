import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { afterEach, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { jsonLines } from './json-lines.ts';
import { Peers, peerServerTls } from './peers.ts';
import { OtherReplicas } from './replica-views.ts';

const KEY = Buffer.alloc(32, 7);
const log = { warn: () => undefined };
const closing: (() => void)[] = [];

afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** Another replica that answers with `answer`, and this one, which can ask it. */
async function otherReplica(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  notificationMs?: number,
) {
  const server = createServer(peerServerTls(KEY), answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP address');
  const peers = new Peers(KEY, notificationMs);
  closing.push(() => {
    peers.close();
    server.close();
    server.closeAllConnections();
  });
  const url = `127.0.0.1:${address.port}`;
  return { peers, url, others: new OtherReplicas({ peers, others: () => new Map([['other', url]]), log }) };
}

const NUMBERS = {
  target: '/numbers',
  timeoutMs: 10_000,
  maxBytes: 64 * 1024 * 1024,
  parse: (item: unknown) => z.number().parse(item),
};

test('the items that another replica has are parsed one by one', async () => {
  const numbers = Array.from({ length: 20_000 }, (_, at) => at);
  const { others } = await otherReplica((_, response) => {
    for (const piece of jsonLines(numbers)) response.write(piece);
    response.end();
  });
  expect(await others.ask(NUMBERS)).toEqual({ answers: [numbers], unanswered: [] });
});

test.each([
  ['is of another form', '1\n"two"\n'],
  ['is no JSON', '1\n<html>\n'],
  ['is not complete', '1\n2'],
  ['is too large', `1\n${' '.repeat(2_000)}2\n`],
])('a replica whose answer %s has not answered', async (_, answer) => {
  const { others } = await otherReplica((_request, response) => response.end(answer));
  expect(await others.ask({ ...NUMBERS, maxBytes: 1_000 })).toEqual({ answers: [], unanswered: ['other'] });
});

test('a large answer is parsed in several turns of the event loop', async () => {
  const { others } = await otherReplica((_, response) => response.end(`"${'x'.repeat(250_000)}"\n`.repeat(20)));
  let turns = 0;
  let turnsAtFirst = 0;
  const count = () => {
    turns++;
    timer = setImmediate(count);
  };
  let timer = setImmediate(count);
  const parse = () => {
    turnsAtFirst ||= turns;
    return turns - turnsAtFirst;
  };
  const { answers } = await others.ask({ ...NUMBERS, parse });
  clearImmediate(timer);
  // 512 kB, three items, in each.
  expect(answers[0]?.at(-1)).toBeGreaterThanOrEqual(6);
});

test('an answer that nobody reads is not held', async () => {
  const closed = Promise.withResolvers<void>();
  const { others } = await otherReplica((_, response) => {
    response.on('close', closed.resolve).write('begun');
  });
  const { answers } = await others.open('/endless', 100);
  expect(answers).toHaveLength(1);
  await closed.promise;
});

const CANCELLATION = {
  method: 'POST',
  target: '/',
  headers: {},
  listener: 'mcp',
  client: undefined,
  principal: undefined,
};

test('notifications to a replica that does not answer take few connections, and end', async () => {
  const open = new Set<ServerResponse>();
  let most = 0;
  const { peers, url } = await otherReplica((_, response) => {
    open.add(response.on('close', () => open.delete(response)));
    most = Math.max(most, open.size);
  }, 1_000);
  for (let at = 0; at < 100; at++) peers.notify(url, CANCELLATION, Buffer.from('{}'));
  await vi.waitFor(() => expect(open.size).toBe(8), { timeout: 5_000 });
  await vi.waitFor(() => expect(open.size).toBe(0), { timeout: 5_000 });
  expect(most).toBe(8);
});
