import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { afterEach, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { PeerClient, peerServerTls } from './peer-client.ts';
import { Peers } from './peers.ts';
import { jsonLines } from './response-body.ts';

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
  const client = new PeerClient(KEY, notificationMs);
  closing.push(() => {
    client.close();
    server.close();
    server.closeAllConnections();
  });
  const url = `127.0.0.1:${address.port}`;
  return { client, url, peers: new Peers({ client, addresses: () => new Map([['other', url]]), log }) };
}

const NUMBERS = {
  target: '/numbers',
  timeoutMs: 10_000,
  maxBytes: 64 * 1024 * 1024,
  parse: (item: unknown) => z.number().parse(item),
};

test('the items that another replica has are parsed one by one', async () => {
  const numbers = Array.from({ length: 20_000 }, (_, at) => at);
  const { peers } = await otherReplica((_, response) => {
    for (const piece of jsonLines(numbers)) response.write(piece);
    response.end();
  });
  expect(await peers.query(NUMBERS)).toEqual({ responses: [numbers], missingReplicas: [] });
});

test.each([
  ['is of another form', '1\n"two"\n'],
  ['is no JSON', '1\n<html>\n'],
  ['is not complete', '1\n2'],
  ['is too large', `1\n${' '.repeat(2_000)}2\n`],
])('a replica whose response %s has not responded', async (_, answer) => {
  const { peers } = await otherReplica((_request, response) => response.end(answer));
  expect(await peers.query({ ...NUMBERS, maxBytes: 1_000 })).toEqual({ responses: [], missingReplicas: ['other'] });
});

test('a large response is parsed in several turns of the event loop', async () => {
  const { peers } = await otherReplica((_, response) => response.end(`"${'x'.repeat(250_000)}"\n`.repeat(20)));
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
  const { responses } = await peers.query({ ...NUMBERS, parse });
  clearImmediate(timer);
  // 512 kB, three items, in each.
  expect(responses[0]?.at(-1)).toBeGreaterThanOrEqual(6);
});

test('a response that nobody reads is not held', async () => {
  const closed = Promise.withResolvers<void>();
  const { peers } = await otherReplica((_, response) => {
    response.on('close', closed.resolve).write('begun');
  });
  const { responses } = await peers.stream('/endless', 100);
  expect(responses).toHaveLength(1);
  await closed.promise;
});

const CANCELLATION = {
  method: 'POST',
  target: '/',
  headers: {},
  listener: 'mcp',
  client: undefined,
  principal: '',
};

test('notifications to a replica that does not answer take few connections, and end', async () => {
  const open = new Set<ServerResponse>();
  let most = 0;
  const { client, url } = await otherReplica((_, response) => {
    open.add(response.on('close', () => open.delete(response)));
    most = Math.max(most, open.size);
  }, 1_000);
  for (let at = 0; at < 100; at++) client.notify(url, CANCELLATION, Buffer.from('{}'));
  await vi.waitFor(() => expect(open.size).toBe(8), { timeout: 5_000 });
  await vi.waitFor(() => expect(open.size).toBe(0), { timeout: 5_000 });
  expect(most).toBe(8);
});

test('notifications that wait for a replica take bounded memory', async () => {
  const received: number[] = [];
  const { client, url } = await otherReplica((request, response) => {
    received.push(Number(request.headers['content-length']));
    request.resume().on('end', () => response.end());
  });
  const body = Buffer.alloc(16 * 1024, ' ');
  for (let at = 0; at < 1_000; at++) client.notify(url, CANCELLATION, body);
  // Eight are sent at once, and 1 MiB waits.
  await vi.waitFor(() => expect(received).toHaveLength(8 + 64), { timeout: 10_000 });
  client.notify(url, CANCELLATION, Buffer.from('{}'));
  await vi.waitFor(() => expect(received.at(-1)).toBe(2), { timeout: 10_000 });
});

test('a replica that is no longer live ends what it is answering', async () => {
  const closed = Promise.withResolvers<void>();
  const { client, url, peers } = await otherReplica((_, response) => {
    response.on('close', closed.resolve).write('1\n');
    client.disconnect(url);
  });
  expect(await peers.query(NUMBERS)).toEqual({ responses: [], missingReplicas: ['other'] });
  await closed.promise;
});
