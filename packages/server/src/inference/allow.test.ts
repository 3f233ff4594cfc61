import { createServer } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { send } from '../../../../test/fixtures/raw-client.ts';
import { sendBytes } from '../../../../test/fixtures/raw-exchange.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

/** Requests that reached the model server. */
let seen: string[] = [];
const model = createServer((request, response) => {
  seen.push(`${request.method} ${request.url}`);
  request.resume();
  response.end('{}');
});
let upstream: string;
beforeAll(async () => {
  upstream = `127.0.0.1:${await listen(model, 0)}`;
});
afterAll(() => {
  model.close();
  model.closeAllConnections();
});
afterEach(() => {
  seen = [];
});

const start = (allow: string) =>
  startTestService({ SERVICE_INFERENCE_UPSTREAM: upstream, SERVICE_INFERENCE_ALLOW: allow });
const portOf = (service: TestService) => Number(service.addresses.inference?.split(':')[1]);

/** Sends a request and returns its status. */
async function statusOf(service: TestService, method: string, path: string, headers = ''): Promise<number> {
  const text = await sendBytes(
    portOf(service),
    `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${headers}\r\n`,
  );
  return Number(text.split(' ', 2)[1]);
}

describe('SERVICE_INFERENCE_ALLOW=completions', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await start('completions');
  });
  afterAll(() => service.stop(0));

  it.each([
    'POST /v1/chat/completions',
    'POST /v1/completions',
    'POST /v1/responses',
    'POST /v1/embeddings',
    'GET /v1/models',
    'GET /v1/models/llama3.2:latest',
    'GET /v1/models/meta-llama/Llama-3.2-1B',
    'GET /v1/models/huggingface/meta-llama/Llama-3.2-1B',
    'GET /v1/models?limit=5&x=%2F..//',
    'POST /api/chat',
    'POST /api/generate',
    'POST /api/embed',
    'POST /api/embeddings',
    'GET /api/tags',
    'POST /api/show',
    'GET /api/version',
    'GET /',
    'HEAD /',
  ])('passes %s on', async (request) => {
    const [method = '', path = ''] = request.split(' ');
    expect(await statusOf(service, method, path)).toBe(200);
    expect(seen).toEqual([request]);
  });

  it.each([
    'DELETE /api/delete',
    'POST /api/delete',
    'POST /api/pull',
    'POST /v1/models',
    'POST /v1/models/a/b',
    'GET /v1/modelsx',
    'OPTIONS /api/chat',
    'POST /api/chat/',
    'POST /API/chat',
    'POST /v1/chat%2fcompletions',
    'POST /api/ch%61t',
    'POST /api//chat',
    'POST //api/chat',
    'POST /api/./chat',
    'DELETE /api/chat/../delete',
    'GET /v1/models/..',
    'GET /v1/models/a/../../x',
    'GET /v1/models/a//b',
    'GET /v1/models/a/%2e%2e/b',
    'GET /v1/models/..;x',
    'GET /v1/models/a\\..\\..\\api\\delete',
    'POST http://other/api/chat',
    'CONNECT localhost:80',
  ])('answers %s with 403', async (request) => {
    const [method = '', path = ''] = request.split(' ');
    expect(await statusOf(service, method, path)).toBe(403);
    expect(seen).toEqual([]);
  });

  it.each(['websocket', 'h2c, websocket', 'h2c2', ''])('answers an upgrade to "%s" with 403', async (protocol) => {
    expect(await statusOf(service, 'POST', '/api/chat', `Connection: upgrade\r\nUpgrade: ${protocol}\r\n`)).toBe(403);
    expect(seen).toEqual([]);
  });

  it.each(['h2c', 'H2C', 'h2c, h2'])('ignores an offer of %s', async (protocol) => {
    const offer = `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: ${protocol}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n`;
    expect(await statusOf(service, 'POST', '/api/chat', offer)).toBe(200);
    expect(seen).toEqual(['POST /api/chat']);
  });

  it('explains a rejection as JSON', async () => {
    const { status, headers, text } = await send(
      `http://${service.addresses.inference}/api/delete`,
      'DELETE',
      {},
      '{}',
    );
    expect([status, headers['content-type']]).toEqual([403, 'application/json']);
    expect(JSON.parse(text)).toEqual({
      error: {
        message: 'DELETE /api/delete is not allowed; SERVICE_INFERENCE_ALLOW lists the allowed requests',
        type: 'forbidden',
      },
    });
  });
});

it('matches patterns within a segment, in linear time', async () => {
  const service = await start(`GET /v1/*-*-chat/x, GET /*${'a*'.repeat(20)}b`);
  try {
    expect(await statusOf(service, 'GET', '/v1/a-b-chat/x')).toBe(200);
    expect(await statusOf(service, 'GET', '/v1/a-chat/x')).toBe(403);
    expect(await statusOf(service, 'GET', '/v1/a-b/-chat/x')).toBe(403);
    const began = process.cpuUsage();
    expect(await statusOf(service, 'GET', `/${'a'.repeat(8_000)}`)).toBe(403);
    expect(process.cpuUsage(began).user).toBeLessThan(1_000_000);
  } finally {
    await service.stop(0);
  }
});

it('passes everything on by default', async () => {
  const service = await start('');
  try {
    expect(await statusOf(service, 'DELETE', '/api/delete')).toBe(200);
    expect(await statusOf(service, 'GET', '/a%2f..//b')).toBe(200);
    expect(seen).toEqual(['DELETE /api/delete', 'GET /a%2f..//b']);
    // Rejected on every listener.
    expect(await statusOf(service, 'GET', 'http://other/')).toBe(400);
  } finally {
    await service.stop(0);
  }
});
