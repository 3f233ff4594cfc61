import { connect } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { errorResponse } from '@sluice/contract';
import { expect, test } from 'vitest';
import { commit } from '../registry/fixtures/commit.ts';
import { createEntry } from '../registry/operations.ts';
import { memoryLog, type RecordLog } from '../registry/store/record-log.ts';
import { startApi } from './api.fixture.ts';

const TOOL = { name: 't', description: '', uri: 'http://u/mcp', toolType: 'custom', input_schema: {} };

/** Sends bytes unchanged and reads until the connection ends. */
async function sendRaw(port: number, bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.write(bytes);
  return readText(socket);
}

test('health returns the exact body, also while the service is not ready', async (context) => {
  const api = await startApi(context, { ready: () => false });
  for (const path of ['/healthz', '/health', '/health/']) {
    const answer = await api.call('GET', path);
    expect(answer.status).toBe(200);
    expect(answer.text).toBe('{"data":{"status":"ok"},"error":null}');
    expect(answer.headers['content-type']).toBe('application/json');
  }
});

test('readiness follows the service', async (context) => {
  let ready = false;
  const api = await startApi(context, { ready: () => ready });
  expect(await api.call('GET', '/readyz')).toMatchObject({ status: 503, data: null, error: { code: 'UNAVAILABLE' } });
  ready = true;
  expect((await api.call('GET', '/readyz')).text).toBe('{"data":{"status":"ready"},"error":null}');
});

test('statistics count served entries', async (context) => {
  const api = await startApi(context);
  await api.call('POST', '/api/v1/tools', TOOL);
  await api.call('POST', '/api/v1/tools', { ...TOOL, namespace: 'other' });
  await api.call('POST', '/api/v1/prompts', { name: 'p' });
  expect((await api.call('GET', '/api/v1/management/statistics')).data).toEqual({
    toolsCount: 2,
    resourcesCount: 0,
    promptsCount: 1,
    forwardsCount: 0,
    dataStoresCount: 0,
  });
});

test('an unknown path is 404 in the envelope', async (context) => {
  const api = await startApi(context);
  for (const path of [
    '/',
    '/nothing',
    '/api/v1',
    '/api/v1/tools/a/b',
    '/api/v2/tools',
    '/API/v1/tools',
    '/api/v1//tools',
  ]) {
    const answer = await api.call('GET', path);
    expect(answer.status, path).toBe(404);
    expect(errorResponse.parse(JSON.parse(answer.text)).error.code).toBe('NOT_FOUND');
  }
});

test.for([
  ['PATCH', '/api/v1/tools/x', 'DELETE, GET, HEAD, OPTIONS, PUT'],
  ['DELETE', '/api/v1/tools', 'GET, HEAD, OPTIONS, POST'],
  ['PUT', '/api/v1/forwards/x', 'DELETE, GET, HEAD, OPTIONS, PATCH'],
  ['GET', '/api/v1/forwards/x/refreshes', 'OPTIONS, POST'],
  ['POST', '/healthz', 'GET, HEAD, OPTIONS'],
  ['POST', '/api/v1/interactions/', 'DELETE, GET, HEAD, OPTIONS'],
  ['PROPFIND', '/api/v1/namespaces', 'GET, HEAD, OPTIONS, POST'],
  ['QUERY', '/api/v1/namespaces', 'GET, HEAD, OPTIONS, POST'],
] as const)('%s %s is 405 with Allow', async ([method, path, allow], context) => {
  const api = await startApi(context);
  const answer = await sendRaw(
    api.port,
    `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
  );
  expect(answer).toMatch(/^HTTP\/1\.1 405 /);
  const header = /^allow: (.*)$/im.exec(answer)?.[1];
  expect(header?.split(', ').sort().join(', ')).toBe(allow);
  expect(answer).toContain('"code":"METHOD_NOT_ALLOWED"');
});

test('OPTIONS returns 204 with the methods of the API, on any path', async (context) => {
  const api = await startApi(context);
  for (const path of ['/api/v1/tools', '/nothing']) {
    const answer = await api.call('OPTIONS', path);
    expect(answer.status).toBe(204);
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE, OPTIONS',
      'access-control-allow-headers': 'Content-Type, Accept, Authorization',
    });
    expect(answer.headers.vary).toBeUndefined();
  }
});

test('a foreign Host or Origin is rejected first', async (context) => {
  const api = await startApi(context);
  const foreignHost = await api.call('POST', '/api/v1/namespaces', { name: 'a' }, { host: 'evil.example' });
  expect(foreignHost).toMatchObject({ status: 403, error: { code: 'FORBIDDEN' } });
  const foreignOrigin = await api.call('POST', '/api/v1/namespaces', { name: 'a' }, { origin: 'https://evil.example' });
  expect(foreignOrigin).toMatchObject({ status: 403, error: { code: 'FORBIDDEN' } });
  expect((await api.call('OPTIONS', '/api/v1/tools', undefined, { origin: 'https://evil.example' })).status).toBe(403);
  expect((await api.call('GET', '/nothing', undefined, { host: 'evil.example' })).status).toBe(403);
  expect((await api.call('GET', '/%zz', undefined, { host: 'evil.example' })).status).toBe(403);
  expect(api.registry.current.namespace('a')).toBeUndefined();
  expect((await api.call('GET', '/healthz', undefined, { origin: 'http://localhost:3000' })).status).toBe(200);
});

test('an allowed host and the configured origin pass', async (context) => {
  const api = await startApi(context, { allowedHosts: ['console.example'], corsOrigin: 'https://other.example' });
  const headers = { host: 'console.example', origin: 'https://other.example' };
  expect((await api.call('GET', '/healthz', undefined, headers)).status).toBe(200);
});

/** Members with different names. */
function members(count: number): string {
  return Array.from({ length: count }, (_, n) => `"m${n}":0`).join(',');
}

test.for([
  ['no body', undefined, 'request body required'],
  ['an empty body', '', 'request body required'],
  ['white space', ' \n', 'request body required'],
  ['malformed JSON', '{"name":', /^invalid tool JSON: /],
  ['an array', '[]', 'invalid tool JSON: not an object'],
  ['a number', '1.0', 'invalid tool JSON: not an object'],
  ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 'invalid tool JSON: not valid UTF-8'],
  ['deep nesting', `{"name":${'['.repeat(300)}${']'.repeat(300)}}`, 'invalid tool JSON: nested deeper than 256 levels'],
  ['many values', `{"name":[${'{},'.repeat(300_000)}{}]}`, 'invalid tool JSON: more than 25000 values'],
  ['many values in small arrays', `{"name":[${'[0],'.repeat(250_000)}0]}`, 'invalid tool JSON: more than 25000 values'],
  ['many members', `{${members(5_001)}}`, 'invalid tool JSON: an object with more than 5000 members'],
  ['many members inside', `{"name":[{${members(5_001)}}]}`, 'invalid tool JSON: an object with more than 5000 members'],
  ['bottomless nesting', `{"name":${'['.repeat(200_000)}${']'.repeat(200_000)}}`, /^invalid tool JSON: nested /],
] as const)('%s is 400 with the reason', async ([_name, body, message], context) => {
  const api = await startApi(context);
  const answer = await api.call('POST', '/api/v1/tools', body);
  expect(answer.status).toBe(400);
  expect(answer.data).toBeNull();
  expect(answer.error).toMatchObject({
    code: 'BAD_REQUEST',
    message: typeof message === 'string' ? message : expect.stringMatching(message),
  });
});

test('a body with as many values, members and levels as allowed is accepted', async (context) => {
  const api = await startApi(context);
  const body = `{"name":"a",${members(4_999)}}`;
  expect((await api.call('POST', '/api/v1/namespaces', body)).status).toBe(201);
  // The body, its name and the array are values too.
  const list = `{"name":"b","x":[${'0,'.repeat(24_996)}0]}`;
  expect((await api.call('POST', '/api/v1/namespaces', list)).status).toBe(201);
  expect((await api.call('POST', '/api/v1/namespaces', list.replace('[', '[0,'))).status).toBe(400);
});

test('the content type of a body is not checked', async (context) => {
  const api = await startApi(context);
  for (const [at, type] of ['text/plain', 'not a type', 'application/x-www-form-urlencoded', ''].entries()) {
    const answer = await api.call('POST', '/api/v1/namespaces', { name: `n${at}` }, { 'content-type': type });
    expect(answer.status, type).toBe(201);
  }
});

test('a byte order mark is not part of the body', async (context) => {
  const api = await startApi(context);
  expect((await api.call('POST', '/api/v1/namespaces', '\ufeff{"name":"bom"}')).status).toBe(201);
});

test('a validation error names the member and lists all of them', async (context) => {
  const api = await startApi(context);
  const answer = await api.call('POST', '/api/v1/tools', { name: 5, description: '', labels: { team: 1 } });
  expect(answer.status).toBe(400);
  expect(answer.error).toEqual({
    code: 'BAD_REQUEST',
    message: 'invalid tool: name must be a string',
    details: [
      { path: 'name', message: 'must be a string' },
      { path: 'uri', message: 'is required' },
      { path: 'toolType', message: 'is required' },
      { path: 'input_schema', message: 'is required' },
      { path: 'labels.team', message: 'must be a string' },
    ],
  });
  expect(errorResponse.safeParse(JSON.parse(answer.text)).success).toBe(true);
});

test('a body over 1 MiB is 413, and one of exactly 1 MiB is read', async (context) => {
  const api = await startApi(context);
  const empty = JSON.stringify({ ...TOOL, description: '' });
  const filled = (bytes: number): string =>
    JSON.stringify({ ...TOOL, description: 'x'.repeat(bytes - Buffer.byteLength(empty)) });
  const over = await api.call('POST', '/api/v1/tools', filled(1024 * 1024 + 1));
  expect(over).toMatchObject({ status: 413, error: { code: 'PAYLOAD_TOO_LARGE' } });
  expect(over.text).toContain('1048576 bytes');
  expect((await api.call('POST', '/api/v1/tools', filled(1024 * 1024))).status).toBe(201);
});

test('a client that sends far too much receives 413', async (context) => {
  const api = await startApi(context);
  const answer = await api.call('POST', '/api/v1/tools', Buffer.alloc(32 * 1024 * 1024, 0x20));
  expect(answer.status).toBe(413);
});

test('a chunked body, or one longer than its Content-Length, is rejected beyond the limit', async (context) => {
  const api = await startApi(context);
  const chunk = `${(600_000).toString(16)}\r\n${' '.repeat(600_000)}\r\n`;
  const head =
    'POST /api/v1/tools HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n';
  expect(await sendRaw(api.port, `${head}${chunk}${chunk}0\r\n\r\n`)).toMatch(/^HTTP\/1\.1 413 /);
});

test('a commit that fails is 500 without internals, changes nothing and is logged', async (context) => {
  const kept = memoryLog();
  let broken = false;
  const store: RecordLog = {
    ...kept,
    commit: async (commit) => {
      if (broken) throw new Error('ENOSPC: no space left on /secret/place');
      await kept.commit(commit);
    },
  };
  const api = await startApi(context, { store });
  broken = true;
  const answer = await api.call('POST', '/api/v1/tools?token=abc', TOOL);
  expect(answer).toMatchObject({ status: 500, data: null, error: { code: 'INTERNAL' } });
  expect(answer.text).not.toContain('secret');
  expect((await api.call('GET', '/api/v1/tools')).data).toEqual([]);
  const lines = api.log.filter((line) => line.includes('ENOSPC'));
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ level: 'error', target: 'service::mgmt', path: '/api/v1/tools' });
  expect(lines[0]).not.toContain('abc');
});

test('an internal error is 500 without internals, and is logged', async (context) => {
  const api = await startApi(context, {
    ready: () => {
      throw new TypeError('cannot read /secret/place');
    },
  });
  const answer = await api.call('GET', '/readyz?token=abc');
  expect([answer.status, answer.data]).toEqual([500, null]);
  expect(answer.error).toEqual({ code: 'INTERNAL', message: 'internal error; see the service log' });
  expect(answer.headers['access-control-allow-origin']).toBe('*');
  const [line = ''] = api.log.filter((each) => each.includes('/secret/place'));
  expect(JSON.parse(line)).toMatchObject({ level: 'error', target: 'service::mgmt', method: 'GET', path: '/readyz' });
  expect(line).not.toContain('abc');
});

test('a list of many entries is complete, in order, and valid JSON', async (context) => {
  const api = await startApi(context);
  const names = Array.from({ length: 1_001 }, (_, at) => `tool-${at}`);
  await commit(api.registry, (draft) => {
    for (const name of names) createEntry(draft, 'tool', { ...TOOL, name });
  });
  const { data, headers } = await api.call('GET', '/api/v1/tools');
  expect(Array.isArray(data) && data.map(({ name }) => name)).toEqual(names);
  expect(headers['content-type']).toBe('application/json');
  expect((await api.call('HEAD', '/api/v1/tools')).status).toBe(200);
});
