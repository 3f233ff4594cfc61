import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { post } from '../../../../../../test/fixtures/raw-client.ts';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { AskableClient } from '../../../../testing/askable-client.ts';
import { liveTests } from '../../../../testing/live.ts';
import { client, eras } from '../../../../testing/relay.ts';
import { startTestService } from '../../../../testing/service.ts';
import { clientOf, sessionClient } from '../../../../testing/session-client.ts';
import { eventsAt } from '../../../../testing/tool-call-events.ts';

const tests = liveTests();
const { upstreamWith, register, live, onEnd } = tests;

const CALL = '{"name":"a","arguments":{"text":"S3CRET","service_auth_key":"S3CRET"}}';
const told = (url: string) => eventsAt(tests.service, url);

/** The end of a call that has begun and has one end. */
async function end(url: string) {
  const [started, terminal, ...more] = await told(url);
  expect(more).toEqual([]);
  expect([started?.eventType, terminal?.eventId]).toEqual(['STARTED', started?.eventId]);
  return terminal;
}

describe.each(eras)('of a forwarded tool call, %s', (era) => {
  test('is told that it begins, without values, and how it is completed', async () => {
    const upstream = await upstreamWith({ 'tools/call': textResultText('done') }, { eras: [era] });
    const url = await register(upstream.url);
    const caller = await client(era, url);
    await caller.call('tools/call', CALL, { 'x-request-id': 'req', 'x-conversation-id': 'conv' });
    const events = await told(url);
    const common = {
      eventId: events[0]?.eventId,
      transport: 'mcp',
      toolName: 'a',
      toolType: 'mcp-forward',
      serviceAddress: new URL(upstream.url).origin,
      conversationId: 'conv',
      requestId: 'req',
    };
    expect(events).toEqual([
      expect.objectContaining({
        ...common,
        eventType: 'STARTED',
        argumentNames: ['text'],
        argumentCount: 2,
        headers: {},
      }),
      expect.objectContaining({ ...common, eventType: 'COMPLETED', isError: false, content: ['done'] }),
    ]);
    expect(events[0]).not.toHaveProperty('serviceId');
    expect(JSON.stringify(events)).not.toContain('S3CRET');
  });

  test('is told that the tool says itself that it failed', async () => {
    const result = '{"resultType":"complete","content":[{"type":"text","text":"no"},{"type":"x"}],"isError":true}';
    const upstream = await upstreamWith({ 'tools/call': result }, { eras: [era] });
    const url = await register(upstream.url);
    await (await client(era, url)).call('tools/call', CALL);
    expect(await end(url)).toMatchObject({ eventType: 'COMPLETED', isError: true, content: ['no'] });
  });

  test("an upstream's own error is of no known category", async () => {
    const error = { kind: 'error', text: `{"code":-32050,"message":"${'m'.repeat(2000)}"}` } as const;
    const upstream = await upstreamWith({ 'tools/call': error }, { eras: [era] });
    const url = await register(upstream.url);
    await (await client(era, url)).call('tools/call', CALL);
    const message = 'm'.repeat(1000);
    expect(await end(url)).toMatchObject({ eventType: 'FAILED', errorCategory: 'UNKNOWN', errorMessage: message });
  });

  test('the names of the headers that go along are told, and none of those that we add', async () => {
    const service = await startTestService({ SERVICE_FORWARD_HEADERS: 'authorization,x-tenant' });
    onEnd(() => service.stop(0));
    const upstream = await upstreamWith({}, { eras: [era] });
    const url = await register(upstream.url, {}, service);
    await (await client(era, url)).call('tools/call', CALL, { authorization: 'Bearer S3CRET' });
    const [started] = await eventsAt(service, url);
    expect(started).toMatchObject({ headers: { authorization: '[REDACTED]' } });
    expect(Object.keys(started?.eventType === 'STARTED' ? started.headers : {})).toEqual(['authorization']);
  });

  test.each([
    ['resources/read', '{"uri":"test://a"}'],
    ['prompts/get', '{"name":"p"}'],
    ['tools/list', '{}'],
  ])('%s is none', async (method, params) => {
    const upstream = await upstreamWith({}, { eras: [era] });
    const url = await register(upstream.url);
    await (await client(era, url)).call(method, params);
    expect(await told(url)).toEqual([]);
  });

  test('one that goes in a circle has a FAILED event alone', async () => {
    const url = await register((await upstreamWith({}, { eras: [era] })).url);
    await (await client(era, url)).call('tools/call', CALL, { 'x-service-hops': '8' });
    expect(await told(url)).toMatchObject([
      {
        eventType: 'FAILED',
        errorCategory: 'UNKNOWN',
        errorMessage: 'forwarding loop',
        serviceAddress: '',
        duration: 0,
      },
    ]);
  });
});

describe('a forwarded tool call that nobody answers', () => {
  test('fails as unavailable when the upstream is gone', async () => {
    const { upstream, url } = await live();
    const session = await sessionClient(url);
    await upstream.down();
    await session.call('1').over;
    expect(await end(url)).toMatchObject({
      eventType: 'FAILED',
      errorCategory: 'SERVICE_UNAVAILABLE',
      errorMessage: expect.stringContaining('ECONNREFUSED'),
    });
  });

  test('fails as unavailable when the answer breaks off', async () => {
    const { upstream, url } = await live();
    const reading = (await sessionClient(url)).call('1');
    const call = await upstream.calls.next();
    call.begin();
    call.progress(1);
    call.response.destroy();
    await reading.over;
    expect(await end(url)).toMatchObject({ eventType: 'FAILED', errorCategory: 'SERVICE_UNAVAILABLE' });
  });

  test('fails as unavailable when the upstream is silent for too long', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const service = await startTestService({ SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: '200' });
    onEnd(() => service.stop(0));
    const { upstream, url } = await live({}, service);
    const reading = (await sessionClient(url)).call('1');
    await upstream.calls.next();
    vi.advanceTimersByTime(300);
    await reading.over;
    expect((await eventsAt(service, url))[1]).toMatchObject({
      eventType: 'FAILED',
      errorCategory: 'SERVICE_UNAVAILABLE',
      errorMessage: expect.stringContaining('sent nothing'),
    });
  });

  test.each([
    [503, 'SERVICE_UNAVAILABLE'],
    [418, 'UNKNOWN'],
  ])('fails by what HTTP %i says', async (status, errorCategory) => {
    const { upstream, url } = await live();
    const reading = (await sessionClient(url)).call('1');
    (await upstream.calls.next()).refuse(status);
    await reading.over;
    expect(await end(url)).toMatchObject({ eventType: 'FAILED', errorCategory });
  });

  test('fails when its client cancels it', async () => {
    const { upstream, url } = await live();
    const session = await sessionClient(url);
    const reading = session.call('"c"');
    await upstream.calls.next();
    await session.post('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c"}}');
    await reading.over;
    expect(await end(url)).toMatchObject({
      eventType: 'FAILED',
      errorCategory: 'UNKNOWN',
      errorMessage: 'the client cancelled the call',
    });
  });

  test('fails when its modern client leaves', async () => {
    const { upstream, url } = await live();
    const reading = new AskableClient(url, '{}').send();
    await upstream.calls.next();
    reading.leave();
    await expect.poll(async () => (await told(url)).length).toBe(2);
    expect(await end(url)).toMatchObject({ errorCategory: 'UNKNOWN', errorMessage: 'the client has left' });
  });
});

test('a call whose legacy client has left goes on, and is told when it is completed', async () => {
  const { upstream, url } = await live();
  const reading = (await sessionClient(url)).call('1');
  const call = await upstream.calls.next();
  reading.leave();
  call.json('late');
  await expect.poll(async () => (await told(url)).length).toBe(2);
  expect(await end(url)).toMatchObject({ eventType: 'COMPLETED', content: ['late'] });
});

test('a call that is sent again in a new session begins once', async () => {
  const { upstream, url } = await live();
  const session = await sessionClient(url);
  const first = session.call('1');
  (await upstream.calls.next()).json('one');
  await first.over;
  upstream.forgetSessions();
  const second = session.call('2');
  (await upstream.calls.next()).json('two');
  await second.over;
  const events = await told(url);
  expect(events.map(({ eventType }) => eventType)).toEqual(['STARTED', 'COMPLETED', 'STARTED', 'COMPLETED']);
  expect(events[3]).toMatchObject({ content: ['two'] });
});

test('a tool that names its server itself is forwarded as well', async () => {
  const upstream = await upstreamWith();
  const tool = { name: 'hand', description: '', uri: upstream.url, input_schema: { type: 'object' } };
  await tests.service.register('tools', { ...tool, toolType: 'remote', namespace: 'default' });
  onEnd(() => tests.service.manage('DELETE', '/tools/hand'));
  const url = tests.service.url();
  await (await client('legacy', url)).call('tools/call', '{"name":"hand"}');
  const events = (await told(url)).filter(({ toolName }) => toolName === 'hand');
  expect(events).toMatchObject([
    { eventType: 'STARTED', toolType: 'remote', transport: 'mcp', argumentCount: 0 },
    { eventType: 'COMPLETED' },
  ]);
});

test('calls that cannot be one are none', async () => {
  const url = await register((await upstreamWith()).url);
  const caller = await client('legacy', url);
  for (const params of ['{"name":"unknown"}', '{}', '{"name":1}']) await caller.call('tools/call', params);
  await post(url, '{"jsonrpc":"2.0","id":1,"method":"tools/call"}', clientOf(url, caller.headers).headers);
  expect(await told(url)).toEqual([]);
});

test('an id that is too long is warned of, and ignored', async () => {
  const url = await register((await upstreamWith()).url);
  const long = 'x'.repeat(257);
  await (await client('legacy', url)).call('tools/call', CALL, { 'x-conversation-id': long, 'x-request-id': 'r' });
  expect((await told(url))[0]).toMatchObject({ conversationId: 'r', requestId: 'r' });
  const warned = tests.service.log.filter((line) => line.includes('x-conversation-id'));
  expect(warned).toEqual([expect.stringMatching(/"warn".*more than 256 bytes/)]);
  expect(warned[0]).not.toContain(long);
});
