import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { post } from '../../../../../../test/fixtures/raw-client.ts';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { InteractiveClient } from '../../../../testing/interactive-client.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import { client, eras } from '../../../../testing/relay.ts';
import { startTestService } from '../../../../testing/service.ts';
import { clientOf, sessionClient } from '../../../../testing/session-client.ts';
import { eventsAt } from '../../../../testing/tool-call-events.ts';

const tests = liveTests();
const { upstreamWith, register, live, onEnd } = tests;

const CALL = '{"name":"a","arguments":{"text":"S3CRET","service_auth_key":"S3CRET"}}';
const received = (url: string) => eventsAt(tests.service, url);

/** The last event of a call with one STARTED and one last event. */
async function end(url: string) {
  const [started, terminal, ...more] = await received(url);
  expect(more).toEqual([]);
  expect([started?.eventType, terminal?.eventId]).toEqual(['STARTED', started?.eventId]);
  return terminal;
}

describe.each(eras)('events of a forwarded tool call, %s', (era) => {
  test('contain its start, without argument values, and its completion', async () => {
    const upstream = await upstreamWith({ 'tools/call': textResultText('done') }, { eras: [era] });
    const url = await register(upstream.url);
    const caller = await client(era, url);
    await caller.call('tools/call', CALL, { 'x-request-id': 'req', 'x-conversation-id': 'conv' });
    const events = await received(url);
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

  test('contain an error that the tool reports', async () => {
    const result = '{"resultType":"complete","content":[{"type":"text","text":"no"},{"type":"x"}],"isError":true}';
    const upstream = await upstreamWith({ 'tools/call': result }, { eras: [era] });
    const url = await register(upstream.url);
    await (await client(era, url)).call('tools/call', CALL);
    expect(await end(url)).toMatchObject({ eventType: 'COMPLETED', isError: true, content: ['no'] });
  });

  test('have category UNKNOWN for an error of the upstream', async () => {
    const error = { kind: 'error', text: `{"code":-32050,"message":"${'m'.repeat(2000)}"}` } as const;
    const upstream = await upstreamWith({ 'tools/call': error }, { eras: [era] });
    const url = await register(upstream.url);
    await (await client(era, url)).call('tools/call', CALL);
    const message = 'm'.repeat(1000);
    expect(await end(url)).toMatchObject({ eventType: 'FAILED', errorCategory: 'UNKNOWN', errorMessage: message });
  });

  test('contain the names of forwarded headers, and none of those that are added', async () => {
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
  ])('do not exist for %s', async (method, params) => {
    const upstream = await upstreamWith({}, { eras: [era] });
    const url = await register(upstream.url);
    await (await client(era, url)).call(method, params);
    expect(await received(url)).toEqual([]);
  });

  test('contain only FAILED in a forwarding loop', async () => {
    const url = await register((await upstreamWith({}, { eras: [era] })).url);
    await (await client(era, url)).call('tools/call', CALL, { 'x-service-hops': '8' });
    expect(await received(url)).toMatchObject([
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

describe('a forwarded tool call without a response', () => {
  test('fails as unavailable if the upstream is unreachable', async () => {
    const { upstream, url } = await live();
    const session = await sessionClient(url);
    await upstream.down();
    await session.call('1').ended;
    expect(await end(url)).toMatchObject({
      eventType: 'FAILED',
      errorCategory: 'SERVICE_UNAVAILABLE',
      errorMessage: expect.stringContaining('ECONNREFUSED'),
    });
  });

  test('fails as unavailable if the response is incomplete', async () => {
    const { upstream, url } = await live();
    const reading = (await sessionClient(url)).call('1');
    const call = await upstream.calls.next();
    call.begin();
    call.progress(1);
    call.response.destroy();
    await reading.ended;
    expect(await end(url)).toMatchObject({ eventType: 'FAILED', errorCategory: 'SERVICE_UNAVAILABLE' });
  });

  test('fails as unavailable if the upstream is silent for too long', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const service = await startTestService({ SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: '200' });
    onEnd(() => service.stop(0));
    const { upstream, url } = await live({}, service);
    const reading = (await sessionClient(url)).call('1');
    await upstream.calls.next();
    vi.advanceTimersByTime(300);
    await reading.ended;
    expect((await eventsAt(service, url))[1]).toMatchObject({
      eventType: 'FAILED',
      errorCategory: 'SERVICE_UNAVAILABLE',
      errorMessage: expect.stringContaining('sent nothing'),
    });
  });

  test.each([
    [503, 'SERVICE_UNAVAILABLE'],
    [418, 'UNKNOWN'],
  ])('fails by HTTP status %i', async (status, errorCategory) => {
    const { upstream, url } = await live();
    const reading = (await sessionClient(url)).call('1');
    (await upstream.calls.next()).reject(status);
    await reading.ended;
    expect(await end(url)).toMatchObject({ eventType: 'FAILED', errorCategory });
  });

  test('fails if its client cancels it', async () => {
    const { upstream, url } = await live();
    const session = await sessionClient(url);
    const reading = session.call('"c"');
    await upstream.calls.next();
    await session.post('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c"}}');
    await reading.ended;
    expect(await end(url)).toMatchObject({
      eventType: 'FAILED',
      errorCategory: 'UNKNOWN',
      errorMessage: 'the client canceled the call',
    });
  });

  test('fails if its modern client disconnects', async () => {
    const { upstream, url } = await live();
    const reading = new InteractiveClient(url, '{}').send();
    await upstream.calls.next();
    reading.disconnect();
    await expect.poll(async () => (await received(url)).length).toBe(2);
    expect(await end(url)).toMatchObject({ errorCategory: 'UNKNOWN', errorMessage: 'the client has disconnected' });
  });
});

test('a call whose legacy client has disconnected continues, and its completion is reported', async () => {
  const { upstream, url } = await live();
  const reading = (await sessionClient(url)).call('1');
  const call = await upstream.calls.next();
  reading.disconnect();
  call.json('late');
  await expect.poll(async () => (await received(url)).length).toBe(2);
  expect(await end(url)).toMatchObject({ eventType: 'COMPLETED', content: ['late'] });
});

test('a call that is sent again in a new session has one STARTED event', async () => {
  const { upstream, url } = await live();
  const session = await sessionClient(url);
  const first = session.call('1');
  (await upstream.calls.next()).json('one');
  await first.ended;
  upstream.forgetSessions();
  const second = session.call('2');
  (await upstream.calls.next()).json('two');
  await second.ended;
  const events = await received(url);
  expect(events.map(({ eventType }) => eventType)).toEqual(['STARTED', 'COMPLETED', 'STARTED', 'COMPLETED']);
  expect(events[3]).toMatchObject({ content: ['two'] });
});

test('a manually registered tool with an address is forwarded as well', async () => {
  const upstream = await upstreamWith();
  const tool = { name: 'hand', description: '', uri: upstream.url, input_schema: { type: 'object' } };
  await tests.service.register('tools', { ...tool, toolType: 'remote', namespace: 'default' });
  onEnd(() => tests.service.manage('DELETE', '/tools/hand'));
  const url = tests.service.url();
  await (await client('legacy', url)).call('tools/call', '{"name":"hand"}');
  const events = (await received(url)).filter(({ toolName }) => toolName === 'hand');
  expect(events).toMatchObject([
    { eventType: 'STARTED', toolType: 'remote', transport: 'mcp', argumentCount: 0 },
    { eventType: 'COMPLETED' },
  ]);
});

test('invalid calls have no events', async () => {
  const url = await register((await upstreamWith()).url);
  const caller = await client('legacy', url);
  for (const params of ['{"name":"unknown"}', '{}', '{"name":1}']) await caller.call('tools/call', params);
  await post(url, '{"jsonrpc":"2.0","id":1,"method":"tools/call"}', clientOf(url, caller.headers).headers);
  expect(await received(url)).toEqual([]);
});

test('an oversized id is ignored with a warning', async () => {
  const url = await register((await upstreamWith()).url);
  const long = 'x'.repeat(257);
  await (await client('legacy', url)).call('tools/call', CALL, { 'x-conversation-id': long, 'x-request-id': 'r' });
  expect((await received(url))[0]).toMatchObject({ conversationId: 'r', requestId: 'r' });
  const warned = tests.service.log.filter((line) => line.includes('x-conversation-id'));
  expect(warned).toEqual([expect.stringMatching(/"warn".*more than 256 bytes/)]);
  expect(warned[0]).not.toContain(long);
});
