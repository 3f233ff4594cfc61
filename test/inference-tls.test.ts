import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { localhostCertificate } from '../packages/server/src/http/client/certificate.fixture.ts';
import { blackHole, openFaultyProxy } from '../packages/server/testing/faulty-proxy.ts';
import { startTestService } from '../packages/server/testing/service.ts';
import { type ChatRequest, completionOf } from './fixtures/chat/completion.ts';
import { type ChatServer, startChatServer } from './fixtures/chat/server.ts';
import { type Gateway, type GatewayOptions, startGateway } from './fixtures/gateway.ts';
import { send } from './fixtures/raw-client.ts';

const REQUEST: ChatRequest & OpenAI.ChatCompletionCreateParamsNonStreaming = {
  model: 'm-1',
  messages: [{ role: 'user', content: 'Wie?' }],
};

let folder: string;
let upstream: ChatServer;
let certificate: string;
const gateways: Gateway[] = [];
const authorities = getCACertificates('default');
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-tls-'));
  certificate = join(folder, 'cert.pem');
  await writeFile(certificate, localhostCertificate.cert);
  await writeFile(join(folder, 'key.pem'), localhostCertificate.key);
  upstream = await startChatServer(localhostCertificate);
  // For the clients of this process; gateways are separate processes.
  setDefaultCACertificates([...authorities, localhostCertificate.cert]);
});
afterAll(async () => {
  setDefaultCACertificates(authorities);
  for (const gateway of gateways) await gateway.close();
  await upstream.close();
  await rm(folder, { recursive: true });
});

/** Starts a service in a separate process, and a client of it. */
async function start({ env, args = [] }: Pick<GatewayOptions, 'env' | 'args'>, scheme = 'http') {
  const gateway = await startGateway({ args, env: { SERVICE_PERSIST_BACKEND: 'none', ...env } });
  gateways.push(gateway);
  const address = gateway.logs.find(({ msg }) => msg === 'listening')?.inference;
  const port = new URL(`http://${address}`).port;
  const client = new OpenAI({ baseURL: `${scheme}://localhost:${port}/v1`, apiKey: 'sk-test', maxRetries: 0 });
  return { gateway, client };
}

/** Expects a completion without and one with streaming. */
async function expectServed(client: OpenAI): Promise<void> {
  expect(await client.chat.completions.create(REQUEST)).toEqual(completionOf(REQUEST));
  const stream = client.chat.completions.stream({ ...REQUEST, stream: true });
  const { choices } = await stream.finalChatCompletion();
  expect(choices[0]?.message.content).toBe(completionOf(REQUEST).choices[0]?.message.content);
}

describe('an https upstream', () => {
  let served: Awaited<ReturnType<typeof start>>;
  beforeAll(async () => {
    const env = {
      SERVICE_INFERENCE_UPSTREAM: `https://localhost:${upstream.port}`,
      NODE_EXTRA_CA_CERTS: certificate,
    };
    served = await start({ env });
  });

  test('of the environment is verified by its name', async () => {
    const before = upstream.servernames.length;
    await expectServed(served.client);
    const names = upstream.servernames.slice(before);
    expect(names.length).toBeGreaterThan(0);
    expect(new Set(names)).toEqual(new Set(['localhost']));
    const host = upstream.requests.at(-1)?.rawHeaders;
    expect(host?.[host.findIndex((name) => name.toLowerCase() === 'host') + 1]).toBe(`localhost:${upstream.port}`);
  });

  test('set by the management API replaces it, with its path', async () => {
    const other = await startChatServer(localhostCertificate);
    const set = await served.gateway.api('POST', '/api/v1/config/inference', {
      upstream: `https://localhost:${other.port}/prefix`,
    });
    expect(set.status).toBe(200);
    await served.client.models.list().catch(() => undefined);
    expect(other.requests.map(({ path }) => path)).toEqual(['/prefix/v1/models']);
    expect(other.servernames).toEqual(['localhost']);
    await served.gateway.api('POST', '/api/v1/config/inference', { upstream: `https://localhost:${other.port}` });
    await expectServed(served.client);
    await other.close();
  });

  test('with a certificate for another name is not used', async () => {
    await served.gateway.api('POST', '/api/v1/config/inference', { upstream: `https://127.0.0.1:${upstream.port}` });
    await expectRefused(served, /ERR_TLS_CERT_ALTNAME_INVALID/);
  });
});

test('an upstream with an untrusted certificate is not used, and the reason is logged', async () => {
  const env = { SERVICE_INFERENCE_UPSTREAM: `https://localhost:${upstream.port}` };
  await expectRefused(await start({ env }), /DEPTH_ZERO_SELF_SIGNED_CERT/);
});

test('a listener and a cluster of the pipeline file use TLS', async () => {
  const file = join(folder, 'pipeline.yaml');
  await writeFile(
    file,
    `
listeners:
  - { name: mcp, address: 127.0.0.1:0, filter_chains: [none] }
  - name: inference
    address: 127.0.0.1:0
    filter_chains: [inference_proxy]
    tls: { certificates: [{ cert_path: ${certificate}, key_path: ${join(folder, 'key.pem')} }] }
filter_chains:
  - { name: none, filters: [{ filter: static_response, status: 204 }] }
  - name: inference_proxy
    filters:
      - filter: service_intercept
      - { filter: router, routes: [{ path_prefix: /, cluster: inference }] }
      - filter: load_balancer
clusters:
  - { name: inference, endpoints: ['localhost:${upstream.port}'], tls: {} }
`,
  );
  const before = upstream.servernames.length;
  const args = ['--pipeline-config', file];
  const { gateway, client } = await start({ args, env: { NODE_EXTRA_CA_CERTS: certificate } }, 'https');
  await expectServed(client);
  expect(upstream.servernames.slice(before)).toContain('localhost');
  const { body } = await gateway.api('GET', '/api/v1/interactions?bodies=false');
  expect(body).toMatchObject({
    data: [
      { model: 'm-1', status_code: 200 },
      { model: 'm-1', status_code: 200 },
    ],
  });
});

test('an upstream without TLS times out after the limit of the cluster, also if it is set later', async () => {
  const silentServer = await openFaultyProxy(blackHole);
  const file = join(folder, 'impatient.yaml');
  await writeFile(
    file,
    `
listeners: [{ name: inference, address: 127.0.0.1:0, filter_chains: [inference_proxy] }]
filter_chains:
  - name: inference_proxy
    filters: [{ filter: router, routes: [{ path_prefix: /, cluster: inference }] }, { filter: load_balancer }]
clusters: [{ name: inference, endpoints: ['127.0.0.1:9'], connection_timeout_ms: 200 }]
`,
  );
  const service = await startTestService({ SERVICE_MCP_LISTEN: '' }, ['--pipeline-config', file]);
  await service.manage('POST', '/config/inference', { upstream: `https://localhost:${silentServer.port}` });
  const started = performance.now();
  const response = await send(`http://${service.addresses.inference}/v1/models`, 'GET');
  expect(response.status).toBe(502);
  // The default is 10 s.
  expect(performance.now() - started).toBeLessThan(9_000);
  expect(service.log.some((line) => line.includes('did not accept a connection within 0.2 s'))).toBe(true);
  await service.stop(0);
  silentServer.close();
});

/** Expects 502 for the client, no upstream request, and the reason in the log. */
async function expectRefused(rejected: Awaited<ReturnType<typeof start>>, reason: RegExp): Promise<void> {
  const before = upstream.requests.length;
  const failure = await rejected.client.chat.completions.create(REQUEST).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(OpenAI.APIError);
  expect(failure).toMatchObject({ status: 502, error: { message: 'inference upstream unreachable' } });
  expect(upstream.requests).toHaveLength(before);
  const warnings = () => rejected.gateway.logs.filter(({ level }) => level === 'warn').map(({ msg }) => msg);
  await expect.poll(warnings).toContainEqual(expect.stringMatching(reason));
}
