import type { ListenFilter } from '@sluice/protocol/mcp/subscriptions';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { startDualEra } from '../../../../../../test/fixtures/dual-era.ts';
import { initialized } from '../../../../../../test/fixtures/raw-upstream/built-in.ts';
import { event } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import {
  type RawUpstream,
  type RawUpstreamOptions,
  startRawUpstream,
} from '../../../../../../test/fixtures/raw-upstream.ts';
import { DEFAULT_LOG_FILTER } from '../../../app/config/environment.ts';
import { createLogger, type TargetLogger } from '../../../telemetry/log.ts';
import { Upstream } from '../upstream.ts';
import { ListChangeWatcher, type ListChangeWatcherOptions, type ProbedClients } from './list-change-watcher.ts';

const WAIT = { timeout: 10_000, interval: 5 };
const LISTEN = 'subscriptions/listen';
const NOTICE = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
const ANNOUNCING = { serverCapabilities: { tools: { listChanged: true } }, protocolVersion: '2026-07-28' };
const SILENT = { serverCapabilities: { tools: {}, prompts: { listChanged: false } }, protocolVersion: '2026-07-28' };
const REFUSAL = { kind: 'error', status: 404, text: '{"code":-32601,"message":"no"}' } as const;

/** The acknowledgment of a `subscriptions/listen`. */
function acknowledged(notifications: ListenFilter): string {
  const params = JSON.stringify({ notifications });
  return `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":${params}}`;
}

/** A log with level debug. */
function logTo(write: (line: string) => void): TargetLogger {
  return createLogger({ ...DEFAULT_LOG_FILTER, 'service::forward': 'debug' }, write).target('service::forward');
}

let upstream: RawUpstream;
let server: Upstream;
let watch: ListChangeWatcher;
const changed = vi.fn();

function observed(url: string): Upstream {
  const observed = new Upstream(url);
  observed.changed.subscribe((event) => {
    if (event.kind === 'lists') changed(event.method);
  });
  return observed;
}

async function start(options: RawUpstreamOptions = {}, more: Partial<ListChangeWatcherOptions> = {}): Promise<void> {
  upstream = await startRawUpstream(options);
  server = observed(upstream.url);
  watch = new ListChangeWatcher({
    upstream: server,
    clientInfo: { name: 'us' },
    log: logTo(() => undefined),
    delays: { firstMs: 10 },
    readyMs: 10_000,
    ...more,
  });
}
beforeEach(() => changed.mockReset());
afterEach(async () => {
  watch.close();
  await server.close(0);
  await upstream.close();
});

const gets = () => upstream.seen.filter(({ http }) => http === 'GET').length;
const deletes = () => upstream.seen.filter(({ http }) => http === 'DELETE').length;

describe.each([
  ['modern', { legacy: ANNOUNCING, modern: ANNOUNCING }],
  ['legacy', { legacy: ANNOUNCING, modern: SILENT }],
] as const)('a watch of an upstream that announces changes in the %s era', (era, spoken) => {
  it('gets every notification once it is ready', async () => {
    await start();
    await watch.watch(spoken);
    expect([gets(), upstream.count(LISTEN)]).toEqual(era === 'legacy' ? [1, 0] : [0, 1]);
    expect(changed).not.toHaveBeenCalled();
    upstream.push(NOTICE);
    upstream.push(NOTICE.replace('tools', 'prompts'));
    upstream.push(NOTICE.replace('tools', 'resources'));
    upstream.push('{"jsonrpc":"2.0","method":"notifications/message","params":{}}');
    upstream.push(NOTICE);
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(4);
  });

  it('continues with the same targets and restarts with others', async () => {
    await start();
    await watch.watch(spoken);
    const seen = upstream.seen.length;
    await watch.watch(spoken);
    expect(upstream.seen).toHaveLength(seen);
    const more = { ...ANNOUNCING, serverCapabilities: { prompts: { listChanged: true } } };
    await watch.watch({ modern: more });
    expect(upstream.count(LISTEN)).toBe(era === 'legacy' ? 1 : 2);
    expect(upstream.seen.at(-1)?.params.notifications ?? upstream.seen.at(-2)?.params.notifications).toEqual({
      promptsListChanged: true,
    });
    await expect.poll(() => [upstream.streams(), upstream.sessions()], WAIT).toEqual([1, 0]);
  });

  it('reports a change after an interruption', async () => {
    await start();
    await watch.watch(spoken);
    upstream.endStreams();
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
    upstream.push(NOTICE);
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(2);
  });

  it('reconnects after a restart of the upstream', async () => {
    await start();
    await watch.watch(spoken);
    await upstream.down();
    await upstream.up();
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
    expect(upstream.streams()).toBe(1);
    expect(upstream.sessions()).toBe(era === 'legacy' ? 1 : 0);
  });

  it('has nothing open upstream while paused and continues afterwards', async () => {
    await start();
    await watch.watch(spoken);
    watch.pause();
    await expect.poll(() => [upstream.streams(), upstream.sessions()], WAIT).toEqual([0, 0]);
    await watch.watch(spoken);
    upstream.push(NOTICE);
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
    watch.close();
    await expect.poll(() => [upstream.streams(), upstream.sessions()], WAIT).toEqual([0, 0]);
    const seen = upstream.seen.length;
    await watch.watch(spoken);
    expect(upstream.seen).toHaveLength(seen);
  });

  it('is not waited for beyond the timeout, and counts as a change once it is open', async () => {
    const late = Promise.withResolvers<void>();
    const granted = event(acknowledged({ toolsListChanged: true }));
    const scripts: RawUpstreamOptions['scripts'] = {
      initialize: async (seen) => {
        await late.promise;
        return initialized(seen);
      },
      [LISTEN]: async () => {
        await late.promise;
        return { kind: 'http', status: 200, type: 'text/event-stream', body: granted };
      },
    };
    await start({ scripts }, { readyMs: 20, delays: { firstMs: 600_000 } });
    await watch.watch(spoken);
    expect(changed).not.toHaveBeenCalled();
    late.resolve();
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
  });
});

it.each([
  ['modern', { modern: ANNOUNCING }],
  ['legacy', { legacy: ANNOUNCING }],
])('a complete server is heard in the %s era', async (_era, spoken) => {
  const dual = await startDualEra();
  await start();
  const complete = observed(dual.url);
  const listener = new ListChangeWatcher({
    upstream: complete,
    clientInfo: { name: 'us', version: '1' },
    log: logTo(() => undefined),
    readyMs: 10_000,
  });
  await listener.watch(spoken);
  dual.addTool('added');
  await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
  listener.close();
  await expect.poll(() => dual.sessions(), WAIT).toBe(0);
  await complete.close();
  await dual.close();
});

it('an upstream that declares no changes is not watched', async () => {
  await start();
  await watch.watch({ legacy: SILENT, modern: SILENT });
  expect(upstream.seen).toEqual([]);
});

it.each([
  ['refuses to be listened to', REFUSAL],
  ['grants nothing', { kind: 'http', status: 200, type: 'text/event-stream', body: event(acknowledged({})) }],
] as const)('an upstream that %s is watched in the legacy era', async (_name, answer) => {
  const granted = '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}';
  const script = answer.kind === 'http' ? { ...answer, body: answer.body.replace('$granted', granted) } : answer;
  await start({ scripts: { [LISTEN]: script } });
  const spoken: ProbedClients = { legacy: ANNOUNCING, modern: ANNOUNCING };
  await watch.watch(spoken);
  expect([gets(), upstream.count(LISTEN)]).toEqual([1, 1]);
  expect(changed).not.toHaveBeenCalled();
  upstream.push(NOTICE);
  await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
  await watch.watch(spoken);
  expect([gets(), upstream.count(LISTEN)]).toEqual([1, 1]);
});

it('an upstream that rejects everything is not retried', async () => {
  await start({ scripts: { [LISTEN]: REFUSAL, GET: { kind: 'http', status: 405, type: 'text/plain', body: '' } } });
  await watch.watch({ legacy: ANNOUNCING, modern: ANNOUNCING });
  await expect.poll(deletes, WAIT).toBe(1);
  await server.transport.close();
  expect([gets(), upstream.count(LISTEN), upstream.sessions()]).toEqual([1, 1, 0]);
  expect(changed).not.toHaveBeenCalled();
});

it.each(['modern', 'legacy'])(
  'an upstream that has refused everything is asked again by a run that probes it, in the %s era',
  async (era) => {
    const lines: string[] = [];
    const log = logTo((line) => void lines.push(line));
    await start(
      { scripts: { [LISTEN]: REFUSAL, GET: { kind: 'http', status: 405, type: 'text/plain', body: '' } } },
      { log },
    );
    const spoken: ProbedClients = era === 'modern' ? { modern: ANNOUNCING } : { legacy: ANNOUNCING };
    await watch.watch(spoken, true);
    await expect.poll(() => lines.length, WAIT).toBe(1);
    delete upstream.scripts.GET;
    delete upstream.scripts[LISTEN];
    const seen = upstream.seen.length;
    await watch.watch(spoken);
    expect(upstream.seen).toHaveLength(seen);
    await watch.watch(spoken, true);
    upstream.push(NOTICE);
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
    // An active watch continues.
    const watched = upstream.seen.length;
    await watch.watch(spoken, true);
    expect(upstream.seen).toHaveLength(watched);
  },
);

it('a lost session is replaced, which counts as a change', async () => {
  await start({ eras: ['legacy'] });
  await watch.watch({ legacy: ANNOUNCING });
  upstream.forgetSessions();
  upstream.endStreams();
  await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
  expect([upstream.streams(), upstream.sessions()]).toEqual([1, 1]);
});

it.each([
  ['an error', { kind: 'error', text: '{"code":-32000,"message":"too many sessions"}' }],
  ['HTTP 400', { kind: 'http', status: 400, type: 'text/plain', body: 'no' }],
  ['an invalid result', '{}'],
] as const)(
  'a session that the upstream rejects with %s is opened later, which counts as a change',
  async (_name, answer) => {
    await start({ eras: ['legacy'], scripts: { initialize: answer } });
    await watch.watch({ legacy: ANNOUNCING });
    await expect.poll(() => upstream.count('initialize'), WAIT).toBeGreaterThan(2);
    expect(changed).not.toHaveBeenCalled();
    delete upstream.scripts.initialize;
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
    upstream.push(NOTICE);
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(2);
    expect(upstream.streams()).toBe(1);
  },
);

it('an upstream that answers the stream with 404 is not taken for one that loses sessions', async () => {
  await start({ eras: ['legacy'], scripts: { GET: { kind: 'http', status: 404, type: 'text/plain', body: '' } } });
  await watch.watch({ legacy: ANNOUNCING });
  await expect.poll(deletes, WAIT).toBe(1);
  await server.transport.close();
  expect([gets(), upstream.count('initialize'), upstream.count('ping'), upstream.sessions()]).toEqual([1, 1, 1, 0]);
});

it('server requests are answered in the session', async () => {
  await start({ eras: ['legacy'] });
  await watch.watch({ legacy: ANNOUNCING });
  upstream.push('{"jsonrpc":"2.0","id":1.0,"method":"ping"}');
  upstream.push('{"jsonrpc":"2.0","id":"é","method":"roots/list"}');
  upstream.push('{"jsonrpc":"2.0","id":3,"result":{}}');
  const answers = () => upstream.seen.filter(({ http, method }) => http === 'POST' && method === undefined);
  await expect.poll(() => answers().length, WAIT).toBe(2);
  const bodies = answers()
    .map(({ body }) => body)
    .sort();
  expect(bodies[1]).toBe('{"jsonrpc":"2.0","id":1.0,"result":{}}');
  expect(bodies[0]).toContain('"id":"é","error":{"code":-32601');
  expect(answers().every(({ session }) => session !== undefined)).toBe(true);
  expect(changed).not.toHaveBeenCalled();
});
