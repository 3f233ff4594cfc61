import { describe, expect, it } from 'vitest';
import { LIST_END } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { capabilityScripts } from '../../../../testing/capability-scripts.ts';
import {
  failure,
  InteractiveClient,
  inputRequired,
  lastMessage,
  resultText,
} from '../../../../testing/interactive-client.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import { lastCall } from '../../../../testing/relay.ts';
import { startTestService } from '../../../../testing/service.ts';
import { inputResponses, startCall, suspendedCall } from './fixtures/suspended-call.ts';

const { live, onEnd, register, upstreamWith } = liveTests();

const FORM = '"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object"}}';
const URL_MODE =
  '"elicitation/create","params":{"mode":"url","message":"m","url":"https://e.com/","elicitationId":"e"}';
const SAMPLING = '"sampling/createMessage","params":{"messages":[],"maxTokens":1}';
const WITH_TOOLS = '"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}';
const ROOTS = '"roots/list"';
const rejectionOf = (id: string) => ({
  jsonrpc: '2.0',
  id,
  error: { code: -32601, message: 'the client does not accept server requests on this connection' },
});

describe('a server request that a modern client has not declared support for', () => {
  it.each([
    ['{"sampling":{},"roots":{}}', FORM, { elicitation: {} }],
    ['{"elicitation":{}}', URL_MODE, { elicitation: { url: {} } }],
    ['{"elicitation":{"form":{}}}', URL_MODE, { elicitation: { url: {} } }],
    ['{"elicitation":{"url":{}}}', FORM, { elicitation: {} }],
    ['{"elicitation":{}}', SAMPLING, { sampling: {} }],
    ['{"sampling":{}}', WITH_TOOLS, { sampling: { tools: {} } }],
    ['{"sampling":{}}', ROOTS, { roots: {} }],
    ['{}', ROOTS, { roots: {} }],
  ])(
    'is rejected, and a call that then fails names the missing capability: %s %s',
    async (capabilities, serverRequest, needed) => {
      const { upstream, call, first } = await startCall(live, { capabilities });
      call.send(`{"jsonrpc":"2.0","id":"q","method":${serverRequest}}`);
      await expect.poll(upstream.answers).toHaveLength(1);
      expect(JSON.parse(upstream.answers()[0] ?? '')).toEqual(rejectionOf('q'));
      call.send(`{"jsonrpc":"2.0","id":${call.id},"error":{"code":-32603,"message":"could not ask"}}`);
      expect(await failure(first)).toMatchObject({ status: 400, code: -32021, data: { requiredCapabilities: needed } });
    },
  );

  it('does not end the call', async () => {
    const { upstream, call, first } = await startCall(live, { capabilities: '{"sampling":{}}' });
    call.request('"q"', 'roots/list');
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('went on');
    expect(await resultText(first)).toBe('went on');
  });

  it('is reported to a retry with the same status', async () => {
    const { upstream, client, call, pending, answers } = await suspendedCall(live, { capabilities: '{"roots":{}}' });
    call.send(`{"jsonrpc":"2.0","id":"q","method":${SAMPLING}}`);
    await expect.poll(upstream.answers).toHaveLength(1);
    call.send(`{"jsonrpc":"2.0","id":${call.id},"result":{"isError":true,"content":[]}}`);
    expect(await failure(client.retry(pending.state, answers))).toMatchObject({
      status: 400,
      code: -32021,
      data: { requiredCapabilities: { sampling: {} } },
    });
  });

  it('depends on the latest request', async () => {
    const { url, upstream, client, call, first } = await startCall(live);
    call.request('"form"', 'elicitation/create', '{"message":"m","requestedSchema":{"type":"object"}}');
    call.request('"roots"', 'roots/list');
    const pending = await inputRequired(first);
    const less = new InteractiveClient(url, '{"elicitation":{}}');
    const again = await inputRequired(less.retry(pending.state, '{}', { id: '99' }));
    expect(Object.values(again.requests).map(({ method }) => method)).toEqual(['elicitation/create']);
    await expect.poll(() => upstream.answers().map((text) => JSON.parse(text))).toEqual([rejectionOf('roots')]);
    call.request('"sampling"', 'sampling/createMessage', '{"messages":[],"maxTokens":1}');
    await expect.poll(upstream.answers).toHaveLength(2);
    const last = client.retry(again.state, inputResponses(again));
    await expect.poll(upstream.answers).toHaveLength(3);
    call.end('done');
    expect(await resultText(last)).toBe('done');
  });

  it('is not declared in the upstream session', async () => {
    const capabilities = '{"sampling":{"tools":{}},"roots":{"listChanged":true},"tasks":{"list":{}},"x":1.0}';
    const { upstream, call } = await startCall(live, { capabilities });
    const opened = upstream.of('initialize').map(({ params }) => JSON.stringify(params.capabilities));
    expect(opened).toContain('{"sampling":{"tools":{}},"roots":{},"x":1}');
    expect(upstream.sessions.has(call.session)).toBe(true);
  });
});

describe('a server request that no modern client supports', () => {
  it('is rejected: a vendor’s method, and a client request', async () => {
    const { upstream, call, first } = await startCall(live);
    const stream = await upstream.streams.next();
    call.request('"a"', 'example.com/ask');
    stream.send('{"jsonrpc":"2.0","id":"b","method":"tools/list"}');
    await expect.poll(upstream.answers).toHaveLength(2);
    const received = upstream.answers().map((text) => JSON.parse(text));
    expect(received).toEqual(expect.arrayContaining([rejectionOf('a'), rejectionOf('b')]));
    call.end('went on');
    expect(await resultText(first)).toBe('went on');
  });

  it('is answered by the gateway if it is a ping, any number of times', async () => {
    const { upstream, client, call, pending, answers } = await suspendedCall(live);
    for (const round of [1, 2, 3]) {
      for (let number = 0; number < 10; number++) call.request('"p\\u0031"', 'ping');
      await expect.poll(upstream.answers).toHaveLength(10 * round);
    }
    expect(new Set(upstream.answers())).toEqual(new Set(['{"jsonrpc":"2.0","id":"p\\u0031","result":{}}']));
    const second = client.retry(pending.state, answers);
    await expect.poll(upstream.answers).toHaveLength(31);
    call.end('done');
    expect(await resultText(second)).toBe('done');
  });

  it('is rejected during a completion', async () => {
    const upstream = await upstreamWith(
      {
        ...capabilityScripts('{"prompts":{},"completions":{}}'),
        'prompts/list': `{"prompts":[{"name":"p"}],${LIST_END}`,
        'completion/complete': {
          kind: 'result',
          text: '{"completion":{"values":["w"]}}',
          before: ['{"jsonrpc":"2.0","id":"q","method":"roots/list"}'],
        },
      },
      { eras: ['legacy'] },
    );
    const client = new InteractiveClient(await register(upstream.url));
    const params = '"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}';
    const response = await lastMessage(client.send({ method: 'completion/complete', params }));
    expect(JSON.parse(response).result).toEqual({ resultType: 'complete', completion: { values: ['w'] } });
    const received = () =>
      upstream.seen.filter(({ body }) => body.includes('"error"')).map(({ body }) => JSON.parse(body));
    await expect.poll(received).toEqual([rejectionOf('q')]);
    // Its session declares no capabilities for server requests.
    expect(lastCall(upstream, 'initialize').params.capabilities).toEqual({});
  });

  it('is rejected if too many are pending, and fails the call if they do not end', async () => {
    const { upstream, call, first } = await startCall(live);
    for (let number = 0; number < 33; number++) call.request(String(number), 'roots/list');
    const pending = await inputRequired(first);
    expect(pending.keys).toHaveLength(32);
    await expect.poll(upstream.answers).toHaveLength(1);
    expect(JSON.parse(upstream.answers()[0] ?? '')).toMatchObject({ id: 32, error: { code: -32601 } });
    for (let number = 0; number < 40; number++) call.request(String(number), 'roots/list');
    await expect.poll(() => call.isDisconnected).toBe(true);
    expect(upstream.answers().length).toBeLessThan(20);
  });
});

describe('when no more calls can be suspended', () => {
  it('server requests are rejected, and calls continue; a released reservation is reused', async () => {
    const on = await startTestService({ SERVICE_SUSPENDED_CALLS_LIMIT: '3' });
    onEnd(() => on.stop(0));
    const { upstream, url } = await live({}, on);
    const client = new InteractiveClient(url);
    const begun = async () => {
      const first = client.send();
      const call = await upstream.calls.next();
      call.begin();
      return { first, call };
    };
    const three = [await begun(), await begun(), await begun()];
    // All at once, before any of them is suspended.
    for (const { call } of three) call.request('1', 'roots/list');
    await expect.poll(upstream.answers).toHaveLength(1);
    for (const { call } of three) call.request('2', 'roots/list');
    const ends = await Promise.all(
      three.map(async ({ first, call }) => {
        const rejected = upstream.posted.some((one) => one.method === undefined && one.session === call.session);
        if (!rejected) return { call, pending: await inputRequired(first) };
        call.end('went on');
        expect(await resultText(first)).toBe('went on');
        return undefined;
      }),
    );
    const [one, two, ...none] = ends.filter((end) => end !== undefined);
    if (!one || !two) throw new Error('expected two suspended calls');
    expect(none).toEqual([]);
    // A suspended call may be suspended again.
    const again = await inputRequired(client.retry(one.pending.state, '{}'));
    const retried = client.retry(two.pending.state, inputResponses(two.pending));
    two.call.end('done');
    expect(await resultText(retried)).toBe('done');
    const next = await begun();
    next.call.request('1', 'roots/list');
    expect((await inputRequired(next.first)).keys).toHaveLength(1);
    expect(again.keys.length).toBeGreaterThan(0);
  });

  it('those of one namespace keep no other from suspending calls, and are not canceled for them', async () => {
    const on = await startTestService({ SERVICE_SUSPENDED_CALLS_LIMIT: '2' });
    onEnd(() => on.stop(0));
    const first = await suspendedCall(live, { on });
    const more = first.client.send();
    const rejected = await first.upstream.calls.next();
    rejected.begin();
    rejected.request('"more"', 'roots/list');
    await expect.poll(first.upstream.answers).toEqual([expect.stringContaining('"id":"more","error"')]);
    rejected.end('went on');
    expect(await resultText(more)).toBe('went on');

    expect((await suspendedCall(live, { on })).pending.keys).toHaveLength(1);
    const retried = first.client.retry(first.pending.state, first.answers);
    first.call.end('done');
    expect(await resultText(retried)).toBe('done');
    expect(first.upstream.of('notifications/cancelled')).toEqual([]);
  });

  it('no call is suspended with a limit of 0', async () => {
    const on = await startTestService({ SERVICE_SUSPENDED_CALLS_LIMIT: '0' });
    onEnd(() => on.stop(0));
    const { upstream, call, first } = await startCall(live, { on });
    call.request('"q"', 'roots/list');
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('went on');
    expect(await resultText(first)).toBe('went on');
  });
});
