import { once } from 'node:events';
import { get as httpGet, type IncomingMessage } from 'node:http';
import { registryEvent, toolCallEvent } from '@sluice/contract';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { commit } from '../registry/fixtures/commit.ts';
import { codeSummary, contentOfTexts } from '../telemetry/tool-calls/event.ts';
import { begun, identity } from '../telemetry/tool-calls/identities.fixture.ts';
import { type Api, startApi } from './api.fixture.ts';
import { publishRegistryChanges } from './registry-changes.ts';

const PATH = '/api/v1/events';

let api: Api;
beforeEach(async (context) => {
  api = await startApi(context);
  const changes = publishRegistryChanges(api.registry, api.stateEvents);
  onTestFinished(() => changes.close());
});

/** An event as received; the first one of a stream has only an id. */
interface Received {
  readonly type: string | undefined;
  readonly id: string;
  readonly data: unknown;
}

/** An open stream and its events without comments. */
async function open(query = '', lastId?: string) {
  const headers = lastId === undefined ? {} : { 'last-event-id': lastId };
  const request = httpGet(api.url + PATH + query, { agent: false, headers });
  onTestFinished(() => void request.destroy());
  const [response]: IncomingMessage[] = await once(request, 'response');
  if (!response) throw new Error('no response');
  // Aborted streams are detected by their end.
  response.on('error', () => {});
  const events = eventsOf(response);
  const next = async (): Promise<Received> => {
    const { value } = await events.next();
    if (!value) throw new Error('the stream has ended');
    return value;
  };
  return { request, response, next };
}

async function* eventsOf(response: IncomingMessage): AsyncGenerator<Received, void> {
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) {
    const blocks = `${text}${chunk}`.split('\n\n');
    text = blocks.pop() ?? '';
    for (const block of blocks) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1];
      const data = field('data');
      if (block !== ':') yield { type: field('event'), id: field('id') ?? '', data: data && JSON.parse(data) };
    }
  }
}

const fail = (toolName: string) => api.toolCalls.of(identity({ toolName })).failed('UNKNOWN', '');
const toolOf = ({ data }: Received) => toolCallEvent.parse(data).toolName;
const FORWARD = { name: 'crm', change: { kind: 'available', timestamp: '2026-01-02T03:04:05.006Z' } } as const;

describe('the event stream', () => {
  test('sends tool calls and changes of state under their topics', async () => {
    const { next } = await open();
    expect(await next()).toMatchObject({ type: undefined, data: undefined });
    fail('a');
    expect(await next()).toMatchObject({ type: 'tool-calls', data: { eventType: 'FAILED', toolName: 'a' } });
    api.stateEvents.publish('forwards', FORWARD);
    expect(await next()).toMatchObject({ type: 'forwards', data: FORWARD });
    api.stateEvents.evaluatorsActivated({ revision: 2, list: [1], skipped: ['x'] });
    expect(await next()).toMatchObject({ type: 'evaluators', data: { revision: 2, loaded: 1, skipped: 1 } });
    const service = { name: 's', serviceType: 'tool-invoker', serviceSubType: undefined, languageName: undefined };
    api.stateEvents.serviceChanged(service, { health: 'down', reason: 'x'.repeat(1_000) });
    const { type, data } = await next();
    expect([type, data]).toMatchObject(['services', { name: 's', health: 'down', reason: `${'x'.repeat(499)}…` }]);
  });

  test('sends only the requested topics', async () => {
    const calls = await open('?topics=tool-calls');
    const states = await open('?topics=registry,%20forwards');
    await Promise.all([calls.next(), states.next()]);
    api.stateEvents.evaluatorsActivated({ revision: 1, list: [], skipped: [] });
    fail('a');
    api.stateEvents.publish('forwards', FORWARD);
    expect(toolOf(await calls.next())).toBe('a');
    expect((await states.next()).type).toBe('forwards');
  });

  test('rejects an unknown topic', async () => {
    expect(await api.call('GET', `${PATH}?topics=forwards,nonsense`)).toMatchObject({
      status: 400,
      error: {
        code: 'BAD_REQUEST',
        message: expect.stringMatching(/^invalid topic "nonsense": expected one or more of/),
      },
    });
    expect(api.openStreams.size).toBe(0);
  });

  test('reports changes of the registry by kind and name, combined', async () => {
    const { next } = await open('?topics=registry');
    await next();
    const tool = { name: 't', description: '', uri: 'http://127.0.0.1:9/mcp', toolType: 'custom', input_schema: {} };
    expect((await api.call('POST', '/api/v1/tools', { ...tool, namespace: 'new' })).status).toBe(201);
    expect(registryEvent.parse((await next()).data)).toMatchObject({ namespaces: ['new'], tools: ['new'] });
    const service = { name: 's', address: '127.0.0.1:9', serviceType: 'tool-invoker' };
    await api.call('POST', '/api/v1/services', service);
    await api.call('DELETE', '/api/v1/namespaces/new?cascade=true');
    const seen: object[] = [];
    // The two changes may be reported in one event or in two.
    for (const all = () => Object.assign({}, ...seen); !all().services || !all().namespaces; ) {
      seen.push(registryEvent.parse((await next()).data));
    }
    expect(Object.assign({}, ...seen)).toMatchObject({ services: ['s'], namespaces: ['new'] });
  });

  test('names at most 100 of many changed things', async () => {
    const { next } = await open('?topics=registry');
    await next();
    await commit(api.registry, (draft) => {
      for (let at = 0; at < 101; at++) draft.putService({ ...SERVICE, name: `s${at}`, registrationId: at });
    });
    const { services, truncated } = registryEvent.parse((await next()).data);
    expect([services?.length, truncated]).toEqual([100, true]);
  });
});

const SERVICE = {
  host: 'h',
  port: 1,
  serviceType: 'tool-invoker',
  serviceSubType: undefined,
  languageName: undefined,
  labels: {},
  id: undefined,
  unknown: undefined,
} as const;

describe('a client that reconnects', () => {
  test('continues after the last event that it has received', async () => {
    const first = await open();
    await first.next();
    fail('a');
    const { id } = await first.next();
    first.request.destroy();
    fail('b');
    api.stateEvents.publish('forwards', FORWARD);
    fail('c');
    const second = await open('', id);
    expect((await second.next()).type).toBe('forwards');
    expect([toolOf(await second.next()), toolOf(await second.next())]).toEqual(['b', 'c']);
  });

  test('continues where it was even if there were no events before', async () => {
    const first = await open();
    const { id } = await first.next();
    first.request.destroy();
    fail('a');
    expect(toolOf(await (await open('', id)).next())).toBe('a');
  });

  test('gets the number of missed events if there were too many', async () => {
    const first = await open();
    const { id } = await first.next();
    first.request.destroy();
    for (let at = 0; at < 1_005; at++) fail(`${at}`);
    const { next } = await open('', id);
    expect(await next()).toMatchObject({ type: 'missed', data: { topics: ['tool-calls'], count: 5 } });
    expect(toolOf(await next())).toBe('5');
  });

  test.for(['other.1.1', 'nonsense', ''])('gets a missed event for the id %j of another process', async (id) => {
    const { next } = await open('?topics=tool-calls', id);
    expect(await next()).toMatchObject({ type: 'missed', data: { topics: ['tool-calls'] } });
    fail('a');
    expect(toolOf(await next())).toBe('a');
  });
});

test('a client that does not read misses events and receives their number', async () => {
  const { response, next } = await open('?topics=tool-calls');
  const first = await next();
  response.pause();
  const content = contentOfTexts(['x'.repeat(16 * 1024)]);
  // More than the buffers between service and client hold.
  const SENT = 3_000;
  for (let sent = 0; sent < SENT; sent++) {
    begun(api.toolCalls, identity({ toolName: `${sent}` }), codeSummary(0)).completed(false, content);
    if (sent % 100 === 0) await new Promise(setImmediate);
  }
  let received = 0;
  let missed = 0;
  for (let last = ''; last !== `${SENT - 1} COMPLETED`; ) {
    const event = await next();
    if (event.type === 'missed') missed += Object(event.data).count;
    else {
      received++;
      const { toolName, eventType } = toolCallEvent.parse(event.data);
      last = `${toolName} ${eventType}`;
    }
  }
  expect(missed).toBeGreaterThan(0);
  expect(received + missed).toBe(2 * SENT);
  expect(first.id).toMatch(/\.0\.0$/);
});
