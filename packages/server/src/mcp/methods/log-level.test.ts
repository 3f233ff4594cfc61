import { describe, expect, it } from 'vitest';
import { modernClient, send } from '../../../../../test/fixtures/raw-client.ts';
import { atService, liveTests, notification } from '../../../testing/live-tests.ts';
import { type LiveUpstream, startLiveUpstream } from '../../../testing/live-upstream.ts';
import { clientOf, type SessionClient, sessionClient } from '../../../testing/session-client.ts';

const tests = liveTests();
const { live, onEnd } = tests;

const log = (level: string) => notification('message', `{"level":"${level}","data":1.0}`);
const levels = (upstream: LiveUpstream) =>
  upstream.of('logging/setLevel').map(({ params, session }) => ({ level: params.level, session }));

/** A call during which the upstream logs: the messages that reach the client, and the upstream session. */
async function logging(client: SessionClient, upstream: LiveUpstream, output: readonly string[]) {
  const reading = client.call('"c"');
  const call = await upstream.calls.next();
  call.begin();
  for (const level of output) call.send(log(level));
  call.end('done');
  await reading.ended;
  return { session: call.session, heard: reading.messages.slice(0, -1) };
}

const ALL = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

describe('the log level of a session', () => {
  it.each([
    ['{"tools":{},"logging":{}}', '{"tools":{}}', true],
    ['{"tools":{}}', '{"tools":{}}', false],
    ['{"tools":{},"logging":null}', '{"tools":{},"logging":false}', false],
  ])('can be set if one of the upstreams declares logging: %s, %s', async (one, two, isDeclared) => {
    const { url } = await live({ capabilities: one });
    const namespace = new URL(url).pathname.split('/')[1];
    const other = await startLiveUpstream({ tool: 'other', capabilities: two });
    onEnd(other.close);
    await tests.service.register('forwards', { name: `${namespace}-other`, address: other.url, namespace });
    const client = await sessionClient(url);
    const params = '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}';
    const { result } = await clientOf(url, {}).request('initialize', params);
    expect(result).toMatchObject({ capabilities: isDeclared ? { logging: {} } : { tools: {} } });
    expect(JSON.stringify(result).includes('logging')).toBe(isDeclared);
    expect(await client.request('logging/setLevel', '{"level":"error"}')).toEqual({
      jsonrpc: '2.0',
      id: 1,
      ...(isDeclared ? { result: {} } : { error: { code: -32601, message: 'method not found: logging/setLevel' } }),
    });
  });

  it('defaults to everything and applies to its session only', async () => {
    const { upstream, url } = await live();
    const [client, other] = [await sessionClient(url), await sessionClient(url)];
    expect((await logging(client, upstream, ALL)).heard).toEqual(ALL.map(log));
    for (const [at, level] of ALL.entries()) {
      expect(await client.request('logging/setLevel', `{"level":"${level}"}`)).toMatchObject({ result: {} });
      expect((await logging(client, upstream, ALL)).heard).toEqual(ALL.slice(at).map(log));
    }
    expect((await logging(other, upstream, ALL)).heard).toEqual(ALL.map(log));
  });

  it('reaches the sessions upstream that are open, those opened later, and only upstreams that log', async () => {
    const { upstream, url } = await live();
    const namespace = new URL(url).pathname.split('/')[1];
    const silent = await startLiveUpstream({ tool: 'silent', capabilities: '{"tools":{}}' });
    onEnd(silent.close);
    const name = `${namespace}-silent`;
    await tests.service.register('forwards', { name, address: silent.url, namespace });
    const [open, later] = [await sessionClient(url), await sessionClient(url)];
    const { session } = await logging(open, upstream, []);
    const requested = open.post('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"silent"}}');
    (await silent.calls.next()).json('x');
    await requested;
    expect(levels(upstream)).toEqual([]);
    await open.request('logging/setLevel', '{"level":"error"}');
    expect(levels(upstream)).toEqual([{ level: 'error', session }]);
    await later.request('logging/setLevel', '{"level":"info"}');
    expect(levels(upstream)).toHaveLength(1);
    const second = await logging(later, upstream, []);
    expect(levels(upstream).slice(1)).toEqual([{ level: 'info', session: second.session }]);
    expect(levels(silent)).toEqual([]);
    expect(silent.sessions.size).toBe(1);
  });

  it('reaches a session upstream that is being opened', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    await client.request('logging/setLevel', '{"level":"error"}');
    const taking = Promise.withResolvers<string>();
    upstream.results['logging/setLevel'] = () => taking.promise;
    const call = logging(client, upstream, []);
    await expect.poll(() => levels(upstream)).toHaveLength(1);
    const setting = client.request('logging/setLevel', '{"level":"debug"}');
    // The first request was sent before the second level was set; nothing precedes its response.
    await client.request('ping');
    taking.resolve('{}');
    expect(await setting).toMatchObject({ result: {} });
    await call;
    expect(levels(upstream).at(-1)?.level).toBe('debug');
  });

  it('is restored after a restart', async () => {
    const { service, restart } = await tests.persistent();
    const { upstream, url } = await live({}, service);
    const client = await sessionClient(url);
    await client.request('logging/setLevel', '{"level":"alert"}');
    const moved = clientOf(atService(await restart(), url), client.headers);
    const { session, heard } = await logging(moved, upstream, ALL);
    expect(heard).toEqual(['alert', 'emergency'].map(log));
    expect(levels(upstream)).toEqual([{ level: 'alert', session }]);
  });

  it('is set although an upstream rejects it or is down', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    upstream.results['logging/setLevel'] = '"error":{"code":-32603,"message":"no"}';
    await logging(client, upstream, []);
    expect(await client.request('logging/setLevel', '{"level":"error"}')).toMatchObject({ result: {} });
    expect((await logging(client, upstream, ALL)).heard).toEqual(ALL.slice(4).map(log));
    await upstream.down();
    expect(await client.request('logging/setLevel', '{"level":"alert"}')).toMatchObject({ result: {} });
    await upstream.up();
    expect((await logging(client, upstream, ALL)).heard).toEqual(ALL.slice(6).map(log));
  });

  it.each(['{"level":"loud"}', '{"level":1}', '{}', '{"level":"ERROR"}'])('is not %s', async (params) => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    expect(await client.request('logging/setLevel', params)).toMatchObject({ error: { code: -32602 } });
    expect((await logging(client, upstream, ['debug'])).heard).toEqual([log('debug')]);
    expect(levels(upstream)).toEqual([]);
  });

  it('has no effect without a session', async () => {
    const { upstream, url } = await live();
    const sessionless = clientOf(url, { 'mcp-protocol-version': '2025-11-25' });
    expect(await sessionless.request('logging/setLevel', '{"level":"error"}')).toMatchObject({ result: {} });
    expect((await logging(sessionless, upstream, ['debug'])).heard).toEqual([log('debug')]);
    const modern = await modernClient(url).call('logging/setLevel', '{"level":"error"}');
    expect([modern.status, JSON.parse(modern.text).error.code]).toEqual([404, -32601]);
    expect((await send(url, 'DELETE', sessionless.headers)).status).toBe(405);
  });
});
