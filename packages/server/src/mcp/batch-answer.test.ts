import { once } from 'node:events';
import { createServer, request, type ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { messages, type RawAnswer, send } from '../../../../test/fixtures/raw-client.ts';
import { type BatchAnswerOptions, type BatchMember, BatchResponse } from './batch.ts';
import { ResponseWriter } from './response.ts';

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** The address of a server that answers as `work` does. */
async function serving(work: (response: ServerResponse) => unknown): Promise<string> {
  const server = createServer((_request, response) => void work(response));
  ends.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${await listen(server, 0)}/`;
}

type Work = (members: readonly BatchMember[]) => unknown;

/** What a client gets when members with the ids "0", "1" and so on answer as `work` does. */
async function answered(options: Partial<BatchAnswerOptions>, work: Work): Promise<RawAnswer> {
  const all = { size: 2, asks: true, streams: true, ...options };
  const url = await serving((response) => {
    const answer = new BatchResponse(response, ['Access-Control-Allow-Origin', '*'], all);
    return work(Array.from({ length: all.size }, (_, i) => answer.member({ idText: `"${i}"` })));
  });
  return send(url, 'POST');
}

const rpc = (member: BatchMember | undefined, id = 'null'): ResponseWriter => {
  if (!member) throw new Error('there are fewer members');
  return new ResponseWriter(member, ['X-Of', 'member'], id);
};
const result = (id: string, value = '{}') => `{"jsonrpc":"2.0","id":${id},"result":${value}}`;
const note = (n: number) => `{"jsonrpc":"2.0","method":"notifications/message","params":{"n":${n}}}`;

describe('the answer to a batch with requests', () => {
  it('is a stream of whole messages, as they come, and carries the headers of the batch alone', async () => {
    const answer = await answered({}, async ([a, b]) => {
      const first = rpc(a, '1');
      first.beginStream();
      first.event(note(1));
      const second = rpc(b, '"b"');
      second.beginStream();
      second.event(note(2));
      await delay(1);
      first.event(note(3));
      second.result('{"x":1.0}');
      second.event(note(5));
      first.event(note(4));
      first.lastEvent(result('1'));
    });
    expect(answer.status).toBe(200);
    expect(answer.headers).toMatchObject({ 'content-type': 'text/event-stream', 'access-control-allow-origin': '*' });
    expect(answer.headers['x-of']).toBeUndefined();
    expect(messages(answer)).toEqual([note(1), note(2), note(3), result('"b"', '{"x":1.0}'), note(4), result('1')]);
  });

  it('is an array of the responses for a client that reads no streams', async () => {
    const answer = await answered({ size: 3, streams: false }, async ([a, b, c]) => {
      const streaming = rpc(b, '2');
      streaming.beginStream();
      streaming.event(note(1));
      rpc(a, '1').result('{"first":true}');
      streaming.keepAlive();
      streaming.lastEvent(result('2'));
      await delay(1);
      rpc(c, '3').error({ code: -32602, message: 'no' }, 400);
    });
    expect([answer.status, answer.headers['content-type']]).toEqual([200, 'application/json']);
    expect(answer.headers).toMatchObject({ 'access-control-allow-origin': '*' });
    expect(answer.text).toBe(
      `[${result('1', '{"first":true}')},${result('2')},{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"no"}}]`,
    );
  });

  it.each([true, false])(
    'joins a body that comes in pieces, cut inside a character too (streams: %s)',
    async (streams) => {
      const text = result('1', '{"text":"grüße😀","n":9223372036854775807}');
      const answer = await answered({ size: 2, streams }, async ([a, b]) => {
        const pieces = rpc(a, '1');
        pieces.beginJson(200, undefined);
        for (const byte of Buffer.from(text)) expect(pieces.write(Buffer.of(byte))).toBe(true);
        rpc(b, '2').result(Buffer.from('{"buffer":1}'));
        await delay(1);
        pieces.end();
      });
      const all = [result('2', '{"buffer":1}'), text];
      expect(answer.text).toBe(
        streams ? all.map((one) => `event: message\ndata: ${one}\n\n`).join('') : `[${all.join(',')}]`,
      );
    },
  );

  it('does not wait for one member to send what another has', async () => {
    const held: BatchMember[] = [];
    const url = await serving((response) => {
      const answer = new BatchResponse(response, [], { size: 2, asks: true, streams: false });
      held.push(answer.member({ idText: '1' }));
      rpc(answer.member({ idText: '2' }), '2').result('{}');
    });
    const req = request(url, { agent: false }).end();
    const [response] = await once(req, 'response');
    let text = '';
    response.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    await expect.poll(() => text).toBe(`[${result('2')}`);
    rpc(held[0], '1').result('{}');
    await once(response, 'end');
    expect(text).toBe(`[${result('2')},${result('1')}]`);
  });

  it('has no response of a request that nobody waits for any more', async () => {
    const answer = await answered({}, ([a, b]) => {
      rpc(a).cancelled(false);
      rpc(b, '2').result('{}');
    });
    expect(messages(answer)).toEqual([result('2')]);
    const none = await answered({ size: 1 }, ([a]) => rpc(a).cancelled(true));
    expect([none.status, none.text]).toEqual([202, '']);
  });

  it.each([true, false])('has an error for a member that broke off, and goes on (streams: %s)', async (streams) => {
    const answer = await answered({ size: 3, streams }, async ([a, b, c]) => {
      const stream = rpc(a);
      stream.beginStream();
      if (streams) stream.event(note(1));
      expect(a?.headersSent).toBe(true);
      stream.destroy();
      stream.destroy();
      stream.lastEvent(result('"0"'));
      const half = rpc(b);
      half.beginJson(200, undefined);
      half.write('{"jsonrpc":"2.0",');
      await delay(1);
      half.destroy();
      half.end('}');
      rpc(c, '"2"').result('{}');
    });
    const failed = (id: string) => `{"jsonrpc":"2.0","id":${id},"error":{"code":-32603,"message":"internal error"}}`;
    const all = [failed('"0"'), failed('"1"'), result('"2"')];
    if (streams) expect(messages(answer)).toEqual([note(1), ...all]);
    else expect(answer.text).toBe(`[${all.join(',')}]`);
  });

  it('says so where a member’s answer was no JSON-RPC at all', async () => {
    const answer = await answered({ size: 3 }, ([a, b, c]) => {
      rpc(a).plain(403, ['content-type', 'text/html; charset=utf-8'], '<p>no</p>');
      rpc(b).plain(429);
      rpc(c).plain(200, ['content-type', 'application/json; charset=utf-8'], result('"c"'));
    });
    const failed = (id: string, status: number) =>
      `{"jsonrpc":"2.0","id":${id},"error":{"code":-32603,"message":"answered with HTTP ${status}"}}`;
    expect(messages(answer)).toEqual([failed('"0"', 403), failed('"1"', 429), result('"c"')]);
  });
});

describe('the answer to a batch without requests', () => {
  it('is 202 without a body when all was taken', async () => {
    const answer = await answered({ asks: false }, async ([a, b]) => {
      rpc(a).plain(202);
      await delay(1);
      rpc(b).plain(202);
    });
    expect([answer.status, answer.text, answer.headers['content-length']]).toEqual([202, '', '0']);
    expect(answer.headers).toMatchObject({ 'access-control-allow-origin': '*' });
    expect(answer.headers['x-of']).toBeUndefined();
  });

  it.each([
    [400, 400],
    [502, 502],
    [200, 400],
  ])('has an array of what is wrong, with status %i as %i', async (status, seen) => {
    const answer = await answered({ asks: false }, ([a, b]) => {
      rpc(a).plain(202);
      rpc(b).error({ code: -32600, message: 'no' }, status);
    });
    expect([answer.status, answer.headers['content-type']]).toEqual([seen, 'application/json']);
    expect(answer.text).toBe('[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}]');
  });
});

describe('the client of a batch', () => {
  it('that reads slowly holds all members back, and lets them go together', async () => {
    const drained: number[] = [];
    const url = await serving((response) => {
      const answer = new BatchResponse(response, [], { size: 20, asks: true, streams: true });
      const members = Array.from({ length: 20 }, (_, i) => answer.member({ idText: String(i) }));
      const data = JSON.stringify('x'.repeat(1024 * 1024));
      for (const [i, member] of members.entries()) {
        const client = rpc(member, String(i));
        client.beginStream();
        expect(client.event(`{"jsonrpc":"2.0","method":"m","params":{"data":${data}}}`)).toBe(false);
        client.onDrain(() => {
          drained.push(i);
          client.lastEvent(result(String(i)));
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

  it('that leaves is missed by every member that has not ended, and costs nothing when they do', async () => {
    const left: string[] = [];
    const members: BatchMember[] = [];
    const url = await serving((response) => {
      const answer = new BatchResponse(response, [], { size: 3, asks: true, streams: true });
      for (const id of ['1', '2', '3']) {
        const member = answer.member({ idText: id });
        members.push(member);
        rpc(member, id).onLeave(() => left.push(id));
      }
      rpc(members[0], '1').result('{}');
    });
    const req = request(url, { agent: false }).end();
    const [response] = await once(req, 'response');
    await once(response, 'data');
    response.destroy();
    await expect.poll(() => left).toEqual(['2', '3']);
    expect(members.map((member) => member.destroyed)).toEqual([true, true, true]);
    rpc(members[1], '2').result('{}');
    rpc(members[2], '3').beginStream();
    expect(rpc(members[2], '3').event(note(1))).toBe(false);
    members[2]?.destroy();
    expect(members.map((member) => member.writableEnded)).toEqual([true, true, true]);
  });
});
