import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls, getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { localhostCertificate } from '../packages/server/src/http/client/certificate.fixture.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { readAll } from './fixtures/raw-exchange.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { connect as connectClient } from './fixtures/sdk-client.ts';

/** The embedded pipeline's MCP listener with TLS, and a second one with a static response. */
const PIPELINE = `listeners:
  - name: mcp
    address: 127.0.0.1:0
    filter_chains: [mcp_router]
    tls: { certificates: [{ cert_path: cert.pem, key_path: key.pem }] }
  - name: plain
    address: 127.0.0.1:0
    filter_chains: [mcp_router]
filter_chains:
  - name: mcp_router
    filters:
      - { filter: mcp }
      - { filter: service_namespace }
      - { filter: service_well_known }
      - { filter: service_methods }
`;

const authorities = getCACertificates('default');
let folder: string;
let upstream: RawUpstream;
let service: TestService;
let port: number;
beforeAll(async () => {
  setDefaultCACertificates([...authorities, localhostCertificate.cert]);
  folder = await mkdtemp(join(tmpdir(), 'sluice-tls-'));
  await writeFile(join(folder, 'cert.pem'), localhostCertificate.cert);
  await writeFile(join(folder, 'key.pem'), localhostCertificate.key);
  await writeFile(join(folder, 'pipeline.yaml'), PIPELINE);
  upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('a')), 'tools/call': textResultText('through TLS') },
  });
  service = await startTestService(
    {
      SERVICE_INFERENCE_LISTEN: '',
      SERVICE_AUTH_ISSUER: 'https://issuer.example/realm',
      SERVICE_ALLOWED_HOSTS: 'api.example',
    },
    ['--pipeline-config', join(folder, 'pipeline.yaml')],
  );
  await service.register('forwards', { name: 'up', address: upstream.url });
  port = Number(service.addresses.mcp?.split(':').at(-1));
});
afterAll(async () => {
  await service.stop(0);
  await upstream.close();
  await rm(folder, { recursive: true });
  setDefaultCACertificates(authorities);
});

test.for(['legacy', 'modern'] as const)(
  'the official client, of the %s era, lists and calls over https',
  async (era) => {
    const client = await connectClient(`https://localhost:${port}/default/mcp`, era);
    onTestFinished(client.close);
    expect((await client.client.listTools()).tools.map(({ name }) => name)).toEqual(['a']);
    expect(await client.callText('a')).toBe('through TLS');
  },
);

/** Result of a handshake with these minimum and maximum versions: the version, or the error. */
async function handshake(version: 'TLSv1' | 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3'): Promise<string> {
  const versions = { minVersion: version, maxVersion: version };
  // Ciphers of a level at which a client of ours would offer versions that old.
  const socket = connectTls({
    port,
    host: '127.0.0.1',
    servername: 'localhost',
    ciphers: 'DEFAULT@SECLEVEL=0',
    ...versions,
  });
  onTestFinished(() => void socket.destroy());
  return new Promise((resolve) => {
    socket.once('secureConnect', () => resolve(String(socket.getProtocol())));
    socket.once('error', (error) => resolve('code' in error ? String(error.code) : error.message));
  });
}

test('TLS versions before 1.2 are rejected by the listener, and later ones accepted', async () => {
  const rejected = 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION';
  expect(await handshake('TLSv1')).toBe(rejected);
  expect(await handshake('TLSv1.1')).toBe(rejected);
  expect(await handshake('TLSv1.2')).toBe('TLSv1.2');
  expect(await handshake('TLSv1.3')).toBe('TLSv1.3');
});

test('ALPN negotiates HTTP/1.1 only', async () => {
  const socket = connectTls({ port, host: '127.0.0.1', servername: 'localhost', ALPNProtocols: ['h2', 'http/1.1'] });
  onTestFinished(() => void socket.destroy());
  await once(socket, 'secureConnect');
  expect(socket.alpnProtocol).toBe('http/1.1');
});

/** One request over TLS on a new connection. */
async function ask(
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ status: number; text: string }> {
  const sent = request({ port, host: '127.0.0.1', servername: 'localhost', path, headers, agent: false });
  sent.end();
  const [response] = await once(sent, 'response');
  let text = '';
  for await (const piece of response) text += piece;
  return { status: response.statusCode, text };
}

test.for([
  ['plain HTTP', 'GET /default/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n'],
  ['what is no protocol', Buffer.from(Array.from({ length: 4_096 }, (_, at) => (at * 31) % 256))],
  ['a handshake that breaks off', Buffer.from('160301020001000200', 'hex')],
] as const)('%s on a TLS port fails its own connection only', async ([_name, bytes]) => {
  const socket = connect(port, '127.0.0.1');
  const all = readAll(socket);
  socket.end(bytes);
  // At most a TLS alert with the reason.
  expect(await all).not.toContain('HTTP/1.1');
  expect((await ask('/.well-known/openid-configuration')).status).toBe(200);
});

test('a TLS handshake on a port without TLS is rejected', async () => {
  const plain = Number(service.addresses.plain?.split(':').at(-1));
  const socket = connectTls({ port: plain, host: '127.0.0.1', servername: 'localhost' });
  const [error] = await once(socket, 'error');
  expect(error).toBeInstanceOf(Error);
});

test('URLs returned by the service are those of the proxy in front of it, else its own, with https if it uses TLS', async () => {
  const path = '/.well-known/oauth-protected-resource/default/mcp';
  const resource = async (headers: Readonly<Record<string, string>>) =>
    JSON.parse((await ask(path, headers)).text).resource;
  const forwarded = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'api.example' };
  expect(await resource(forwarded)).toBe('https://api.example/default/mcp');
  expect(await resource({ host: `localhost:${port}` })).toBe(`https://localhost:${port}/default/mcp`);
});
