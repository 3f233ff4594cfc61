import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { listen } from '../../../../../test/fixtures/http-server.ts';
import { reply } from '../../../../../test/fixtures/raw-client.ts';
import type { Era } from '../../../../../test/fixtures/raw-upstream/message.ts';
import { LIST_END, textResultText, toolList, toolText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { client } from '../../../testing/relay.ts';
import { startTestService } from '../../../testing/service.ts';
import { DEFAULT_NAMESPACE } from '../../registry/entries.ts';
import { openMcpController } from '../fixtures/mcp-controller.ts';

const WAIT = { timeout: 30_000, interval: 50 };
const closers: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const close of closers.splice(0).reverse()) await close();
});

const NOTICE = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';

/** A raw upstream with tools, which declares `listChanged` in these eras. */
async function startRaw(eras: readonly Era[], announcing: readonly Era[] = []) {
  const tools = (era: Era) => `{"tools":{${announcing.includes(era) ? '"listChanged":true' : ''}}}`;
  const upstream = await startRawUpstream({
    eras,
    scripts: {
      initialize: ({ params }) =>
        `{"protocolVersion":"${params.protocolVersion}","capabilities":${tools('legacy')},"serverInfo":{"name":"r","version":"1"}}`,
      'server/discover': `{"supportedVersions":["2026-07-28"],"capabilities":${tools('modern')},${LIST_END}`,
      'tools/list': toolList(toolText('first')),
      'tools/call': textResultText('called'),
    },
  });
  closers.push(() => upstream.close());
  return upstream;
}

/** A server of the official SDK without sessions, which has the named tools. */
async function startStateless(names: Set<string>): Promise<string> {
  const server = createServer(async (request, response) => {
    const mcp = new McpServer({ name: 'stateless', version: '1' });
    for (const name of names) mcp.registerTool(name, {}, () => ({ content: [{ type: 'text', text: 'called' }] }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
    response.on('close', () => void transport.close());
    await mcp.connect(transport);
    if (request.method === 'GET') return void response.writeHead(405).end();
    await transport.handleRequest(request, response);
  });
  const port = await listen(server, 0);
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${port}/mcp`;
}

async function startController(address: string, healthCheckIntervalMs = 0) {
  const opened = await openMcpController(address, { healthCheckIntervalMs, watch: { readyMs: 10_000 } });
  closers.push(opened.close);
  const { registry, controller } = opened;
  const reported: string[] = [];
  controller.availability.changed.subscribe(({ kind }) => reported.push(kind));
  const has = (tool: string) => registry.current.namespace(DEFAULT_NAMESPACE)?.indexes.tool.served(tool) !== undefined;
  return { ...opened, reported, has };
}

/** Lets time pass until the condition is true; the limit is in milliseconds. */
async function passUntil(condition: () => boolean, limitMs: number): Promise<boolean> {
  for (let passed = 0; !condition() && passed < limitMs; passed += 50) {
    await vi.advanceTimersByTimeAsync(50);
    for (let turn = 0; turn < 20; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
  }
  return condition();
}

function fakeTime(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
}

describe('lists of an upstream that does not announce changes', () => {
  it.each<Era>(['legacy', 'modern'])(
    'are read with each health check; unchanged, that changes nothing (%s)',
    async (era) => {
      fakeTime();
      const upstream = await startRaw([era]);
      const { controller, registry, reported, has, health } = await startController(upstream.url, 30_000);
      await controller.discover();
      const changes = vi.fn();
      registry.committed.subscribe(changes);
      const before = [...reported];
      expect(await passUntil(() => upstream.count('tools/list') >= 4, 95_000)).toBe(true);
      expect([reported, changes.mock.calls.length]).toEqual([before, 0]);
      // A restart with other tools, which no session and no stream shows.
      await upstream.down();
      await upstream.up();
      upstream.scripts['tools/list'] = toolList(toolText('second'));
      expect(await passUntil(() => has('second'), 31_000)).toBe(true);
      expect(health()).toEqual({ kind: 'up', message: undefined });
    },
  );

  it('are read again for a name that is not found, once in 5 s for all', async () => {
    fakeTime();
    const upstream = await startRaw(['legacy']);
    const { controller } = await startController(upstream.url);
    await controller.discover();
    expect(controller.reread('tools')).toBeUndefined();
    await vi.advanceTimersByTimeAsync(5_000);
    // It has no prompts.
    expect(controller.reread('prompts')).toBeUndefined();
    await Promise.all([controller.reread('tools'), controller.reread('tools'), controller.reread()]);
    expect(upstream.count('tools/list')).toBe(2);
    expect(controller.reread('tools')).toBeUndefined();
  });

  it('are watched in the legacy era if that announces changes', async () => {
    fakeTime();
    const upstream = await startRaw(['legacy', 'modern'], ['legacy']);
    const { controller, has } = await startController(upstream.url);
    await controller.discover();
    expect(upstream.streams()).toBe(1);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(controller.reread('tools')).toBeUndefined();
    upstream.scripts['tools/list'] = toolList(toolText('second'));
    upstream.push(NOTICE);
    expect(await passUntil(() => has('second'), 1_000)).toBe(true);
  });
});

describe('a lost session leads to a discovery', () => {
  it('that a health check has lost', async () => {
    fakeTime();
    const upstream = await startRaw(['legacy'], ['legacy']);
    const { controller, has } = await startController(upstream.url, 30_000);
    await controller.discover();
    await passUntil(() => upstream.count('ping') > 0, 31_000);
    upstream.scripts['tools/list'] = toolList(toolText('second'));
    upstream.forgetSessions();
    expect(await passUntil(() => has('second'), 31_000)).toBe(true);
  });

  it('at most once in 5 s', async () => {
    fakeTime();
    const upstream = await startRaw(['legacy'], ['legacy']);
    const { controller, connection } = await startController(upstream.url);
    await controller.discover();
    for (let round = 0; round < 40; round++) {
      connection.mcpUpstream.changed.emit({ kind: 'session-lost' });
      await passUntil(() => false, 500);
    }
    expect(upstream.count('tools/list')).toBeLessThanOrEqual(6);
    expect(upstream.count('tools/list')).toBeGreaterThanOrEqual(4);
  });
});

it('a new tool can be called soon, without health checks', async () => {
  const service = await startTestService();
  closers.push(() => service.stop(0));
  const names = new Set(['first']);
  const upstreams = {
    stateless: { address: await startStateless(names), change: () => void names.add('second') },
    legacy: await changeable(['legacy']),
    modern: await changeable(['modern']),
    // Announced changes are not sent; the session is lost.
    restarted: await changeable(['legacy'], ['legacy'], true),
  };
  const cases = Object.entries(upstreams);
  for (const [name, { address }] of cases) {
    await service.register('forwards', { name, address, namespace: name, expose: { tools: { deny: ['hidden'] } } });
  }
  const clients = new Map<string, Awaited<ReturnType<typeof client>>>();
  for (const [name] of cases) clients.set(name, await client('legacy', service.url(name)));
  const call = async (name: string, tool: string) =>
    reply((await clients.get(name)?.call('tools/call', `{"name":"${tool}"}`)) ?? { status: 0, headers: {}, text: '' });
  for (const [name, { change }] of cases) {
    expect(await call(name, 'first')).toContain('called');
    change();
  }
  await Promise.all(
    cases.map(async ([name]) => {
      if (name === 'restarted') expect(await call(name, 'first')).toContain('called');
      await expect.poll(() => call(name, 'second'), WAIT).toContain('called');
      // What is hidden is answered like what does not exist.
      const [hidden, unknown] = [await call(name, 'hidden'), await call(name, 'none')];
      expect(hidden).toContain('tool not found: hidden');
      expect(unknown).toContain('tool not found: none');
    }),
  );
});

async function changeable(eras: readonly Era[], announcing: readonly Era[] = [], losesSessions = false) {
  const upstream = await startRaw(eras, announcing);
  const change = () => {
    upstream.scripts['tools/list'] = toolList(toolText('first'), toolText('second'), toolText('hidden'));
    if (losesSessions) upstream.forgetSessions();
  };
  return { address: upstream.url, change };
}
