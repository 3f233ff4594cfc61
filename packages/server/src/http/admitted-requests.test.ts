import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { expect, it, onTestFinished, vi } from 'vitest';
import { readAll, responseParts } from '../../../../test/fixtures/raw-exchange.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import type { ResponseEnd } from '../exchange/facts.ts';
import { ANONYMOUS_CALLER, type Authenticated, authenticated } from '../identity/authenticator.ts';
import { createUser } from '../identity/principal.ts';
import { createLogger } from '../telemetry/log.ts';
import { RequestMetrics } from '../telemetry/metrics/request-metrics.ts';
import { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import { AdmittedRequests, type AdmittedSource } from './admitted-requests.ts';
import { HttpExchange } from './exchange.ts';
import { createHttpServer } from './server.ts';

const ANN = authenticated(createUser('ann', 'corp'));
const EVE = authenticated(createUser('eve', 'corp'));
const isEve = (by: Authenticated) => by === EVE;

/** A server whose requests the test answers, in order. `/eve…` is sent by Eve, `/open` by nobody. */
async function start(calls: AdmittedSource = { revoke: () => [].values() }) {
  const lines: string[] = [];
  const served: HttpExchange[] = [];
  const ends: ResponseEnd[] = [];
  const bodies: string[] = [];
  const admitted = new AdmittedRequests(calls);
  const server = createHttpServer(
    {
      tls: undefined,
      readTimeoutMs: 0,
      maxConnections: undefined,
      guard: () => undefined,
      telemetry: new RequestTelemetry('mcp', 'service::mcp::access', {
        metrics: new RequestMetrics(),
        logger: createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line)),
        tracing: undefined,
      }),
      createExchange: (head, request, response) => {
        response.on('close', (end) => ends.push(end));
        return new HttpExchange(head, request, response);
      },
      authenticate: ({ target }) => (target.startsWith('/eve') ? EVE : target === '/ann' ? ANN : ANONYMOUS_CALLER),
      identity: { served: 'inference', namespaceOf: (target) => target.split('?')[1] },
      requires: ({ target }) => (target === '/open' ? 'open' : 'optional'),
      admitted,
      errorResponse: (message, { status }) => ({ headers: ['X-Status', String(status)], body: `own ${message}` }),
    },
    (exchange) => {
      served.push(exchange);
      const { body } = exchange.request;
      body.on('end', () => bodies.push('end'));
      body.on('close', () => bodies.push('close'));
      body.resume();
    },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  /** Sends a request, whose body may be incomplete, and waits until it is served. */
  const send = async (target: string, body = '', length = body.length): Promise<Socket> => {
    const before = served.length;
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined);
    onTestFinished(() => void socket.destroy());
    socket.write(`POST ${target} HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n${body}`);
    await expect.poll(() => served.length).toBe(before + 1);
    return socket;
  };
  const logged = () => lines.map((line) => JSON.parse(line));
  return { admitted, served, ends, bodies, send, logged };
}

const respond = (exchange: HttpExchange | undefined, body = 'ok') => {
  exchange?.response.writeHead(200, ['Content-Length', String(body.length)]);
  exchange?.response.end(body);
};

it('a request that is not answered gets 401 in the form of its listener, and others continue', async () => {
  const { admitted, served, ends, send, logged } = await start();
  const eve = await send('/eve');
  const others = [await send('/ann'), await send('/'), await send('/open')];
  const response = readAll(eve);
  const isRejected = vi.fn(isEve);
  await admitted.end(isRejected);
  const { statusLine, headers, body } = responseParts(await response);
  expect(statusLine).toContain(' 401 ');
  expect(headers).toEqual(
    expect.arrayContaining(['X-Status: 401', 'WWW-Authenticate: Bearer error="invalid_token"', 'Connection: close']),
  );
  expect(String(body)).toBe('own the credential is not accepted any more');
  expect(isRejected.mock.calls).toEqual([
    [EVE, 'inference', undefined],
    [ANN, 'inference', undefined],
    [ANONYMOUS_CALLER, 'inference', undefined],
  ]);
  expect(served.map(({ response: { destroyed } }) => destroyed)).toEqual([true, false, false, false]);
  expect(served.map(({ request: { isRevoked } }) => isRevoked)).toEqual([true, false, false, false]);
  expect(ends).toEqual([{ status: 401, isComplete: true }]);
  expect(logged()).toMatchObject([
    { path: '/eve', status: 401, handled: 'rejected', reason: 'the credential is not accepted any more', user: 'eve' },
  ]);
  // What the handler sends meanwhile reaches nobody.
  respond(served[0]);
  for (const [at, socket] of others.entries()) {
    respond(served[at + 1]);
    expect(String(await once(socket, 'data'))).toContain('200 OK');
  }
});

it('the connection of a response that has begun is closed', async () => {
  const { admitted, served, ends, send, logged } = await start();
  const eve = await send('/eve');
  const received = readAll(eve);
  served[0]?.response.writeHead(200, []);
  served[0]?.response.write('data: secret\n\n');
  await once(eve, 'data');
  await admitted.end(isEve);
  await once(eve, 'close');
  await received.catch(() => undefined);
  expect(ends).toEqual([{ status: 200, isComplete: false }]);
  expect(logged()).toMatchObject([{ status: 200, client_disconnected: true, handled: 'rejected' }]);
});

it.each([
  ['has not arrived', 'x', 1_000],
  ['is not read', 'x'.repeat(200_000), 200_000],
])('a body that %s is aborted', async (_what, body, length) => {
  const { admitted, served, bodies, send } = await start();
  const eve = await send('/eve', body, length);
  if (body.length === length) served[0]?.request.body.pause();
  bodies.length = 0;
  const response = readAll(eve);
  await admitted.end(isEve);
  expect(responseParts(await response).statusLine).toContain(' 401 ');
  expect(served[0]?.response.destroyed).toBe(true);
  if (body.length !== length) expect(bodies).toEqual(['close']);
});

it('a response that the client has not read is not sent to its end', async () => {
  const { admitted, served, send } = await start();
  const eve = await send('/eve');
  eve.pause();
  respond(served[0], 'x'.repeat(64 * 1024 * 1024));
  await admitted.end((by) => by === ANN);
  expect(eve.destroyed).toBe(false);
  await admitted.end(isEve);
  let bytes = 0;
  eve.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  eve.resume();
  await once(eve, 'close');
  expect(bytes).toBeLessThan(64 * 1024 * 1024);
});

it('a connection has no request after its response', async () => {
  const { admitted, served, send } = await start();
  const socket = await send('/eve');
  respond(served[0]);
  await once(socket, 'data');
  await admitted.end(() => true);
  socket.write('GET /ann HTTP/1.1\r\nHost: a\r\n\r\n');
  await expect.poll(() => served.length).toBe(2);
  respond(served[1]);
  expect(String(await once(socket, 'data'))).toContain('200 OK');
});

it('is asked for the namespace of the request, then for the calls, in a later turn', async () => {
  const order: string[] = [];
  const { admitted, send } = await start({
    *revoke(isRejected) {
      yield order.push(String(isRejected(ANN, 'mcp', 'b')));
    },
  });
  await send('/ann?finance');
  const ended = admitted.end((_by, served, namespace) => {
    order.push(`${served} ${namespace}`);
    return false;
  });
  await Promise.resolve();
  order.push('turn');
  await ended;
  expect(order).toEqual(['inference finance', 'turn', 'mcp b', 'false']);
});

it('many requests are ended in slices', async () => {
  const { admitted, served, send } = await start();
  while (served.length < 30) await send('/eve');
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await admitted.end(() => {
    const until = performance.now() + 3;
    while (performance.now() < until);
    return true;
  });
  isOver = true;
  expect(turns).toBeGreaterThan(5);
  expect(served.every(({ response }) => response.destroyed)).toBe(true);
});
