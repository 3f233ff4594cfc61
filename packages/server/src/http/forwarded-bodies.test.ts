import { expect, test } from 'vitest';
import { responseParts, sendBytes } from '../../../../test/fixtures/raw-exchange.ts';
import { startTappedBackend } from '../../../../test/fixtures/tapped-backend.ts';
import { PING } from '../../testing/listener.ts';
import { pipelineTests } from '../app/pipeline.fixture.ts';

const { runFilters, finally: atEnd } = pipelineTests();

/** A listener that reads messages and forwards them. */
async function relay() {
  const backend = await startTappedBackend();
  atEnd(() => backend.close());
  const service = await runFilters(`
- { filter: mcp, max_body_bytes: 1000 }
- { filter: router, routes: [{ path_prefix: /, cluster: up }] }
- { filter: load_balancer, clusters: [{ name: up, endpoints: ['127.0.0.1:${backend.port}'] }] }`);
  const port = Number(service.addresses.l?.split(':').at(-1));
  const send = async (method: string, rest: string) => {
    backend.clear();
    const response = await sendBytes(port, `${method} /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${rest}`);
    return Number(responseParts(response).statusLine.split(' ')[1]);
  };
  return { backend, send };
}

/** The body framing in the head of a request. */
function framing(headers: readonly string[] = []): string[] {
  const lines = headers.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${headers[index + 1]}`] : []));
  return lines.map((line) => line.toLowerCase()).filter((line) => /^(content-length|transfer-encoding):/.test(line));
}

test('a chain with an mcp filter forwards the body of any method', async () => {
  const { backend, send } = await relay();
  const length = `Content-Length: ${PING.length}\r\n`;
  const chunks = `Transfer-Encoding: chunked\r\n\r\n${PING.length.toString(16)}\r\n${PING}\r\n0\r\n\r\n`;
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'GET']) {
    for (const rest of [`${length}\r\n${PING}`, chunks]) {
      expect(await send(method, rest)).toBe(200);
      const [{ body, headers } = { body: undefined, headers: [] }, ...more] = backend.requests;
      expect([body?.toString(), framing(headers), more]).toEqual([PING, [length.trim().toLowerCase()], []]);
    }
  }
});

test('a chain with an mcp filter adds no framing to a request without a body', async () => {
  const { backend, send } = await relay();
  for (const method of ['GET', 'DELETE', 'OPTIONS']) {
    expect(await send(method, '\r\n')).toBe(200);
    expect(framing(backend.requests[0]?.headers)).toEqual([]);
  }
  expect(await send('PUT', 'Content-Length: 0\r\n\r\n')).toBe(200);
  expect(framing(backend.requests[0]?.headers)).toEqual(['content-length: 0']);
});

test('a chain with an mcp filter enforces the body limit for any method', async () => {
  const { backend, send } = await relay();
  expect(await send('PUT', `Content-Length: 1001\r\n\r\n${'x'.repeat(1001)}`)).toBe(413);
  expect(await send('PUT', `Content-Length: 1000\r\n\r\n${'x'.repeat(1000)}`)).toBe(200);
  expect(backend.requests[0]?.body).toHaveLength(1000);
});
