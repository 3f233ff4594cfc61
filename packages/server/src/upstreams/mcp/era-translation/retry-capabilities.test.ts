import { describe, expect, it } from 'vitest';
import { event } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { AskableClient, failure, inputRequired, lastMessage, resultText } from '../../../../testing/askable-client.ts';
import { liveTests } from '../../../../testing/live.ts';
import type { LiveCall } from '../../../../testing/live-upstream.ts';
import { answering, type Calling, calling, parked } from './fixtures/calling.ts';

const { live } = liveTests();

const refused = (id: unknown) => ({ jsonrpc: '2.0', id, error: { code: -32601, message: expect.any(String) } });
/** What the upstream was told, by id: answers may overtake each other. */
const told = ({ upstream }: Pick<Calling, 'upstream'>) =>
  upstream
    .answers()
    .map((text) => JSON.parse(text))
    .toSorted((a, b) => String(a.id).localeCompare(String(b.id)));

/** What a client is asked for under its capability, in the order of their names. */
const QUESTIONS = [
  ['elicitation', 'elicitation/create', '{"message":"m","requestedSchema":{"type":"object"}}'],
  ['roots', 'roots/list', '{}'],
  ['sampling', 'sampling/createMessage', '{"messages":[],"maxTokens":1}'],
] as const;

/** The upstream asks for all three, each under its own name; in one piece, so that the client is asked at once. */
function askAll({ response }: LiveCall): void {
  const asked = QUESTIONS.map(
    ([name, method, params]) => `{"jsonrpc":"2.0","id":"${name}","method":"${method}","params":${params}}`,
  );
  response.write(asked.map((text) => event(text)).join(''));
}

/** The upstream fails, the way that tools fail. */
function failed(call: LiveCall): void {
  call.send(`{"jsonrpc":"2.0","id":${call.id},"result":{"isError":true,"content":[]}}`);
}

describe('a retry that declares less than the request before', () => {
  it.each(QUESTIONS)('is asked for %s, which it declares, and for nothing else', async (name, method) => {
    const begun = await calling(live);
    const { url, call, first } = begun;
    askAll(call);
    const asked = await inputRequired(first);
    expect(asked.keys).toHaveLength(3);
    const less = new AskableClient(url, `{"${name}":{}}`);
    const again = await inputRequired(less.retry(asked.state, '{}'));
    expect(Object.values(again.requests).map((request) => request.method)).toEqual([method]);
    const others = QUESTIONS.filter(([other]) => other !== name).map(([other]) => refused(other));
    await expect.poll(() => told(begun)).toEqual(others);
    const last = less.retry(again.state, answering(again));
    await expect.poll(() => told(begun)).toHaveLength(3);
    call.end('done');
    expect(await resultText(last)).toBe('done');
  });

  it('gets its answer at once when it can be asked for nothing', async () => {
    const begun = await parked(live);
    const last = new AskableClient(begun.url, '{}').retry(begun.asked.state, '{}');
    await expect.poll(() => told(begun)).toEqual([refused(7)]);
    begun.call.end('went on');
    expect(await resultText(last)).toBe('went on');
  });

  it('has answered what it answers all the same', async () => {
    const begun = await parked(live);
    const last = new AskableClient(begun.url, '{}').retry(begun.asked.state, begun.answers);
    await expect.poll(() => told(begun)).toEqual([{ jsonrpc: '2.0', id: 7, result: { roots: [] } }]);
    begun.call.end('done');
    expect(await resultText(last)).toBe('done');
  });

  it('is told what it lacks when the call fails', async () => {
    const begun = await parked(live);
    const last = new AskableClient(begun.url, '{"sampling":{}}').retry(begun.asked.state, '{}');
    await expect.poll(() => told(begun)).toEqual([refused(7)]);
    failed(begun.call);
    expect(await failure(last)).toMatchObject({
      status: 400,
      code: -32021,
      data: { requiredCapabilities: { roots: {} } },
    });
  });
});

describe('a retry that declares more than the request before', () => {
  it('is asked what the first request could not be asked', async () => {
    const begun = await calling(live, { capabilities: '{"roots":{}}' });
    const { url, call, first } = begun;
    askAll(call);
    const asked = await inputRequired(first);
    expect(Object.values(asked.requests).map(({ method }) => method)).toEqual(['roots/list']);
    await expect.poll(() => told(begun)).toEqual([refused('elicitation'), refused('sampling')]);
    const more = new AskableClient(url);
    const second = more.retry(asked.state, answering(asked));
    await expect.poll(() => told(begun)).toHaveLength(3);
    askAll(call);
    const again = await inputRequired(second);
    expect(Object.values(again.requests).map(({ method }) => method)).toEqual(QUESTIONS.map(([, method]) => method));
    const last = more.retry(again.state, answering(again));
    await expect.poll(() => told(begun)).toHaveLength(6);
    call.end('done');
    expect(await resultText(last)).toBe('done');
  });

  it('is not told that it lacks what it declares now', async () => {
    const begun = await calling(live, { capabilities: '{"roots":{}}' });
    const { url, call, first } = begun;
    askAll(call);
    const asked = await inputRequired(first);
    const last = new AskableClient(url).retry(asked.state, answering(asked));
    await expect.poll(() => told(begun)).toHaveLength(3);
    failed(call);
    expect(JSON.parse(await lastMessage(last)).result).toEqual({ resultType: 'complete', isError: true, content: [] });
  });
});

describe('a retry that declares what the request before did', () => {
  it('is told what it lacks when the call fails, whichever request it was refused to', async () => {
    const begun = await calling(live, { capabilities: '{"roots":{}}' });
    const { client, call, first } = begun;
    askAll(call);
    const asked = await inputRequired(first);
    const last = client.retry(asked.state, answering(asked));
    await expect.poll(() => told(begun)).toHaveLength(3);
    failed(call);
    expect(await failure(last)).toMatchObject({
      status: 400,
      code: -32021,
      data: { requiredCapabilities: { elicitation: {} } },
    });
  });
});
