import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { UpstreamError } from '../../http/client/errors.ts';
import { createTransport } from '../../http/client/pool.ts';
import { type RpcRequest, sendMessage } from './rpc-request.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const close of closers.splice(0).reverse()) await close();
});

type Handle = (response: ServerResponse, request: IncomingMessage, body: string) => void;

/** Sends one request to a server with a scripted response. */
async function sendRequest(handle: Handle, request: Partial<RpcRequest> = {}) {
  const server = createServer(async (incoming, response) => {
    let body = '';
    for await (const chunk of incoming) body += chunk;
    withId(response, body);
    handle(response, incoming, body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const transport = createTransport(`http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/mcp`);
  closers.push(
    () => transport.destroy(),
    () => {
      server.closeAllConnections();
      server.close();
    },
  );
  const message = (id: number) => `{"jsonrpc":"2.0","id":${id},"method":"tools/list"}`;
  const defaults = { message, method: 'tools/list', sessionId: undefined, headers: [], timeoutMs: 5_000 };
  return sendMessage(transport, { ...defaults, ...request });
}

/** Writes the id of the request in place of `"7"`. */
function withId(response: ServerResponse, body: string): void {
  const id = /"id":(\d+)/.exec(body)?.[1] ?? '0';
  const { write, end } = response;
  const fill = (chunk: unknown) => (typeof chunk === 'string' ? chunk.replaceAll('"id":"7"', `"id":${id}`) : chunk);
  Object.assign(response, {
    write: (chunk: unknown, ...rest: unknown[]) => Reflect.apply(write, response, [fill(chunk), ...rest]),
    end: (chunk?: unknown, ...rest: unknown[]) => Reflect.apply(end, response, [fill(chunk), ...rest]),
  });
}

/** The text with `"7"` in place of the id of the request. */
function withoutId(text = ''): string {
  return text.replace(/"id":[1-9]\d*/, '"id":"7"');
}

function json(body: string, status = 200): Handle {
  return (response) => response.writeHead(status, { 'content-type': 'application/json' }).end(body);
}

function stream(...parts: string[]): Handle {
  return (response) => {
    response.writeHead(200, { 'Content-Type': 'Text/Event-Stream; charset=utf-8' });
    for (const part of parts) response.write(part);
    response.end();
  };
}

describe('sendMessage', () => {
  it('resolves with the exact text of a JSON response, its session and its parsed form', async () => {
    const text = '{ "id":"7", "result":{"n":1.0,"big":9223372036854775807,"t":"\\u00e9"},"jsonrpc":"2.0"}';
    let seen: IncomingMessage | undefined;
    const result = await sendRequest(
      (response, request, body) => {
        seen = request;
        expect(body).toMatch(/^\{"jsonrpc":"2.0","id":[1-9]\d*,"method":"tools\/list"\}$/);
        response.writeHead(200, { 'content-type': 'application/json', 'Mcp-Session-Id': 's-1' }).end(text);
      },
      { headers: ['x-extra', '1'] },
    );
    expect(result).toMatchObject({ status: 200, sessionId: 's-1', text: expect.any(String) });
    expect(withoutId(result.text)).toBe(text);
    expect(result.outcome).toMatchObject({ kind: 'result', result: { t: 'é' } });
    expect(seen?.headers).toMatchObject({
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'x-extra': '1',
    });
  });

  it('finds the response in an event stream among notifications and requests', async () => {
    const response = await sendRequest(
      stream(
        'id: prime\ndata:\n\n',
        ': ping\n\nevent: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1.0}}\n\n',
        'data: {"jsonrpc":"2.0","id":"7","method":"roots/list"}\n\n',
        'data: {"jsonrpc":"2.0","id":7,"result":{}}\n\ndata: {"jsonrpc":"2.0","id":8,"result":{}}\n\n',
        'data: {"jsonrpc":"2.0","id":"7","resu',
        'lt":{"ok":1.0}}\n\ndata: late and not JSON\n\n',
      ),
    );
    expect(withoutId(response.text)).toBe('{"jsonrpc":"2.0","id":"7","result":{"ok":1.0}}');
  });

  it('finds the response in an array, as sent by version 2025-03-26', async () => {
    const response = await sendRequest(
      stream(
        'data: [{"jsonrpc":"2.0","method":"notifications/x"}, {"jsonrpc":"2.0","id":"7","result":{"a":1.0}} ]\n\n',
      ),
    );
    expect(withoutId(response.text)).toBe('{"jsonrpc":"2.0","id":"7","result":{"a":1.0}}');
  });

  it('does not wait for the end of the stream after the response, and closes it', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const left = Promise.withResolvers<void>();
    const result = await sendRequest((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.on('close', () => left.resolve());
      response.write('data: {"jsonrpc":"2.0","id":"7","result":{}}\n\n');
    });
    expect(result.outcome?.kind).toBe('result');
    vi.advanceTimersByTime(1_000);
    await left.promise;
  });

  it('accepts any success status for a notification', async () => {
    const result = await sendRequest((response) => response.writeHead(202).end(), {
      message: '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    });
    expect(result).toMatchObject({ status: 202 });
    expect(result.text).toBeUndefined();
  });

  it.each([
    ['with the id', 404, '{"jsonrpc":"2.0","id":"7","error":{"code":-32601,"message":"no","data":{"a":1}}}', -32601],
    ['without an id', 400, '{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"no"}}', -32020],
    ['in a success', 200, '{"jsonrpc":"2.0","id":"7","error":{"code":-32602,"message":"no"}}', -32602],
  ])('resolves with the JSON-RPC error of a response %s', async (_what, status, body, code) => {
    const response = await sendRequest(json(body, status));
    expect(response).toMatchObject({ status, outcome: { kind: 'error', code } });
    expect(withoutId(response.text)).toBe(body);
  });

  const rpcError = '{"jsonrpc":"2.0","id":"7","error":{"code":-32022,"message":"busy\\nnow"}}';
  it.each<[string, Handle, string, string]>([
    [
      '401 with a JSON-RPC error',
      json(rpcError, 401),
      'http',
      'answered tools/list with HTTP 401, application/json: "busy now"; set its credentials',
    ],
    ['403', json('', 403), 'http', 'HTTP 403, application/json; check its credentials'],
    ['429', json(rpcError, 429), 'http', 'HTTP 429'],
    ['503', json(rpcError, 503), 'http', 'HTTP 503'],
    ['404 without JSON-RPC', json('not found', 404), 'http', 'HTTP 404'],
    ['an endless error page', json('x'.repeat(1_000_000), 500), 'http', 'HTTP 500'],
    ['text that is not JSON', json('{"jsonrpc"'), 'invalid', 'not JSON'],
    ['the response to another request', json('{"jsonrpc":"2.0","id":8,"result":{}}'), 'invalid', 'not the JSON-RPC'],
    [
      'no response',
      (response) => response.writeHead(202).end(),
      'invalid',
      'accepted tools/list without answering it (HTTP 202)',
    ],
    [
      'a web page',
      (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>'),
      'invalid',
      'with a web page (HTTP 200, text/html); check the URL path',
    ],
    [
      'an event that is not JSON',
      stream('data: {"jsonrpc"\n\n'),
      'dropped',
      'before the response, and another event: "{"jsonrpc""',
    ],
    ['a stream without the response', stream(': hi\n\n'), 'dropped', 'ended the event stream of tools/list before'],
    ['half an event', stream('data: {"jsonrpc":"2.0","id":"7","result":{}}\n'), 'dropped', 'ended the event stream'],
    [
      'a stream cut off',
      (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: {"jsonrpc":"2.0"', () => response.destroy());
      },
      'dropped',
      'closed the connection',
    ],
  ])('rejects %s', async (_what, handle, kind, message) => {
    const error: unknown = await sendRequest(handle).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(UpstreamError);
    expect(error).toMatchObject({ kind, message: expect.stringContaining(message) });
  });

  it.each([
    ['a body', json(`{"jsonrpc":"2.0","id":"7","result":{"x":"${'x'.repeat(2000)}"}}`)],
    ['an event', stream(`data: ${'x'.repeat(2000)}`)],
  ])('rejects %s over the limit', async (_what, handle) => {
    await expect(sendRequest(handle, { maxBytes: 1000 })).rejects.toMatchObject({ kind: 'too-large' });
  });

  it.each([
    ['a body', json(`{"jsonrpc":"2.0","id":"7","result":{"x":[${'[],'.repeat(50_000)}0]}}`)],
    ['an event', stream(`data: {"jsonrpc":"2.0","id":"7","result":{"x":[${'[],'.repeat(50_000)}0]}}\n\n`)],
  ])('rejects %s with more values than are parsed', async (_what, handle) => {
    const message = expect.stringContaining('a message that is too large to be parsed');
    await expect(sendRequest(handle)).rejects.toMatchObject({ kind: 'too-large', message });
  });

  it.each([
    ['a body', (batch: string) => json(batch)],
    ['an event', (batch: string) => stream(`data: ${batch}\n\n`)],
  ])('finds the response among 5,000 messages of %s, and rejects more', async (_what, handle) => {
    const batch = (count: number) => `[${'{"method":"x"},'.repeat(count - 1)}{"jsonrpc":"2.0","id":"7","result":{}}]`;
    expect((await sendRequest(handle(batch(5_000)))).outcome).toEqual({ kind: 'result', result: {} });
    const message = expect.stringContaining('an array of 5001 messages: the limit is 5000');
    await expect(sendRequest(handle(batch(5_001)))).rejects.toMatchObject({ kind: 'too-large', message });
  });

  it('aborts the upstream request on timeout', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const arrived = Promise.withResolvers<void>();
    const left = Promise.withResolvers<void>();
    const response = sendRequest(
      (response) => {
        response.on('close', () => left.resolve());
        arrived.resolve();
      },
      { timeoutMs: 400 },
    );
    await arrived.promise;
    vi.advanceTimersByTime(400);
    await expect(response).rejects.toMatchObject({
      kind: 'timeout',
      message: expect.stringContaining('did not answer tools/list within 0.4 s'),
    });
    await left.promise;
  });

  it('aborts the upstream request on the signal, before and while it runs', async () => {
    const left = Promise.withResolvers<void>();
    const caller = new AbortController();
    const response = sendRequest(
      (response) => {
        response.on('close', () => left.resolve());
        caller.abort(new Error('stopping'));
      },
      { signal: caller.signal },
    );
    await expect(response).rejects.toMatchObject({ kind: 'aborted', cause: { message: 'stopping' } });
    await left.promise;
    await expect(sendRequest(() => expect.unreachable(), { signal: caller.signal })).rejects.toMatchObject({
      kind: 'aborted',
    });
  });
});
