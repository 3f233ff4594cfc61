import { describe, expect, it } from 'vitest';
import { LIST_END } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { AskableClient, failure, inputRequired, lastMessage, resultText } from '../../../../testing/askable-client.ts';
import { declaring } from '../../../../testing/declaring.ts';
import { liveTests } from '../../../../testing/live.ts';
import { lastCall } from '../../../../testing/relay.ts';
import { startTestService } from '../../../../testing/service.ts';
import { answering, calling, parked } from './fixtures/calling.ts';

const { live, onEnd, register, upstreamWith } = liveTests();

const FORM = '"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object"}}';
const URL_MODE =
  '"elicitation/create","params":{"mode":"url","message":"m","url":"https://e.com/","elicitationId":"e"}';
const SAMPLING = '"sampling/createMessage","params":{"messages":[],"maxTokens":1}';
const WITH_TOOLS = '"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}';
const ROOTS = '"roots/list"';
const refusal = (id: string) => ({
  jsonrpc: '2.0',
  id,
  error: { code: -32601, message: 'the client cannot be asked on this connection' },
});

describe('what a modern client has not declared', () => {
  it.each([
    ['{"sampling":{},"roots":{}}', FORM, { elicitation: {} }],
    ['{"elicitation":{}}', URL_MODE, { elicitation: { url: {} } }],
    ['{"elicitation":{"form":{}}}', URL_MODE, { elicitation: { url: {} } }],
    ['{"elicitation":{"url":{}}}', FORM, { elicitation: {} }],
    ['{"elicitation":{}}', SAMPLING, { sampling: {} }],
    ['{"sampling":{}}', WITH_TOOLS, { sampling: { tools: {} } }],
    ['{"sampling":{}}', ROOTS, { roots: {} }],
    ['{}', ROOTS, { roots: {} }],
  ])('it is not asked for, and a call that fails over it says so: %s %s', async (capabilities, question, needed) => {
    const { upstream, call, first } = await calling(live, { capabilities });
    call.send(`{"jsonrpc":"2.0","id":"q","method":${question}}`);
    await expect.poll(upstream.answers).toHaveLength(1);
    expect(JSON.parse(upstream.answers()[0] ?? '')).toEqual(refusal('q'));
    call.send(`{"jsonrpc":"2.0","id":${call.id},"error":{"code":-32603,"message":"could not ask"}}`);
    expect(await failure(first)).toMatchObject({ status: 400, code: -32021, data: { requiredCapabilities: needed } });
  });

  it('does not keep the call from going on', async () => {
    const { upstream, call, first } = await calling(live, { capabilities: '{"sampling":{}}' });
    call.ask('"q"', 'roots/list');
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('went on');
    expect(await resultText(first)).toBe('went on');
  });

  it('is told with the same status to a retry', async () => {
    const { upstream, client, call, asked, answers } = await parked(live, { capabilities: '{"roots":{}}' });
    call.send(`{"jsonrpc":"2.0","id":"q","method":${SAMPLING}}`);
    await expect.poll(upstream.answers).toHaveLength(1);
    call.send(`{"jsonrpc":"2.0","id":${call.id},"result":{"isError":true,"content":[]}}`);
    expect(await failure(client.retry(asked.state, answers))).toMatchObject({
      status: 400,
      code: -32021,
      data: { requiredCapabilities: { sampling: {} } },
    });
  });

  it('is what its latest request does not declare', async () => {
    const { url, upstream, client, call, first } = await calling(live);
    call.ask('"form"', 'elicitation/create', '{"message":"m","requestedSchema":{"type":"object"}}');
    call.ask('"roots"', 'roots/list');
    const asked = await inputRequired(first);
    const less = new AskableClient(url, '{"elicitation":{}}');
    const again = await inputRequired(less.retry(asked.state, '{}', { id: '99' }));
    expect(Object.values(again.requests).map(({ method }) => method)).toEqual(['elicitation/create']);
    await expect.poll(() => upstream.answers().map((text) => JSON.parse(text))).toEqual([refusal('roots')]);
    call.ask('"sampling"', 'sampling/createMessage', '{"messages":[],"maxTokens":1}');
    await expect.poll(upstream.answers).toHaveLength(2);
    const last = client.retry(again.state, answering(again));
    await expect.poll(upstream.answers).toHaveLength(3);
    call.end('done');
    expect(await resultText(last)).toBe('done');
  });

  it('is said to the upstream when its session is opened', async () => {
    const capabilities = '{"sampling":{"tools":{}},"roots":{"listChanged":true},"tasks":{"list":{}},"x":1.0}';
    const { upstream, call } = await calling(live, { capabilities });
    const opened = upstream.of('initialize').map(({ params }) => JSON.stringify(params.capabilities));
    expect(opened).toContain('{"sampling":{"tools":{}},"roots":{},"x":1}');
    expect(upstream.sessions.has(call.session)).toBe(true);
  });
});

describe('what no modern client can be asked', () => {
  it('is refused: a vendor’s method, and one of the other direction', async () => {
    const { upstream, call, first } = await calling(live);
    const stream = await upstream.streams.next();
    call.ask('"a"', 'example.com/ask');
    stream.send('{"jsonrpc":"2.0","id":"b","method":"tools/list"}');
    await expect.poll(upstream.answers).toHaveLength(2);
    const told = upstream.answers().map((text) => JSON.parse(text));
    expect(told).toEqual(expect.arrayContaining([refusal('a'), refusal('b')]));
    call.end('went on');
    expect(await resultText(first)).toBe('went on');
  });

  it('is answered in its stead where that is ping, however often', async () => {
    const { upstream, client, call, asked, answers } = await parked(live);
    for (const round of [1, 2, 3]) {
      for (let number = 0; number < 10; number++) call.ask('"p\\u0031"', 'ping');
      await expect.poll(upstream.answers).toHaveLength(10 * round);
    }
    expect(new Set(upstream.answers())).toEqual(new Set(['{"jsonrpc":"2.0","id":"p\\u0031","result":{}}']));
    const second = client.retry(asked.state, answers);
    await expect.poll(upstream.answers).toHaveLength(31);
    call.end('done');
    expect(await resultText(second)).toBe('done');
  });

  it('is refused when a completion causes it', async () => {
    const upstream = await upstreamWith(
      {
        ...declaring('{"prompts":{},"completions":{}}'),
        'prompts/list': `{"prompts":[{"name":"p"}],${LIST_END}`,
        'completion/complete': {
          kind: 'result',
          text: '{"completion":{"values":["w"]}}',
          before: ['{"jsonrpc":"2.0","id":"q","method":"roots/list"}'],
        },
      },
      { eras: ['legacy'] },
    );
    const client = new AskableClient(await register(upstream.url));
    const params = '"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}';
    const answer = await lastMessage(client.send({ method: 'completion/complete', params }));
    expect(JSON.parse(answer).result).toEqual({ resultType: 'complete', completion: { values: ['w'] } });
    const told = () => upstream.seen.filter(({ body }) => body.includes('"error"')).map(({ body }) => JSON.parse(body));
    await expect.poll(told).toEqual([refusal('q')]);
    // Its session is told that nobody can be asked in it.
    expect(lastCall(upstream, 'initialize').params.capabilities).toEqual({});
  });

  it('is refused when there are too many questions at once, or no end of them', async () => {
    const { upstream, call, first } = await calling(live);
    for (let number = 0; number < 33; number++) call.ask(String(number), 'roots/list');
    const asked = await inputRequired(first);
    expect(asked.keys).toHaveLength(32);
    await expect.poll(upstream.answers).toHaveLength(1);
    expect(JSON.parse(upstream.answers()[0] ?? '')).toMatchObject({ id: 32, error: { code: -32601 } });
    for (let number = 0; number < 40; number++) call.ask(String(number), 'roots/list');
    await expect.poll(() => call.left).toBe(true);
    expect(upstream.answers().length).toBeLessThan(20);
  });
});

describe('when no more calls can be parked', () => {
  it('upstreams are refused, and their calls go on; a place that is free again is taken', async () => {
    const on = await startTestService({ SERVICE_PARKED_CALLS_LIMIT: '4' });
    onEnd(() => on.stop(0));
    const { upstream, url } = await live({}, on);
    const client = new AskableClient(url);
    const begun = async () => {
      const first = client.send();
      const call = await upstream.calls.next();
      call.begin();
      return { first, call };
    };
    const three = [await begun(), await begun(), await begun()];
    // All at once, before any of them is parked; nobody has more than half of all places.
    for (const { call } of three) call.ask('1', 'roots/list');
    await expect.poll(upstream.answers).toHaveLength(1);
    for (const { call } of three) call.ask('2', 'roots/list');
    const ends = await Promise.all(
      three.map(async ({ first, call }) => {
        const refused = upstream.posted.some((one) => one.method === undefined && one.session === call.session);
        if (!refused) return { call, asked: await inputRequired(first) };
        call.end('went on');
        expect(await resultText(first)).toBe('went on');
        return undefined;
      }),
    );
    const [one, two, ...none] = ends.filter((end) => end !== undefined);
    if (!one || !two) throw new Error('two calls must be parked');
    expect(none).toEqual([]);
    // One that is parked may be parked again.
    const again = await inputRequired(client.retry(one.asked.state, '{}'));
    const retried = client.retry(two.asked.state, answering(two.asked));
    two.call.end('done');
    expect(await resultText(retried)).toBe('done');
    const next = await begun();
    next.call.ask('1', 'roots/list');
    expect((await inputRequired(next.first)).keys).toHaveLength(1);
    expect(again.keys.length).toBeGreaterThan(0);
  });

  it('none is where none may be', async () => {
    const on = await startTestService({ SERVICE_PARKED_CALLS_LIMIT: '0' });
    onEnd(() => on.stop(0));
    const { upstream, call, first } = await calling(live, { on });
    call.ask('"q"', 'roots/list');
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('went on');
    expect(await resultText(first)).toBe('went on');
  });
});
