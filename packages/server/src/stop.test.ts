import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, it } from 'vitest';
import { startTestService } from './testing/service.ts';

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
