import { once } from 'node:events';
import { createServer, request, type ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { messages, type RawResponse, send } from '../../../../test/fixtures/raw-client.ts';
import { NO_CLIENT } from '../upstreams/client-facts.ts';
import { type BatchMember, BatchResponse, type BatchResponseOptions } from './batch.ts';
import { ClientSink } from './client-sink.ts';
import { ResponseWriter } from './response.ts';

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** Address of a server whose response is written by `work`. */
async function serving(work: (response: ServerResponse) => unknown): Promise<string> {
  const server = createServer((_request, response) => void work(response));
  ends.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${await listen(server, 0)}/`;
}

type Work = (members: readonly BatchMember[]) => unknown;

/** The client's response when members with the ids "0", "1" and so on respond as `work` does. */
async function responded(options: Partial<BatchResponseOptions>, work: Work): Promise<RawResponse> {
  const all = { size: 2, hasRequests: true, streams: true, ...options };
  const url = await serving((response) => {
    const result = new BatchResponse(response, ['Access-Control-Allow-Origin', '*'], all);
    return work(Array.from({ length: all.size }, (_, i) => result.addMember({ idText: `"${i}"` })));
  });
  return send(url, 'POST');
}

const rpc = (member: BatchMember | undefined, id = 'null'): ResponseWriter => {
  if (!member) throw new Error('there are fewer members');
  return new ResponseWriter(member, ['X-Of', 'member'], id);
};
const sink = (member: BatchMember | undefined, id?: string) => new ClientSink(rpc(member, id), NO_CLIENT);
const result = (id: string, value = '{}') => `{"jsonrpc":"2.0","id":${id},"result":${value}}`;
const note = (n: number) => `{"jsonrpc":"2.0","method":"notifications/message","params":{"n":${n}}}`;

describe('response to a batch with requests', () => {
  it('streams whole messages as they arrive, with the headers of the batch only', async () => {
    const response = await responded({}, async ([a, b]) => {
      const first = rpc(a, '1').startStream();
      first.send(note(1));
      const writer = rpc(b, '"b"');
      const second = writer.startStream();
      second.send(note(2));
      await delay(1);
      first.send(note(3));
      writer.sendResult({ json: '{"x":1.0}' });
      second.send(note(5));
      first.send(note(4));
      first.end(result('1'));
    });
    expect(response.status).toBe(200);
    expect(response.headers).toMatchObject({ 'content-type': 'text/event-stream', 'access-control-allow-origin': '*' });
    expect(response.headers['x-of']).toBeUndefined();
    expect(messages(response)).toEqual([note(1), note(2), note(3), result('"b"', '{"x":1.0}'), note(4), result('1')]);
  });

  it.each([true, false])(
    'sends nothing within an event whose parts arrive one by one (complete: %s)',
    async (isWhole) => {
      const last = result('1', '{"large":1}');
      const response = await responded({}, async ([a, b]) => {
        const stream = rpc(a, '1').startStream();
        stream.send(note(1));
        const body = stream.beginLast();
        body.write([Buffer.from(last.slice(0, 20))], () => undefined);
        await delay(1);
        rpc(b, '2').sendResult({ json: '{}' });
        if (!isWhole) return stream.end();
        body.write([Buffer.from(last.slice(20))], () => undefined);
        body.end();
      });
      const failed = '{"jsonrpc":"2.0","id":"0","error":{"code":-32603,"message":"internal error"}}';
      expect(messages(response)).toEqual([note(1), result('2'), isWhole ? last : failed]);
    },
  );

  it('is an array of the responses for a client that reads no streams', async () => {
    const response = await responded({ size: 3, streams: false }, async ([a, b, c]) => {
      const streaming = rpc(b, '2').startStream();
      streaming.send(note(1));
      rpc(a, '1').sendResult({ json: '{"first":true}' });
      streaming.keepAlive();
      streaming.end(result('2'));
      await delay(1);
      rpc(c, '3').sendError({ code: -32602, message: 'no' }, 400);
    });
    expect([response.status, response.headers['content-type']]).toEqual([200, 'application/json']);
    expect(response.headers).toMatchObject({ 'access-control-allow-origin': '*' });
    expect(response.text).toBe(
      `[${result('1', '{"first":true}')},${result('2')},{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"no"}}]`,
    );
  });

  it.each([true, false])(
    'joins a body that arrives in chunks, also when cut inside a character (streams: %s)',
    async (streams) => {
      const text = result('1', '{"text":"grüße😀","n":9223372036854775807}');
      const response = await responded({ size: 2, streams }, async ([a, b]) => {
        const pieces = rpc(a, '1');
        pieces.startJson(200, undefined);
        for (const byte of Buffer.from(text)) expect(pieces.response.write(Buffer.of(byte))).toBe(true);
        rpc(b, '2').sendResult({ json: Buffer.from('{"buffer":1}') });
        await delay(1);
        pieces.response.end();
      });
      const all = [result('2', '{"buffer":1}'), text];
      expect(response.text).toBe(
        streams ? all.map((one) => `event: message\ndata: ${one}\n\n`).join('') : `[${all.join(',')}]`,
      );
    },
  );

  it('sends the response of one member before another has responded', async () => {
    const pending: BatchMember[] = [];
    const url = await serving((response) => {
      const result = new BatchResponse(response, [], { size: 2, hasRequests: true, streams: false });
      pending.push(result.addMember({ idText: '1' }));
      rpc(result.addMember({ idText: '2' }), '2').sendResult({ json: '{}' });
    });
    const req = request(url, { agent: false }).end();
    const [response] = await once(req, 'response');
    let text = '';
    response.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    await expect.poll(() => text).toBe(`[${result('2')}`);
    rpc(pending[0], '1').sendResult({ json: '{}' });
    await once(response, 'end');
    expect(text).toBe(`[${result('2')},${result('1')}]`);
  });

  it('contains no response to a canceled request', async () => {
    const response = await responded({}, ([a, b]) => {
      sink(a).complete({ kind: 'canceled' });
      rpc(b, '2').sendResult({ json: '{}' });
    });
    expect(messages(response)).toEqual([result('2')]);
    const none = await responded({ size: 1 }, ([a]) => sink(a).complete({ kind: 'canceled' }));
    expect([none.status, none.text]).toEqual([202, '']);
  });

  it.each([true, false])('contains an error for an aborted member and continues (streams: %s)', async (streams) => {
    const response = await responded({ size: 3, streams }, async ([a, b, c]) => {
      const stream = rpc(a).startStream();
      if (streams) stream.send(note(1));
      expect(a?.headersSent).toBe(true);
      a?.destroy();
      a?.destroy();
      stream.end(result('"0"'));
      const half = rpc(b);
      half.startJson(200, undefined);
      half.response.write('{"jsonrpc":"2.0",');
      await delay(1);
      half.response.destroy();
      half.response.end('}');
      rpc(c, '"2"').sendResult({ json: '{}' });
    });
    const failed = (id: string) => `{"jsonrpc":"2.0","id":${id},"error":{"code":-32603,"message":"internal error"}}`;
    const all = [failed('"0"'), failed('"1"'), result('"2"')];
    if (streams) expect(messages(response)).toEqual([note(1), ...all]);
    else expect(response.text).toBe(`[${all.join(',')}]`);
  });

  it("contains an error when a member's response was not JSON-RPC", async () => {
    const response = await responded({ size: 3 }, ([a, b, c]) => {
      rpc(a).sendPlain(403, ['content-type', 'text/html; charset=utf-8'], '<p>no</p>');
      rpc(b).sendPlain(429);
      rpc(c).sendPlain(200, ['content-type', 'application/json; charset=utf-8'], result('"c"'));
    });
    const failed = (id: string, status: number) =>
      `{"jsonrpc":"2.0","id":${id},"error":{"code":-32603,"message":"answered with HTTP ${status}"}}`;
    expect(messages(response)).toEqual([failed('"0"', 403), failed('"1"', 429), result('"c"')]);
  });
});

describe('response to a batch without requests', () => {
  it('is 202 without a body when all members were accepted', async () => {
    const response = await responded({ hasRequests: false }, async ([a, b]) => {
      rpc(a).sendPlain(202);
      await delay(1);
      rpc(b).sendPlain(202);
    });
    expect([response.status, response.text, response.headers['content-length']]).toEqual([202, '', '0']);
    expect(response.headers).toMatchObject({ 'access-control-allow-origin': '*' });
    expect(response.headers['x-of']).toBeUndefined();
  });

  it.each([
    [400, 400],
    [502, 502],
    [200, 400],
  ])('is an array of errors, with status %i as %i', async (status, seen) => {
    const response = await responded({ hasRequests: false }, ([a, b]) => {
      rpc(a).sendPlain(202);
      rpc(b).sendError({ code: -32600, message: 'no' }, status);
    });
    expect([response.status, response.headers['content-type']]).toEqual([seen, 'application/json']);
    expect(response.text).toBe('[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}]');
  });
});

describe('the client of a batch', () => {
  it('that reads slowly pauses all members and resumes them together', async () => {
    const drained: number[] = [];
    const url = await serving((response) => {
      const reply = new BatchResponse(response, [], { size: 20, hasRequests: true, streams: true });
      const members = Array.from({ length: 20 }, (_, i) => reply.addMember({ idText: String(i) }));
      const data = JSON.stringify('x'.repeat(1024 * 1024));
      for (const [i, member] of members.entries()) {
        const stream = rpc(member, String(i)).startStream();
        expect(stream.send(`{"jsonrpc":"2.0","method":"m","params":{"data":${data}}}`)).toBe(false);
        stream.onDrain(() => {
          drained.push(i);
          stream.end(result(String(i)));
        });
      }
    });
    const warnings: Error[] = [];
    const warned = (warning: Error) => void warnings.push(warning);
    process.on('warning', warned);
    const req = request(url, { agent: false }).end();
    const [response] = await once(req, 'response');
    expect(drained).toEqual([]);
    let text = '';
    for await (const chunk of response) text += chunk;
    process.off('warning', warned);
    expect(drained).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(text.match(/"result"/g)).toHaveLength(20);
    expect(warnings).toEqual([]);
  });

  it('that reads slowly gets the same large list in each response, one after the other', async () => {
    const json = Buffer.alloc(4 * 1024 * 1024, '[1.0, "ü"],');
    let target: ServerResponse | undefined;
    const url = await serving((response) => {
      target = response;
      const reply = new BatchResponse(response, [], { size: 50, hasRequests: true, streams: true });
      const members = Array.from({ length: 50 }, (_, i) => reply.addMember({ idText: String(i) }));
      for (const [i, member] of members.entries()) rpc(member, String(i)).sendResult({ json });
    });
    const [response] = await once(request(url, { agent: false }).end(), 'response');
    response.pause();
    expect(target?.writableLength).toBeLessThan(2 * json.length);
    const ids: string[] = [];
    let bytes = 0;
    for await (const chunk of response) {
      bytes += chunk.length;
      ids.push(...Array.from(chunk.toString('latin1').matchAll(/"id":(\d+)/g), ([, id]) => String(id)));
    }
    expect(ids).toEqual(Array.from({ length: 50 }, (_, i) => String(i)));
    const envelopes = ids.map((id) => `event: message\ndata: ${result(id, '')}\n\n`).join('').length;
    expect(bytes).toBe(envelopes + 50 * json.length);
  });

  it('that reads slowly pauses members that send large results, and resumes them', async () => {
    const full = Buffer.alloc(1024 * 1024, '1');
    const url = await serving((response) => {
      const reply = new BatchResponse(response, [], { size: 2, hasRequests: true, streams: true });
      const [first, second] = ['1', '2'].map((idText) => reply.addMember({ idText }));
      rpc(first, '1').sendResult({ json: full });
      const writer = rpc(second, '2');
      writer.startJson(200, undefined);
      expect(writer.response.write('{"jsonrpc":"2.0","id":2,"result":')).toBe(false);
      writer.response.once('drain', () => writer.response.end('{}}'));
    });
    const [response] = await once(request(url, { agent: false }).end(), 'response');
    let text = '';
    for await (const chunk of response) text += chunk;
    expect(text).toBe(
      [result('1', full.toString()), result('2')].map((one) => `event: message\ndata: ${one}\n\n`).join(''),
    );
  });

  it('that disconnects aborts every unfinished member, which may still end', async () => {
    const left: string[] = [];
    const members: BatchMember[] = [];
    const url = await serving((response) => {
      const result = new BatchResponse(response, [], { size: 3, hasRequests: true, streams: true });
      for (const id of ['1', '2', '3']) {
        const member = result.addMember({ idText: id });
        members.push(member);
        sink(member, id).onDisconnect(() => left.push(id));
      }
      rpc(members[0], '1').sendResult({ json: '{}' });
    });
    const req = request(url, { agent: false }).end();
    const [response] = await once(req, 'response');
    await once(response, 'data');
    response.destroy();
    await expect.poll(() => left).toEqual(['2', '3']);
    expect(members.map((member) => member.destroyed)).toEqual([true, true, true]);
    rpc(members[1], '2').sendResult({ json: '{}' });
    expect(rpc(members[2], '3').startStream().send(note(1))).toBe(false);
    members[2]?.destroy();
    expect(members.map((member) => member.writableEnded)).toEqual([true, true, true]);
  });
});
