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
import { type UpstreamTransport } from '../../../http/client/client.ts';
import { createTransport } from '../../../http/client/pool.ts';
import { createLogger, type TargetLogger } from '../../../telemetry/log.ts';
import { ListChangeWatcher, type ProbedClients, type WatchOptions } from './catalog-watch.ts';

const WAIT = { timeout: 10_000, interval: 5 };
const LISTEN = 'subscriptions/listen';
const NOTICE = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
const ANNOUNCING = { serverCapabilities: { tools: { listChanged: true } }, protocolVersion: '2026-07-28' };
const SILENT = { serverCapabilities: { tools: {}, prompts: { listChanged: false } }, protocolVersion: '2026-07-28' };
const REFUSAL = { kind: 'error', status: 404, text: '{"code":-32601,"message":"no"}' } as const;

/** The acknowledgement of a `subscriptions/listen`. */
function acknowledged(notifications: ListenFilter): string {
  const params = JSON.stringify({ notifications });
  return `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":${params}}`;
}

/** A log that also tells what is for debugging. */
function logTo(write: (line: string) => void): TargetLogger {
  return createLogger({ ...DEFAULT_LOG_FILTER, 'service::forward': 'debug' }, write).target('service::forward');
}

let upstream: RawUpstream;
let transport: UpstreamTransport;
let watch: ListChangeWatcher;
const changed = vi.fn();

async function start(options: RawUpstreamOptions = {}, more: Partial<WatchOptions> = {}): Promise<void> {
  upstream = await startRawUpstream(options);
  transport = createTransport(upstream.url);
  let id = 0;
  const times = { delays: { firstMs: 10 }, readyMs: 10_000 };
  const nextId = () => ++id;
  const log = logTo(() => undefined);
  watch = new ListChangeWatcher({ transport, clientInfo: { name: 'us' }, nextId, changed, log, ...times, ...more });
}
beforeEach(() => changed.mockReset());
afterEach(async () => {
  watch.end();
  await transport.destroy();
  await upstream.close();
});

const gets = () => upstream.seen.filter(({ http }) => http === 'GET').length;
const deletes = () => upstream.seen.filter(({ http }) => http === 'DELETE').length;

describe.each([
  ['modern', { legacy: ANNOUNCING, modern: ANNOUNCING }],
  ['legacy', { legacy: ANNOUNCING, modern: SILENT }],
] as const)('a watch of an upstream that announces changes in the %s era', (era, spoken) => {
  it('hears each notice from the moment that it is ready', async () => {
    await start();
    await watch.follow(spoken);
    expect([gets(), upstream.count(LISTEN)]).toEqual(era === 'legacy' ? [1, 0] : [0, 1]);
    expect(changed).not.toHaveBeenCalled();
    upstream.push(NOTICE);
    upstream.push(NOTICE.replace('tools', 'prompts'));
    upstream.push(NOTICE.replace('tools', 'resources'));
    upstream.push('{"jsonrpc":"2.0","method":"notifications/message","params":{}}');
    upstream.push(NOTICE);
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(4);
  });

  it('goes on as it is when there is nothing new, and begins anew when there is', async () => {
    await start();
    await watch.follow(spoken);
    const seen = upstream.seen.length;
    await watch.follow(spoken);
    expect(upstream.seen).toHaveLength(seen);
    const more = { ...ANNOUNCING, serverCapabilities: { prompts: { listChanged: true } } };
    await watch.follow({ modern: more });
    expect(upstream.count(LISTEN)).toBe(era === 'legacy' ? 1 : 2);
    expect(upstream.seen.at(-1)?.params.notifications ?? upstream.seen.at(-2)?.params.notifications).toEqual({
      promptsListChanged: true,
    });
    await expect.poll(() => [upstream.streams(), upstream.sessions()], WAIT).toEqual([1, 0]);
  });

  it('takes a stream that was interrupted for a change', async () => {
    await start();
    await watch.follow(spoken);
    upstream.endStreams();
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
    upstream.push(NOTICE);
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(2);
  });

  it('comes back by itself after a restart of the upstream', async () => {
    await start();
    await watch.follow(spoken);
    await upstream.down();
    await upstream.up();
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
    expect(upstream.streams()).toBe(1);
    expect(upstream.sessions()).toBe(era === 'legacy' ? 1 : 0);
  });

  it('leaves nothing open upstream while it pauses, and is heard again after that', async () => {
    await start();
    await watch.follow(spoken);
    watch.pause();
    expect(watch.paused).toBe(true);
    await expect.poll(() => [upstream.streams(), upstream.sessions()], WAIT).toEqual([0, 0]);
    await watch.follow(spoken);
    expect(watch.paused).toBe(false);
    upstream.push(NOTICE);
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
    watch.end();
    await expect.poll(() => [upstream.streams(), upstream.sessions()], WAIT).toEqual([0, 0]);
    const seen = upstream.seen.length;
    await watch.follow(spoken);
    expect(upstream.seen).toHaveLength(seen);
  });

  it('is not waited for when it takes long, and is a change when it comes', async () => {
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
    await watch.follow(spoken);
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
  const complete = createTransport(dual.url);
  const listener = new ListChangeWatcher({
    transport: complete,
    clientInfo: { name: 'us', version: '1' },
    nextId: () => 1,
    changed,
    log: logTo(() => undefined),
    readyMs: 10_000,
  });
  await listener.follow(spoken);
  dual.addTool('added');
  await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
  listener.end();
  await expect.poll(() => dual.sessions(), WAIT).toBe(0);
  await complete.close();
  await dual.close();
});

it('an upstream that announces nothing is left in peace', async () => {
  await start();
  await watch.follow({ legacy: SILENT, modern: SILENT });
  expect(watch.paused).toBe(false);
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
  await watch.follow(spoken);
  expect([gets(), upstream.count(LISTEN)]).toEqual([1, 1]);
  expect(changed).not.toHaveBeenCalled();
  upstream.push(NOTICE);
  await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
  await watch.follow(spoken);
  expect([gets(), upstream.count(LISTEN)]).toEqual([1, 1]);
});

it('an upstream that refuses everything is not asked again', async () => {
  await start({ scripts: { [LISTEN]: REFUSAL, GET: { kind: 'http', status: 405, type: 'text/plain', body: '' } } });
  await watch.follow({ legacy: ANNOUNCING, modern: ANNOUNCING });
  await expect.poll(deletes, WAIT).toBe(1);
  await transport.close();
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
    await watch.follow(spoken, true);
    await expect.poll(() => lines.length, WAIT).toBe(1);
    delete upstream.scripts.GET;
    delete upstream.scripts[LISTEN];
    const seen = upstream.seen.length;
    await watch.follow(spoken);
    expect(upstream.seen).toHaveLength(seen);
    await watch.follow(spoken, true);
    upstream.push(NOTICE);
    await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
    // One that is watched goes on.
    const watched = upstream.seen.length;
    await watch.follow(spoken, true);
    expect(upstream.seen).toHaveLength(watched);
  },
);

it('a session that the upstream forgets is opened anew, which is a change', async () => {
  await start({ eras: ['legacy'] });
  await watch.follow({ legacy: ANNOUNCING });
  upstream.forgetSessions();
  upstream.endStreams();
  await expect.poll(() => changed.mock.calls.length, WAIT).toBe(1);
  expect([upstream.streams(), upstream.sessions()]).toEqual([1, 1]);
});

it('an upstream that says 404 for the stream is not taken for one that forgets sessions', async () => {
  await start({ eras: ['legacy'], scripts: { GET: { kind: 'http', status: 404, type: 'text/plain', body: '' } } });
  await watch.follow({ legacy: ANNOUNCING });
  await expect.poll(deletes, WAIT).toBe(2);
  await transport.close();
  expect([gets(), upstream.count('initialize'), upstream.sessions()]).toEqual([2, 2, 0]);
});

it('requests of the upstream are answered, in the session', async () => {
  await start({ eras: ['legacy'] });
  await watch.follow({ legacy: ANNOUNCING });
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
