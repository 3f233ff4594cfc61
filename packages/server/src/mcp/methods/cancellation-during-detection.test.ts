import { afterEach, expect, it } from 'vitest';
import { type RawUpstream, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { startTestService, type TestService } from '../../../testing/service.ts';
import { sessionClient } from '../../../testing/session-client.ts';

let upstream: RawUpstream | undefined;
let service: TestService | undefined;
afterEach(async () => {
  await service?.stop(0);
  await upstream?.close();
});

it('a call that is canceled during era discovery is not executed', async () => {
  const requested = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  upstream = await startRawUpstream({ eras: ['legacy'] });
  const { scripts } = upstream;
  scripts.initialize = async () => {
    requested.resolve();
    await release.promise;
    return '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"u","version":"1"}}';
  };
  scripts['tools/call'] = '{"content":[]}';
  service = await startTestService();
  const tool = { name: 'work', description: 'd', toolType: 'mcp-forward', uri: upstream.url, input_schema: {} };
  await service.register('tools', tool);
  const client = await sessionClient(service.url());
  const call = (id: number) =>
    client.post(`{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"work"}}`);
  const response = call(7);
  await requested.promise;
  const cancellation = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}';
  expect((await client.post(cancellation)).status).toBe(202);
  release.resolve();
  const { status, text } = await response;
  expect([status, text]).toEqual([200, '']);
  // Messages of the first call would precede this one.
  expect((await call(8)).status).toBe(200);
  expect(upstream.count('tools/call')).toBe(1);
});
