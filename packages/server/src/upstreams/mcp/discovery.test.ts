import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { FULL_CAPABILITIES, NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import type { Era } from '@sluice/protocol/mcp/constants';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { type DualEra, startDualEra } from '../../../../../test/fixtures/dual-era.ts';
import { type Everything, startEverything } from '../../../../../test/fixtures/everything.ts';
import { pagedTools, toolText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstreamOptions, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { createTransport } from '../../http/client/pool.ts';
import { discover } from './discovery.ts';
import { EraCache } from './era-detection.ts';
import type { RpcClientOptions } from './rpc-client.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const close of closers.splice(0).reverse()) await close();
});

function optionsFor(url: string, more: Partial<RpcClientOptions> = {}): RpcClientOptions {
  const transport = createTransport(url);
  closers.push(() => transport.destroy());
  return {
    transport,
    clientInfo: { name: 'sluice', version: '1.2.3' },
    capabilities: NO_CAPABILITIES,
    timeoutMs: 5_000,
    ...more,
  };
}

async function raw(options: RawUpstreamOptions) {
  const upstream = await startRawUpstream(options);
  closers.push(() => upstream.close());
  return upstream;
}

const eras: readonly Era[] = ['legacy', 'modern'];
const keys = (items: readonly { key: string }[]) => items.map(({ key }) => key);
const HINTS = '"resultType":"complete","ttlMs":0,"cacheScope":"private"';

describe('discover with real servers', () => {
  let everything: Everything;
  let dual: DualEra;
  beforeAll(async () => {
    [everything, dual] = await Promise.all([startEverything(), startDualEra()]);
  });
  afterAll(() => Promise.all([everything.close(), dual.close()]));

  it('reads the lists of the reference server, which depend on the capabilities of the client', async () => {
    const none = await discover(optionsFor(everything.url), 'legacy');
    const full = await discover(optionsFor(everything.url, { capabilities: FULL_CAPABILITIES }), 'legacy');
    expect(full.tools.length).toBeGreaterThan(none.tools.length);
    expect(keys(full.tools)).toEqual(expect.arrayContaining(keys(none.tools)));
    expect(none.resources.length).toBeGreaterThan(0);
    expect(none.templates.length).toBeGreaterThan(0);
    expect(none.prompts.length).toBeGreaterThan(0);
    expect(none.notes).toEqual([]);
    expect(none.key).not.toBe(full.key);
    expect(none.cache).toEqual({});
    expect(JSON.parse(none.identity)).toMatchObject({ protocolVersion: '2025-11-25' });
  });

  it.each(eras)('finds the same as the official client in the %s era', async (era) => {
    const found = await discover(optionsFor(dual.url), era);
    const client = new Client(
      { name: 'test', version: '1' },
      { versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' } },
    );
    await client.connect(new StreamableHTTPClientTransport(new URL(dual.url)));
    closers.push(() => client.close());
    const lists = await Promise.all([
      client.listTools(),
      client.listResources(),
      client.listResourceTemplates(),
      client.listPrompts(),
    ]);
    expect(keys(found.tools)).toEqual(lists[0].tools.map(({ name }) => name));
    expect(keys(found.resources)).toEqual(lists[1].resources.map(({ uri }) => uri));
    expect(keys(found.templates)).toEqual(lists[2].resourceTemplates.map(({ uriTemplate }) => uriTemplate));
    expect(keys(found.prompts)).toEqual(lists[3].prompts.map(({ name }) => name));
    if (era === 'modern') expect(found.cache['tools/list']).toEqual({ ttlMs: 60_000, cacheScope: 'public' });
  });

  it('uses the session opened by the probe and closes it', async () => {
    const before = dual.sessions();
    const options = optionsFor(dual.url);
    const { legacy } = await new EraCache(options, { hasLegacyClients: () => true }).probe();
    expect(dual.sessions()).toBe(before + 1);
    expect((await discover(options, 'legacy', legacy)).tools.length).toBeGreaterThan(0);
    await expect.poll(dual.sessions).toBe(before);
  });
});

describe('discover', () => {
  it.each(eras)('preserves the exact text of every item in the %s era', async (era) => {
    const tool =
      '{ "name" : "a\\u00e9", "inputSchema":{"type":"object","maximum":9223372036854775807},"x":[1.0, 1e2],"_meta":{"k":"]}"}}';
    const upstream = await raw({
      form: era === 'legacy' ? 'stream' : 'json',
      scripts: {
        'tools/list': `{"tools":[],"tools": [${tool} ,${toolText('b')}],${HINTS}}`,
        'resources/list': `{"resources":[{"uri":"x://1","name":"n"}],${HINTS}}`,
        'resources/templates/list': `{"resourceTemplates":[{"uriTemplate":"x://{id}","name":"n"}],${HINTS}}`,
        'prompts/list': `{"prompts":[{"name":"p","icons":[]}],${HINTS}}`,
      },
    });
    const found = await discover(optionsFor(upstream.url), era);
    expect(found.tools).toEqual([
      { key: 'aé', json: tool },
      { key: 'b', json: toolText('b') },
    ]);
    expect(found.resources).toEqual([{ key: 'x://1', json: '{"uri":"x://1","name":"n"}' }]);
    expect(found.templates).toEqual([{ key: 'x://{id}', json: '{"uriTemplate":"x://{id}","name":"n"}' }]);
    expect(found.prompts).toEqual([{ key: 'p', json: '{"name":"p","icons":[]}' }]);
    expect(found).toMatchObject({ era, notes: [] });
    for (const { headers } of upstream.seen) expect(headers['x-service-hops']).toBe('1');
  });

  it.each(eras)('reads 10,000 tools on 200 pages in order in the %s era', async (era) => {
    const upstream = await raw({ scripts: { 'tools/list': pagedTools(10_000, 50) } });
    const found = await discover(optionsFor(upstream.url), era);
    expect(upstream.count('tools/list')).toBe(200);
    expect(found.tools).toHaveLength(10_000);
    expect(found.tools[9_999]?.key).toBe('tool-9999');
    expect(found.tools[0]?.key).toBe('tool-0');
    expect(found.notes).toEqual([]);
  });

  it('stops at a repeated cursor and notes it', async () => {
    let page = 0;
    const upstream = await raw({
      scripts: {
        'tools/list': ({ params }) => {
          page++;
          const next = params.cursor === 'b' ? 'a' : params.cursor === 'a' ? 'b' : 'a';
          return `{"tools":[${toolText(`t${page}`)}],"nextCursor":"${next}",${HINTS}}`;
        },
      },
    });
    const found = await discover(optionsFor(upstream.url), 'legacy');
    expect(keys(found.tools)).toEqual(['t1', 't2', 't3']);
    expect(found.notes).toEqual(['tools/list: stopped after 3 pages at a repeated cursor']);
  });

  it('follows an empty cursor and ends at null', async () => {
    const upstream = await raw({
      scripts: {
        'tools/list': ({ params }) =>
          params.cursor === ''
            ? `{"tools":[${toolText('b')}],"nextCursor":null,${HINTS}}`
            : `{"tools":[${toolText('a')}],"nextCursor":"",${HINTS}}`,
      },
    });
    expect(keys((await discover(optionsFor(upstream.url), 'modern')).tools)).toEqual(['a', 'b']);
  });

  it('skips items without a key and repeated keys across pages, and counts them', async () => {
    const upstream = await raw({
      scripts: {
        'tools/list': ({ params }) =>
          params.cursor === undefined
            ? `{"tools":[${toolText('a')},{"description":"nameless"},{"name":""},{"name":7},null,"x"],"nextCursor":"2",${HINTS}}`
            : `{"tools":[${toolText('a', ',"title":"again"')},${toolText('b')}],${HINTS}}`,
        'resources/list': `{"resources":[{"name":"n"}],${HINTS}}`,
      },
    });
    const found = await discover(optionsFor(upstream.url), 'modern');
    expect(found.tools).toEqual([
      { key: 'a', json: toolText('a') },
      { key: 'b', json: toolText('b') },
    ]);
    expect(found.notes).toEqual([
      'tools/list: 5 entries without name skipped',
      'tools/list: 1 entry with a repeated name skipped',
      'resources/list: 1 entry without uri skipped',
    ]);
  });

  it('skips tools with invalid header declarations in the modern era only, and counts them', async () => {
    const bad =
      '{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}}';
    const good =
      '{"name":"good","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}';
    const upstream = await raw({ scripts: { 'tools/list': `{"tools":[${bad},${good}],${HINTS}}` } });
    const modern = await discover(optionsFor(upstream.url), 'modern');
    expect(keys(modern.tools)).toEqual(['good']);
    expect(modern.notes).toEqual([
      'tools/list: 1 entry left out: bad (x-mcp-header must be on a property of type string, integer or boolean)',
    ]);
    expect(keys((await discover(optionsFor(upstream.url), 'legacy')).tools)).toEqual(['bad', 'good']);
  });

  it('uses the least ttlMs and the strictest cacheScope of the pages', async () => {
    const hints = [
      '"ttlMs":9000,"cacheScope":"public"',
      '"ttlMs":500,"cacheScope":"private"',
      '"ttlMs":800,"cacheScope":"public"',
    ];
    const upstream = await raw({
      scripts: {
        'tools/list': ({ params }) => {
          const page = Number(params.cursor ?? 0);
          return `{"tools":[],${page < 2 ? `"nextCursor":"${page + 1}",` : ''}${hints[page]}}`;
        },
        'prompts/list': '{"prompts":[],"ttlMs":-5}',
      },
    });
    const { cache } = await discover(optionsFor(upstream.url), 'modern');
    expect(cache['tools/list']).toEqual({ ttlMs: 500, cacheScope: 'private' });
    expect(cache['prompts/list']).toEqual({ ttlMs: 0, cacheScope: 'private' });
  });

  it('treats -32601 as an empty list and requests only declared lists', async () => {
    const none = { kind: 'error', text: '{"code":-32601,"message":"Method not found"}' } as const;
    const initialize =
      '{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"x","version":"1"}}';
    const upstream = await raw({ scripts: { initialize, 'resources/templates/list': none, 'resources/list': none } });
    const found = await discover(optionsFor(upstream.url), 'legacy');
    expect(found).toMatchObject({ tools: [], resources: [], templates: [], prompts: [], notes: [] });
    expect(found.protocolVersion).toBe('2025-06-18');
    expect(upstream.count('prompts/list')).toBe(0);
    expect(upstream.seen.find(({ method }) => method === 'tools/list')?.headers['mcp-protocol-version']).toBe(
      '2025-06-18',
    );
  });

  it.each<[string, RawUpstreamOptions['scripts'], object]>([
    [
      'another JSON-RPC error',
      { 'prompts/list': { kind: 'error', text: '{"code":-32603,"message":"not\\navailable"}' } },
      {
        kind: 'rpc',
        code: -32603,
        message: expect.stringContaining('answered prompts/list with error -32603: not available'),
      },
    ],
    ['a result that is not a list', { 'tools/list': '{"tools":{}}' }, { kind: 'invalid' }],
    ['a result that is not an object', { 'tools/list': '[]' }, { kind: 'invalid' }],
    ['HTTP 503', { 'tools/list': { kind: 'http', status: 503, type: 'text/plain', body: '' } }, { kind: 'http' }],
    [
      'invalid JSON',
      { 'tools/list': { kind: 'http', status: 200, type: 'application/json', body: '{' } },
      { kind: 'invalid' },
    ],
    ['a broken stream', { 'tools/list': { kind: 'broken stream', bytes: 'data: {"json' } }, { kind: 'dropped' }],
  ])('fails as a whole on %s', async (_what, scripts, expected) => {
    for (const era of eras) {
      const upstream = await raw({ scripts: { ...scripts } });
      await expect(discover(optionsFor(upstream.url), era)).rejects.toMatchObject(expected);
      await expect.poll(upstream.sessions).toBe(0);
    }
  });

  it.each(eras)('fails as a whole on a timeout in the %s era', async (era) => {
    const upstream = await raw({ scripts: { 'tools/list': { kind: 'silence' } } });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const failed = expect(discover(optionsFor(upstream.url), era)).rejects.toMatchObject({ kind: 'timeout' });
    await expect.poll(() => upstream.count('tools/list')).toBe(1);
    vi.advanceTimersByTime(5_000);
    await failed;
    await expect.poll(upstream.sessions).toBe(0);
  });

  it('starts over once with a new session if the upstream has lost it', async () => {
    const upstream = await raw({ eras: ['legacy'] });
    let forgotten = 0;
    const list = pagedTools(6, 2);
    upstream.scripts['tools/list'] = (seen) => {
      if (forgotten === 0 && seen.params.cursor === '2') {
        forgotten++;
        upstream.forgetSessions();
      }
      return list(seen);
    };
    const found = await discover(optionsFor(upstream.url), 'legacy');
    expect(keys(found.tools)).toEqual(['tool-0', 'tool-1', 'tool-2', 'tool-3', 'tool-4', 'tool-5']);
    expect(upstream.count('initialize')).toBe(2);

    upstream.scripts['tools/list'] = (seen) => {
      upstream.forgetSessions();
      return list(seen);
    };
    await expect(discover(optionsFor(upstream.url), 'legacy')).rejects.toMatchObject({
      kind: 'session-lost',
      message: expect.stringMatching(
        / no longer knows the session: it answered \S+ with HTTP 404.*; if it runs as several instances, /,
      ),
    });
    expect(upstream.count('initialize')).toBe(4);
  });

  it('stops when it is aborted', async () => {
    const caller = new AbortController();
    let page = 0;
    const upstream = await raw({
      scripts: {
        'tools/list': () => {
          if (++page === 20) caller.abort();
          return `{"tools":[],"nextCursor":"${page}",${HINTS}}`;
        },
      },
    });
    await expect(discover(optionsFor(upstream.url, { signal: caller.signal }), 'modern')).rejects.toMatchObject({
      kind: 'aborted',
    });
  });
});

describe('an upstream without limits', () => {
  it('is rejected if its identity is too large', async () => {
    const identity = JSON.stringify({
      protocolVersion: '2025-11-25',
      capabilities: {},
      serverInfo: { name: 'n', version: '1' },
      instructions: 'x'.repeat(300_000),
    });
    const upstream = await raw({ scripts: { initialize: identity } });
    await expect(discover(optionsFor(upstream.url), 'legacy')).rejects.toMatchObject({ kind: 'too-large' });
  });

  it('is not read further after an abort, however many pages it has', async () => {
    const ended = new AbortController();
    let page = 0;
    const upstream = await raw({
      scripts: {
        'tools/list': () => {
          if (++page === 3) ended.abort();
          return `{"tools":[${toolText(`t${page}`)}],"nextCursor":"${page}"}`;
        },
      },
    });
    const reading = discover(optionsFor(upstream.url, { signal: ended.signal }), 'legacy');
    await expect(reading).rejects.toMatchObject({ kind: 'aborted' });
    expect(page).toBe(3);
  });
});
