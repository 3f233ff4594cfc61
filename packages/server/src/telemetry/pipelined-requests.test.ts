import { connect } from 'node:net';
import { expect, it, onTestFinished, vi } from 'vitest';
import { startTappedBackend } from '../../../../test/fixtures/tapped-backend.ts';
import { sampleOf, samplesOf } from '../../testing/prometheus-text.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

// A client may pipeline requests and disconnect while they wait for the first response, which alone has begun: it ends then and
// is reported.

const REQUESTS = 5;

async function active({ management }: TestService, listener: string): Promise<number | undefined> {
  const answer = await fetch(`${management}/metrics`, { headers: { connection: 'close' } });
  const found = sampleOf(samplesOf(await answer.text()), 'http_server_active_requests', { sluice_listener: listener });
  // The metrics request itself is in progress.
  return listener === 'management' && found !== undefined ? found - 1 : found;
}

it.each([
  ['inference', 'service::inference::access', '/v1/hang/'],
  ['management', 'service::mgmt::access', '/api/v1/chat/'],
])('pipelined requests on the listener %s end with their connection', async (listener, target, path) => {
  let left = 0;
  const backend = await startTappedBackend((_arrived, response) => void response.on('close', () => left++));
  onTestFinished(() => backend.close());
  const { url, port: backendPort } = backend;
  const service = await startTestService({
    SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${backendPort}`,
    SERVICE_CLASSIC_URL: url,
  });
  onTestFinished(() => service.stop(0));

  const port = Number(service.addresses[listener]?.split(':').at(-1));
  const client = connect(port, '127.0.0.1');
  const paths = Array.from({ length: REQUESTS }, (_, at) => `${path}${at}`);
  client.write(paths.map((each) => `GET ${each} HTTP/1.1\r\nHost: localhost\r\n\r\n`).join(''));
  await vi.waitFor(() => expect(backend.requests).toHaveLength(1), { timeout: 10_000 });
  expect(await active(service, listener)).toBe(1);

  client.destroy();
  await vi.waitFor(async () => expect(await active(service, listener)).toBe(0), { timeout: 10_000 });
  await vi.waitFor(() => expect(left).toBe(1), { timeout: 10_000 });
  const lines = service.log
    .map((line): Record<string, unknown> => JSON.parse(line))
    .filter((line) => line.target === target && String(line.path).startsWith(path));
  expect(lines.map((line) => [line.path, line.status, line.client_disconnected])).toEqual([[paths[0], 499, true]]);
});
