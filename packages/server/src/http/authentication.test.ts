import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { expect, it, onTestFinished, vi } from 'vitest';
import { readAll, responseParts } from '../../../../test/fixtures/raw-exchange.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import {
  ANONYMOUS_CALLER,
  type Authenticate,
  type Authenticated,
  authenticated,
  type Rejected,
} from '../identity/authenticator.ts';
import { createUser } from '../identity/principal.ts';
import { createLogger } from '../telemetry/log.ts';
import { RequestMetrics } from '../telemetry/metrics/request-metrics.ts';
import { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import { HttpExchange } from './exchange.ts';
import { createHttpServer, type HttpServerOptions } from './server.ts';

const ANN = authenticated(createUser('ann', 'proxy'));

/** A server that responds with the key of the principal, `complete` if the body had arrived before, and its length. */
async function start(authenticate: Authenticate, options: Partial<HttpServerOptions<HttpExchange>> = {}) {
  const lines: string[] = [];
  const logger = createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line));
  const served: string[] = [];
  const sockets: Socket[] = [];
  const server = createHttpServer(
    {
      tls: undefined,
      readTimeoutMs: 0,
      maxConnections: undefined,
      guard: (_address, { host }) => (host === 'foreign' ? { status: 403, reason: 'Host not allowed' } : undefined),
      telemetry: new RequestTelemetry('mcp', 'service::mcp::access', {
        metrics: new RequestMetrics(),
        logger,
        tracing: undefined,
      }),
      createExchange: (head, request, response) => new HttpExchange(head, request, response),
      authenticate,
      ...options,
    },
    ({ request, response, principal }, rejection) => {
      served.push(request.url);
      const wasComplete = request.body.complete;
      let bytes = 0;
      const respond = (status: number, headers: readonly string[], body: string) => {
        response.writeHead(status, [...headers, 'Content-Length', String(body.length)]);
        response.end(body);
      };
      if (rejection) return respond(rejection.status, rejection.headers ?? [], rejection.reason);
      request.body.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      request.body.on('end', () => respond(200, [], `${principal.key} ${wasComplete} ${bytes}`));
    },
  );
  server.on('connection', (socket: Socket) => sockets.push(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const open = () => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined);
    onTestFinished(() => void socket.destroy());
    return socket;
  };
  const send = async (target: string, host = 'a', body = '') => {
    const socket = open();
    socket.write(
      `POST ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    return responseParts(await readAll(socket));
  };
  return { open, send, served, sockets, lines };
}

/** An authenticator that waits until the test settles it. */
function slow() {
  const { promise, resolve, reject } = Promise.withResolvers<Authenticated | Rejected>();
  const authenticate = vi.fn<Authenticate>(({ target }) => (target === '/slow' ? promise : ANN));
  return { authenticate, resolve, reject };
}

const body = 'x'.repeat(1024 * 1024);

it('the body of a request stays unread until its credential is verified', async () => {
  const { authenticate, resolve } = slow();
  const { send, sockets, served } = await start(authenticate);
  const response = send('/slow', 'a', body);
  // The server does not read on.
  await expect.poll(() => sockets[0]?.isPaused()).toBe(true);
  expect(served).toEqual([]);
  resolve(ANN);
  expect(String((await response).body)).toBe(`user:ann false ${body.length}`);
});

it('other requests are served meanwhile, and a request without a promise at once', async () => {
  const { authenticate, resolve } = slow();
  const { send, served } = await start(authenticate);
  const response = send('/slow');
  await expect.poll(() => authenticate.mock.calls.length).toBe(1);
  expect(String((await send('/fast', 'a', 'abc')).body)).toBe('user:ann true 3');
  expect(served).toEqual(['/fast']);
  resolve(ANONYMOUS_CALLER);
  expect(String((await response).body)).toBe(' true 0');
});

it('a request whose client disconnects meanwhile is not served', async () => {
  const { authenticate, resolve } = slow();
  const { open, send, sockets, served, lines } = await start(authenticate);
  const client = open();
  client.write('GET /slow HTTP/1.1\r\nHost: a\r\n\r\n');
  await expect.poll(() => authenticate.mock.calls.length).toBe(1);
  client.destroy();
  await expect.poll(() => sockets[0]?.closed).toBe(true);
  resolve(ANN);
  await send('/fast');
  expect(served).toEqual(['/fast']);
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { path: '/slow', status: 499, client_disconnected: true },
    { path: '/fast', status: 200, user: 'ann' },
  ]);
});

it('a credential that was verified by replaced settings is verified again, as often as they are replaced', async () => {
  const pending: PromiseWithResolvers<Authenticated | Rejected>[] = [];
  const authenticate = vi.fn<Authenticate>(() => {
    const promise = Promise.withResolvers<Authenticated | Rejected>();
    pending.push(promise);
    return promise.promise;
  });
  const identity = { credentialHeaders: new Set<string>() };
  const replace = () => {
    identity.credentialHeaders = new Set();
  };
  let requirement: 'optional' | 'required' = 'optional';
  const { send, served } = await start(authenticate, { identity, requires: () => requirement });
  const response = send('/slow');
  await expect.poll(() => pending.length).toBe(1);
  replace();
  pending[0]?.reject(new Error('by settings that do not count'));
  await expect.poll(() => pending.length).toBe(2);
  pending[1]?.resolve(ANN);
  // Before the server continues.
  queueMicrotask(replace);
  await expect.poll(() => pending.length).toBe(3);
  replace();
  requirement = 'required';
  pending[2]?.resolve(ANONYMOUS_CALLER);
  await expect.poll(() => pending.length).toBe(4);
  expect(served).toEqual([]);
  pending[3]?.resolve(ANONYMOUS_CALLER);
  expect((await response).statusLine).toContain(' 401 ');
  expect(served).toEqual(['/slow']);
});

it('a verification that fails is 503', async () => {
  const { authenticate, reject } = slow();
  const { send } = await start(authenticate);
  const response = send('/slow', 'a', body);
  await expect.poll(() => authenticate.mock.calls.length).toBe(1);
  reject(new Error('secret'));
  const { statusLine, headers, body: text } = await response;
  expect(statusLine).toContain(' 503 ');
  expect(headers).toContain('Retry-After: 1');
  expect(String(text)).not.toContain('secret');
});

it.each([false, true])('a rejection has its status and headers (as a promise: %s)', async (asPromise) => {
  const headers = ['WWW-Authenticate', 'Bearer error="invalid_token"'];
  const rejected: Rejected = { kind: 'rejected', status: 401, reason: 'invalid token', headers };
  const { send, lines } = await start(() => (asPromise ? Promise.resolve(rejected) : rejected));
  const response = await send('/', 'a', body);
  expect(response.statusLine).toContain(' 401 ');
  expect(response.headers).toContain('WWW-Authenticate: Bearer error="invalid_token"');
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ status: 401 }]);
});

it('a request that the checks reject is not authenticated, and its log line names no user', async () => {
  const { authenticate } = slow();
  const { send, lines } = await start(authenticate);
  expect((await send('/fast', 'foreign')).statusLine).toContain(' 403 ');
  expect(authenticate).not.toHaveBeenCalled();
  expect(lines.map((line) => JSON.parse(line).user)).toEqual([undefined]);
});

it.each([
  ['open', ANN, ' 200 ', ' true 0', 0],
  ['optional', ANN, ' 200 ', 'user:ann true 0', 1],
  ['optional', ANONYMOUS_CALLER, ' 200 ', ' true 0', 1],
  ['required', ANN, ' 200 ', 'user:ann true 0', 1],
  ['required', ANONYMOUS_CALLER, ' 401 ', 'authentication required', 1],
] as const)('where authentication is %s (case %#)', async (requirement, by, status, text, calls) => {
  const authenticate = vi.fn<Authenticate>(() => by);
  const { send } = await start(authenticate, { requires: () => requirement });
  const response = await send('/');
  expect(response.statusLine).toContain(status);
  expect(String(response.body)).toBe(text);
  expect(authenticate).toHaveBeenCalledTimes(calls);
});
