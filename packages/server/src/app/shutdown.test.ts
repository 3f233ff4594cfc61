import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { legacyClient, messages, modernClient } from '../../../../test/fixtures/raw-client.ts';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService } from '../../testing/service.ts';

// Node.js warns once per process: this is the first test.
it('a service that stops without a grace period sets no timer in the past', async () => {
  const service = await startTestService();
  const warnings: string[] = [];
  const listener = ({ name }: Error) => void warnings.push(name);
  process.on('warning', listener);
  onTestFinished(() => void process.off('warning', listener));
  await service.stop(0);
  expect(warnings).toEqual([]);
});

it('an incomplete management request does not block shutdown', async () => {
  const service = await startTestService();
  const [host = '', port = ''] = service.management.replace('http://', '').split(':');
  const stuck = connect({ host, port: Number.parseInt(port, 10) });
  stuck.on('error', () => undefined);
  await once(stuck, 'connect');
  stuck.write(`POST /api/v1/namespaces HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 100\r\n\r\n{`);
  // Once this request is answered, the service has received the incomplete one.
  expect((await service.manage('GET', '/namespaces')).status).toBe(200);
  const began = performance.now();
  await service.stop(500);
  expect(performance.now() - began).toBeLessThan(10_000);
  stuck.destroy();
});

it.each(['legacy', 'modern'] as const)(
  'a call of a %s client that outlasts the grace period gets an error, and its event says that the service is unavailable',
  async (era) => {
    const service = await startTestService({ RUST_LOG: 'debug' });
    const upstream = await startRawUpstream({
      scripts: { 'tools/list': toolList(toolText('slow')), 'tools/call': () => new Promise(() => {}) },
    });
    onTestFinished(() => upstream.close());
    await service.register('forwards', { name: 'up', address: upstream.url });
    const client = era === 'legacy' ? await legacyClient(service.url()) : modernClient(service.url());
    const response = client.call('tools/call', '{"name":"slow","arguments":{}}');
    await expect.poll(() => upstream.count('tools/call')).toBe(1);
    await service.stop(10);
    const [text = ''] = messages(await response).slice(-1);
    expect(JSON.parse(text).error).toEqual({ code: -32000, message: 'service is shutting down' });
    const line = service.log.map((each) => JSON.parse(each)).find(({ msg }) => msg === 'tool call failed');
    expect(line).toMatchObject({ error_category: 'SERVICE_UNAVAILABLE' });
    if (era === 'legacy') await expect.poll(() => upstream.count('notifications/cancelled')).toBe(1);
  },
);

it('a slow client receives its complete response during shutdown', { tags: ['slow'] }, async () => {
  const service = await startTestService();
  const padding = `,"x":"${'x'.repeat(200_000)}"`;
  const upstream = await startRawUpstream({
    scripts: {
      'tools/list': toolList(...Array.from({ length: 100 }, (_, n) => toolText(`tool${n}`, padding))),
    },
  });
  await service.register('forwards', { name: 'big', address: upstream.url });
  const req = request(service.url(), { method: 'POST', agent: false });
  req.end('{"jsonrpc":"2.0","id":1,"method":"tools/list"}');
  const [response] = await once(req, 'response');
  const stopping = service.stop(20_000);
  // The listener is closed before the client continues to read.
  await expect
    .poll(() =>
      fetch(service.url()).then(
        () => 'open',
        () => 'closed',
      ),
    )
    .toBe('closed');
  let bytes = 0;
  for await (const chunk of response) bytes += chunk.length;
  expect(bytes).toBe(Number(response.headers['content-length']));
  expect(bytes).toBeGreaterThan(20_000_000);
  await stopping;
  await upstream.close();
});
