import { once } from 'node:events';
import { get as httpGet, type IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { operations, toolCallEvent } from '@sluice/contract';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { startTestService } from '../../testing/service.ts';
import { codeSummary, contentOfTexts, toolSummary } from '../telemetry/tool-calls/event.ts';
import { begun, identity } from '../telemetry/tool-calls/identities.fixture.ts';
import { type Api, startApi } from './api.fixture.ts';
import { ServedDocument } from './document.fixture.ts';

const PATH = '/api/v1/tool-calls';
const NOTIFICATIONS = `${PATH}/notifications`;

let api: Api;
beforeEach(async (context) => {
  api = await startApi(context);
});

describe('stored events', () => {
  const namesOf = async (query: string): Promise<string[]> => {
    const { status, data } = await api.call('GET', PATH + query);
    expect(status).toBe(200);
    return toolCallEvent
      .array()
      .parse(data)
      .map(({ eventType, toolName }) => `${toolName} ${eventType}`);
  };

  test('are returned newest first, as documented', async () => {
    const document = await ServedDocument.of(api);
    const report = begun(api.toolCalls, identity(), toolSummary(['a', 'service_auth_b'], ['b']));
    report.completed(false, contentOfTexts(['x'.repeat(20_000)]));
    begun(api.toolCalls, identity({ toolName: 'code-execution/e/l', transport: 'code' }), codeSummary(2));
    api.toolCalls.of(identity({ toolName: 'none' })).failed('TOOL_DEFINITION_ERROR', 'why');
    document.expectDeclared(operations.toolCalls.list, await api.call('GET', PATH));
    expect(await namesOf('')).toEqual(['none FAILED', 'code-execution/e/l STARTED', 'echo COMPLETED', 'echo STARTED']);
  });

  test('can be filtered by tool, category or both', async () => {
    for (const toolName of ['a', 'b/c']) {
      const call = identity({ toolName });
      begun(api.toolCalls, call, codeSummary(0)).failed('EXECUTION_ERROR', '');
      api.toolCalls.of(call).failed('UNKNOWN', '');
    }
    expect(await namesOf('?toolName=b%2Fc')).toEqual(['b/c FAILED', 'b/c FAILED', 'b/c STARTED']);
    expect(await namesOf('?category=UNKNOWN')).toEqual(['b/c FAILED', 'a FAILED']);
    expect(await namesOf('?category=EXECUTION_ERROR&toolName=a')).toEqual(['a FAILED']);
    expect(await namesOf('?toolName=')).toEqual([]);
    expect(await api.call('GET', `${PATH}?category=nonsense`)).toMatchObject({ status: 400 });
  });

  test.for([
    ['', 100],
    ['?limit=1', 1],
    ['?limit=1000', 1000],
    ['?limit=99999', 1000],
  ] as const)('with the query %j are %d of many', async ([query, count]) => {
    for (let at = 0; at < 1005; at++) api.toolCalls.of(identity({ toolName: `${at}` })).failed('UNKNOWN', '');
    const names = await namesOf(query);
    expect([names.length, names[0]]).toEqual([count, '1004 FAILED']);
  });
});

/** An open stream of events. */
async function open(url: string, headers: Record<string, string> = {}) {
  const request = httpGet(url, { headers, agent: false });
  onTestFinished(() => void request.destroy());
  const [response]: IncomingMessage[] = await once(request, 'response');
  if (!response) throw new Error('no response');
  // Aborted streams are detected by their end.
  response.on('error', () => {});
  return { request, response };
}

/** The blocks of a stream, separated by empty lines, as lines. */
async function* blocksOf(response: IncomingMessage): AsyncGenerator<string[], void> {
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) {
    const blocks = `${text}${chunk}`.split('\n\n');
    text = blocks.pop() ?? '';
    for (const block of blocks) yield block.split('\n');
  }
}

describe('the event stream', () => {
  test('sends its headers immediately and then new events with type, id and JSON', async () => {
    api.toolCalls.of(identity({ toolName: 'before' })).failed('UNKNOWN', '');
    const { response } = await open(api.url + NOTIFICATIONS);
    expect(response.statusCode).toBe(200);
    expect(response.headers).toMatchObject({
      'content-type': 'text/event-stream',
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
      'access-control-allow-origin': '*',
    });
    const blocks = blocksOf(response);
    expect((await blocks.next()).value).toEqual([':']);
    const report = begun(api.toolCalls, identity(), toolSummary(['a'], ['h']));
    report.completed(false, contentOfTexts(['line 1\nline 2\r\n\r\nline 3']));
    const kept = await api.call('GET', PATH);
    const [completed, started] = toolCallEvent.array().parse(kept.data);
    for (const event of [started, completed]) {
      const { value } = await blocks.next();
      expect(value).toEqual([
        `event: ${event?.eventType}`,
        `id: ${report.eventId}`,
        expect.stringMatching(/^data: \{/),
      ]);
      expect(JSON.parse(value?.[2]?.slice('data: '.length) ?? '')).toEqual(event);
    }
  });

  test('does not replay events for Last-Event-ID', async () => {
    const { eventId = '' } = begun(api.toolCalls, identity({ toolName: 'before' }), codeSummary(0));
    const { response } = await open(`${api.url}${NOTIFICATIONS}/?unknown`, { 'last-event-id': eventId });
    const blocks = blocksOf(response);
    await blocks.next();
    api.toolCalls.of(identity({ toolName: 'after' })).failed('UNKNOWN', '');
    expect((await blocks.next()).value?.[2]).toContain('"after"');
  });

  test('sends keep-alive comments', async (context) => {
    const { url } = await startApi(context, { keepAliveMs: 10 });
    const { response } = await open(url + NOTIFICATIONS);
    const blocks = blocksOf(response);
    await blocks.next();
    expect((await blocks.next()).value).toEqual([':']);
  });

  test('disconnects a client that does not read, but not one that does', async () => {
    const slow = await open(api.url + NOTIFICATIONS);
    const quick = blocksOf((await open(api.url + NOTIFICATIONS)).response);
    await quick.next();
    slow.response.pause();
    const content = contentOfTexts(['x'.repeat(16 * 1024)]);
    // The buffers between service and client hold some events, and the queue a thousand more.
    for (let sent = 0; sent < 5_000 && api.openStreams.size === 2; sent++) {
      const report = begun(api.toolCalls, identity(), codeSummary(0));
      report.completed(false, content);
      for (const type of ['STARTED', 'COMPLETED']) {
        expect((await quick.next()).value?.slice(0, 2)).toEqual([`event: ${type}`, `id: ${report.eventId}`]);
      }
    }
    expect(api.openStreams.size).toBe(1);
    const ended = new Promise((resolve) => slow.response.once('close', () => resolve(slow.response.complete)));
    slow.response.resume();
    expect(await ended).toBe(false);
    const lines = api.log.map((line) => JSON.parse(line)).filter(({ msg }) => /slow event-stream client/.test(msg));
    expect(lines).toMatchObject([{ level: 'info', target: 'service::mgmt', behind: 1000 }]);
  });

  test.for([16_000, 8_000, 100])('sends all events to a client that paused reading: texts of %i', async (length) => {
    const { response } = await open(api.url + NOTIFICATIONS);
    response.pause();
    const content = contentOfTexts(['x'.repeat(length)]);
    for (let call = 0; call < 480; call++) {
      begun(api.toolCalls, identity(), codeSummary(0)).completed(false, content);
      if (call % 10 === 0) await nextTurn();
    }
    const blocks = blocksOf(response);
    await blocks.next();
    for (let event = 0; event < 960; event++) expect((await blocks.next()).value?.[0]).toMatch(/^event: /);
  });

  test('releases its resources after its client has disconnected', async () => {
    const { request } = await open(api.url + NOTIFICATIONS);
    expect(api.openStreams.size).toBe(1);
    request.destroy();
    // The service detects it some turns later.
    await expect.poll(() => api.openStreams.size).toBe(0);
  });

  test('accepts 100 concurrent clients', async () => {
    const watching = await Promise.all(Array.from({ length: 100 }, () => open(api.url + NOTIFICATIONS)));
    const document = await ServedDocument.of(api);
    const refused = await api.call('GET', NOTIFICATIONS);
    expect(refused).toMatchObject({
      status: 503,
      error: { code: 'UNAVAILABLE', message: expect.stringMatching(/^too many event streams: at most 100/) },
    });
    document.expectDeclared(operations.toolCalls.notifications, refused);
    watching[0]?.request.destroy();
    await expect.poll(() => api.openStreams.size).toBe(99);
    expect((await open(api.url + NOTIFICATIONS)).response.statusCode).toBe(200);
  });

  test('answers HEAD with its type and no stream', async () => {
    const { status, headers, text } = await api.call('HEAD', NOTIFICATIONS);
    expect([status, headers['content-type'], text]).toEqual([200, 'text/event-stream', '']);
    expect(api.openStreams.size).toBe(0);
  });

  test('rejects a foreign origin', async () => {
    const { status } = await api.call('GET', NOTIFICATIONS, undefined, { origin: 'https://evil.example' });
    expect(status).toBe(403);
    expect(api.openStreams.size).toBe(0);
  });

  test('is described as an event stream', async () => {
    const { content } = await ServedDocument.of(api);
    const responses = content.paths[NOTIFICATIONS]?.get?.responses ?? {};
    expect(Object.keys(Object(responses[200]).content)).toEqual(['text/event-stream']);
  });
});

test('a stream of events ends when the service stops', async () => {
  const service = await startTestService();
  let stopping: Promise<void> | undefined;
  const stop = () => {
    stopping ??= service.stop();
    return stopping;
  };
  onTestFinished(stop);
  const { response } = await open(service.management + NOTIFICATIONS);
  const blocks = blocksOf(response);
  await blocks.next();
  const stopped = stop();
  expect(await blocks.next()).toEqual({ done: true, value: undefined });
  expect(response.complete).toBe(true);
  await stopped;
});
