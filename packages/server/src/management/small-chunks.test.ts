import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { expect, onTestFinished, test, vi } from 'vitest';
import { inChunks } from '../../../../test/fixtures/chunks.ts';
import { responseParts, sendBytes } from '../../../../test/fixtures/raw-exchange.ts';
import { startTappedBackend } from '../../../../test/fixtures/tapped-backend.ts';
import { startApi } from './api.fixture.ts';

// A client chooses the size of its chunks. If each was handled by itself, an upload in chunks of one byte would hold the event
// loop for more than 50 ms.

const BYTES = 100_000;
const BODY = `{"name":"small","labels":{},"x":"${'x'.repeat(BYTES)}"}`;

/** Sends the body in chunks of one byte, and returns the status of the response. */
async function upload(port: number, line: string): Promise<number> {
  const head = `${line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n`;
  const response = await sendBytes(port, Buffer.concat([Buffer.from(head), inChunks(Buffer.from(BODY), 1)]));
  return Number(responseParts(response).statusLine.split(' ')[1]);
}

test.for([
  ['POST', '/api/v1/namespaces', 201],
  ['PUT', '/api/v1/namespaces/default', 200],
  ['PATCH', '/api/v1/forwards/none', 400],
  ['DELETE', '/api/v1/tools/none', 404],
  ['QUERY', '/api/v1/tools', 405],
] as const)('a body of %s in chunks of one byte is read in few pieces', async ([method, path, status], context) => {
  const api = await startApi(context);
  const push = vi.spyOn(ChunkBuffer.prototype, 'push');
  onTestFinished(() => push.mockRestore());
  expect(await upload(api.port, `${method} ${path}`)).toBe(status);
  const pieces = push.mock.calls.length;
  expect(pieces).toBeGreaterThan(0);
  expect(pieces).toBeLessThan(BYTES / 100);
});

test('a proxied body in chunks of one byte is forwarded in few chunks', async (context) => {
  const backend = await startTappedBackend();
  onTestFinished(() => backend.close());
  const api = await startApi(context, { classicUrl: backend.url });
  expect(await upload(api.port, 'POST /api/v1/chat/x')).toBe(200);
  expect(backend.requests[0]?.body.toString()).toBe(BODY);
  const framing = backend.received.length - BODY.length;
  expect(framing).toBeLessThan(BYTES / 10);
});
