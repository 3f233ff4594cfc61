import { expect, it, onTestFinished } from 'vitest';
import { legacyClient, reply } from '../../../../test/fixtures/raw-client.ts';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService } from '../../testing/service.ts';

// Until there is a legacy client, upstreams of both eras are used in the modern one only.
it.each([
  ['tools/call', '{"name":"a"}', '{"content":[]}'],
  ['prompts/get', '{"name":"a"}', '{"messages":[]}'],
  ['resources/read', '{"uri":"x://a"}', '{"contents":[]}'],
  [
    'completion/complete',
    '{"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"x","value":""}}',
    '{"completion":{"values":[]}}',
  ],
])('the first request of the first legacy client, %s, is relayed in its era', async (method, params, result) => {
  const gate = Promise.withResolvers<void>();
  const upstream = await startRawUpstream();
  onTestFinished(() => upstream.close());
  const end = '"ttlMs":0,"cacheScope":"private","resultType":"complete"';
  const server =
    '"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{},"completions":{}},"serverInfo":{"name":"u","version":"1"}}';
  Object.assign(upstream.scripts, {
    'server/discover': `{"supportedVersions":["2026-07-28"],${end},${server}`,
    'tools/list': toolList(toolText('a')),
    'prompts/list': `{"prompts":[{"name":"a"}],${end}}`,
    'resources/list': `{"resources":[{"uri":"x://a","name":"a"}],${end}}`,
    'resources/templates/list': `{"resourceTemplates":[],${end}}`,
    [method]: result,
  });
  const service = await startTestService();
  onTestFinished(() => service.stop());
  await service.register('forwards', { name: 'both', address: upstream.url });
  upstream.scripts.initialize = async () => {
    await gate.promise;
    return `{"protocolVersion":"2025-11-25",${server}`;
  };
  expect(upstream.count('initialize')).toBe(0);
  const connecting = legacyClient(service.url());
  await expect.poll(() => upstream.count('initialize')).toBeGreaterThan(0);
  gate.resolve();
  const client = await connecting;
  expect(reply(await client.call(method, params))).toContain(result.slice(1, 10));
  expect(upstream.seen.filter((message) => message.method === method).map(({ era }) => era)).toEqual(['legacy']);
});
