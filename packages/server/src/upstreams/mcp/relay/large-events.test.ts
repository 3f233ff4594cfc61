import { describe, expect, it } from 'vitest';
import { legacyClient, messages, modernClient, post, reply } from '../../../../../../test/fixtures/raw-client.ts';
import type { Era, ScriptedResponse } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { client, eras, errorOf, relayTests } from '../../../../testing/relay.ts';

const { register, upstreamWith } = relayTests();

/** More values than are parsed at once. */
const MANY = `[${'[],'.repeat(60_000)}[]]`;

/** The result of a call: its members besides the content. */
function resultWith(...members: readonly string[]): string {
  return `{${['"content":[{"type":"text","text":"done"}]', ...members].join(',')}}`;
}

/** A response with this result, in the form and at the place that the case is about. */
function responseWith(result: string, form: 'json' | 'stream', idPlace: 'first' | 'last' = 'first'): ScriptedResponse {
  const id = '"jsonrpc":"2.0","id":$id';
  const message = idPlace === 'first' ? `{${id},"result":${result}}` : `{"result":${result},${id}}`;
  if (form === 'json') return { kind: 'http', status: 200, type: 'application/json', body: message };
  return { kind: 'http', status: 200, type: 'text/event-stream', body: `data: ${message}\n\n` };
}

async function urlOf(upstreamEra: Era, response: ScriptedResponse): Promise<string> {
  const upstream = await upstreamWith({ 'tools/call': response }, { eras: [upstreamEra] });
  return register(upstream.url);
}

describe.each(eras)('a large response of a %s upstream', (upstreamEra) => {
  describe.each(eras)('for a %s client', (era) => {
    it.each(['json', 'stream'] as const)('is relayed without being parsed: %s', async (form) => {
      for (const idPlace of ['first', 'last'] as const) {
        const result = resultWith(
          `"structuredContent":{"many":${MANY}}`,
          ...(upstreamEra === 'modern' ? ['"resultType":"complete"'] : []),
        );
        const url = await urlOf(upstreamEra, responseWith(result, form, idPlace));
        const answer = await (await client(era, url)).call('tools/call', '{"name":"a"}');
        const { id, result: sent } = JSON.parse(reply(answer));
        expect(id).toBe(1);
        expect(sent.content).toEqual([{ type: 'text', text: 'done' }]);
        expect(JSON.stringify(sent.structuredContent.many)).toBe(MANY);
        if (era === 'modern') expect(sent.resultType).toBe('complete');
      }
    });
  });
});

describe('translation of a large response', () => {
  it('adds what a modern client expects, and replaces a result type of the upstream', async () => {
    const url = await urlOf('legacy', responseWith(`{"resultType":"own","x":${MANY},"resultType":"other"}`, 'stream'));
    const text = reply(await modernClient(url).call('tools/call', '{"name":"a"}'));
    expect(text).not.toMatch(/"own"|"other"/);
    expect(JSON.parse(text).result).toMatchObject({ resultType: 'complete' });
  });

  it('removes structured content that a legacy client rejects', async () => {
    for (const members of [
      [`"structuredContent":${MANY}`],
      [`"structuredContent":${MANY}`, '"x":1'],
      ['"structuredContent":1', `"structuredContent":${MANY}`],
    ]) {
      const url = await urlOf('modern', responseWith(resultWith(...members), 'stream'));
      const { result } = JSON.parse(reply(await (await legacyClient(url)).call('tools/call', '{"name":"a"}')));
      expect(result).toEqual({ content: [{ type: 'text', text: 'done' }], ...(members.includes('"x":1') && { x: 1 }) });
    }
  });

  it('rejects a result of an unknown type, and one that requires an immense input', async () => {
    for (const [type, says] of [
      ['own', 'a result of type \\"own\\"'],
      ['input_required', 'too large to be parsed'],
    ]) {
      const url = await urlOf('modern', responseWith(resultWith(`"resultType":"${type}"`, `"x":${MANY}`), 'stream'));
      const answer = await (await legacyClient(url)).call('tools/call', '{"name":"a"}');
      expect(JSON.stringify(errorOf(answer))).toContain(says);
    }
  });
});

it('a large response ends a stream that has begun, in one line of data', async () => {
  const log = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"first"}}';
  const spaced = `{"content":[],\n"x":\r\n${MANY}\n}`.replaceAll(/\r?\n/g, '\ndata: ');
  const body = `data: ${log}\n\ndata: {"jsonrpc":"2.0","id":$id,"result":${spaced}}\n\n`;
  const response: ScriptedResponse = { kind: 'http', status: 200, type: 'text/event-stream', body };
  const url = await urlOf('legacy', response);
  const legacy = await legacyClient(url);
  const [first, last = ''] = messages(await legacy.call('tools/call', '{"name":"a"}'));
  expect(first).toBe(log);
  expect(last).not.toMatch(/[\r\n]/);
  expect(JSON.stringify(JSON.parse(last).result.x)).toBe(MANY);
});

it('a large response is part of a batch', async () => {
  const url = await urlOf('legacy', responseWith(resultWith(`"x":${MANY}`), 'json'));
  const params = '{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}';
  const opened = await post(url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`);
  const headers = { 'mcp-session-id': String(opened.headers['mcp-session-id']) };
  const call = (id: number) => `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"a"}}`;
  const answers = messages(await post(url, `[${call(1)},${call(2)}]`, headers)).map((text) => JSON.parse(text));
  expect(answers.map(({ id }) => id).toSorted()).toEqual([1, 2]);
});

describe('a large message that is not a response', () => {
  const notification = (data: string) =>
    `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":${data}}}\n\n`;
  const call = async (body: string) => {
    const response: ScriptedResponse = { kind: 'http', status: 200, type: 'text/event-stream', body };
    const legacy = await legacyClient(await urlOf('legacy', response));
    return legacy.call('tools/call', '{"name":"a"}');
  };
  const done = `data: {"jsonrpc":"2.0","id":$id,"result":${resultWith()}}\n\n`;

  it('is relayed if it has few values', async () => {
    const text = JSON.stringify('x'.repeat(1_000_000));
    const [first = '', last = ''] = messages(await call(`${notification(text)}${done}`));
    expect(JSON.parse(first).params.data).toBe(JSON.parse(text));
    expect(last).toContain('done');
  });

  it('fails the call if it has many', async () => {
    for (const body of [notification(MANY), `data: ${MANY}\n\n`]) {
      expect(errorOf(await call(`${body}${done}`)).message).toMatch(/too large to be parsed: it has \d+ bytes/);
    }
  });

  it('is skipped if it is no JSON', async () => {
    expect(messages(await call(`data: ${MANY.slice(1)}\n\n${done}`)).at(-1)).toContain('done');
  });
});

it('large errors of an upstream are relayed', async () => {
  const body = `{"jsonrpc":"2.0","id":$id,"error":{"code":-32050,"message":"too many","data":${MANY}}}`;
  for (const type of ['application/json', 'text/event-stream']) {
    const response: ScriptedResponse = {
      kind: 'http',
      status: 200,
      type,
      body: type === 'application/json' ? body : `data: ${body}\n\n`,
    };
    const url = await urlOf('legacy', response);
    for (const era of eras) {
      const error = errorOf(await (await client(era, url)).call('tools/call', '{"name":"a"}'));
      expect(error).toMatchObject({ code: -32050, message: 'too many' });
      expect(JSON.stringify(error.data)).toBe(MANY);
    }
  }
});
