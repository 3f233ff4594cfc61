import { describe, expect, it } from 'vitest';
import { reply } from '../../../../../test/fixtures/raw-client.ts';
import { textResultText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { startCodingProxy } from '../../../testing/coding-proxy.ts';
import { client, eras, errorOf, relayTests } from '../../../testing/relay.ts';
import { startTestService } from '../../../testing/service.ts';
import { ResponseReader } from '../../../testing/session-client.ts';
import { callHeaders, callText } from '../../../testing/streamer.ts';
import { CODINGS, type CodingCase } from '../../http/client/codings.fixture.ts';

const { register, streamer, upstreamWith, onEnd } = relayTests();

async function coded(target: string, coding: CodingCase, size: number) {
  const proxy = await startCodingProxy(target, coding, size);
  onEnd(proxy.close);
  return proxy;
}

const RESULT =
  '{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"grün"}],"resultType":"complete"}}';
const PROGRESS = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"grün"}}';
const PIECES = [
  ['whole', Number.POSITIVE_INFINITY],
  ['in chunks of 1 byte', 1],
] as const;

describe.each(eras)('a %s upstream that compresses', (era) => {
  describe.each(PIECES)('and sends its bodies %s', (_how, size) => {
    const discovers = async (coding: CodingCase) => {
      const upstream = await upstreamWith({}, { eras: [era] });
      const proxy = await coded(upstream.url, coding, size);
      const caller = await client(era, await register(proxy.url));
      const list = JSON.parse((await caller.call('tools/list')).text);
      expect(list.result.tools.map(({ name }: { name: string }) => name)).toEqual(['a', 'grüße']);

      upstream.scripts['tools/call'] = { kind: 'http', status: 200, type: 'application/json', body: RESULT };
      const called = await caller.call('tools/call', '{"name":"a"}');
      expect(JSON.parse(reply(called)).result.content).toEqual([{ type: 'text', text: 'grün' }]);

      const stream = `data: ${PROGRESS}\n\ndata: ${RESULT}\n\n`;
      upstream.scripts['tools/call'] = { kind: 'http', status: 200, type: 'text/event-stream', body: stream };
      const response = await caller.call('tools/call', '{"name":"a"}');
      expect(JSON.parse(reply(response)).result.content).toEqual([{ type: 'text', text: 'grün' }]);

      const error = '{"code":-32050,"message":"zu groß","data":{"left":1.0}}';
      upstream.scripts['tools/call'] = { kind: 'error', text: error, status: 400 };
      expect(errorOf(await caller.call('tools/call', '{"name":"a"}'))).toEqual(JSON.parse(error));

      expect(proxy.received.map((headers) => headers['accept-encoding'])).toEqual(proxy.received.map(() => 'identity'));
    };
    // All codings are decoded in the tests of the client.
    it.each(CODINGS.filter(({ name }) => name === 'gzip' && size > 1))('is discovered and called: $name', discovers);
    it.each(CODINGS.filter(({ name }) => name !== 'gzip' || size === 1))(
      'is discovered and called: $name',
      { tags: ['slow'] },
      discovers,
    );
  });

  it.each(CODINGS)('may send a large result: $name', { tags: ['slow'] }, async (coding) => {
    const upstream = await upstreamWith({}, { eras: [era] });
    const caller = await client(era, await register((await coded(upstream.url, coding, 10_000)).url));
    const body = RESULT.replace('grün', `grün${'x1'.repeat(400_000)}`);
    for (const [type, text] of [
      ['application/json', body],
      ['text/event-stream', `data: ${body}\n\n`],
    ] as const) {
      upstream.scripts['tools/call'] = { kind: 'http', status: 200, type, body: text };
      const { content } = JSON.parse(reply(await caller.call('tools/call', '{"name":"a"}'))).result;
      expect(content[0].text === `grün${'x1'.repeat(400_000)}`).toBe(true);
    }
  });

  it.each(CODINGS.filter(({ stream }) => stream))('streams each event when it has arrived: $name', async (coding) => {
    const upstream = await streamer();
    const url = await register((await coded(upstream.url, coding, Number.POSITIVE_INFINITY)).url);
    const arrived = upstream.next();
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    const reader = new ResponseReader(
      url,
      'POST',
      { ...headers, ...callHeaders(era) },
      callText(era, '"progressToken":7'),
    );
    const call = await arrived;
    call.begin();
    // The next event is sent only when the client has the previous one.
    for (const n of [1, 2, 3]) {
      call.progress(n);
      expect(JSON.parse(await reader.message(n - 1)).params).toEqual({ progressToken: 7, progress: n });
    }
    call.end('x');
    await reader.ended;
    expect(reader.messages).toHaveLength(4);
  });

  it('does not return secrets of its headers', async () => {
    const secret = 'c0mpressed-s3cret';
    const service = await startTestService({ SERVICE_SECRET_CODED: secret });
    onEnd(() => service.stop(0));
    const upstream = await upstreamWith(
      { 'tools/call': ({ headers }) => textResultText(`got ${headers['x-key']}`) },
      { eras: [era] },
    );
    const [gzip] = CODINGS;
    if (!gzip) throw new Error('no coding');
    const proxy = await coded(upstream.url, gzip, 1);
    const more = { headers: { 'X-Key': '$' + '{env:SERVICE_SECRET_CODED}' } };
    const caller = await client(era, await register(proxy.url, more, service));
    const { text } = await caller.call('tools/call', '{"name":"a"}');
    expect(text).toContain('got [REDACTED]');
    expect(proxy.received.at(-1)).toMatchObject({ 'x-key': secret });
  });

  it('whose body is damaged fails the call with the name of the coding', async () => {
    const upstream = await upstreamWith({}, { eras: [era] });
    const coding: CodingCase = { name: 'damaged', lines: ['br'], encode: (body) => body };
    let isDamaged = false;
    const proxy = await coded(
      upstream.url,
      {
        ...coding,
        get lines() {
          return isDamaged ? ['br'] : ['identity'];
        },
      },
      Number.POSITIVE_INFINITY,
    );
    const caller = await client(era, await register(proxy.url));
    isDamaged = true;
    const { message } = errorOf(await caller.call('tools/call', '{"name":"a"}'));
    expect(message).toContain(`upstream ${proxy.url} answered with a br body that `);
  });
});
