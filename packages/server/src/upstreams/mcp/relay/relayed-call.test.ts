import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { legacyClient, messages, modernClient, post } from '../../../../../../test/fixtures/raw-client.ts';
import { client, eras, errorOf, lastCall, relayTests } from '../../../../testing/relay.ts';
import { callHeaders, callText, openCall } from '../../../../testing/streamer.ts';

const { register, streamer, upstreamWith } = relayTests();

describe.each(eras)('the response of an upstream to a %s client', (era) => {
  it('has the client’s id, wherever the id is in the message', async () => {
    const upstream = await upstreamWith({
      'tools/call': {
        kind: 'http',
        status: 200,
        type: 'application/json; charset=utf-8',
        body: ' {"result":{"id":$id,"content":[]},"id" : $id ,"jsonrpc":"2.0"}\n',
      },
    });
    const caller = await client(era, await register(upstream.url));
    const { text } = await caller.call('tools/call', '{"name":"a"}');
    expect(text).toBe(` {"result":{"id":${lastCall(upstream).id},"content":[]},"id" : 1 ,"jsonrpc":"2.0"}\n`);
  });

  it('keeps code, message, data and other members of an error', async () => {
    const error = '{"code":-32050,"message":"no \\u00e4","data":{"left":9223372036854775807},"hint":1.0}';
    const upstream = await upstreamWith({ 'tools/call': { kind: 'error', text: error } });
    const response = await (await client(era, await register(upstream.url))).call('tools/call', '{"name":"a"}');
    expect([response.status, response.text]).toEqual([200, `{"jsonrpc":"2.0","id":1,"error":${error}}`]);
  });

  it('may be an error without an id, or with id null', async () => {
    const upstream = await upstreamWith();
    const caller = await client(era, await register(upstream.url));
    for (const id of ['', '"id":null,']) {
      const body = `{${id}"jsonrpc":"2.0","error":{"code":-32600,"message":"what?"}}`;
      upstream.scripts['tools/call'] = { kind: 'http', status: 400, type: 'application/json', body };
      const response = await caller.call('tools/call', '{"name":"a"}');
      expect(JSON.parse(response.text)).toMatchObject({ error: { code: -32600, message: 'what?' } });
      expect(JSON.parse(response.text).id).toBeTypeOf('number');
    }
  });

  it.each([
    ['the response to something else', 'application/json', '{"jsonrpc":"2.0","id":"other","result":{}}'],
    ['an array', 'application/json', '[]'],
    ['a page', 'text/html', '<h1>hello</h1>'],
    ['nothing', 'application/json', ''],
    ['an event that is text', 'text/event-stream', 'data: "hello"\n\n'],
  ])('fails the call with -32603 if it is %s', async (_what, type, body) => {
    const upstream = await upstreamWith({ 'tools/call': { kind: 'http', status: 200, type, body } });
    const caller = await client(era, await register(upstream.url));
    const response = await caller.call('tools/call', '{"name":"a"}');
    expect(response.status).toBe(200);
    expect(errorOf(response)).toMatchObject({
      code: -32603,
      message: expect.stringMatching(`^forwarded tool call failed: upstream ${upstream.url} `),
    });
  });

  it.each([
    ['JSON', 'application/json', '$response'],
    ['an event stream', 'text/event-stream', 'data: $response\n\n'],
  ])('may arrive in one piece with its length, or in chunks, as %s', async (_what, type, body) => {
    const response = '{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"grün"}]}}';
    for (const chunked of [false, true]) {
      const script = { kind: 'http', status: 200, type, body: body.replace('$response', response), chunked } as const;
      const upstream = await upstreamWith({ 'tools/call': script });
      const caller = await client(era, await register(upstream.url));
      const { text } = await caller.call('tools/call', '{"name":"a"}');
      expect(text).toBe(response.replace('$id', '1'));
    }
  });

  it('is JSON for a client that accepts no event streams', async () => {
    const upstream = await streamer();
    const url = await register(upstream.url);
    const response = post(url, callText(era, '"progressToken":1'), { ...callHeaders(era), accept: 'application/json' });
    const call = await upstream.next();
    call.begin();
    call.progress(1);
    call.end('x');
    const { headers, text } = await response;
    expect(headers['content-type']).toBe('application/json');
    expect(JSON.parse(text)).toMatchObject({ id: 'c', result: { content: [{ text: 'x' }] } });
  });

  it('is streamed to the client', async () => {
    const upstream = await streamer();
    const url = await register(upstream.url);
    const arrived = upstream.next();
    const opened = openCall(url, callText(era, '"progressToken":1'), callHeaders(era));
    const call = await arrived;
    call.begin();
    call.progress(1);
    const response = await opened;
    const [first] = await once(response, 'data');
    expect(String(first)).toContain('"progress":1');
    call.progress(2);
    const [second] = await once(response, 'data');
    expect(String(second)).toContain('"progress":2');
    call.end('x');
    let rest = '';
    for await (const chunk of response) rest += chunk;
    expect(rest).toContain('"text":"x"');
  });

  it('may contain server requests, which are rejected', async () => {
    const upstream = await streamer();
    const url = await register(upstream.url);
    const response = post(url, callText(era), callHeaders(era));
    const call = await upstream.next();
    call.begin();
    call.event('{"jsonrpc":"2.0","id":"ask-1.0","method":"sampling/createMessage","params":{}}');
    const pending = () => upstream.posted.filter(({ body }) => body.includes('ask-1.0'));
    await expect.poll(() => pending().length).toBe(1);
    expect(JSON.parse(pending()[0]?.body ?? '')).toEqual({
      jsonrpc: '2.0',
      id: 'ask-1.0',
      error: { code: -32601, message: expect.any(String) },
    });
    call.end('x');
    expect(messages(await response)).toHaveLength(1);
  });
});

describe('statuses of the modern era', () => {
  it.each([
    [-32601, 404, 404],
    [-32601, 200, 404],
    [-32020, 400, 400],
    [-32021, 400, 400],
    [-32021, 200, 400],
    [-32022, 400, 400],
    [-32602, 400, 400],
    [-32602, 200, 200],
    [-32603, 500, 500],
  ])('of error %i with HTTP %i upstream is HTTP %i', async (code, theirs, ours) => {
    const upstream = await upstreamWith({
      'tools/call': { kind: 'error', status: theirs, text: `{"code":${code},"message":"m"}` },
    });
    const response = await modernClient(await register(upstream.url)).call('tools/call', '{"name":"a"}');
    expect([response.status, errorOf(response)]).toEqual([ours, { code, message: 'm' }]);
  });

  it('apply to an error that is the only message on an event stream', async () => {
    const upstream = await streamer();
    const url = await register(upstream.url);
    const response = post(url, callText('modern'), callHeaders('modern'));
    const call = await upstream.next();
    call.begin();
    call.event(`{"jsonrpc":"2.0","id":${call.id},"error":{"code":-32601,"message":"m"}}`);
    const { status, text } = await response;
    expect([status, JSON.parse(text).error.code]).toEqual([404, -32601]);
  });

  it('do not apply to legacy clients', async () => {
    const upstream = await upstreamWith({
      'tools/call': { kind: 'error', status: 400, text: '{"code":-32602,"message":"m"}' },
    });
    const response = await (await legacyClient(await register(upstream.url))).call('tools/call', '{"name":"a"}');
    expect([response.status, errorOf(response)]).toEqual([200, { code: -32602, message: 'm' }]);
  });
});
