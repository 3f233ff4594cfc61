import { networkInterfaces } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { post, send } from '../../../../test/fixtures/raw-client.ts';
import { PING } from '../../testing/listener.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

/** An address of this machine that is not loopback. */
const address = Object.values(networkInterfaces())
  .flatMap((each) => each ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address;

describe.skipIf(address === undefined)('a connection to another address than loopback', () => {
  let service: TestService;
  const url = (listener: string, path: string) =>
    `http://${address}:${service.addresses[listener]?.split(':').at(-1)}${path}`;
  beforeAll(async () => {
    const everywhere = '0.0.0.0:0';
    service = await startTestService({
      SERVICE_MGMT_LISTEN: everywhere,
      SERVICE_MCP_LISTEN: everywhere,
      SERVICE_INFERENCE_LISTEN: everywhere,
      SERVICE_INFERENCE_UPSTREAM: '127.0.0.1:9',
    });
  });
  afterAll(() => service.stop(0));

  const ask = {
    management: (host: string) => send(url('management', '/api/v1/namespaces'), 'GET', { host }),
    mcp: (host: string) => post(url('mcp', '/default/mcp'), PING, { host }),
    inference: (host: string) => send(url('inference', '/v1/models'), 'GET', { host }),
  };

  it.each(['management', 'mcp', 'inference'] as const)('to the %s listener rejects public names', async (listener) => {
    for (const host of ['evil.example', `${address}.evil.example:80`]) {
      const { status, text } = await ask[listener](host);
      expect(status).toBe(403);
      expect(text).toContain('set SERVICE_ALLOWED_HOSTS to allow it');
    }
    for (const host of [`${address}:1`, 'gateway', 'gateway.internal']) {
      // No model server runs.
      expect((await ask[listener](host)).status).toBe(listener === 'inference' ? 502 : 200);
    }
  });

  it('accepts every name for health checks', async () => {
    for (const path of ['/healthz', '/health', '/readyz', '/readyz?verbose']) {
      expect((await send(url('management', path), 'GET', { host: 'probe.example' })).status).toBe(200);
    }
    expect((await send(url('management', '/metrics'), 'GET', { host: 'probe.example' })).status).toBe(403);
  });
});
