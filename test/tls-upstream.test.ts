import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest';
import { localhostCertificate } from '../packages/server/src/http/client/certificate.fixture.ts';
import { startTestService } from '../packages/server/testing/service.ts';
import { listen } from './fixtures/http-server.ts';
import { send } from './fixtures/raw-client.ts';

const authorities = getCACertificates('default');
/** Server names sent by clients, one per completed handshake. */
const names: unknown[] = [];
let server: Server;
let port: number;
beforeAll(async () => {
  server = createServer(localhostCertificate, (request, response) => {
    response.end(`${request.method} ${request.headers.host} ${request.url}`);
  });
  server.on('secureConnection', (socket) => names.push(socket.servername));
  port = await listen(server, 0);
});
afterEach(() => {
  names.length = 0;
  setDefaultCACertificates(authorities);
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

/** Address of a listener that sends everything on to a cluster with these settings. */
async function routed(endpoint: string, settings: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-upstream-'));
  const file = join(folder, 'pipeline.yaml');
  const pipeline = `listeners: [{ name: door, address: '127.0.0.1:0', filter_chains: [c] }]
filter_chains:
  - name: c
    filters: [{ filter: router, routes: [{ path_prefix: /, cluster: up }] }, { filter: load_balancer, clusters: [] }]
clusters: [{ name: up, endpoints: ['${endpoint}'], ${settings} }]
`;
  await writeFile(file, pipeline);
  const env = { SERVICE_MCP_LISTEN: '', SERVICE_INFERENCE_LISTEN: '' };
  const service = await startTestService(env, ['--pipeline-config', file]);
  onTestFinished(async () => {
    await service.stop(0);
    await rm(folder, { recursive: true });
  });
  return `http://${service.addresses.door}`;
}

test('a cluster with tls is requested under the name of its endpoint', async () => {
  setDefaultCACertificates([...authorities, localhostCertificate.cert]);
  const response = await send(`${await routed(`localhost:${port}`, 'tls: {}')}/a?b`, 'PUT', {}, 'body');
  expect([response.status, response.text]).toEqual([200, `PUT localhost:${port} /a?b`]);
  expect(names).toEqual(['localhost']);
});

test('the key tls alone enables TLS', async () => {
  setDefaultCACertificates([...authorities, localhostCertificate.cert]);
  expect((await send(await routed(`localhost:${port}`, 'tls: '), 'GET')).status).toBe(200);
});

test.for([
  ['a certificate that nobody trusts', 'localhost', 'tls: {}', false],
  ['a certificate for another name', '127.0.0.1', 'tls: {}', true],
  ['no TLS where there should be', 'localhost', 'connection_timeout_ms: 1000', true],
] as const)('%s is 502', async ([_name, host, settings, trusted]) => {
  if (trusted) setDefaultCACertificates([...authorities, localhostCertificate.cert]);
  const response = await send(await routed(`${host}:${port}`, settings), 'POST', {}, 'secret');
  expect([response.status, JSON.parse(response.text).error.type]).toEqual([502, 'bad_gateway']);
});
