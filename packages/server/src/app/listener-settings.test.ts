import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, request as plainRequest } from 'node:http';
import { request } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { legacyClient, send } from '../../../../test/fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import type { TestService } from '../../testing/service.ts';
import { localhostCertificate } from '../http/client/certificate.fixture.ts';
import { at, oneListener, pipelineTests } from './pipeline.fixture.ts';

const tests = pipelineTests();
const { run, runFilters, finally: onFinished } = tests;

function portOf(service: TestService, listener = 'l'): number {
  return Number(service.addresses[listener]?.split(':').at(-1));
}

/** Opens a connection and keeps it open; returns the response to a request on it. */
async function openConnection(port: number): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  onFinished(() => socket.destroy());
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const [response] = await once(socket, 'data');
  return String(response);
}

describe('a listener', () => {
  it('serves TLS with certificate files relative to the pipeline file', async () => {
    await writeFile(join(tests.folder, 'c.pem'), localhostCertificate.cert);
    await writeFile(join(tests.folder, 'k.pem'), localhostCertificate.key);
    const service = await runFilters(
      '- { filter: static_response, status: 200, body: safe }',
      ', tls: { certificates: [{ cert_path: c.pem, key_path: ./k.pem }] }, max_connections: 1',
    );
    const port = portOf(service);
    const sendRequest = () => request({ host: 'localhost', port, ca: localhostCertificate.cert, agent: false });
    const open = connectTls({
      host: 'localhost',
      port,
      ca: localhostCertificate.cert,
      ALPNProtocols: ['h2', 'http/1.1'],
    });
    onFinished(() => open.destroy());
    await once(open, 'secureConnect');
    expect(open.alpnProtocol).toBe('http/1.1');
    open.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    let responded = '';
    open.on('data', (piece) => {
      responded += piece;
    });
    await expect.poll(() => responded).toMatch(/^HTTP\/1.1 200 [\s\S]*safe/);
    // The limit counts TLS connections.
    const [rejected] = await once(sendRequest().end(), 'response');
    expect(rejected.statusCode).toBe(503);
    rejected.resume();
    open.destroy();
    await expect(send(at(service, 'l', '/'), 'GET')).rejects.toThrow();
    await expect
      .poll(async () => {
        const [response] = await once(sendRequest().end(), 'response');
        response.resume();
        return response.statusCode;
      })
      .toBe(200);
  });

  it('limits its connections to max_connections', async () => {
    const service = await run(`
listeners:
  - { name: two, address: '127.0.0.1:0', filter_chains: [c], max_connections: 2 }
  - { name: any, address: '127.0.0.1:0', filter_chains: [c] }
filter_chains: [{ name: c, filters: [{ filter: static_response, status: 204 }] }]
`);
    await openConnection(portOf(service, 'two'));
    expect((await send(at(service, 'two', '/'), 'GET')).status).toBe(204);
    await openConnection(portOf(service, 'any'));
    // Accepted as soon as the server has noticed that the second connection is closed.
    await expect.poll(() => openConnection(portOf(service, 'two'))).toMatch(/^HTTP\/1.1 204 /);
    const rejected = await send(at(service, 'two', '/'), 'GET');
    expect([rejected.status, JSON.parse(rejected.text)]).toEqual([
      503,
      { error: { message: 'too many connections: try again later', type: 'service_unavailable' } },
    ]);
    expect((await send(at(service, 'any', '/'), 'GET')).status).toBe(204);
  });

  it('limits the time to receive a request and its body to downstream_read_timeout_ms, but not the response', async () => {
    const slow = createServer((request, response) => {
      request.resume().once('end', () => setTimeout(() => response.end('late'), 900));
    });
    const port = await listen(slow, 0);
    onFinished(() => {
      slow.close();
      slow.closeAllConnections();
    });
    const service = await runFilters(
      `- { filter: router, routes: [{ path_prefix: /, cluster: slow }] }
- { filter: load_balancer, clusters: [{ name: slow, endpoints: ['127.0.0.1:${port}'] }] }`,
      ', downstream_read_timeout_ms: 300',
    );
    expect((await send(at(service, 'l', '/'), 'GET')).text).toBe('late');
    const stuck = plainRequest(at(service, 'l', '/'), {
      method: 'POST',
      headers: { 'content-length': 10 },
      agent: false,
    });
    stuck.on('error', () => undefined);
    stuck.write('half');
    const began = performance.now();
    await once(stuck, 'close');
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  it('runs its chains in its own order', async () => {
    const service = await run(`
listeners:
  - { name: ab, address: '127.0.0.1:0', filter_chains: [a, b, end] }
  - { name: ba, address: '127.0.0.1:0', filter_chains: [b, a, end] }
  - { name: a, address: '127.0.0.1:0', filter_chains: [a] }
filter_chains:
  - { name: end, filters: [{ filter: static_response, status: 200 }] }
  - { name: b, filters: [{ filter: headers, response_add: [{ name: X-Way, value: b }] }] }
  - { name: a, filters: [{ filter: headers, response_add: [{ name: X-Way, value: a }] }] }
`);
    const way = async (listener: string) => {
      const { status, headers } = await send(at(service, listener, '/'), 'GET');
      return [status, headers['x-way']];
    };
    expect([await way('ab'), await way('ba'), await way('a')]).toEqual([
      [200, 'a, b'],
      [200, 'b, a'],
      [404, 'a'],
    ]);
  });
});

const MCP = ['mcp', 'service_namespace', 'service_methods'].map((filter) => `- filter: ${filter}`).join('\n');

describe('body_limits', () => {
  it('limit buffered upstream responses', async () => {
    const upstream = await startRawUpstream({
      eras: ['modern'],
      scripts: {
        'tools/list': toolList(toolText('small'), toolText('large')),
        'tools/call': ({ params }) => textResultText('x'.repeat(params.name === 'large' ? 5_000 : 500)),
      },
    });
    onFinished(() => upstream.close());
    const service = await run(`${oneListener(MCP)}body_limits: { max_response_bytes: 2000 }`);
    await service.register('forwards', { name: 'up', address: upstream.url });
    const url = at(service, 'l', '/default/mcp');
    const legacy = await legacyClient(url);
    await expect.poll(async () => (await legacy.call('tools/list')).text).toContain('large');
    expect((await legacy.call('tools/call', '{"name":"small"}')).text).toContain('x'.repeat(500));
    const response = await legacy.call('tools/call', '{"name":"large"}');
    expect(response.text).toContain('-32603');
    expect(response.text).toContain('more than 2000 bytes');
  });
});

describe('shutdown_timeout_secs', () => {
  it.each([
    [0, 0],
    [1, 900],
  ])('of %i limits the time of in-flight requests at shutdown', async (seconds, least) => {
    const arrived = Promise.withResolvers<void>();
    const silent = createServer(() => arrived.resolve());
    const port = await listen(silent, 0);
    onFinished(() => {
      silent.close();
      silent.closeAllConnections();
    });
    const service = await run(`${oneListener(`- { filter: router, routes: [{ path_prefix: /, cluster: silent }] }
- { filter: load_balancer, clusters: [{ name: silent, endpoints: ['127.0.0.1:${port}'] }] }`)}
shutdown_timeout_secs: ${seconds}`);
    const cut = expect(send(at(service, 'l', '/'), 'GET')).rejects.toThrow();
    await arrived.promise;
    const began = performance.now();
    // Has no limit of its own.
    await service.stop();
    const took = performance.now() - began;
    await cut;
    expect(took).toBeGreaterThanOrEqual(least);
    expect(took).toBeLessThan(least + 5_000);
  });
});
