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
const { run, runFilters, finally: atEnd } = tests;

function portOf(service: TestService, listener = 'l'): number {
  return Number(service.addresses[listener]?.split(':').at(-1));
}

/** Opens a connection that stays open, unless it is one too many; the answer to a request on it. */
async function held(port: number): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  atEnd(() => socket.destroy());
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const [answer] = await once(socket, 'data');
  return String(answer);
}

describe('a listener', () => {
  it('speaks TLS with the certificate whose files are named from its folder on', async () => {
    await writeFile(join(tests.folder, 'c.pem'), localhostCertificate.cert);
    await writeFile(join(tests.folder, 'k.pem'), localhostCertificate.key);
    const service = await runFilters(
      '- { filter: static_response, status: 200, body: safe }',
      ', tls: { certificates: [{ cert_path: c.pem, key_path: ./k.pem }] }, max_connections: 1',
    );
    const port = portOf(service);
    const ask = () => request({ host: 'localhost', port, ca: localhostCertificate.cert, agent: false });
    const kept = connectTls({
      host: 'localhost',
      port,
      ca: localhostCertificate.cert,
      ALPNProtocols: ['h2', 'http/1.1'],
    });
    atEnd(() => kept.destroy());
    await once(kept, 'secureConnect');
    expect(kept.alpnProtocol).toBe('http/1.1');
    kept.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    let answered = '';
    kept.on('data', (piece) => {
      answered += piece;
    });
    await expect.poll(() => answered).toMatch(/^HTTP\/1.1 200 [\s\S]*safe/);
    // Its limit counts connections that speak TLS.
    const [refused] = await once(ask().end(), 'response');
    expect(refused.statusCode).toBe(503);
    refused.resume();
    kept.destroy();
    await expect(send(at(service, 'l', '/'), 'GET')).rejects.toThrow();
    await expect
      .poll(async () => {
        const [answer] = await once(ask().end(), 'response');
        answer.resume();
        return answer.statusCode;
      })
      .toBe(200);
  });

  it('answers as many connections as max_connections says, each listener for itself', async () => {
    const service = await run(`
listeners:
  - { name: two, address: '127.0.0.1:0', filter_chains: [c], max_connections: 2 }
  - { name: any, address: '127.0.0.1:0', filter_chains: [c] }
filter_chains: [{ name: c, filters: [{ filter: static_response, status: 204 }] }]
`);
    await held(portOf(service, 'two'));
    expect((await send(at(service, 'two', '/'), 'GET')).status).toBe(204);
    await held(portOf(service, 'any'));
    // As soon as the end of the second connection has been noticed, there is room for another.
    await expect.poll(() => held(portOf(service, 'two'))).toMatch(/^HTTP\/1.1 204 /);
    const refused = await send(at(service, 'two', '/'), 'GET');
    expect([refused.status, JSON.parse(refused.text)]).toEqual([
      503,
      { error: { message: 'too many connections: try again later', type: 'service_unavailable' } },
    ]);
    expect((await send(at(service, 'any', '/'), 'GET')).status).toBe(204);
  });

  it('gives a request downstream_read_timeout_ms to come, its body too, and its answer any time', async () => {
    const slow = createServer((request, response) => {
      request.resume().once('end', () => setTimeout(() => response.end('late'), 900));
    });
    const port = await listen(slow, 0);
    atEnd(() => {
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

  it('runs its chains behind each other, in its own order', async () => {
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

const MCP = ['mcp', 'service_namespace', 'service_mcp_init', 'service_tool_list', 'service_tool_call']
  .map((filter) => `- filter: ${filter}`)
  .join('\n');

describe('body_limits', () => {
  it('bound an upstream answer that is held whole', async () => {
    const upstream = await startRawUpstream({
      eras: ['modern'],
      scripts: {
        'tools/list': toolList(toolText('small'), toolText('large')),
        'tools/call': ({ params }) => textResultText('x'.repeat(params.name === 'large' ? 5_000 : 500)),
      },
    });
    atEnd(() => upstream.close());
    const service = await run(`${oneListener(MCP)}body_limits: { max_response_bytes: 2000 }`);
    await service.register('forwards', { name: 'up', address: upstream.url });
    const url = at(service, 'l', '/default/mcp');
    const legacy = await legacyClient(url);
    await expect.poll(async () => (await legacy.call('tools/list')).text).toContain('large');
    expect((await legacy.call('tools/call', '{"name":"small"}')).text).toContain('x'.repeat(500));
    const answer = await legacy.call('tools/call', '{"name":"large"}');
    expect(answer.text).toContain('-32603');
    expect(answer.text).toContain('more than 2000 bytes');
  });
});

describe('shutdown_timeout_secs', () => {
  it.each([
    [0, 0],
    [1, 900],
  ])('of %i is what a request under way gets, and no more', async (seconds, least) => {
    const arrived = Promise.withResolvers<void>();
    const silent = createServer(() => arrived.resolve());
    const port = await listen(silent, 0);
    atEnd(() => {
      silent.close();
      silent.closeAllConnections();
    });
    const service = await run(`${oneListener(`- { filter: router, routes: [{ path_prefix: /, cluster: silent }] }
- { filter: load_balancer, clusters: [{ name: silent, endpoints: ['127.0.0.1:${port}'] }] }`)}
shutdown_timeout_secs: ${seconds}`);
    const cut = expect(send(at(service, 'l', '/'), 'GET')).rejects.toThrow();
    await arrived.promise;
    const began = performance.now();
    // Without a word of its own on how long.
    await service.stop();
    const took = performance.now() - began;
    await cut;
    expect(took).toBeGreaterThanOrEqual(least);
    expect(took).toBeLessThan(least + 5_000);
  });
});
