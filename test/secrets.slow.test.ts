import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { legacyClient, modernClient, send } from './fixtures/raw-client.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';
import { type CallerResponse, callEverything } from './fixtures/secrets/calls.ts';
import { Canaries } from './fixtures/secrets/canaries.ts';
import { operateEverything } from './fixtures/secrets/operations.ts';
import { type Followed, followEvents, type Reading, readEverything, readFiles } from './fixtures/secrets/readings.ts';
import {
  disconnectDuringCalls,
  exchangeServerRequests,
  type ServerRequestSources,
} from './fixtures/secrets/server-requests.ts';
import { ERAS, startTestEnvironment, type TestEnvironment } from './fixtures/secrets/test-environment.ts';

/**
 * The owner of a secret determines where it may appear. A caller's secrets are invisible to everyone else: other
 * callers, operators, readers of the log. An operator's secrets in a record are visible in that record in the
 * management API and in the registry's files, and nowhere else.
 */
const HEADER_NAMES = /^name behind service_auth_ that becomes a header/;
/** In a caller's own responses: input to be repeated, and a snippet of unparsable input. */
const REPEATED = /^(progress token|malformed: |management: (incomplete|no JSON|unexpected token))/;
/** Lists of tools contain schemas as registered, for every client. */
const PUBLISHED = /^operator's value in the schema/;
/** Records of operators are stored unchanged. */
const REGISTERED = /^operator's /;

const canaries = new Canaries();
let environment: TestEnvironment;
let followed: Followed;
let own: readonly CallerResponse[];
let requested: ServerRequestSources;
let read: readonly Reading[];
let lists: readonly Reading[];
let files: readonly Reading[];
let session: string;

beforeAll(async () => {
  environment = await startTestEnvironment(canaries);
  const { gateway } = environment;
  followed = await followEvents(gateway);
  await vi.waitFor(async () => expect(await unprobed()).toEqual([]), { timeout: 20_000 });
  const responded = Promise.all([
    ...ERAS.map((era) => callEverything(gateway.url(), era, canaries)),
    operateEverything(gateway, canaries),
  ]);
  [requested, own] = await Promise.all([
    exchangeServerRequests(environment, canaries),
    responded.then((responses) => responses.flat()),
    disconnectDuringCalls(environment, canaries),
  ]);
  own = [...own, ...requested.answers];
  session = await useSession(gateway.url());
  read = await readEverything(gateway);
  lists = await readLists(gateway.url());
  await vi.waitFor(async () => expect(streamed()).toHaveLength(await countStoredEvents()), { timeout: 20_000 });
  files = await readFiles(gateway.folder);
  followed.close();
  expect(await gateway.stop()).toBe(0);
  await vi.waitFor(() => expect(gateway.logs.at(-1)).toMatchObject({ msg: 'stopped' }), { timeout: 20_000 });
  files = [...files, ...(await readFiles(gateway.folder))];
}, 120_000);
afterAll(async () => {
  followed.close();
  await environment.close();
});

/** Services whose health is still unknown. */
async function unprobed(): Promise<unknown[]> {
  const { body } = await environment.gateway.api('GET', '/api/v1/services');
  const { data } = parseObject(body);
  return Array.isArray(data) ? data.filter((entry) => parseObject(entry).health === 'pending') : [body];
}

/** Number of stored events. */
async function countStoredEvents(): Promise<number> {
  const { body } = await environment.gateway.api('GET', '/api/v1/tool-calls?limit=1000');
  const { data } = parseObject(body);
  return Array.isArray(data) ? data.length : 0;
}

/** The events sent on the stream. */
function streamed(): readonly Record<string, unknown>[] {
  return followed
    .text()
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => parseObject(line.slice('data: '.length)));
}

/** A session that calls, is changed and ends; returns its id, which is sufficient to act as its client. */
async function useSession(url: string): Promise<string> {
  const { call, headers } = await legacyClient(url);
  await call('tools/call', '{"name":"forwarded-responds","arguments":{}}');
  await call('tools/call', '{"name":"forwarded-invalid-response","arguments":{}}');
  await call('logging/setLevel', '{"level":"error"}');
  await send(url, 'DELETE', { ...headers });
  return String(headers['mcp-session-id']);
}

/** Output for another caller. */
async function readLists(url: string): Promise<Reading[]> {
  const clients = [await legacyClient(url), modernClient(url)];
  const methods = ['tools/list', 'resources/list', 'resources/templates/list', 'prompts/list'];
  const responses = clients.flatMap((client) =>
    methods.map(async (method) => ({ what: method, text: JSON.stringify(await client.call(method)) })),
  );
  return Promise.all(responses);
}

/** Canaries found where none may appear. */
function findLeaks(readings: readonly Reading[], but?: RegExp): string[] {
  return readings.flatMap(({ what, text }) => canaries.found(text, but).map((found) => `${what}: ${found}`));
}

/** The expected records, so that the scan is not empty. */
const EVENTS = [
  ...['mcp', 'grpc', 'code'].flatMap((transport) => [
    `${transport} STARTED`,
    `${transport} COMPLETED`,
    `${transport} FAILED SERVICE_UNAVAILABLE`,
  ]),
  'mcp COMPLETED, an error',
  'grpc COMPLETED, an error',
  'code FAILED EXECUTION_ERROR',
  'mcp FAILED UNKNOWN',
  'grpc FAILED UNKNOWN',
  'code FAILED UNKNOWN',
  'grpc FAILED TOOL_DEFINITION_ERROR',
  'grpc FAILED INVALID_ARGUMENTS',
  'code FAILED INVALID_ARGUMENTS',
];
const LOG_LINES = [
  'service listening',
  'service stopped',
  'service::mgmt::access request',
  'service::mcp::access request',
  ...['service::forward', 'service::bridge'].flatMap((target) => [
    `${target} tool call started`,
    `${target} tool call completed`,
    `${target} tool call failed`,
  ]),
  'service::forward call failed',
  'service::forward forward available',
  'service::forward forward unavailable',
  'service::bridge capability service is healthy',
  'service::bridge capability service is unhealthy',
  'service::bridge capability service is down',
  'service::bridge invalid execution status ignored',
];

it('produces every kind of record', () => {
  const events = streamed().map(({ transport, eventType, errorCategory, isError }) =>
    [transport, eventType, ...(errorCategory ? [errorCategory] : [])].join(' ').concat(isError ? ', an error' : ''),
  );
  expect(EVENTS.filter((each) => !events.includes(each))).toEqual([]);
  const lines = environment.gateway.logs;
  expect(LOG_LINES.filter((each) => !lines.some(({ target, msg }) => `${target} ${msg}` === each))).toEqual([]);
  expect(new Set(lines.map(({ level }) => level))).toEqual(new Set(['debug', 'info', 'warn']));
  expect(own.filter(({ text }) => text === '')).toEqual([]);
  expect(lists).toHaveLength(8);
  expect(files.map(({ what }) => what)).toContain('registry.json');
});

describe('a secret in every place that can contain one', () => {
  it('reaches the intended service or upstream, and no other', () => {
    expect(canaries.count).toBeGreaterThan(500);
    expect(canaries.misplaced(`${environment.received()}\n${requested.received}`)).toEqual([]);
  });

  it('is not in the log', () => {
    expect(canaries.found(environment.output())).toEqual([]);
  });

  it('is not in events', () => {
    const events = streamed();
    for (const { eventType, headers } of events) {
      const values = new Set(Object.values(parseObject(headers)));
      if (eventType === 'STARTED') expect([...values].filter((value) => value !== '[REDACTED]')).toEqual([]);
    }
    expect(findLeaks([{ what: 'the stream', text: followed.text() }], HEADER_NAMES)).toEqual([]);
    const others = events.map(({ headers, ...rest }) => ({ what: 'event', text: JSON.stringify(rest) }));
    expect(findLeaks(others)).toEqual([]);
  });

  it('appears in the management API only in the records of the operator who wrote it', () => {
    const events = read.filter(({ what }) => what.startsWith('GET /api/v1/tool-calls'));
    expect(events).toHaveLength(1);
    expect(findLeaks(events, HEADER_NAMES)).toEqual([]);
    const views = read.filter(({ what }) => what.startsWith('GET /api/v1/namespaces/default/view'));
    expect(views).toHaveLength(1);
    expect(findLeaks(views, PUBLISHED)).toEqual([]);
    expect(findLeaks(read.filter((reading) => ![...events, ...views].includes(reading)))).toEqual([]);
  });

  it('does not appear in output for other callers', () => {
    expect(findLeaks(lists, PUBLISHED)).toEqual([]);
  });

  it('is not repeated to its own caller', () => {
    expect(findLeaks(own, REPEATED)).toEqual([]);
  });

  it('appears in no file except operator records in the registry', () => {
    const registryFiles = files.filter(({ what }) => /^registry\b/.test(what));
    expect(findLeaks(registryFiles, REGISTERED)).toEqual([]);
    expect(findLeaks(files.filter((file) => !registryFiles.includes(file)))).toEqual([]);
  });
});

it('reveals the id of a session to its client only', () => {
  expect(session.length).toBeGreaterThan(20);
  const shown = [environment.output(), followed.text(), ...[...read, ...lists, ...files].map(({ text }) => text)];
  expect(shown.filter((text) => text.includes(session))).toEqual([]);
  expect(files.map(({ what }) => what)).toContain('records.snapshot');
});
