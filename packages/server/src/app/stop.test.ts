import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { expect, it } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService } from '../../testing/service.ts';

it('a management request that is never finished does not keep the service from stopping', async () => {
  const service = await startTestService();
  const [host = '', port = ''] = service.management.replace('http://', '').split(':');
  const stuck = connect({ host, port: Number.parseInt(port, 10) });
  stuck.on('error', () => undefined);
  await once(stuck, 'connect');
  stuck.write(`POST /api/v1/namespaces HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 100\r\n\r\n{`);
  // Answered after it on another connection: the service has the stuck one.
  expect((await service.manage('GET', '/namespaces')).status).toBe(200);
  const began = performance.now();
  await service.stop(500);
  expect(performance.now() - began).toBeLessThan(10_000);
  stuck.destroy();
});

it('a client that reads slowly gets the whole of its answer though the service is stopping', async () => {
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
  // The door is closed by the time that the client goes on reading.
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
