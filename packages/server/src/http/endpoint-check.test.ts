import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { expect, it, type TestContext } from 'vitest';
import { localhostCertificate } from './client/certificate.fixture.ts';
import { checkEndpoint } from './endpoint-check.ts';

async function listening(server: Server, { onTestFinished }: Pick<TestContext, 'onTestFinished'>): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const address = server.address();
  return isInfo(address) ? address.port : 0;
}

function isInfo(address: AddressInfo | string | null): address is AddressInfo {
  return typeof address === 'object' && address !== null;
}

it('reports a server that responds, whatever its status, and sends it nothing but the path', async (context) => {
  const seen: object[] = [];
  const server = createHttpServer(({ method, url, headers }, response) => {
    seen.push({ method, url, authorization: headers.authorization });
    response.writeHead(url === '/broken' ? 503 : 401, { date: 'Sun, 01 Nov 2026 00:00:00 GMT' }).end();
  });
  const port = await listening(server, context);
  const url = new URL(`http://user:password@127.0.0.1:${port}/mcp?key=secret`);
  expect(await checkEndpoint(url)).toEqual({
    status: 'ok',
    message: `127.0.0.1:${port} responds`,
    serverTime: Date.UTC(2026, 10, 1),
  });
  expect(seen).toEqual([{ method: 'HEAD', url: '/mcp', authorization: undefined }]);
  expect(await checkEndpoint(new URL(`http://127.0.0.1:${port}/broken`))).toMatchObject({
    status: 'warning',
    message: `127.0.0.1:${port} responds with status 503`,
  });
  expect(await checkEndpoint(new URL(`tcp://127.0.0.1:${port}`))).toMatchObject({ status: 'ok' });
});

it('reports at which step a server fails, with a remedy', async (context) => {
  const plain = await listening(
    createHttpServer((_request, response) => response.end()),
    context,
  );
  const tls = await listening(
    createHttpsServer(localhostCertificate, (_request, response) => response.end()),
    context,
  );
  const other = await listening(
    createServer((socket) => socket.on('error', () => undefined).end('220 mail\r\n')),
    context,
  );
  const silent = await listening(createServer(), context);
  const cases: readonly [string, string, string][] = [
    ['http://127.0.0.1:9/mcp', '127.0.0.1:9 refused the connection (ECONNREFUSED)', 'listens on this address'],
    ['tcp://127.0.0.1:9', '127.0.0.1:9 refused the connection (ECONNREFUSED)', 'listens on this address'],
    ['http://name.invalid/', 'name.invalid:80 has a host name that cannot be resolved (', 'name server'],
    [`https://127.0.0.1:${plain}/`, 'does not establish TLS', 'use an http:// address'],
    [`https://localhost:${tls}/`, ' is self-signed, and this machine does not trust it', 'NODE_EXTRA_CA_CERTS'],
    [`http://127.0.0.1:${tls}/`, 'closed the connection before the end of the response', 'use https://'],
    [`http://127.0.0.1:${other}/`, 'sent an invalid HTTP/1.1 response', 'port of an HTTP server'],
  ];
  for (const [address, message, remedy] of cases) {
    const found = await checkEndpoint(new URL(address));
    expect(found, address).toMatchObject({
      status: 'failed',
      message: expect.stringContaining(message),
      remedy: expect.stringContaining(remedy),
    });
  }
  expect(await checkEndpoint(new URL(`http://127.0.0.1:${silent}/`), 50)).toEqual({
    status: 'failed',
    message: `127.0.0.1:${silent} did not answer within 0.05 s`,
    remedy: expect.stringContaining('firewall'),
  });
});
