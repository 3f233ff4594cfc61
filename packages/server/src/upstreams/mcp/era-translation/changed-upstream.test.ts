import { describe, expect, it } from 'vitest';
import type { Era, Script } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { textResultText, toolList, toolText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import type { RawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { failure, InteractiveClient, inputRequired, resultText } from '../../../../testing/interactive-client.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import { lastCall } from '../../../../testing/relay.ts';
import { inputResponses } from './fixtures/suspended-call.ts';

const tests = liveTests();
const { register, upstreamWith } = tests;

const NOT_ISSUED = { status: 200, code: -32602, message: expect.stringContaining('was not issued for this request') };
const NOT_HELD = { status: 200, code: -32603, data: { kind: 'not_held' } };
const VISIT =
  '{"code":-32042,"message":"visit first","data":{"elicitations":[{"mode":"url","message":"m","url":"https://e.com/"}]}}';

/** An upstream with the tool `work`, and a modern client. */
async function upstreamOf(era: Era, work: Script) {
  const upstream = await upstreamWith(
    { 'tools/list': toolList(toolText('work')), 'tools/call': work },
    { eras: [era] },
  );
  const url = await register(upstream.url);
  const name = new URL(url).pathname.split('/')[1] ?? '';
  return { upstream, name, client: new InteractiveClient(url) };
}

/** The same of the legacy era, with a suspended call of the tool; `done` completes it. */
async function suspendedAt() {
  const result = Promise.withResolvers<string>();
  const begun = await upstreamOf('legacy', async ({ session }) => {
    begun.upstream.push('{"jsonrpc":"2.0","id":7,"method":"roots/list"}', {}, session);
    return await result.promise;
  });
  const pending = await inputRequired(begun.client.send());
  const done = () => result.resolve(textResultText('of the suspended call'));
  return { ...begun, pending, done };
}

/** Changes the eras of the upstream, and waits until the service has noticed. */
async function becomes(upstream: RawUpstream, name: string, ...eras: readonly Era[]): Promise<void> {
  upstream.eras.clear();
  for (const era of eras) upstream.eras.add(era);
  expect((await tests.service.manage('POST', `/forwards/${name}/refreshes`)).status).toBe(200);
}

/** Deletes the forward, and registers it again under its name. */
async function reregister({ url }: RawUpstream, name: string): Promise<void> {
  expect((await tests.service.manage('DELETE', `/forwards/${name}`)).status).toBe(200);
  await tests.service.register('forwards', { name, address: url, namespace: name });
}

/** Expects that a call without a state is sent upstream in this era. */
async function expectCallIn(era: Era, { upstream, client }: { upstream: RawUpstream; client: InteractiveClient }) {
  upstream.scripts['tools/call'] = textResultText('new');
  expect(await resultText(client.send())).toBe('new');
  expect(lastCall(upstream).era).toBe(era);
}

/** Responses to server requests that have arrived. */
const answersTo = ({ seen }: RawUpstream) =>
  seen.filter(({ method, id }) => method === undefined && id !== undefined).map(({ body }) => body);

/** Changes of an upstream, and the era of a modern client's calls upstream after each. */
const changes: readonly (readonly [string, Era, (upstream: RawUpstream, name: string) => Promise<void>])[] = [
  ['also supports the modern era', 'modern', (upstream, name) => becomes(upstream, name, 'legacy', 'modern')],
  ['supports the modern era only', 'modern', (upstream, name) => becomes(upstream, name, 'modern')],
  ['is registered again', 'legacy', reregister],
  [
    'is registered again and supports the modern era',
    'modern',
    async (upstream, name) => {
      upstream.eras.add('modern');
      await reregister(upstream, name);
    },
  ],
];

describe.each(changes)('when the upstream of a suspended call %s', (_how, era, change) => {
  it('the retry resumes the call', async () => {
    const { upstream, name, client, pending, done } = await suspendedAt();
    await change(upstream, name);
    const last = client.retry(pending.state, inputResponses(pending));
    await expect.poll(() => answersTo(upstream)).toEqual(['{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}']);
    done();
    expect(await resultText(last)).toBe('of the suspended call');
    expect(upstream.count('tools/call')).toBe(1);
  });

  it('a retry whose call is not suspended calls nothing', async () => {
    const at = await suspendedAt();
    const { upstream, client, pending, done } = at;
    await change(upstream, at.name);
    const last = client.retry(pending.state, inputResponses(pending));
    await expect.poll(() => answersTo(upstream)).toHaveLength(1);
    expect(await failure(client.retry(pending.state, inputResponses(pending)))).toMatchObject(NOT_HELD);
    done();
    await resultText(last);
    expect(await failure(client.retry(pending.state, inputResponses(pending)))).toMatchObject(NOT_HELD);
    expect(upstream.count('tools/call')).toBe(1);
    await expectCallIn(era, at);
  });
});

describe('when an upstream changes its era', () => {
  it('a state of its own that is no longer stored is rejected, and nothing is called', async () => {
    const state = '"requestState":"the upstream’s"';
    const requestsRoots = `{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}},${state}}`;
    const at = await upstreamOf('modern', requestsRoots);
    const pending = await inputRequired(at.client.send());
    expect(pending.state).toBe('the upstream’s');
    await becomes(at.upstream, at.name, 'legacy');
    expect(await failure(at.client.retry(pending.state, inputResponses(pending)))).toMatchObject(NOT_ISSUED);
    expect(at.upstream.count('tools/call')).toBe(1);
    await expectCallIn('legacy', at);
  });

  it('a client that has visited a URL calls again, and the upstream does not get our state', async () => {
    const at = await upstreamOf('legacy', { kind: 'error', text: VISIT });
    const params = '"name":"work","arguments":{"n":1.0}';
    const pending = await inputRequired(at.client.send({ params }));
    await becomes(at.upstream, at.name, 'modern');
    at.upstream.scripts['tools/call'] = textResultText('visited');
    const last = at.client.retry(pending.state, inputResponses(pending, '{"action":"accept"}'), { params });
    expect(await resultText(last)).toBe('visited');
    const call = lastCall(at.upstream);
    expect(call.era).toBe('modern');
    expect(call.params).toEqual({ name: 'work', arguments: { n: 1 }, _meta: expect.any(Object) });
    expect(call.body).toContain('"n":1.0');
  });
});
