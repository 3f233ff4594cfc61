import { HEADER_MISMATCH } from '@sluice/protocol/mcp/constants';
import { afterEach, expect, it } from 'vitest';
import { modernClient } from '../../../../../test/fixtures/raw-client.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { errorOf } from '../../../testing/relay.ts';
import { startTestService, type TestService } from '../../../testing/service.ts';
import { sessionClient } from '../../../testing/session-client.ts';

// Calls of a tool that an operator has registered, while the era of the server that it names is discovered.

let upstream: RawUpstream | undefined;
let service: TestService | undefined;
afterEach(async () => {
  await service?.stop(0);
  await upstream?.close();
});

/** A client whose first call makes the service discover the era, until `release` is called. */
async function setUp() {
  const requested = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  upstream = await startRawUpstream({ eras: ['legacy'] });
  const { scripts } = upstream;
  scripts.initialize = async () => {
    requested.resolve();
    await released.promise;
    return '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"u","version":"1"}}';
  };
  scripts['tools/call'] = '{"content":[]}';
  service = await startTestService();
  const tool = { name: 'work', description: 'd', toolType: 'mcp-forward', uri: upstream.url, input_schema: {} };
  await service.register('tools', tool);
  const client = await sessionClient(service.url());
  const call = (id: number) =>
    client.post(`{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"work"}}`);
  return { upstream, service, tool, client, call, requested: requested.promise, release: released.resolve };
}

it('a call that is canceled during era discovery is not executed', async () => {
  const { upstream, client, call, requested, release } = await setUp();
  const response = call(7);
  await requested;
  const cancellation = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}';
  expect((await client.post(cancellation)).status).toBe(202);
  release();
  const { status, text } = await response;
  expect([status, text]).toEqual([200, '']);
  // Messages of the first call would precede this one.
  expect((await call(8)).status).toBe(200);
  expect(upstream.count('tools/call')).toBe(1);
});

it.each([
  ['disables', 'POST', '/tools/enabled', { enabled: false, names: ['work'] }],
  ['removes', 'DELETE', '/tools/work', undefined],
])('a call of a tool that an operator %s is answered like one of an unknown tool', async (_, method, path, body) => {
  const { upstream, service, call, requested, release } = await setUp();
  const response = call(7);
  await requested;
  expect((await service.manage(method, path, body)).status).toBeLessThan(300);
  release();
  expect((await response).text).toContain('{"code":-32602,"message":"tool not found: work"}');
  expect(upstream.count('tools/call')).toBe(0);
});

it('a call is sent to the server that its tool names by then', async () => {
  const { upstream, service, tool, call, requested, release } = await setUp();
  const other = await startRawUpstream({ eras: ['legacy'], scripts: { 'tools/call': '{"content":[]}' } });
  try {
    const response = call(7);
    await requested;
    expect((await service.manage('PUT', '/tools/work', { ...tool, uri: other.url })).status).toBe(200);
    release();
    expect((await response).text).toContain('"result":{"content":[]}');
    expect([upstream.count('tools/call'), other.count('tools/call')]).toEqual([0, 1]);
  } finally {
    await other.close();
  }
});

it('a call that contradicts what its tool declares by then is rejected', async () => {
  const { upstream, service, tool, requested, release } = await setUp();
  const response = modernClient(service.url()).call('tools/call', '{"name":"work","arguments":{"region":"eu"}}');
  await requested;
  const properties = { region: { type: 'string', 'x-mcp-header': 'Region' } };
  const changed = { ...tool, input_schema: { type: 'object', properties } };
  expect((await service.manage('PUT', '/tools/work', changed)).status).toBe(200);
  release();
  expect(errorOf(await response)).toMatchObject({ code: HEADER_MISMATCH });
  expect(upstream.count('tools/call')).toBe(0);
});

it('a call waits briefly for a server that does not respond to what determines its era', async () => {
  const { upstream, call, requested, release } = await setUp();
  const response = call(7);
  await requested;
  // The session of the call is opened beside that of the probe.
  await expect.poll(() => upstream.count('initialize'), { timeout: 10_000 }).toBe(2);
  release();
  expect((await response).text).toContain('"result":{"content":[]}');
});

it.each([
  ['a query', (url: string) => `${url}?key=k`],
  ['a host in capitals', (url: string) => url.replace('127.0.0.1', 'LOCALHOST')],
])('the era is that of the server at the whole address: %s', async (_, change) => {
  const { upstream, service, tool, release } = await setUp();
  release();
  await service.register('tools', { ...tool, name: 'other', uri: change(upstream.url) });
  const response = await modernClient(service.url()).call('tools/call', '{"name":"other"}');
  expect(response.text).toContain('"content":[]');
});
