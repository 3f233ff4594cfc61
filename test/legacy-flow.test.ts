import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { setTimeout as after } from 'node:timers/promises';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { localhostCertificate } from '../packages/server/src/http/client/certificate.fixture.ts';
import { startTestService } from '../packages/server/testing/service.ts';
import { listen } from './fixtures/http-server.ts';
import { send } from './fixtures/raw-client.ts';

const MiB = 1024 * 1024;
/** Size of a body; and the part that may be in the buffers of four sockets when its reader does not read. */
const TOTAL_BYTES = 50 * MiB;
const MAX_BUFFERED = 25 * MiB;

/** A service in front of a backend that does this with requests. */
async function serviceBefore(serve: (incoming: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(serve);
  const port = await listen(server, 0);
  const service = await startTestService({ SERVICE_CLASSIC_URL: `http://127.0.0.1:${port}` });
  onTestFinished(async () => {
    await service.stop(0);
    server.closeAllConnections();
    server.close();
  });
  return service.management;
}

/** Waits until a number that grows has not grown for a while. */
async function waitUntilStalled(value: () => number): Promise<number> {
  for (let before = -1; before !== value(); await after(150)) before = value();
  return value();
}

/** Writes a whole body with backpressure, and counts and hashes the written bytes. */
function writer(target: {
  write(piece: Buffer): boolean;
  end(): unknown;
  once(event: 'drain', then: () => void): unknown;
}) {
  const hash = createHash('sha256');
  const state = { written: 0, digest: '' };
  const more = (): void => {
    while (state.written < TOTAL_BYTES) {
      const piece = Buffer.alloc(65_536, state.written / 65_536);
      hash.update(piece);
      state.written += piece.length;
      if (!target.write(piece)) return void target.once('drain', more);
    }
    state.digest = hash.digest('hex');
    target.end();
  };
  more();
  return state;
}

async function digestOf(body: AsyncIterable<Buffer>): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of body) hash.update(piece);
  return hash.digest('hex');
}

test('a response of 50 MiB arrives complete, at the speed of its client', async () => {
  const started = Promise.withResolvers<ReturnType<typeof writer>>();
  const url = await serviceBefore((_incoming, response) => started.resolve(writer(response)));
  const sent = request(`${url}/api/v1/data-store/large`, { agent: false }).end();
  const [result] = await once(sent, 'response');
  const state = await started.promise;
  expect(await waitUntilStalled(() => state.written)).toBeLessThan(MAX_BUFFERED);
  expect(await digestOf(result)).toBe(state.digest);
  expect(state.written).toBe(TOTAL_BYTES);
});

test('a request of 50 MiB is sent complete, at the speed of the backend', async () => {
  const arrived = Promise.withResolvers<[IncomingMessage, ServerResponse]>();
  const url = await serviceBefore((...both) => arrived.resolve(both));
  const sent = request(`${url}/api/v1/data-store/large`, { agent: false, method: 'PUT' });
  const state = writer(sent);
  const [incoming, response] = await arrived.promise;
  expect(await waitUntilStalled(() => state.written)).toBeLessThan(MAX_BUFFERED);
  const digest = await digestOf(incoming);
  expect([digest, state.written]).toEqual([state.digest, TOTAL_BYTES]);
  response.end('got it');
  const [result] = await once(sent, 'response');
  expect(result.statusCode).toBe(200);
  result.resume();
});

const authorities = getCACertificates('default');
afterAll(() => setDefaultCACertificates(authorities));

test('a backend with https is requested under its own name, if its certificate is trusted', async () => {
  const names: unknown[] = [];
  const server = createTlsServer(localhostCertificate, (incoming, response) => {
    response.end(`${incoming.headers.host} ${incoming.headers['x-forwarded-proto']} ${incoming.url}`);
  });
  server.on('secureConnection', (socket) => names.push(socket.servername));
  const port = await listen(server, 0);
  const serviceTo = async (host: string) => {
    const service = await startTestService({ SERVICE_CLASSIC_URL: `https://${host}:${port}/old` });
    onTestFinished(() => service.stop(0));
    return service.management;
  };
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const untrusted = await send(`${await serviceTo('localhost')}/api/v1/chat`, 'GET');
  expect([untrusted.status, JSON.parse(untrusted.text).error.code]).toEqual([502, 'BAD_GATEWAY']);
  expect(names).toEqual([]);

  setDefaultCACertificates([...authorities, localhostCertificate.cert]);
  const trusted = await send(`${await serviceTo('localhost')}/api/v1/chat?x`, 'GET');
  expect([trusted.status, trusted.text]).toEqual([200, `localhost:${port} http /old/api/v1/chat?x`]);
  expect(names).toEqual(['localhost']);
  // The certificate is for a name, not for the address.
  expect((await send(`${await serviceTo('127.0.0.1')}/api/v1/chat`, 'GET')).status).toBe(502);
});
