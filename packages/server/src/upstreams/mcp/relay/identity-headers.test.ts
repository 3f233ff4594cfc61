import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { modernClient, reply } from '../../../../../../test/fixtures/raw-client.ts';
import { lastCall, relayTests } from '../../../../testing/relay.ts';
import { startTestService } from '../../../../testing/service.ts';

const { onEnd, register, upstreamWith } = relayTests();

it('a label cannot name headers that say who calls, which is one warning for each', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-identity-headers-'));
  onEnd(() => rm(folder, { recursive: true }));
  const file = join(folder, 's.yaml');
  await writeFile(file, `identity: { keys: [{ name: a, sha256: [${'ab'.repeat(32)}] }] }`);
  const service = await startTestService({}, ['--service-config', file]);
  onEnd(service.stop);
  const upstream = await upstreamWith();
  const url = await register(upstream.url, {}, service);
  const label = 'X-Tenant, x_forwarded_user, X-Sluice-Authorization';
  const { status } = await service.manage('PUT', `/tools/a?namespace=${new URL(url).pathname.split('/')[1]}`, {
    description: 'd',
    uri: upstream.url,
    toolType: 'mcp-forward',
    input_schema: { type: 'object' },
    labels: { 'service.forward_headers': label },
  });
  expect(status).toBe(200);
  const caller = modernClient(url);
  const sent = { 'x-tenant': 't', x_forwarded_user: 'mallory', 'x-sluice-authorization': 'secret' };
  for (let n = 0; n < 2; n++) {
    expect(reply(await caller.call('tools/call', '{"name":"a"}', sent))).toContain('done');
    expect(lastCall(upstream).headers).toMatchObject({ 'x-tenant': 't' });
    expect(Object.keys(lastCall(upstream).headers)).not.toContain('x_forwarded_user');
    expect(JSON.stringify(lastCall(upstream).headers)).not.toMatch(/mallory|secret/);
  }
  const warnings = service.log
    .map((line) => JSON.parse(line))
    .filter(({ msg }) => msg.includes('service.forward_headers'));
  expect(warnings.map(({ level, header }) => [level, header])).toEqual([
    ['warn', 'x_forwarded_user'],
    ['warn', 'x-sluice-authorization'],
  ]);
});
