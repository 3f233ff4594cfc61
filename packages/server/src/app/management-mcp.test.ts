import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { toolCallEvent } from '@sluice/contract';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { legacyClient, modernClient, post, reply, send } from '../../../../test/fixtures/raw-client.ts';
import { LIST_END, textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

/** A tool whose argument a modern client mirrors in a header. */
const MIRRORED = toolText(
  'echo',
  ',"inputSchema":{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"}}}',
).replace('"inputSchema":{"type":"object"},', '');

let upstream: RawUpstream;
let service: TestService;
beforeAll(async () => {
  upstream = await startRawUpstream({
    scripts: { 'tools/list': () => toolList(MIRRORED), 'tools/call': textResultText('done') },
  });
  service = await startTestService({ SERVICE_FORWARD_HEADERS: 'x-tenant, authorization, cookie, x-request-id' });
  await service.register('forwards', { name: 'up', address: upstream.url });
});
afterAll(async () => {
  await service.stop();
  await upstream.close();
});

const endpoint = (namespace = 'default') => `${service.management}/api/v1/namespaces/${namespace}/mcp`;

const SENT = {
  authorization: 'Bearer secret',
  cookie: 'a=secret',
  'x-tenant': 'secret',
  'x-request-id': 'r-secret',
  'x-forwarded-user': 'ann',
};

describe.for(['legacy', 'modern'] as const)('a %s client of the management listener', (era) => {
  test('calls tools as on the MCP listener, but none of its headers is copied upstream', async () => {
    const { 'x-forwarded-user': _, ...anonymous } = SENT;
    const client = era === 'modern' ? modernClient(endpoint()) : await legacyClient(endpoint());
    const sent = era === 'modern' ? { ...SENT, 'mcp-param-city': 'Bern', 'mcp-param-more': 'secret' } : anonymous;
    const before = upstream.seen.length;
    const call = await client.call('tools/call', '{"name":"echo","arguments":{"city":"Bern"}}', sent);
    expect([call.status, reply(call)]).toEqual([200, expect.stringContaining('done')]);
    expect(call.headers['access-control-allow-origin']).toBe('*');
    const all = upstream.seen.slice(before);
    const seen = all.filter(({ method }) => method === 'tools/call');
    expect(seen).toHaveLength(1);
    for (const { headers } of all) expect(JSON.stringify(headers)).not.toContain('secret');
    if (era === 'modern') expect(seen[0]?.headers['mcp-param-city']).toBe('Bern');
  });

  test('is marked in events, which name its user and the forward', async () => {
    const client = era === 'modern' ? modernClient(endpoint()) : await legacyClient(endpoint());
    await client.call('tools/call', '{"name":"echo"}', era === 'modern' ? SENT : { 'x-request-id': 'r-secret' });
    const { data } = await service.manage('GET', '/tool-calls?limit=1');
    expect(toolCallEvent.array().parse(data)).toMatchObject([
      { via: 'console', forward: 'up', requestId: 'r-secret', ...(era === 'modern' && { user: 'ann' }) },
    ]);
    const direct = era === 'modern' ? modernClient(service.url()) : await legacyClient(service.url());
    await direct.call('tools/call', '{"name":"echo"}');
    const [event] = toolCallEvent.array().parse((await service.manage('GET', '/tool-calls?limit=1')).data);
    expect(event).not.toHaveProperty('via');
  });

  test('runs through the filters of the MCP listener', async () => {
    const runs = async () => {
      const { data } = await service.manage('GET', '/metrics');
      const { requests_continue: continued } = Object(data).filters.service_evaluator;
      return Number(continued);
    };
    const client = era === 'modern' ? modernClient(endpoint()) : await legacyClient(endpoint());
    const before = await runs();
    expect(reply(await client.call('tools/list'))).toContain('"echo"');
    expect(await runs()).toBe(before + 1);
  });
});

test('a legacy session has its notification stream and its end there', async () => {
  const client = await legacyClient(endpoint());
  const ended = await send(endpoint(), 'DELETE', client.headers);
  expect(ended.status).toBeLessThan(300);
  expect((await client.call('tools/list')).status).toBe(404);
});

test('other requests to these paths are answered as documented', async () => {
  const body = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
  expect(await post(endpoint('none'), body)).toMatchObject({
    status: 404,
    text: expect.stringContaining('namespace not found: none'),
  });
  expect((await post(`${endpoint()}/?a=b`, body)).status).toBe(200);
  expect((await post(endpoint(), body, { origin: 'https://evil.example' })).status).toBe(403);
  expect(await send(endpoint(), 'OPTIONS')).toMatchObject({ status: 204 });
  expect((await post(endpoint('a%2Fb'), body)).status).toBe(404);
  expect((await post(`${service.management}/api/v1/namespaces/default/mcp/more`, body)).status).toBe(404);
  const large = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"${'x'.repeat(4 * 1024 * 1024)}"}}`;
  expect((await post(endpoint(), large)).status).toBe(413);
});

test('without a listener that serves MCP the endpoint is unavailable', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-management-mcp-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = `${folder}/pipeline.yaml`;
  await writeFile(
    file,
    'listeners: [{name: mcp, address: "127.0.0.1:0", filter_chains: [a]}, {name: inference, address: "127.0.0.1:0", filter_chains: [a]}]\n' +
      'filter_chains: [{name: a, filters: [{filter: static_response, status: 200}]}]\n',
  );
  const other = await startTestService({}, ['--pipeline-config', file]);
  onTestFinished(() => other.stop());
  const answer = await post(`${other.management}/api/v1/namespaces/default/mcp`, '{}');
  expect(answer).toMatchObject({
    status: 503,
    text: expect.stringContaining('no listener of the pipeline serves MCP'),
  });
});

test('calls in flight finish when the service stops', async () => {
  const arrived = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<string>();
  const slow = await startRawUpstream({
    eras: ['modern'],
    scripts: {
      'tools/list': () => `{"tools":[${toolText('slow')}],${LIST_END}`,
      'tools/call': () => {
        arrived.resolve();
        return answer.promise;
      },
    },
  });
  onTestFinished(() => slow.close());
  const other = await startTestService();
  await other.register('forwards', { name: 'up', address: slow.url });
  const call = modernClient(`${other.management}/api/v1/namespaces/default/mcp`).call('tools/call', '{"name":"slow"}');
  await arrived.promise;
  const stopped = other.stop();
  answer.resolve(textResultText('late'));
  expect(reply(await call)).toContain('late');
  await stopped;
});
