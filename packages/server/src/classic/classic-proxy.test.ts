import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { send } from '../../../../test/fixtures/raw-client.ts';
import { startTestService } from '../testing/service.ts';

const PATHS = [
  '/api/v1/service-catalog',
  '/api/v1/service-template/x',
  '/api/v1/data-store?a=%20b',
  '/api/v1/capabilities',
  '/api/v1/chat/completions',
  '/api/v1/management/info',
  '/api/v1/management/statistics/x',
  '/api/v2/code-execution-engine/e/l',
  '/api/v2/tool-calls/notifications',
];

/** A legacy backend that answers with what it was sent. */
async function backend(status = 201) {
  const seen: { head: IncomingMessage; body: string }[] = [];
  const server = createServer(async (head, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of head) chunks.push(chunk);
    seen.push({ head, body: Buffer.concat(chunks).toString() });
    response.writeHead(status, { 'X-Odd-Case': 'a', 'Access-Control-Allow-Origin': 'https://other' }).end('[1.0]');
  });
  const port = await listen(server, 0);
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { seen, url: `http://127.0.0.1:${port}/legacy` };
}

async function serviceWith(url: string) {
  const service = await startTestService({ SERVICE_CLASSIC_URL: url });
  onTestFinished(() => service.stop(0));
  return service;
}

test.each(PATHS)('%s is passed on with method, query, headers and body, and its answer back', async (path) => {
  const { seen, url } = await backend();
  const { management } = await serviceWith(url);
  const headers = { 'content-type': 'text/x', connection: 'x-mine', 'x-mine': '1', te: 'trailers', authorization: 'a' };
  const answer = await send(`${management}${path}`, 'PATCH', headers, '{"n": 1.0}');
  expect([answer.status, answer.text]).toEqual([201, '[1.0]']);
  expect(answer.headers).toMatchObject({ 'x-odd-case': 'a', 'access-control-allow-origin': '*' });
  const [{ head, body } = { head: undefined, body: '' }] = seen;
  expect([head?.method, head?.url, body]).toEqual(['PATCH', `/legacy${path}`, '{"n": 1.0}']);
  expect(head?.headers).toMatchObject({
    'content-type': 'text/x',
    authorization: 'a',
    host: new URL(url).host,
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-proto': 'http',
    'x-forwarded-host': new URL(management).host,
  });
  expect(Object.keys(head?.headers ?? {})).not.toContain('x-mine');
  expect(Object.keys(head?.headers ?? {})).not.toContain('te');
});

test('statistics are our own to read, and not to be written', async () => {
  const { seen, url } = await backend(404);
  const { management } = await serviceWith(url);
  const path = `${management}/api/v1/management/statistics`;
  expect((await send(path, 'GET')).status).toBe(200);
  expect((await send(path, 'POST')).status).toBe(404);
  expect(seen).toHaveLength(1);
});

test.each(PATHS)('%s is 503 while there is no backend', async (path) => {
  const { management } = await serviceWith('');
  const answer = await send(`${management}${path}`, 'POST', {}, 'body');
  expect(answer.status).toBe(503);
  expect(JSON.parse(answer.text)).toMatchObject({ data: null, error: { code: 'UNAVAILABLE' } });
});

test('a backend that is not there is 502', async () => {
  const server = createServer();
  const port = await listen(server, 0);
  server.close();
  await once(server, 'close');
  const { management } = await serviceWith(`http://127.0.0.1:${port}`);
  const answer = await send(`${management}/api/v1/chat`, 'GET');
  expect(answer.status).toBe(502);
  expect(JSON.parse(answer.text)).toMatchObject({ data: null, error: { code: 'BAD_GATEWAY' } });
});
