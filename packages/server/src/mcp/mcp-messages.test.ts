import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { post, type RawResponse } from '../../../../test/fixtures/raw-client.ts';
import { errorOf, listenerTests, PING, rpc } from '../../testing/listener.ts';
import { bodyTooLarge } from './methods/parse.ts';

const service = listenerTests();

const MIB = 1024 * 1024;

afterEach(() => {
  vi.useRealTimers();
});

/** Posts bytes, in one piece with their length or in chunks without. */
async function postBytes(url: string, pieces: readonly Buffer[]): Promise<RawResponse> {
  const headers = {
    'content-type': 'application/json',
    ...(pieces.length === 1 && { 'content-length': pieces[0]?.length }),
  };
  const req = request(url, { method: 'POST', headers, agent: false });
  const responded = once(req, 'response');
  for (const piece of pieces) req.write(piece);
  req.end();
  const [res] = await responded;
  const chunks: Buffer[] = [];
  for await (const chunk of res) chunks.push(chunk);
  return { status: res.statusCode, headers: res.headers, text: Buffer.concat(chunks).toString('utf8') };
}

describe('the message', () => {
  it.each([
    ['no body', ''],
    ['half an object', '{"jsonrpc":"2.0","id":1'],
    ['two messages', `${PING}${PING}`],
    ['a byte order mark', `\ufeff${PING}`],
    ['text that is not JSON', 'ping'],
    ['a number that JSON does not have', '{"jsonrpc":"2.0","id":01,"method":"ping"}'],
  ])('that is %s is a parse error', async (_what, body) => {
    const response = await post(service().url(), body);
    expect(response.status).toBe(400);
    expect(errorOf(response)).toEqual({ code: -32700, message: expect.stringMatching(/^parse error/), id: null });
  });

  it('that is not UTF-8 is a parse error', async () => {
    const text = Buffer.from(rpc('tools/call', { name: 'x' }));
    text[text.indexOf('x')] = 0xff;
    const response = await postBytes(service().url(), [text]);
    expect([response.status, errorOf(response).code]).toEqual([400, -32700]);
  });

  it('may be cut anywhere, inside a character too', async () => {
    const text = Buffer.from(rpc('tools/call', { name: 'grüß😀' }));
    const response = await postBytes(
      service().url(),
      [...text].map((byte) => Buffer.of(byte)),
    );
    expect(errorOf(response)).toMatchObject({ code: -32602, message: 'tool not found: grüß😀' });
  });

  it.each([
    ['a batch', `[${PING}]`, 'null'],
    ['an empty batch', '[]', 'null'],
    ['text', '"ping"', 'null'],
    ['null', 'null', 'null'],
    ['a number beyond doubles', '9223372036854775807', 'null'],
    ['without jsonrpc', '{"id":3,"method":"ping"}', '3'],
    ['of JSON-RPC 1.0', '{"jsonrpc":"1.0","id":3,"method":"ping"}', '3'],
    ['with jsonrpc as a number', '{"jsonrpc":2.0,"id":3,"method":"ping"}', '3'],
    ['with id null', '{"jsonrpc":"2.0","id":null,"method":"ping"}', 'null'],
    ['with an object as id', '{"jsonrpc":"2.0","id":{},"method":"ping"}', 'null'],
    ['with an array as id', '{"jsonrpc":"2.0","id":[1],"method":"ping"}', 'null'],
    ['with a boolean as id', '{"jsonrpc":"2.0","id":true,"method":"ping"}', 'null'],
    ['with a fraction as id', '{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 'null'],
    ['with an infinite id', '{"jsonrpc":"2.0","id":1e400,"method":"ping"}', 'null'],
    ['without method', '{"jsonrpc":"2.0","id":"m"}', '"m"'],
    ['with a method that is not a string', '{"jsonrpc":"2.0","id":"m","method":7}', '"m"'],
    ['with params in an array', '{"jsonrpc":"2.0","id":"m","method":"ping","params":[]}', '"m"'],
    ['with params null', '{"jsonrpc":"2.0","id":"m","method":"ping","params":null}', '"m"'],
    ['with two ids', '{"jsonrpc":"2.0","id":1,"method":"ping","id":2}', 'null'],
    ['with two ids, one escaped', '{"jsonrpc":"2.0","id":1,"method":"ping","\\u0069d":2}', 'null'],
    ['with two methods', '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}', 'null'],
    ['with two params', '{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}', 'null'],
    [
      'with two names in params',
      '{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"a","name":"b"}}',
      '4',
    ],
  ])('%s is an invalid request', async (_what, body, id) => {
    const response = await post(service().url(), body);
    expect(response.status).toBe(400);
    expect(errorOf(response).code).toBe(-32600);
    expect(response.text).toContain(`"id":${id},`);
  });

  it.each(['1.0', '-0', '1E2', '9223372036854775807', '"\\u0061\\/\\ud83d"', '"grüße"', '""', '"\\"id\\":2"'])(
    'echoes the id %s exactly as sent',
    async (id) => {
      const [ok, unknown, malformed] = await Promise.all([
        post(service().url(), `{"jsonrpc":"2.0", "id" : ${id} ,"method":"ping"}`),
        post(service().url(), `{"id":${id},"jsonrpc":"2.0","method":"no/such"}`),
        post(service().url(), `{"id":${id},"jsonrpc":"1.0","method":"ping"}`),
      ]);
      expect(ok.text).toBe(`{"jsonrpc":"2.0","id":${id},"result":{}}`);
      for (const response of [ok, unknown, malformed]) {
        expect(response.text).toContain(`{"jsonrpc":"2.0","id":${id},`);
        expect(Number(response.headers['content-length'])).toBe(Buffer.byteLength(response.text));
      }
    },
  );

  it('may carry a hundred members in its params', async () => {
    const params = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`x${i}`, i]));
    expect((await post(service().url(), rpc('tools/list', params))).status).toBe(200);
    const twice = rpc('tools/list', params).replace('"x99"', '"x98"');
    expect(errorOf(await post(service().url(), twice)).message).toContain('"x98"');
  });

  it('may be nested as deeply as its size allows', async () => {
    const deep = '['.repeat(500_000) + ']'.repeat(500_000);
    const response = await post(
      service().url(),
      `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":${deep}}}`,
    );
    expect(response.status).toBe(200);
  });

  it('accepts a response or a notification with 202', async () => {
    for (const body of [
      '{"jsonrpc":"2.0","method":"notifications/initialized"}',
      '{"jsonrpc":"2.0","method":"notifications/no-such","params":{"a":1}}',
      '{"jsonrpc":"2.0","id":5,"result":{}}',
      '{"jsonrpc":"2.0","id":5,"error":{"code":-1,"message":"no"}}',
    ]) {
      const response = await post(service().url(), body);
      expect([response.status, response.text]).toEqual([202, '']);
    }
  });
});

describe('a body', () => {
  const padded = (bytes: number): Buffer => Buffer.from(PING.slice(0, -1).padEnd(bytes - 1) + PING.slice(-1));

  it('of exactly the limit is served', async () => {
    expect((await postBytes(service().url(), [padded(4 * MIB)])).status).toBe(200);
  });

  it('rejects a body whose Content-Length exceeds the limit before it is sent', async () => {
    const req = request(service().url(), {
      method: 'POST',
      headers: { 'content-length': String(4 * MIB + 1) },
      agent: false,
    });
    req.on('error', () => undefined);
    req.flushHeaders();
    const [res] = await once(req, 'response');
    const chunks: Buffer[] = [];
    for await (const chunk of res) chunks.push(chunk);
    expect(res.statusCode).toBe(413);
    expect(JSON.parse(Buffer.concat(chunks).toString())).toEqual({
      jsonrpc: '2.0',
      id: null,
      error: { code: -32600, message: bodyTooLarge(4 * MIB) },
    });
    req.destroy();
  });

  it.each(['with its length', 'in chunks'])(
    'rejects a body over the limit, sent whole %s, without losing the response or the connection',
    async (how) => {
      const body = padded(4 * MIB + 64 * 1024);
      const { hostname, port } = new URL(service().mcp);
      const socket = connect(Number(port), hostname);
      const head = `POST /default/mcp HTTP/1.1\r\nHost: ${hostname}\r\n`;
      if (how === 'in chunks') {
        socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n`);
        for (let at = 0; at < body.length; at += 65_536) {
          const piece = body.subarray(at, at + 65_536);
          socket.write(`${piece.length.toString(16)}\r\n`);
          socket.write(piece);
          socket.write('\r\n');
        }
        socket.write('0\r\n\r\n');
      } else {
        socket.write(`${head}Content-Length: ${body.length}\r\n\r\n`);
        socket.write(body);
      }
      socket.write(`${head}Connection: close\r\nContent-Length: ${PING.length}\r\n\r\n${PING}`);
      let responses = '';
      for await (const chunk of socket) responses += chunk;
      expect(responses.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 200']);
      expect(responses).toContain(
        `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"${bodyTooLarge(4 * MIB)}"}}`,
      );
      expect(responses).toContain('{"jsonrpc":"2.0","id":1,"result":{}}');
    },
  );

  it('rejects an endless body over the limit and disconnects after a while', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { hostname, port } = new URL(service().mcp);
    const socket = connect(Number(port), hostname);
    let response = '';
    socket
      .on('error', () => undefined)
      .on('data', (chunk) => {
        response += chunk;
      });
    const closed = new Promise((resolve) => {
      socket.once('close', resolve);
    });
    socket.write(`POST /default/mcp HTTP/1.1\r\nHost: ${hostname}\r\nTransfer-Encoding: chunked\r\n\r\n`);
    const piece = Buffer.concat([Buffer.from('40000\r\n'), Buffer.alloc(0x40000, ' '), Buffer.from('\r\n')]);
    const more = () => {
      if (!socket.destroyed) socket.write(piece, () => setImmediate(more));
    };
    more();
    await expect.poll(() => response, { interval: 1 }).toContain(bodyTooLarge(4 * MIB));
    expect(response).toMatch(/^HTTP\/1\.1 413 /);
    // The client has two seconds to read the response.
    vi.advanceTimersByTime(1_000);
    for (let i = 0; i < 5; i++) await post(service().url(), PING);
    expect(socket.destroyed).toBe(false);
    vi.advanceTimersByTime(1_000);
    await closed;
  });

  it('does not block other requests while a body is incomplete', async () => {
    const req = request(service().url(), { method: 'POST', headers: { 'content-length': '100' }, agent: false });
    req.on('error', () => undefined);
    req.write('{"jsonrpc"');
    expect((await post(service().url(), PING)).status).toBe(200);
    req.destroy();
    expect((await post(service().url(), PING)).status).toBe(200);
  });
});
