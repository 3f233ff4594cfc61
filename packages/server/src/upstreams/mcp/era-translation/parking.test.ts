import { describe, expect, it } from 'vitest';
import { AskableClient, inputRequired, lastMessage, resultText } from '../../../../testing/askable-client.ts';
import { liveTests, notification } from '../../../../testing/live.ts';
import { answering, calling, parked } from './fixtures/calling.ts';

const { live } = liveTests();

const FORM = '{"message":"m","requestedSchema":{"type":"object","properties":{}}}';

describe('a question of a legacy upstream in the middle of a call', () => {
  it.each([
    ['sampling/createMessage', '{"messages":[{"role":"user","content":{"type":"text","text":"ä"}}],"maxTokens":1.0}'],
    ['elicitation/create', '{"mode":"form","message":"\\u006d","requestedSchema":{"type":"object"},"x":1e2}'],
    ['elicitation/create', FORM],
    ['roots/list', '{"_meta":{"n":9223372036854775807}}'],
  ])('is put to its modern client, whose retry gets the result: %s %s', async (method, params) => {
    const { upstream, client, call, first } = await calling(live, { fields: { id: '"one"' } });
    call.ask('"se\\u0076en"', method, params);
    const asked = await inputRequired(first);
    expect((await first.head).headers['content-type']).toBe('application/json');
    expect(asked.text).toBe(
      `{"jsonrpc":"2.0","id":"one","result":{"resultType":"input_required","inputRequests":{"${asked.keys[0]}":` +
        `{"method":"${method}","params":${params}}},"requestState":"${asked.state}"}}`,
    );
    const answer = '{ "n" : 9223372036854775807,"one":1.0,"text":"\\u00e4","id":"x" }';
    const second = client.retry(asked.state, answering(asked, answer), { id: '"two"' });
    await expect.poll(upstream.answers).toEqual([`{"jsonrpc":"2.0","id":"se\\u0076en","result":${answer}}`]);
    call.end('done');
    expect(JSON.parse(await lastMessage(second))).toEqual({
      jsonrpc: '2.0',
      id: 'two',
      result: { resultType: 'complete', content: [{ type: 'text', text: 'done' }] },
    });
    expect(upstream.calls.all).toHaveLength(1);
    expect(upstream.of('notifications/cancelled')).toEqual([]);
  });

  it('may come without params, and on the stream of the session', async () => {
    const { upstream, url } = await live();
    const client = new AskableClient(url);
    const first = client.send();
    const [call, stream] = [await upstream.calls.next(), await upstream.streams.next()];
    expect(stream.session).toBe(call.session);
    stream.send('{"jsonrpc":"2.0","method":"roots/list","id":"g"}');
    const asked = await inputRequired(first);
    expect(asked.requests[asked.keys[0] ?? '']).toEqual({ method: 'roots/list' });
    const second = client.retry(asked.state, answering(asked));
    await expect.poll(upstream.answers).toEqual(['{"jsonrpc":"2.0","id":"g","result":{"roots":[]}}']);
    call.json('done');
    expect(await resultText(second)).toBe('done');
  });

  it.each([
    ['prompts/get', '"name":"p"', '{"messages":[]}'],
    ['resources/read', '"uri":"test://a"', '{"contents":[]}'],
  ])('may come during %s as well', async (method, params, result) => {
    const capabilities = '{"resources":{},"prompts":{}}';
    const { upstream, url } = await live({ capabilities, uris: ['test://a'], prompts: ['p'] });
    const client = new AskableClient(url);
    const answer = Promise.withResolvers<string>();
    upstream.results[method] = () => answer.promise;
    const first = client.send({ method, params });
    await expect.poll(() => upstream.of(method)).toHaveLength(1);
    (await upstream.streams.next()).send('{"jsonrpc":"2.0","method":"roots/list","id":1}');
    const asked = await inputRequired(first);
    const second = client.retry(asked.state, answering(asked), { method, params });
    await expect.poll(upstream.answers).toHaveLength(1);
    answer.resolve(result);
    const { result: got } = JSON.parse(await lastMessage(second));
    expect(got).toMatchObject({ resultType: 'complete', ...JSON.parse(result) });
  });

  it('names the address to visit without the id that only legacy clients know', async () => {
    const { call, first } = await calling(live);
    call.ask(
      '1',
      'elicitation/create',
      '{"mode":"url","elicitationId":"e","message":"m","url":"https://example.com/"}',
    );
    const asked = await inputRequired(first);
    expect(asked.text).toContain('"params":{"mode":"url","message":"m","url":"https://example.com/"}');
  });
});

describe('several questions of one call', () => {
  it('that come at once are put to the client at once', async () => {
    const { upstream, client, call, first } = await calling(live);
    const stream = await upstream.streams.next();
    call.ask('1', 'roots/list');
    stream.send(`{"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":${FORM}}`);
    call.ask('"3"', 'roots/list', '{}');
    const asked = await inputRequired(first);
    const methods = asked.keys.map((key) => asked.requests[key]?.method);
    expect(methods.toSorted()).toEqual(['elicitation/create', 'roots/list', 'roots/list']);
    const second = client.retry(asked.state, answering(asked, '{"x":1}'));
    await expect
      .poll(() => upstream.answers().toSorted())
      .toEqual(['"3"', '1', '2'].map((id) => `{"jsonrpc":"2.0","id":${id},"result":{"x":1}}`));
    call.end('done');
    expect(await resultText(second)).toBe('done');
  });

  it('that come one after another are put to the client one after another', async () => {
    const { upstream, client, call, first } = await calling(live);
    let reading = first;
    const states = new Set<string>();
    const keys = new Set<string>();
    for (const round of [1, 2, 3]) {
      call.ask(String(round), 'roots/list');
      const asked = await inputRequired(reading);
      states.add(asked.state);
      for (const key of asked.keys) keys.add(key);
      reading = client.retry(asked.state, answering(asked, `{"round":${round}}`));
      await expect.poll(upstream.answers).toHaveLength(round);
    }
    call.end('done');
    expect(await resultText(reading)).toBe('done');
    expect(upstream.answers().map((text) => JSON.parse(text))).toEqual(
      [1, 2, 3].map((round) => ({ jsonrpc: '2.0', id: round, result: { round } })),
    );
    expect([states.size, keys.size]).toEqual([3, 3]);
  });

  it('are asked again as far as they were not answered, and nothing else is taken for an answer', async () => {
    const { upstream, client, call, first } = await calling(live);
    call.ask('1', 'roots/list');
    call.ask('2', 'roots/list');
    call.ask('3', 'roots/list');
    const asked = await inputRequired(first);
    const [one = '', two = '', three = ''] = asked.keys;
    const some = `{"x":{},"${two}":{"n":1.0},"${one}":null,"${three}":[],"roots/list#99":{},"__proto__":{}}`;
    const again = await inputRequired(client.retry(asked.state, some));
    expect(again.requests).toEqual({ [one]: asked.requests[one], [three]: asked.requests[three] });
    await expect.poll(upstream.answers).toEqual(['{"jsonrpc":"2.0","id":2,"result":{"n":1.0}}']);
    // What was answered once is not answered again.
    const last = client.retry(again.state, `{"${two}":{"n":2},"${one}":{},"${three}":{}}`);
    await expect.poll(upstream.answers).toHaveLength(3);
    call.end('done');
    expect(await resultText(last)).toBe('done');
    expect(upstream.answers().filter((text) => text.includes('"id":2,'))).toHaveLength(1);
  });

  it('are all asked again when a retry brings no answers', async () => {
    const { client, call, first, upstream } = await calling(live);
    call.ask('1', 'roots/list');
    call.ask('2', 'roots/list');
    const asked = await inputRequired(first);
    const without = client.send({ more: `"requestState":${JSON.stringify(asked.state)}` });
    const again = await inputRequired(without);
    expect(again.requests).toEqual(asked.requests);
    expect(again.state).not.toBe(asked.state);
    expect(upstream.answers()).toEqual([]);
  });

  it('may come while the client is away: it is asked when it comes back', async () => {
    const { upstream, client, call, asked, answers } = await parked(live);
    call.ask('8', 'roots/list');
    // What was sent after it has arrived.
    call.ask('9', 'ping');
    await expect.poll(upstream.answers).toEqual(['{"jsonrpc":"2.0","id":9,"result":{}}']);
    const next = await inputRequired(client.retry(asked.state, answers));
    expect(next.keys).toHaveLength(1);
    expect(next.keys).not.toEqual(asked.keys);
    const last = client.retry(next.state, answering(next));
    await expect.poll(() => upstream.answers().length).toBe(3);
    call.end('done');
    expect(await resultText(last)).toBe('done');
  });

  it('may be taken back by the upstream, and need no answer then', async () => {
    const { upstream, client, call, first } = await calling(live);
    call.ask('1', 'roots/list');
    call.ask('"two"', 'roots/list');
    const asked = await inputRequired(first);
    call.send(notification('cancelled', '{"requestId":"two"}'));
    call.ask('9', 'ping');
    await expect.poll(upstream.answers).toHaveLength(1);
    const second = client.retry(asked.state, answering(asked));
    await expect.poll(upstream.answers).toHaveLength(2);
    call.end('done');
    expect(await resultText(second)).toBe('done');
    expect(upstream.answers()[1]).toContain('"id":1,');
  });

  it('that are all taken back at once are not put to the client', async () => {
    const { call, first } = await calling(live);
    call.ask('1', 'roots/list');
    call.send(notification('cancelled', '{"requestId":1}'));
    call.ask('2', 'roots/list');
    const asked = await inputRequired(first);
    expect(asked.keys).toHaveLength(1);
  });
});
