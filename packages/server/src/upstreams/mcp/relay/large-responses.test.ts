import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { messages, post } from '../../../../../../test/fixtures/raw-client.ts';
import { client, eras, errorOf, relayTests } from '../../../../testing/relay.ts';
import { callHeaders, callText, openCall } from '../../../../testing/streamer.ts';
import { eventsAt } from '../../../../testing/tool-call-events.ts';

const tests = relayTests();
const { register, streamer, upstreamWith } = tests;

const MIB = 1024 * 1024;
/** On a slow machine, others get a stream before the response has arrived. */
const JSON_ALONE = { accept: 'application/json' };

describe.each(eras)('a large response of an upstream to a %s client', (era) => {
  const ROW = '[1.0, 9223372036854775807,"\\u00e4",{"a" : []}],';
  /** More than is parsed at once. */
  const MANY = ROW.repeat(8_000);

  /** Calls a tool whose upstream responds with this body; returns the response and the events. */
  async function callWith(body: string, status = 200, chunked = false) {
    const { upstream, call } = await callable(body, status, chunked);
    return { upstream, response: await call() };
  }

  /** The same, before the call. */
  async function callable(body: string, status = 200, chunked = false) {
    const type = 'application/json';
    const upstream = await upstreamWith({ 'tools/call': { kind: 'http', status, type, body, chunked } });
    const url = await register(upstream.url);
    const caller = await client(era, url);
    return { upstream, url, call: () => caller.call('tools/call', '{"name":"a"}', JSON_ALONE) };
  }

  it.each([
    [
      'first',
      (id: string) => `{"id":${id},"jsonrpc":"2.0","result":{"content":[],"structuredContent":{"é":[${MANY}1]}}}`,
    ],
    [
      'last',
      (id: string) => ` {"jsonrpc":"2.0","result":{"content":[],"structuredContent":{"é":[${MANY}1]}} , "id" :${id}\n}`,
    ],
  ])('has its bytes, and the client’s id, which comes %s', async (_where, body) => {
    for (const chunked of [false, true]) {
      const { response } = await callWith(body('$id'), 200, chunked);
      expect(response.status).toBe(200);
      expect(response.text).toBe(body('1'));
    }
  });

  it('has its text, whatever its length, and wherever it has escapes', async () => {
    const { upstream, call } = await callable('');
    for (const kib of [16, 20, 40, 64, 100]) {
      for (const difference of [-3, 0, 3]) {
        const rest = 'x'.repeat(kib * 1024 + difference);
        for (const text of [rest, `\n${rest}`, `${rest}\n`, `é\\${rest}\u0001`, 'line\n'.repeat(rest.length / 6)]) {
          const result = { content: [{ type: 'text', text }] };
          const body = `{"jsonrpc":"2.0","id":$id,"result":${JSON.stringify(result)}}`;
          upstream.scripts['tools/call'] = { kind: 'http', status: 200, type: 'application/json', body };
          expect(JSON.parse((await call()).text).result, `${rest.length} ${text.slice(0, 4)}`).toEqual(result);
        }
      }
    }
  });

  it.each([
    ['damaged', `{"jsonrpc":"2.0","id":$id,"result":{"content":[${MANY}]}}`],
    ['incomplete', `{"jsonrpc":"2.0","id":$id,"result":{"content":[${MANY}1]}`],
    ['a result and an error', `{"jsonrpc":"2.0","id":$id,"result":{"content":[${MANY}1]},"error":{"code":1}}`],
    ['the response to something else', `{"jsonrpc":"2.0","result":{"content":[${MANY}1]},"id":"other"}`],
  ])('breaks the connection and fails the call if it turns out to be %s', async (_what, body) => {
    for (const chunked of [false, true]) {
      const { url, call } = await callable(body, 200, chunked);
      await expect(call()).rejects.toThrow('aborted');
      expect(await eventsAt(tests.service, url)).toMatchObject([{ eventType: 'STARTED' }, { eventType: 'FAILED' }]);
    }
  });

  it('fails the call if it is known from the beginning to be something else', async () => {
    for (const body of [
      `{"jsonrpc":"2.0","id":"other","result":{"content":[${MANY}1]}}`,
      `{"jsonrpc":"2.0","id":$id,"results":{"content":[${MANY}1]}}`,
    ]) {
      const { upstream, response } = await callWith(body);
      expect(errorOf(response)).toMatchObject({
        code: -32603,
        message: expect.stringMatching(`^forwarded tool call failed: upstream ${upstream.url} answered `),
      });
    }
  });

  it('may be an error, whose retired code is replaced for modern clients', async () => {
    const data = `"data":{"rows":[${ROW.repeat(2_000)}1]}`;
    const { response } = await callWith(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32002,"message":"no",${data}}}`);
    const code = era === 'modern' ? -32602 : -32002;
    expect(response.status).toBe(200);
    expect(response.text).toBe(`{"jsonrpc":"2.0","id":1,"error":{"code":${code},"message":"no",${data}}}`);
  });

  it('is an event for a client that accepts only event streams', async () => {
    const body = `{"jsonrpc":"2.0","id":$id,"result":{"content":[${MANY}1]}}`;
    const upstream = await upstreamWith({
      'tools/call': { kind: 'http', status: 200, type: 'application/json', body },
    });
    const url = await register(upstream.url);
    const headers = { ...callHeaders(era), ...(era === 'modern' && { 'mcp-name': 'a' }), accept: 'text/event-stream' };
    const response = await post(url, callText(era).replace('"work"', '"a"'), headers);
    expect(response.headers['content-type']).toBe('text/event-stream');
    expect(messages(response)).toEqual([body.replace('$id', '"c"')]);
  });

  it('arrives while it is sent, at the pace of the client, also beyond the limit of what is buffered', async () => {
    const upstream = await streamer();
    const url = await register(upstream.url);
    const opened = openCall(url, callText(era), { ...callHeaders(era), ...JSON_ALONE });
    const { id, response: sender } = await upstream.next();
    sender.writeHead(200, { 'content-type': 'application/json' });
    // More than one read: what arrives at once is sent at once.
    const text = 'lorem ipsum '.repeat(20_000);
    sender.write(`{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"${text}`);
    const response = await opened;
    const sha = createHash('sha256').update(
      `{"jsonrpc":"2.0","id":"c","result":{"content":[{"type":"text","text":"${text}`,
    );
    const block = Buffer.from(text);
    const send = () => {
      sha.update(block);
      return sender.write(block);
    };
    // While the client does not read, the upstream is not read either.
    let sent = 0;
    for (; sent < 32 * MIB && sender.writableLength < 2 * MIB; sent += block.length) {
      send();
      await setImmediate();
    }
    expect(sent).toBeLessThan(32 * MIB);
    const received = createHash('sha256');
    response.on('data', (chunk: Buffer) => received.update(chunk));
    await once(sender, 'drain');
    for (let rest = 0; rest < 66 * MIB; rest += block.length) if (!send()) await once(sender, 'drain');
    const end = '"}]}}';
    sender.end(end);
    await once(response, 'end');
    expect(received.digest('hex')).toBe(sha.update(end).digest('hex'));
  });

  it('has its length if that is known, and is canceled at the upstream if the client disconnects', async () => {
    const upstream = await streamer();
    const url = await register(upstream.url);
    const opened = openCall(url, callText(era), { ...callHeaders(era), ...JSON_ALONE });
    const call = await upstream.next();
    const beginning = `{"jsonrpc":"2.0","id":${call.id},"result":{"content":[${MANY}`;
    call.response.writeHead(200, { 'content-type': 'application/json', 'content-length': beginning.length + 1_000 });
    call.response.write(beginning);
    const response = await opened;
    expect(response.headers['content-length']).toBe(String(beginning.length + 1_000 - call.id.length + '"c"'.length));
    response.destroy();
    if (era === 'modern') await once(call.response, 'close');
    else call.response.end('1]}}'.padStart(1_000));
  });
});

it('a result that nests deeper than the limit of buffered responses fails: the scan remembers each level', async () => {
  const upstream = await streamer();
  const url = await register(upstream.url);
  const opened = openCall(url, callText('legacy'), { ...callHeaders('legacy'), ...JSON_ALONE });
  const { id, response: sender } = await upstream.next();
  const closed = once(sender, 'close');
  sender.writeHead(200, { 'content-type': 'application/json' });
  sender.write(`{"jsonrpc":"2.0","id":${id},"result":{"content":[],"structuredContent":{"a":`);
  const block = Buffer.alloc(MIB, '[');
  sender.write(block);
  const response = await opened;
  response.on('error', () => undefined).resume();
  let sent = 1;
  for (; !sender.destroyed && sent < 80; sent++) {
    if (!sender.write(block)) await Promise.race([once(sender, 'drain'), closed]);
  }
  await closed;
  expect(sent).toBeGreaterThanOrEqual(64);
  expect(await eventsAt(tests.service, url)).toMatchObject([{ eventType: 'STARTED' }, { eventType: 'FAILED' }]);
});
