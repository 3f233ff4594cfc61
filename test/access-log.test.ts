import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { sessionClient } from '../packages/server/testing/session-client.ts';
import { type ChatServer, startChatServer } from './fixtures/chat/server.ts';
import { legacyClient, modernClient, post, send } from './fixtures/raw-client.ts';
import { sendBytes } from './fixtures/raw-exchange.ts';
import { LIST_END, textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

// Access log: one line per request with its target and outcome.

let service: TestService;
let upstream: RawUpstream;
let chat: ChatServer;
beforeAll(async () => {
  upstream = await startRawUpstream({
    scripts: {
      'tools/list': toolList(toolText('tracked'), toolText('failing'), toolText('refusing')),
      'tools/call': ({ params }) => {
        if (params.name === 'refusing') return { kind: 'error', text: '{"code":-32055,"message":"no"}' };
        return params.name === 'failing' ? '{"content":[],"isError":true}' : textResultText('done');
      },
      'prompts/list': `{"prompts":[{"name":"greeting"}],${LIST_END}`,
      'prompts/get': '{"messages":[]}',
    },
  });
  chat = await startChatServer();
  service = await startTestService({ SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${chat.port}` });
  await service.register('forwards', { name: 'upstream', address: upstream.url });
});
afterAll(async () => {
  await service.stop(0);
  await upstream.close();
  await chat.close();
});

type Line = Readonly<Record<string, unknown>>;
/** Marks its request, so that its line can be found. */
let requests = 0;
const marked = () => ({ 'x-request-id': `request-${++requests}` });

function linesOf({ log }: Pick<TestService, 'log'>, fits: (line: Line) => boolean): Line[] {
  return log
    .map((text): Line => JSON.parse(text))
    .filter((line) => String(line.target).endsWith('::access') && fits(line));
}

/** The only line of the latest marked request, without the values that vary. */
async function line(): Promise<Line> {
  const id = `request-${requests}`;
  const found = await vi.waitFor(
    () => {
      const [first, ...more] = linesOf(service, (each) => each.x_request_id === id);
      if (!first) throw new Error(`no line of ${id}`);
      expect(more).toEqual([]);
      return first;
    },
    { timeout: 10_000 },
  );
  const { ts, duration_ms: durationMs, x_request_id: _, ...rest } = found;
  expect({ ts, durationMs }).toEqual({ ts: expect.stringMatching(/^\d{4}-.*Z$/), durationMs: expect.any(Number) });
  // Without an id of its own, a conversation has that of its request.
  const { conversation_id: conversation, ...others } = rest;
  return conversation === id ? others : rest;
}

const POSTED = {
  level: 'info',
  target: 'service::mcp::access',
  msg: 'request',
  method: 'POST',
  path: '/default/mcp',
  status: 200,
  namespace: 'default',
  client: '127.0.0.1',
};
const CALLED = { ...POSTED, mcp_method: 'tools/call', handled: 'proxied', filter: 'service_methods' };
/** Members of the last event of a relayed tool call, which its access line contains too. */
const event = (isError: boolean, last: object = { event_type: 'COMPLETED' }) => ({
  ...last,
  event_id: expect.any(String),
  transport: 'mcp',
  tool_type: 'mcp-forward',
  service_address: expect.stringMatching(/^http:/),
  outcome: isError ? 'tool_error' : 'completed',
  is_error: isError,
  call_duration_ms: expect.any(Number),
});

describe('of an MCP request', () => {
  const modern = () => modernClient(`${service.url()}?key=of-query`);
  const call = (name: string) => modern().call('tools/call', `{"name":"${name}","arguments":{}}`, marked());

  it('contains the request, its target and its client', async () => {
    const client = await legacyClient(service.url());
    await client.call('tools/call', '{"name":"tracked","arguments":{}}', {
      ...marked(),
      'x-conversation-id': 'talk-1',
    });
    const { session_id: session, ...rest } = await line();
    expect(rest).toEqual({
      ...CALLED,
      ...event(false),
      tool: 'tracked',
      upstream: `127.0.0.1:${upstream.port}`,
      conversation_id: 'talk-1',
    });
    expect(session).toMatch(/^.{8,}$/);
    expect(session).not.toBe(client.headers['mcp-session-id']);
  });

  it('contains the failure', async () => {
    await call('failing');
    const requested = { upstream: `127.0.0.1:${upstream.port}` };
    expect(await line()).toEqual({
      ...CALLED,
      ...event(true),
      ...requested,
      tool: 'failing',
      error_type: 'tool_error',
    });
    await call('refusing');
    expect(await line()).toMatchObject({
      ...CALLED,
      ...requested,
      tool: 'refusing',
      error_code: -32055,
      event_type: 'FAILED',
    });
  });

  it('contains the rejection', async () => {
    await call('unknown');
    const reason = 'tool not found: unknown';
    expect(await line()).toEqual({ ...CALLED, handled: 'rejected', reason, error_code: -32602, outcome: 'failed' });
  });

  it('shows that the service responded by itself', async () => {
    await modern().call('tools/list', '{}', { ...marked(), 'x-forwarded-user': 'ada' });
    const mcp_method = 'tools/list';
    expect(await line()).toEqual({
      ...POSTED,
      mcp_method,
      user: 'ada',
      handled: 'local',
      filter: 'service_methods',
    });
  });

  it('names a prompt', async () => {
    await modern().call('prompts/get', '{"name":"greeting"}', marked());
    expect(await line()).toMatchObject({ mcp_method: 'prompts/get', prompt: 'greeting', handled: 'proxied' });
  });

  it('contains the error of an invalid message', async () => {
    await post(service.url(), '{', marked());
    expect(await line()).toMatchObject({ status: 400, handled: 'rejected', error_code: -32700, filter: 'mcp' });
    await post(service.url('nowhere'), '{"jsonrpc":"2.0","id":1,"method":"ping"}', marked());
    const path = '/nowhere/mcp';
    expect(await line()).toMatchObject({ path, status: 404, handled: 'rejected', error_code: -32600 });
    await modern().call('x'.repeat(5_000), '{}', marked());
    expect(await line()).toMatchObject({ mcp_method: 'x'.repeat(1_024), error_code: -32601, handled: 'rejected' });
  });

  it('is written for requests without a message', async () => {
    await send(service.url(), 'OPTIONS', {
      ...marked(),
      origin: 'http://localhost',
      'access-control-request-method': 'POST',
    });
    expect(await line()).toMatchObject({ method: 'OPTIONS', status: 204, handled: 'local', filter: 'cors' });
    const client = await sessionClient(service.url());
    await send(service.url(), 'DELETE', { ...client.headers, ...marked() });
    expect(await line()).toMatchObject({ method: 'DELETE', status: 204, session_id: expect.any(String) });
  });

  it('is written for a stream once it has ended, with its duration', async () => {
    const client = await sessionClient(service.url());
    const listening = client.listen(undefined, marked());
    const before = performance.now();
    await listening.head;
    expect(linesOf(service, (each) => each.x_request_id === `request-${requests}`)).toEqual([]);
    listening.disconnect();
    expect(await line()).toMatchObject({
      method: 'GET',
      status: 200,
      client_disconnected: true,
      session_id: expect.any(String),
    });
    expect(performance.now() - before).toBeLessThan(10_000);
  });
});

describe('of a request that is rejected early', () => {
  const rejected = { target: 'service::mcp::access', method: 'POST', path: '/default/mcp', handled: 'rejected' };
  const port = () => Number(service.mcp.split(':').at(-1));

  it.each([
    ['a foreign Host', 403, 'Host: evil.example\r\n'],
    ['two Hosts', 400, 'Host: localhost\r\nHost: localhost\r\n'],
    ['a body whose end is not clear', 400, 'Host: localhost\r\nTransfer-Encoding: gzip, chunked\r\n'],
    ['a body that is too large', 413, 'Host: localhost\r\nContent-Length: 99999999\r\n'],
  ])('%s', async (_, status, head) => {
    const { 'x-request-id': id } = marked();
    const rest = `X-Request-Id: ${id}\r\nConnection: close\r\n`;
    const client = connect(port(), '127.0.0.1');
    client.write(`POST /default/mcp?key=of-query HTTP/1.1\r\n${head}${rest}\r\n`);
    const [response] = await once(client, 'data');
    // The response would otherwise wait for the body.
    client.destroy();
    expect(String(response)).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    const received = await line();
    expect(received).toMatchObject({ ...rejected, status, error_code: -32600 });
    expect(received).not.toHaveProperty('filter');
  });

  it('omits the password of an absolute request target', async () => {
    const { 'x-request-id': id } = marked();
    const target = 'http://ada:s3cret@localhost/default/mcp?key=of-query';
    await sendBytes(
      port(),
      `GET ${target} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ${id}\r\nConnection: close\r\n\r\n`,
    );
    expect(await line()).toMatchObject({ path: '/default/mcp' });
    expect(service.log.join('\n')).not.toMatch(/s3cret|of-query/);
  });

  it('is written for a client that disconnects before its body is complete', async () => {
    const headers = { ...marked(), 'content-length': '100', expect: '100-continue' };
    const sent = request(service.url(), { method: 'POST', headers, agent: false });
    sent.flushHeaders();
    await once(sent, 'continue');
    const failed = once(sent, 'error');
    sent.destroy(new Error('left'));
    await failed;
    expect(await line()).toMatchObject({ status: 499, client_disconnected: true });
  });
});

describe('of a completion', () => {
  const completionBody = (model: string) => JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }] });
  const url = () => `http://${service.addresses.inference}/v1/chat/completions?key=of-query`;
  const expected = {
    level: 'info',
    target: 'service::inference::access',
    msg: 'request',
    method: 'POST',
    path: '/v1/chat/completions',
    handled: 'proxied',
    filter: 'load_balancer',
    client: '127.0.0.1',
  };

  it.each([
    ['m-1', 200],
    ['error', 429],
  ])('contains the response of %s', async (model, status) => {
    await post(url(), completionBody(model), { ...marked(), 'x-conversation-id': 'talk-2' });
    const received = { ...expected, status, conversation_id: 'talk-2', upstream: `127.0.0.1:${chat.port}` };
    expect(await line()).toEqual(received);
  });
});

describe('follows the levels of RUST_LOG', () => {
  it.each([
    ['info,service::mcp::access=off', [], true],
    ['off,service::mcp::access=info', ['service::mcp::access'], false],
    ['info,service::mcp=warn', [], true],
    ['info,service::mcp::access=warn', [], true],
    ['service::mcp::access=info', ['service::mcp::access'], false],
  ])('%s', async (RUST_LOG, targets, others) => {
    const serviceWithFilter = await startTestService({ RUST_LOG });
    onTestFinished(() => serviceWithFilter.stop(0));
    await modernClient(serviceWithFilter.url()).call('tools/list');
    await serviceWithFilter.stop(0);
    expect(
      linesOf(serviceWithFilter, ({ target }) => target !== 'service::mgmt::access').map(({ target }) => target),
    ).toEqual(targets);
    expect(serviceWithFilter.log.some((text) => text.includes('"target":"service"'))).toBe(others);
  });
});
