import { describe, expect, it } from 'vitest';
import { modernClient, reply } from '../../../../../../test/fixtures/raw-client.ts';
import { LIST_END } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import type { RawUpstreamOptions } from '../../../../../../test/fixtures/raw-upstream.ts';
import { capabilityScripts } from '../../../../testing/capability-scripts.ts';
import { ALL_CAPABILITIES, failure, InteractiveClient, inputRequired } from '../../../../testing/interactive-client.ts';
import { client, eras, errorOf, lastCall, relayTests } from '../../../../testing/relay.ts';

const { register, upstreamWith } = relayTests();

const NOT_FOUND =
  '{"message":"gone","code" : -32002,"data":{"uri":"test://a","code":-32002,"n":9223372036854775807},"x":1.0}';
const visit = (path: string, more = '') =>
  `{"mode":"url"${more},"message":"\\u0076isit","url":"https://example.com/${path}","n":1.0}`;
const urlRequired = (...elicitations: readonly string[]) =>
  `{"code":-32042,"message":"visit first","data":{"elicitations":[${elicitations.join(',')}],"x":1.0}}`;

/** An upstream whose calls and reads all fail with this error, as JSON text. */
async function failing(text: string, more: RawUpstreamOptions = { eras: ['legacy'] }) {
  const error = { kind: 'error', text } as const;
  const resources = `{"resources":[{"uri":"test://a","name":"a"}],${LIST_END}`;
  return upstreamWith({ 'tools/call': error, 'resources/read': error, 'resources/list': resources }, more);
}

describe('-32002, that a resource does not exist', () => {
  it.each(eras)('is -32602 for a modern client, otherwise unchanged, from a %s upstream', async (era) => {
    const upstream = await failing(NOT_FOUND, { eras: [era] });
    const caller = modernClient(await register(upstream.url));
    const response = await caller.call('resources/read', '{"uri":"test://a"}');
    expect(response.status).toBe(200);
    expect(reply(response)).toContain(`"error":${NOT_FOUND.replace('-32002', '-32602')}`);
  });

  it('is unchanged for a legacy client', async () => {
    const upstream = await failing(NOT_FOUND);
    const caller = await client('legacy', await register(upstream.url));
    expect(reply(await caller.call('resources/read', '{"uri":"test://a"}'))).toContain(`"error":${NOT_FOUND}`);
  });
});

describe('-32042, URL elicitation required', () => {
  it('becomes an input request for a modern client, which then sends the same request again', async () => {
    const upstream = await failing(urlRequired(visit('1', ',"elicitationId":"e-1"'), visit('2')));
    const caller = new InteractiveClient(await register(upstream.url));
    const params = '"name":"a","arguments":{"n":1.0}';
    const first = caller.send({ params });
    const { text, keys, id, state } = await inputRequired(first);
    expect((await first.head).statusCode).toBe(200);
    expect(text).toBe(
      `{"jsonrpc":"2.0","id":${id},"result":{"resultType":"input_required","inputRequests":{` +
        `"${keys[0]}":{"method":"elicitation/create","params":${visit('1')}},` +
        `"${keys[1]}":{"method":"elicitation/create","params":${visit('2')}}},"requestState":"${state}"}}`,
    );
    upstream.scripts['tools/call'] = '{"content":[]}';
    const accepted = `{"${keys[0]}":{"action":"accept"},"${keys[1]}":{"action":"accept"}}`;
    const again = caller.retry(state, accepted, { params });
    await again.ended;
    expect(JSON.parse(again.text).result).toEqual({ resultType: 'complete', content: [] });
    expect(lastCall(upstream).params).toEqual({ name: 'a', arguments: { n: 1 }, _meta: {} });
    expect(lastCall(upstream).body).toContain('"n":1.0');
  });

  it.each([
    ['declines one', '{"elicitation-1":{"action":"accept"},"elicitation-2":{"action":"decline"}}'],
    ['cancels', '{"elicitation-1":{"action":"cancel"}}'],
    ['does not respond', '{}'],
  ])('is not called again for a user who %s', async (_title, responses) => {
    const upstream = await failing(urlRequired(visit('1'), visit('2')));
    const caller = new InteractiveClient(await register(upstream.url));
    const { state } = await inputRequired(caller.send({ params: '"name":"a"' }));
    const calls = upstream.count('tools/call');
    expect(await failure(caller.retry(state, responses, { params: '"name":"a"' }))).toEqual({
      status: 200,
      code: -32602,
      message: 'the URL was not visited',
    });
    expect(upstream.count('tools/call')).toBe(calls);
  });

  it.each(['{}', '{"elicitation":{}}', '{"elicitation":{"form":{}},"sampling":{}}'])(
    'is -32021 to one that cannot show addresses: %s',
    async (capabilities) => {
      const upstream = await failing(urlRequired(visit('1')));
      const caller = new InteractiveClient(await register(upstream.url), capabilities);
      expect(await failure(caller.send({ params: '"name":"a"' }))).toEqual({
        status: 400,
        code: -32021,
        message: 'visit first',
        data: { requiredCapabilities: { elicitation: { url: {} } } },
      });
    },
  );

  it.each([
    '{"code":-32042,"message":"m"}',
    '{"code":-32042,"message":"m","data":{"elicitations":{}}}',
    '{"code":-32042,"message":"m","data":{"elicitations":[]}}',
    `{"code":-32042,"message":"m","data":{"elicitations":[${visit('1')},{"mode":"form"}]}}`,
    '{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","url":1}]}}',
  ])('is -32603 without a URL: %s', async (error) => {
    const upstream = await failing(error);
    const caller = new InteractiveClient(await register(upstream.url));
    const reading = caller.send({ params: '"name":"a"' });
    expect((await failure(reading)).status).toBe(200);
    expect(reading.text).toContain(`"error":${error.replace('-32042', '-32603')}`);
  });

  it('is -32603 for methods without input requests', async () => {
    const upstream = await upstreamWith(
      {
        ...capabilityScripts('{"prompts":{},"completions":{}}'),
        'prompts/list': `{"prompts":[{"name":"p"}],${LIST_END}`,
        'completion/complete': { kind: 'error', text: urlRequired(visit('1')) },
      },
      { eras: ['legacy'] },
    );
    const caller = modernClient(await register(upstream.url), ALL_CAPABILITIES);
    const params = '{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}';
    expect(errorOf(await caller.call('completion/complete', params))).toMatchObject({
      code: -32603,
      message: 'visit first',
    });
  });

  it('is unchanged for a legacy client', async () => {
    const error = urlRequired(visit('1', ',"elicitationId":"e"'));
    const upstream = await failing(error);
    const caller = await client('legacy', await register(upstream.url));
    expect(reply(await caller.call('tools/call', '{"name":"a"}'))).toContain(`"error":${error}`);
  });
});
