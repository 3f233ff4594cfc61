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

it('a call that is taken back while its server is asked what it speaks is not carried out', async () => {
  const asked = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  upstream = await startRawUpstream({ eras: ['legacy'] });
  const { scripts } = upstream;
  scripts.initialize = async () => {
    asked.resolve();
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
  const answer = call(7);
  await asked.promise;
  const said = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}';
  expect((await client.post(said)).status).toBe(202);
  release.resolve();
  const { status, text } = await answer;
  expect([status, text]).toEqual([200, '']);
  // Whatever of the first was to come would be there before this one.
  expect((await call(8)).status).toBe(200);
  expect(upstream.count('tools/call')).toBe(1);
});
