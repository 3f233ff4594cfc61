import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { readAll } from '../../../../test/fixtures/raw-exchange.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { authenticated } from '../identity/authenticator.ts';
import { encodeAuthenticated, fromPeer, MAX_PRINCIPAL_BYTES, PEER_PRINCIPAL } from '../identity/peer.ts';
import { createUser, type Principal } from '../identity/principal.ts';
import { proxyHeaders } from '../identity/proxy-headers.ts';
import { createLogger } from '../telemetry/log.ts';
import { RequestMetrics } from '../telemetry/metrics/request-metrics.ts';
import { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import { HttpExchange } from './exchange.ts';
import { MAX_HEAD_BYTES } from './message-parser.ts';
import { PEER_CLIENT, PEER_LISTENER, PeerClient, peerServerTls } from './peer-client.ts';
import { createHttpServer, type ServeRequest } from './server.ts';

const KEY = Buffer.alloc(32, 7);
type Received = {
  principal: Principal;
  rejection: number | undefined;
  headers: Readonly<Record<string, unknown>>;
  raw: string;
};

/** A listener of replicas or of clients, and the requests that reach it. */
async function start(kind: 'replicas' | 'clients') {
  const received: Received[] = [];
  const serve: ServeRequest<HttpExchange> = ({ request, response, principal }, rejection) => {
    const { headers, rawHeaders } = request.head;
    received.push({ principal, rejection: rejection?.status, headers, raw: rawHeaders.join('\n') });
    response.writeHead(rejection?.status ?? 204, []);
    response.end();
  };
  const parts = {
    metrics: new RequestMetrics(),
    logger: createLogger(DEFAULT_LOG_FILTER, () => undefined),
    tracing: undefined,
  };
  const server = createHttpServer(
    {
      readTimeoutMs: 0,
      maxConnections: undefined,
      guard: () => undefined,
      telemetry: new RequestTelemetry('peer', 'service::mcp::access', parts),
      createExchange: (head, request, response) => new HttpExchange(head, request, response),
      ...(kind === 'replicas'
        ? { tls: peerServerTls(KEY), isForReplicas: true, authenticate: fromPeer }
        : { tls: undefined, authenticate: proxyHeaders() }),
    },
    serve,
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { received, port: (server.address() as AddressInfo).port };
}

/** Sends a request of a client to another replica. */
async function hop(principal = '', headers: Record<string, string> = {}): Promise<Received> {
  const { received, port } = await start('replicas');
  const client = new PeerClient(KEY, 60_000);
  onTestFinished(() => client.close());
  const request = { method: 'POST', target: '/a/mcp', headers, listener: 'mcp', client: '192.0.2.1', principal };
  client.notify(`127.0.0.1:${port}`, request, Buffer.from('{}'));
  await expect.poll(() => received.length, { timeout: 20_000 }).toBe(1);
  const [first] = received;
  if (!first) throw new Error('nothing was received');
  return first;
}

it('the other replica gets the principal, and ignores the identity headers of the client', async () => {
  const ann = createUser('ann', 'proxy');
  const { principal, headers } = await hop(encodeAuthenticated(authenticated(ann)), {
    'x-forwarded-user': 'eve',
    [PEER_PRINCIPAL]: 'e30',
  });
  expect(principal).toEqual(ann);
  // An operator may forward it to upstreams.
  expect(headers['x-forwarded-user']).toBe('eve');
});

it('headers of the connection and of the length of the body are those of the hop', async () => {
  const { headers } = await hop(encodeAuthenticated(authenticated(createUser('ann', 'proxy'))), {
    trailer: 'x',
    te: 'trailers',
    upgrade: 'h2c',
    'proxy-authorization': 'Basic x',
    'content-length': '99',
    expect: '100-continue',
    'x-kept': '1',
  });
  expect(headers).toMatchObject({ 'content-length': '2', 'x-kept': '1' });
  expect(Object.keys(headers)).not.toEqual(
    expect.arrayContaining([expect.stringMatching(/^(?:trailer|te|upgrade|proxy-authorization|expect)$/)]),
  );
});

it('the longest principal and the longest head of a client fit', async () => {
  let id = 'x'.repeat((MAX_PRINCIPAL_BYTES / 4) * 3);
  while (encodeAuthenticated(authenticated(createUser(id, 'proxy'))) === undefined) id = id.slice(1);
  const ann = createUser(id, 'proxy');
  const { principal } = await hop(encodeAuthenticated(authenticated(ann)), {
    'x-long': 'x'.repeat(MAX_HEAD_BYTES - 100),
  });
  expect(principal.key).toBe(ann.key);
});

it.each(['', 'e30', 'not base64url!'])('a request with the principal %j is rejected', async (principal) => {
  expect((await hop(principal, { 'x-forwarded-user': 'ann' })).rejection).toBe(400);
});

it('headers of replicas are dropped from the requests of clients', async () => {
  const { received, port } = await start('clients');
  const socket = connect(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  const forged = [PEER_PRINCIPAL, PEER_LISTENER, PEER_CLIENT, 'Sluice-Peer-Other'].map((name) => `${name}: e30\r\n`);
  const request = `GET / HTTP/1.1\r\nHost: a\r\n${forged.join('')}X-Kept: 1\r\n`;
  // The second time, the head is not parsed again.
  socket.write(`${request}\r\n${request}\r\n${request}Connection: close\r\n\r\n`);
  await readAll(socket);
  expect(received).toHaveLength(3);
  for (const { headers, raw, principal } of received) {
    expect(Object.keys(headers).filter((name) => name !== 'connection')).toEqual(['host', 'x-kept']);
    expect(raw).not.toMatch(/sluice-peer/i);
    expect(principal.kind).toBe('anonymous');
  }
});
