import { expect, it } from 'vitest';
import { startDualEra } from '../../../../../../test/fixtures/dual-era.ts';
import { modernClient, reply } from '../../../../../../test/fixtures/raw-client.ts';
import { LIST_END, textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import type { RawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { capabilityScripts } from '../../../../testing/capability-scripts.ts';
import { InteractiveClient, resultText } from '../../../../testing/interactive-client.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import { sessionClient } from '../../../../testing/session-client.ts';

const { onEnd, register, upstreamWith } = liveTests();

const LEVELS = ['error', 'info', 'debug'];
const wanting = (level: string) => `"io.modelcontextprotocol/logLevel":"${level}"`;

/** A legacy upstream with logging and a subscribable resource. */
function logging(scripts: RawUpstream['scripts'] = {}): Promise<RawUpstream> {
  return upstreamWith(
    {
      ...capabilityScripts('{"tools":{},"resources":{"subscribe":true},"logging":{}}'),
      'resources/list': `{"resources":[{"uri":"test://a","name":"a"}],${LIST_END}`,
      'resources/subscribe': '{}',
      'resources/unsubscribe': '{}',
      ...scripts,
    },
    { eras: ['legacy'] },
  );
}

/** Ids and methods of the requests received by a legacy upstream, by session. */
function bySession({ seen }: RawUpstream): { readonly ids: readonly unknown[]; readonly methods: readonly string[] }[] {
  const sessions = new Map<string, { ids: unknown[]; methods: string[] }>();
  for (const { session, id, method } of seen) {
    if (session === undefined || id === undefined || method === undefined) continue;
    const requests = sessions.get(session) ?? { ids: [], methods: [] };
    sessions.set(session, requests);
    requests.ids.push(id);
    requests.methods.push(method);
  }
  return [...sessions.values()];
}

function expectNoIdTwice(upstream: RawUpstream): void {
  for (const { ids } of bySession(upstream)) expect(ids).toEqual([...new Set(ids)]);
}

it('a slow call and another with a log level in the same session are both answered by an SDK server', async () => {
  const upstream = await startDualEra({ eras: 'legacy' });
  onEnd(upstream.close);
  const url = await register(upstream.url);
  const counted = async (level: string) => {
    const response = await modernClient(url, '{}', wanting(level)).call('tools/call', '{"name":"session_counter"}');
    return JSON.parse(reply(response)).result.content[0].text;
  };
  expect(await counted('error')).toBe('1');
  const caller = modernClient(url);
  const slow = caller.call('tools/call', '{"name":"slow","arguments":{"ms":700}}');
  // Once this is answered, the slow call has been sent.
  await caller.call('tools/list');
  // It is the same session: numbering continues.
  expect(await counted('debug')).toBe('2');
  expect(reply(await slow)).toContain('"waited 700 ms"');
});

it('request ids are unique in the session of a legacy client', async () => {
  const upstream = await logging({ GET: { kind: 'http', status: 404, type: 'text/plain', body: '' } });
  const client = await sessionClient(await register(upstream.url));
  const called = () => client.request('tools/call', '{"name":"a"}');
  const uri = '{"uri":"test://a"}';
  for (let round = 1; round <= 3; round++) {
    expect(await client.request('resources/subscribe', uri)).toMatchObject({ result: {} });
    expect(await called()).toMatchObject({ result: {} });
    expect(await client.request('logging/setLevel', `{"level":"${LEVELS[round - 1]}"}`)).toBeDefined();
    await client.request('resources/unsubscribe', uri);
  }
  // The upstream has no stream, and is sent a `ping` to check the session.
  client.listen();
  await expect.poll(() => upstream.count('ping')).toBeGreaterThan(0);
  expect(await called()).toMatchObject({ result: {} });
  expectNoIdTwice(upstream);
  const methods = ['resources/subscribe', 'tools/call', 'logging/setLevel', 'resources/unsubscribe', 'ping'];
  const own = bySession(upstream).filter((session) => methods.every((method) => session.methods.includes(method)));
  expect(own).toHaveLength(1);
});

it.each([
  ['that is shared', '{}'],
  ['of calls that can ask', undefined],
])('no id comes twice in a session %s, when its calls ask for log levels', async (_whose, capabilities) => {
  const upstream = await logging({ 'tools/call': textResultText('done') });
  const client = new InteractiveClient(await register(upstream.url), capabilities);
  const call = (level: string) => resultText(client.send({ params: '"name":"a"', meta: wanting(level) }));
  for (const level of LEVELS) expect(await call(level)).toBe('done');
  expect(await Promise.all(LEVELS.map(call))).toEqual(['done', 'done', 'done']);
  expectNoIdTwice(upstream);
  const own = bySession(upstream).filter(({ methods }) => methods.includes('logging/setLevel'));
  expect(own[0]?.methods.filter((method) => method === 'logging/setLevel')).toHaveLength(3);
});
