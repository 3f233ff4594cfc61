import { describe, expect, it } from 'vitest';
import { freePort } from '../../../../../test/fixtures/free-port.ts';
import { messages, modernClient, post, reply } from '../../../../../test/fixtures/raw-client.ts';
import type { ReceivedMessage } from '../../../../../test/fixtures/raw-upstream/message.ts';
import { LIST_END, toolList, toolText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { client, eras, errorOf, lastCall, relayTests } from '../../../testing/relay.ts';
import { callHeaders, callText } from '../../../testing/streamer.ts';

const relay = relayTests();
const { register, streamer, upstreamWith } = relay;

/** Members of the `_meta` of a received request. */
function metaOf(seen: ReceivedMessage): Record<string, unknown> {
  const meta = seen.params._meta;
  return typeof meta === 'object' && meta !== null ? { ...meta } : {};
}

describe.each(eras)('texts of any alphabet in a call of a %s client', (era) => {
  const texts = ['done', 'd\u00f6n\u00e8', '\ufffd', '\u{1f980}', '\\u00e9'];

  it('arrive whole in both directions, whatever the id of the client is', async () => {
    const upstream = await upstreamWith({ 'tools/list': toolList(toolText('work')) });
    const url = await register(upstream.url);
    for (const id of ['7', '"a"', '"\u00e9"', '"\u{1f980}"', '"\\u00e9"']) {
      for (const text of texts) {
        upstream.scripts['tools/call'] = `{"content":[{"type":"text","text":"${text}"}],"resultType":"complete"}`;
        const call = callText(era, `"x":"${text}"`).replace('"id":"c"', `"id":${id}`);
        const response = await post(url, call, callHeaders(era));
        expect(response.headers['content-length']).toBe(String(Buffer.byteLength(response.text)));
        expect(response.text).toContain(`"id":${id},`);
        expect(response.text).toContain(`"text":"${text}"`);
        expect(lastCall(upstream).body).toContain(`"x":"${text}"`);
      }
    }
  });

  it('arrive whole where the upstream has another name for a tool', async () => {
    const upstream = await upstreamWith();
    const url = await register(upstream.url);
    const namespace = new URL(url).pathname.split('/')[1];
    const definition = {
      description: 'd',
      uri: upstream.url,
      toolType: 'mcp-forward',
      input_schema: { type: 'object' },
    };
    const path = `/tools/${encodeURIComponent('grüße')}?namespace=${namespace}`;
    expect((await relay.service.manage('PUT', path, { ...definition, name: 'greet' })).status).toBe(200);
    const caller = await client(era, url);
    expect(reply(await caller.call('tools/call', '{"name":"greet","arguments":{"x":"y"}}'))).toContain('done');
    expect(lastCall(upstream).params).toMatchObject({ name: 'grüße', arguments: { x: 'y' } });
  });

  it('have U+FFFD for bytes of the upstream that are not UTF-8', async () => {
    const upstream = await upstreamWith({ 'tools/list': toolList(toolText('work')) });
    const url = await register(upstream.url);
    upstream.scripts['tools/call'] = {
      kind: 'http',
      status: 200,
      type: 'application/json',
      body: '{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"a\xffb"}],"resultType":"complete"}}',
      encoding: 'latin1',
    };
    const response = await post(url, callText(era), callHeaders(era));
    expect(response.headers['content-length']).toBe(String(Buffer.byteLength(response.text)));
    expect(response.text).toContain('"text":"a\ufffdb"');
  });
});

describe.each(eras)('the name in a call of a %s client', (era) => {
  it('has the forward’s prefix here and not upstream, wherever else the same text occurs', async () => {
    const upstream = await upstreamWith({
      'prompts/list': `{"prompts":[{"name":"p"}],${LIST_END}`,
      'prompts/get': '{"messages":[],"resultType":"complete"}',
    });
    const caller = await client(era, await register(upstream.url, { prefix: 'crm.' }));
    expect(reply(await caller.call('tools/list'))).toContain('"name":"crm.a"');

    const params =
      '{ "arguments" : {"name":"crm.a", "n" : 1.0, "name":"twice"} , "n\\u0061me"\t: "crm.a" , "x":[9223372036854775807]}';
    expect(reply(await caller.call('tools/call', params, { 'mcp-name': 'crm.a' }))).toContain('"text":"done"');
    expect(lastCall(upstream).params.name).toBe('a');
    expect(lastCall(upstream).body).toContain('{"name":"crm.a", "n" : 1.0, "name":"twice"}');
    expect(lastCall(upstream).body).toContain('"n\\u0061me"\t: "a" , "x":[9223372036854775807]');

    await caller.call('tools/call', '{"name":"crm.grüße"}');
    expect(lastCall(upstream).params.name).toBe('grüße');
    expect(reply(await caller.call('prompts/get', '{"name":"crm.p"}'))).toContain('"messages":[]');
    expect(lastCall(upstream, 'prompts/get').params.name).toBe('p');
    expect(errorOf(await caller.call('tools/call', '{"name":"a"}'))).toEqual({
      code: -32602,
      message: 'tool not found: a',
    });
  });

  it('is the operator’s here and the upstream’s own upstream', async () => {
    const upstream = await upstreamWith();
    const url = await register(upstream.url);
    const namespace = new URL(url).pathname.split('/')[1];
    const renamed = await relay.service.manage('PUT', `/tools/a?namespace=${namespace}`, {
      name: 'überweisen "jetzt"',
      description: 'd',
      uri: upstream.url,
      toolType: 'mcp-forward',
      input_schema: { type: 'object' },
    });
    expect(renamed.status).toBe(200);
    const caller = await client(era, url);
    expect(reply(await caller.call('tools/call', '{"name":"überweisen \\"jetzt\\"","arguments":{}}'))).toContain(
      'done',
    );
    expect(lastCall(upstream).params).toMatchObject({ name: 'a', arguments: {} });
  });
});

describe.each(eras)('other members in a call of a %s client', (era) => {
  it('reach the upstream, known or not, except id and progress token', async () => {
    const upstream = await upstreamWith();
    const url = await register(upstream.url);
    const meta = '"progressToken":"mine","example.com/x":{"n":1e400},"traceparent":"00-1"';
    const caller = await client(era, url, meta);
    const params =
      era === 'legacy' ? `{"name":"a","_meta":{${meta}},"task":{"ttl":1}}` : '{"name":"a","task":{"ttl":1}}';
    await caller.call('tools/call', params);
    const call = lastCall(upstream);
    expect(call.era).toBe(era);
    expect(call.body).toContain('"example.com/x":{"n":1e400},"traceparent":"00-1"');
    expect(call.params.task).toEqual({ ttl: 1 });
    expect(JSON.stringify(metaOf(call).progressToken)).toBe(call.id);
  });

  it('include ids and tokens, which are unique upstream even if clients use the same', async () => {
    const upstream = await streamer();
    const url = await register(upstream.url);
    const texts = ['"same"', '"same"', '7', '7.0'].map((token) => callText(era, `"progressToken":${token}`));
    const responses = texts.map((text) => post(url, text, callHeaders(era)));
    await expect.poll(() => upstream.calls.length).toBe(4);
    expect(new Set(upstream.calls.map(({ id }) => id)).size).toBe(4);
    expect(new Set(upstream.calls.map(({ progressToken }) => progressToken)).size).toBe(4);
    for (const call of upstream.calls) {
      call.begin();
      call.progress(1);
      call.end('x');
    }
    const tokens = (await Promise.all(responses)).map((response) => {
      expect(messages(response)).toHaveLength(2);
      expect(JSON.parse(reply(response)).id).toBe('c');
      return /"progressToken":([^,]*),/.exec(messages(response)[0] ?? '')?.[1];
    });
    expect(tokens).toEqual(['"same"', '"same"', '7', '7.0']);
  });

  it('have random ids upstream, as all of our requests', async () => {
    const upstream = await upstreamWith();
    const caller = await client(era, await register(upstream.url));
    await caller.call('tools/call', '{"name":"a"}');
    const ids = upstream.seen.flatMap(({ id }) => id ?? []);
    expect(ids.length).toBeGreaterThan(3);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids.map(Number)) expect([Number.isInteger(id), id > 0, id < 2 ** 31]).toEqual([true, true, true]);
  });

  it('include progress, which reaches a call only on the stream that its request was sent on', async () => {
    const upstream = await streamer();
    const url = await register(upstream.url);
    const begin = async (token: number) => {
      const arrived = upstream.next();
      const answered = post(url, callText(era, `"progressToken":${token}`), callHeaders(era));
      const call = await arrived;
      call.begin();
      return { call, answered };
    };
    const one = await begin(1);
    const two = await begin(2);
    const params = `{"progressToken":${two.call.progressToken},"progress":1.0}`;
    one.call.event(`{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`);
    one.call.end('x');
    expect(messages(await one.answered)).toHaveLength(1);
    two.call.progress(2);
    two.call.end('x');
    const seen = messages(await two.answered).map((text) => JSON.parse(text).params?.progress);
    expect(seen.filter((progress) => progress !== undefined)).toEqual([2]);
  });

  it('route no progress to calls without a token', async () => {
    const upstream = await streamer();
    const url = await register(upstream.url);
    const arrived = upstream.next();
    const response = post(url, callText(era), callHeaders(era));
    const call = await arrived;
    call.begin();
    for (const token of ['"other"', call.id]) {
      call.event(
        `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},"progress":1}}`,
      );
    }
    call.end('x');
    expect(messages(await response)).toEqual([expect.stringContaining('"result"')]);
  });
});

describe('an unreachable upstream', () => {
  it.each([
    ['tools/call', '{"name":"a"}', 'forwarded tool call failed'],
    ['prompts/get', '{"name":"p"}', 'forwarded prompt get failed'],
    ['resources/read', '{"uri":"test://r"}', 'forwarded resource read failed'],
  ])('fails %s with the message of the method and the address', async (method, params, words) => {
    const upstream = await upstreamWith(
      {
        'prompts/list': `{"prompts":[{"name":"p"}],${LIST_END}`,
        'resources/list': `{"resources":[{"uri":"test://r","name":"r"}],${LIST_END}`,
      },
      { port: await freePort() },
    );
    const url = await register(upstream.url);
    await upstream.down();
    const response = await modernClient(url).call(method, params);
    expect([response.status, errorOf(response)]).toEqual([
      200,
      { code: -32603, message: expect.stringContaining(`${words}: upstream ${upstream.url} refused the connection`) },
    ]);
  });

  it('is named without the credentials in its address', async () => {
    const port = await freePort();
    const namespace = 'hidden';
    await relay.service.register('tools', {
      name: 'hidden',
      namespace,
      description: '',
      uri: `http://user:secret@127.0.0.1:${port}/mcp?key=secret`,
      toolType: 'x',
      input_schema: {},
    });
    const { message } = errorOf(
      await modernClient(relay.service.url(namespace)).call('tools/call', '{"name":"hidden"}'),
    );
    expect(message).toContain(`http://127.0.0.1:${port}/mcp refused`);
    expect(message).not.toContain('secret');
    expect(relay.service.log.join('')).not.toContain('secret');
  });
});
