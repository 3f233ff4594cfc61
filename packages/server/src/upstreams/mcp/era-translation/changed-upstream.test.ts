import { describe, expect, it } from 'vitest';
import type { Era, Script } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { textResultText, toolList, toolText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import type { RawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { AskableClient, failure, inputRequired, resultText } from '../../../../testing/askable-client.ts';
import { liveTests } from '../../../../testing/live.ts';
import { lastCall } from '../../../../testing/relay.ts';
import { answering } from './fixtures/calling.ts';

const tests = liveTests();
const { register, upstreamWith } = tests;

const NOT_GIVEN = { status: 200, code: -32602, message: expect.stringContaining('not one that was given out') };
const NOT_HELD = { status: 200, code: -32603, data: { kind: 'not_held' } };
const VISIT =
  '{"code":-32042,"message":"visit first","data":{"elicitations":[{"mode":"url","message":"m","url":"https://e.com/"}]}}';

/** An upstream with the tool `work`, and a modern client of it. */
async function upstreamOf(era: Era, work: Script) {
  const upstream = await upstreamWith(
    { 'tools/list': toolList(toolText('work')), 'tools/call': work },
    { eras: [era] },
  );
  const url = await register(upstream.url);
  const name = new URL(url).pathname.split('/')[1] ?? '';
  return { upstream, name, client: new AskableClient(url) };
}

/** The same, of the legacy era, and a call of the tool that is parked; it is answered when `done` is called. */
async function parkedAt() {
  const result = Promise.withResolvers<string>();
  const begun = await upstreamOf('legacy', async ({ session }) => {
    begun.upstream.push('{"jsonrpc":"2.0","id":7,"method":"roots/list"}', {}, session);
    return await result.promise;
  });
  const asked = await inputRequired(begun.client.send());
  const done = () => result.resolve(textResultText('of the parked call'));
  return { ...begun, asked, done };
}

/** The upstream speaks these eras from now on, and the service has noticed it. */
async function becomes(upstream: RawUpstream, name: string, ...eras: readonly Era[]): Promise<void> {
  upstream.eras.clear();
  for (const era of eras) upstream.eras.add(era);
  expect((await tests.service.manage('POST', `/forwards/${name}/refreshes`)).status).toBe(200);
}

/** The forward is deleted, and registered again under its name. */
async function registeredAnew({ url }: RawUpstream, name: string): Promise<void> {
  expect((await tests.service.manage('DELETE', `/forwards/${name}`)).status).toBe(200);
  await tests.service.register('forwards', { name, address: url, namespace: name });
}

/** A call without a state is sent upstream, in this era. */
async function expectCallIn(era: Era, { upstream, client }: { upstream: RawUpstream; client: AskableClient }) {
  upstream.scripts['tools/call'] = textResultText('new');
  expect(await resultText(client.send())).toBe('new');
  expect(lastCall(upstream).era).toBe(era);
}

/** The answers to questions that have arrived. */
const answersTo = ({ seen }: RawUpstream) =>
  seen.filter(({ method, id }) => method === undefined && id !== undefined).map(({ body }) => body);

/** What becomes of an upstream, and the era that a modern client's calls go upstream in from then on. */
const changes: readonly (readonly [string, Era, (upstream: RawUpstream, name: string) => Promise<void>])[] = [
  ['speaks the modern era too', 'modern', (upstream, name) => becomes(upstream, name, 'legacy', 'modern')],
  ['speaks the modern era alone', 'modern', (upstream, name) => becomes(upstream, name, 'modern')],
  ['is registered anew', 'legacy', registeredAnew],
  [
    'is registered anew and speaks the modern era',
    'modern',
    async (upstream, name) => {
      upstream.eras.add('modern');
      await registeredAnew(upstream, name);
    },
  ],
];

describe.each(changes)('when the upstream of a parked call %s', (_how, era, change) => {
  it('the retry goes on with the call', async () => {
    const { upstream, name, client, asked, done } = await parkedAt();
    await change(upstream, name);
    const last = client.retry(asked.state, answering(asked));
    await expect.poll(() => answersTo(upstream)).toEqual(['{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}']);
    done();
    expect(await resultText(last)).toBe('of the parked call');
    expect(upstream.count('tools/call')).toBe(1);
  });

  it('a retry whose call is not held has nothing called', async () => {
    const at = await parkedAt();
    const { upstream, client, asked, done } = at;
    await change(upstream, at.name);
    const last = client.retry(asked.state, answering(asked));
    await expect.poll(() => answersTo(upstream)).toHaveLength(1);
    expect(await failure(client.retry(asked.state, answering(asked)))).toMatchObject(NOT_HELD);
    done();
    await resultText(last);
    expect(await failure(client.retry(asked.state, answering(asked)))).toMatchObject(NOT_HELD);
    expect(upstream.count('tools/call')).toBe(1);
    await expectCallIn(era, at);
  });
});

describe('when an upstream comes to speak another era', () => {
  it('a state of its own that it does not know any more is refused, and nothing is called', async () => {
    const state = '"requestState":"the upstream’s"';
    const ask = `{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}},${state}}`;
    const at = await upstreamOf('modern', ask);
    const asked = await inputRequired(at.client.send());
    expect(asked.state).toBe('the upstream’s');
    await becomes(at.upstream, at.name, 'legacy');
    expect(await failure(at.client.retry(asked.state, answering(asked)))).toMatchObject(NOT_GIVEN);
    expect(at.upstream.count('tools/call')).toBe(1);
    await expectCallIn('legacy', at);
  });

  it('a client that has visited an address calls anew, and the upstream is not given the state of another', async () => {
    const at = await upstreamOf('legacy', { kind: 'error', text: VISIT });
    const params = '"name":"work","arguments":{"n":1.0}';
    const asked = await inputRequired(at.client.send({ params }));
    await becomes(at.upstream, at.name, 'modern');
    at.upstream.scripts['tools/call'] = textResultText('visited');
    const last = at.client.retry(asked.state, answering(asked, '{"action":"accept"}'), { params });
    expect(await resultText(last)).toBe('visited');
    const call = lastCall(at.upstream);
    expect(call.era).toBe('modern');
    expect(call.params).toEqual({ name: 'work', arguments: { n: 1 }, _meta: expect.any(Object) });
    expect(call.body).toContain('"n":1.0');
  });
});
