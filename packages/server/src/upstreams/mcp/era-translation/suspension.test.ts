import { describe, expect, it } from 'vitest';
import {
  failure,
  InteractiveClient,
  inputRequired,
  lastMessage,
  resultText,
} from '../../../../testing/interactive-client.ts';
import { liveTests, notification } from '../../../../testing/live-tests.ts';
import { startLiveUpstream } from '../../../../testing/live-upstream.ts';
import { inputResponses, startCall, suspendedCall } from './fixtures/suspended-call.ts';

const liveParts = liveTests();
const { live } = liveParts;

const FORM = '{"message":"m","requestedSchema":{"type":"object","properties":{}}}';

describe('a server request of a legacy upstream during a call', () => {
  it.each([
    ['sampling/createMessage', '{"messages":[{"role":"user","content":{"type":"text","text":"ä"}}],"maxTokens":1.0}'],
    ['elicitation/create', '{"mode":"form","message":"\\u006d","requestedSchema":{"type":"object"},"x":1e2}'],
    ['elicitation/create', FORM],
    ['roots/list', '{"_meta":{"n":9223372036854775807}}'],
  ])('becomes an input request for the modern client, whose retry gets the result: %s %s', async (method, params) => {
    const { upstream, client, call, first } = await startCall(live, { fields: { id: '"one"' } });
    call.request('"se\\u0076en"', method, params);
    const pending = await inputRequired(first);
    expect((await first.head).headers['content-type']).toBe('application/json');
    expect(pending.text).toBe(
      `{"jsonrpc":"2.0","id":"one","result":{"resultType":"input_required","inputRequests":{"${pending.keys[0]}":` +
        `{"method":"${method}","params":${params}}},"requestState":"${pending.state}"}}`,
    );
    const response = '{ "n" : 9223372036854775807,"one":1.0,"text":"\\u00e4","id":"x" }';
    const second = client.retry(pending.state, inputResponses(pending, response), { id: '"two"' });
    await expect.poll(upstream.answers).toEqual([`{"jsonrpc":"2.0","id":"se\\u0076en","result":${response}}`]);
    call.end('done');
    expect(JSON.parse(await lastMessage(second))).toEqual({
      jsonrpc: '2.0',
      id: 'two',
      result: { resultType: 'complete', content: [{ type: 'text', text: 'done' }] },
    });
    expect(upstream.calls.all).toHaveLength(1);
    expect(upstream.of('notifications/cancelled')).toEqual([]);
  });

  it('suspends a call of a tool registered by hand whose server is called for the first time', async () => {
    const upstream = await startLiveUpstream();
    liveParts.onEnd(upstream.close);
    const tool = { name: 'by-hand', description: 'd', uri: upstream.url, toolType: 'mcp-forward' };
    await liveParts.service.register('tools', { ...tool, input_schema: { type: 'object' } });
    const client = new InteractiveClient(liveParts.service.url());
    const first = client.send({ params: '"name":"by-hand"' });
    const call = await upstream.calls.next();
    call.begin();
    call.request('7', 'roots/list');
    const pending = await inputRequired(first);
    const second = client.retry(pending.state, inputResponses(pending), { params: '"name":"by-hand"' });
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done');
    expect(await lastMessage(second)).toContain('"text":"done"');
  });

  it('is not answered by a retry in a forwarding loop, after which the call can still be resumed', async () => {
    const { upstream, client, pending, answers, call } = await suspendedCall(live);
    const loop = { headers: { 'x-service-hops': '8' } };
    expect(await failure(client.retry(pending.state, answers, loop))).toMatchObject({ message: 'forwarding loop' });
    expect(upstream.answers()).toEqual([]);
    const second = client.retry(pending.state, answers);
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done');
    expect(await lastMessage(second)).toContain('"text":"done"');
  });

  it('may have no params, and arrive on the stream of the session', async () => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url);
    const first = client.send();
    const [call, stream] = [await upstream.calls.next(), await upstream.streams.next()];
    expect(stream.session).toBe(call.session);
    stream.send('{"jsonrpc":"2.0","method":"roots/list","id":"g"}');
    const pending = await inputRequired(first);
    expect(pending.text).toContain('{"method":"roots/list","params":{}}');
    const second = client.retry(pending.state, inputResponses(pending));
    await expect.poll(upstream.answers).toEqual(['{"jsonrpc":"2.0","id":"g","result":{"roots":[]}}']);
    call.json('done');
    expect(await resultText(second)).toBe('done');
  });

  it.each([
    ['prompts/get', '"name":"p"', '{"messages":[]}'],
    ['resources/read', '"uri":"test://a"', '{"contents":[]}'],
  ])('may arrive during %s as well', async (method, params, result) => {
    const capabilities = '{"resources":{},"prompts":{}}';
    const { upstream, url } = await live({ capabilities, uris: ['test://a'], prompts: ['p'] });
    const client = new InteractiveClient(url);
    const response = Promise.withResolvers<string>();
    upstream.results[method] = () => response.promise;
    const first = client.send({ method, params });
    await expect.poll(() => upstream.of(method)).toHaveLength(1);
    (await upstream.streams.next()).send('{"jsonrpc":"2.0","method":"roots/list","id":1}');
    const pending = await inputRequired(first);
    const second = client.retry(pending.state, inputResponses(pending), { method, params });
    await expect.poll(upstream.answers).toHaveLength(1);
    response.resolve(result);
    const { result: got } = JSON.parse(await lastMessage(second));
    expect(got).toMatchObject({ resultType: 'complete', ...JSON.parse(result) });
  });

  it('contains the URL of an elicitation without the id of the legacy era', async () => {
    const { call, first } = await startCall(live);
    call.request(
      '1',
      'elicitation/create',
      '{"mode":"url","elicitationId":"e","message":"m","url":"https://example.com/"}',
    );
    const pending = await inputRequired(first);
    expect(pending.text).toContain('"params":{"mode":"url","message":"m","url":"https://example.com/"}');
  });
});

describe('several server requests of one call', () => {
  it('that arrive together are sent to the client together', async () => {
    const { upstream, client, call, first } = await startCall(live);
    const stream = await upstream.streams.next();
    call.request('1', 'roots/list');
    stream.send(`{"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":${FORM}}`);
    call.request('"3"', 'roots/list', '{}');
    const pending = await inputRequired(first);
    const methods = pending.keys.map((key) => pending.requests[key]?.method);
    expect(methods.toSorted()).toEqual(['elicitation/create', 'roots/list', 'roots/list']);
    const second = client.retry(pending.state, inputResponses(pending, '{"x":1}'));
    await expect
      .poll(() => upstream.answers().toSorted())
      .toEqual(['"3"', '1', '2'].map((id) => `{"jsonrpc":"2.0","id":${id},"result":{"x":1}}`));
    call.end('done');
    expect(await resultText(second)).toBe('done');
  });

  it('that arrive one after another are sent to the client one after another', async () => {
    const { upstream, client, call, first } = await startCall(live);
    let reading = first;
    const states = new Set<string>();
    const keys = new Set<string>();
    for (const round of [1, 2, 3]) {
      call.request(String(round), 'roots/list');
      const pending = await inputRequired(reading);
      states.add(pending.state);
      for (const key of pending.keys) keys.add(key);
      reading = client.retry(pending.state, inputResponses(pending, `{"round":${round}}`));
      await expect.poll(upstream.answers).toHaveLength(round);
    }
    call.end('done');
    expect(await resultText(reading)).toBe('done');
    expect(upstream.answers().map((text) => JSON.parse(text))).toEqual(
      [1, 2, 3].map((round) => ({ jsonrpc: '2.0', id: round, result: { round } })),
    );
    expect([states.size, keys.size]).toEqual([3, 3]);
  });

  it('are requested again unless they were answered; invalid input is ignored', async () => {
    const { upstream, client, call, first } = await startCall(live);
    call.request('1', 'roots/list');
    call.request('2', 'roots/list');
    call.request('3', 'roots/list');
    const pending = await inputRequired(first);
    const [one = '', two = '', three = ''] = pending.keys;
    const some = `{"x":{},"${two}":{"n":1.0},"${one}":null,"${three}":[],"roots/list#99":{},"__proto__":{}}`;
    const again = await inputRequired(client.retry(pending.state, some));
    expect(again.requests).toEqual({ [one]: pending.requests[one], [three]: pending.requests[three] });
    await expect.poll(upstream.answers).toEqual(['{"jsonrpc":"2.0","id":2,"result":{"n":1.0}}']);
    // A second response to the same request is ignored.
    const last = client.retry(again.state, `{"${two}":{"n":2},"${one}":{},"${three}":{}}`);
    await expect.poll(upstream.answers).toHaveLength(3);
    call.end('done');
    expect(await resultText(last)).toBe('done');
    expect(upstream.answers().filter((text) => text.includes('"id":2,'))).toHaveLength(1);
  });

  it('are all requested again if a retry contains no input', async () => {
    const { client, call, first, upstream } = await startCall(live);
    call.request('1', 'roots/list');
    call.request('2', 'roots/list');
    const pending = await inputRequired(first);
    const without = client.send({ more: `"requestState":${JSON.stringify(pending.state)}` });
    const again = await inputRequired(without);
    expect(again.requests).toEqual(pending.requests);
    expect(again.state).not.toBe(pending.state);
    expect(upstream.answers()).toEqual([]);
  });

  it('may arrive while the call is suspended: the retry gets them', async () => {
    const { upstream, client, call, pending, answers } = await suspendedCall(live);
    call.request('8', 'roots/list');
    // A later message has arrived.
    call.request('9', 'ping');
    await expect.poll(upstream.answers).toEqual(['{"jsonrpc":"2.0","id":9,"result":{}}']);
    const next = await inputRequired(client.retry(pending.state, answers));
    expect(next.keys).toHaveLength(1);
    expect(next.keys).not.toEqual(pending.keys);
    const last = client.retry(next.state, inputResponses(next));
    await expect.poll(() => upstream.answers().length).toBe(3);
    call.end('done');
    expect(await resultText(last)).toBe('done');
  });

  it('may be canceled by the upstream', async () => {
    const { upstream, client, call, first } = await startCall(live);
    call.request('1', 'roots/list');
    call.request('"two"', 'roots/list');
    const pending = await inputRequired(first);
    call.send(notification('cancelled', '{"requestId":"two"}'));
    call.request('9', 'ping');
    await expect.poll(upstream.answers).toHaveLength(1);
    const second = client.retry(pending.state, inputResponses(pending));
    await expect.poll(upstream.answers).toHaveLength(2);
    call.end('done');
    expect(await resultText(second)).toBe('done');
    expect(upstream.answers()[1]).toContain('"id":1,');
  });

  it('that are all canceled at once are not sent to the client', async () => {
    const { call, first } = await startCall(live);
    call.request('1', 'roots/list');
    call.send(notification('cancelled', '{"requestId":1}'));
    call.request('2', 'roots/list');
    const pending = await inputRequired(first);
    expect(pending.keys).toHaveLength(1);
  });
});
