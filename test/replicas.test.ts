import type { Replica } from '@sluice/contract';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { InteractiveClient } from '../packages/server/testing/interactive-client.ts';
import { rpc } from '../packages/server/testing/listener.ts';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { sessionClient } from '../packages/server/testing/session-client.ts';
import { post } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { type Replicas, startReplicas } from './fixtures/replicas.ts';

/** Less than the time for which a miss is checked. */
const RECHECK_MS = 200;

let postgres: TestPostgres;
let upstream: RawUpstream;
let replicas: Replicas;

beforeAll(async () => {
  postgres = await startPostgres();
  upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('known')), 'tools/call': textResultText('done') },
  });
  replicas = await startReplicas(await postgres.createDatabase());
});

afterAll(async () => {
  await replicas[Symbol.asyncDispose]();
  await upstream.close();
  await postgres[Symbol.asyncDispose]();
});

async function manage(method: string, path: string, body?: object) {
  const response = await fetch(`${replicas.management.url}/api/v1${path}`, {
    method,
    ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  return { status: response.status, headers: response.headers, body: JSON.parse(await response.text()) };
}

/** A legacy upstream that answers `initialize` only after the gate has opened. */
async function startGated(gate: Promise<void>): Promise<RawUpstream & AsyncDisposable> {
  const gated = await startRawUpstream({
    eras: ['legacy'],
    scripts: {
      initialize: async () => {
        await gate;
        return '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"g","version":"1"}}';
      },
      'tools/list': toolList(toolText('late')),
    },
  });
  return Object.assign(gated, { [Symbol.asyncDispose]: () => gated.close() });
}

/** Another upstream with the same tool. */
async function startMoved(): Promise<RawUpstream & AsyncDisposable> {
  const moved = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('known')), 'tools/call': textResultText('moved') },
  });
  return Object.assign(moved, { [Symbol.asyncDispose]: () => moved.close() });
}

/** A service with a registry of its own, which knows legacy clients as the replicas do. */
async function startAlone(): Promise<TestService & AsyncDisposable> {
  const service = await startTestService();
  await post(service.url(), rpc('ping'));
  return { ...service, [Symbol.asyncDispose]: () => service.stop(0) };
}

/** Sends a request, again if the database may not have been asked within the time that a miss is checked for. */
async function postOnTime(url: string, body: string) {
  for (;;) {
    const sentAt = performance.now();
    const response = await post(url, body);
    if (performance.now() - sentAt < RECHECK_MS) return response;
  }
}

describe('behind a balancer', () => {
  test('a management request sees every earlier one', async () => {
    for (let at = 0; at < 10; at++) {
      expect((await manage('POST', '/namespaces', { name: `n${at}` })).status).toBe(201);
      expect((await manage('GET', `/namespaces/n${at}`)).status).toBe(200);
      expect((await manage('POST', '/namespaces', { name: `n${at}`, labels: {} })).status).toBe(200);
      expect((await manage('DELETE', `/namespaces/n${at}`)).status).toBe(200);
      expect((await manage('GET', `/namespaces/n${at}`)).status).toBe(404);
    }
  });

  test('an MCP request finds what was registered before it', async () => {
    for (let at = 0; at < 6; at++) {
      await manage('POST', '/namespaces', { name: `m${at}` });
      const listed = await postOnTime(`${replicas.mcp.url}/m${at}/mcp`, rpc('tools/list'));
      expect(listed.status).toBe(200);
      const prompt = { name: 'p', namespace: `m${at}`, description: '', content: 'hello' };
      expect((await manage('POST', '/prompts', prompt)).body).toMatchObject({ error: null });
      const got = await postOnTime(`${replicas.mcp.url}/m${at}/mcp`, rpc('prompts/get', { name: 'p' }));
      expect(JSON.parse(got.text)).toHaveProperty('result');
    }
  });

  test('of two states that two replicas apply at once, one is applied on all, and the other is a conflict', async () => {
    const tool = { description: '', uri: 'u', toolType: 'custom', input_schema: {}, namespace: 'states' };
    const stateOf = (description: string) => ({
      tools: ['left', 'right'].map((name) => ({ ...tool, name, description })),
    });
    const stateUrl = ({ management }: TestService, query = '') => `${management}/api/v1/state${query}`;
    const put = (url: string, state: object, etag = '*') =>
      fetch(url, {
        method: 'PUT',
        body: JSON.stringify(state),
        headers: { 'content-type': 'application/json', 'if-match': etag },
      });
    const described = async (service: TestService) =>
      ((await service.manage('GET', '/tools?namespace=states')).data as { description: string }[]).map(
        ({ description }) => description,
      );
    const [a, b] = replicas.services;
    if (!a || !b) throw new Error('fewer than two replicas');
    expect((await put(stateUrl(a), { namespaces: [{ name: 'states' }], ...stateOf('first') })).status).toBe(200);
    for (let round = 0; round < 5; round++) {
      const contenders = [a, b].map((service, at) => ({ service, state: stateOf(`${round}.${at}`) }));
      const planned = await Promise.all(
        contenders.map(async ({ service, state }) => {
          const plan = await put(stateUrl(service, '?dry_run=true'), state);
          return { service, state, etag: plan.headers.get('etag') ?? '' };
        }),
      );
      const applied = await Promise.all(
        planned.map(async ({ service, state, etag }) => (await put(stateUrl(service), state, etag)).status),
      );
      expect(applied.toSorted()).toEqual([200, 409]);
      const description = `${round}.${applied.indexOf(200)}`;
      for (const service of replicas.services) expect(await described(service)).toEqual([description, description]);
    }
  });

  test('a forward is served by all replicas', async () => {
    expect((await manage('POST', '/forwards', { name: 'up', address: upstream.url })).status).toBe(201);
    for (let at = 0; at < 6; at++) {
      const called = await post(`${replicas.mcp.url}/default/mcp`, rpc('tools/call', { name: 'known', arguments: {} }));
      expect(JSON.parse(called.text)).toHaveProperty('result');
    }
  });

  test('whichever replica changes a forward, all use its new address from the response on, and none after its deletion', async () => {
    await using moved = await startMoved();
    const [first] = replicas.services;
    await first?.register('forwards', { name: 'moves', address: moved.url, namespace: 'moves' });
    const call = async (service: TestService) =>
      (await post(service.url('moves'), rpc('tools/call', { name: 'known', arguments: {} }))).text;
    for (const [at, service] of replicas.services.entries()) {
      const [address, text] = at % 2 === 0 ? [upstream.url, 'done'] : [moved.url, 'moved'];
      expect(await service.manage('PATCH', '/forwards/moves', { address })).toMatchObject({ status: 200 });
      for (const other of replicas.services) expect(await call(other)).toContain(`"text":"${text}"`);
    }
    expect((await first?.manage('DELETE', '/forwards/moves'))?.status).toBe(200);
    for (const service of replicas.services) expect(JSON.parse(await call(service))).toHaveProperty('error');
    await expect.poll(() => moved.streams()).toBe(0);
  });

  test('on every replica, requests wait for the first discovery of a forward', async () => {
    const gate = Promise.withResolvers<void>();
    await using slow = await startGated(gate.promise);
    const [first] = replicas.services;
    const registered = first?.register('forwards', { name: 'slow', address: slow.url, namespace: 'slow' });
    await vi.waitFor(() => expect(slow.seen.length).toBeGreaterThan(0), { timeout: 20_000 });
    const lists: Promise<string>[] = [];
    for (const service of replicas.services) {
      // It knows the forward now.
      expect((await service.manage('GET', '/forwards/slow')).status).toBe(200);
      lists.push(post(service.url('slow'), rpc('tools/list')).then(({ text }) => text));
      await post(service.url('none'), rpc('ping'));
    }
    gate.resolve();
    for (const list of await Promise.all(lists)) expect(list).toContain('"name":"late"');
    await registered;
    await manage('DELETE', '/namespaces/slow?cascade=true');
  });

  test('a list that changes upstream is announced by all replicas', async () => {
    const listening = replicas.services.map((service) =>
      new InteractiveClient(service.url()).send({
        method: 'subscriptions/listen',
        params: '"notifications":{"toolsListChanged":true}',
      }),
    );
    for (const stream of listening) await stream.matching(/subscriptions\/acknowledged/);
    await expect.poll(() => upstream.streams()).toBeGreaterThan(0);
    const before = upstream.scripts['tools/list'] ?? '';
    upstream.scripts['tools/list'] = toolList(toolText('known'), toolText('newer'));
    upstream.push('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}');
    for (const stream of listening) await stream.matching(/notifications\/tools\/list_changed/);
    for (const stream of listening) stream.disconnect();
    upstream.scripts['tools/list'] = before;
  });

  test('a forward is discovered by one replica, and by another one when that has left', async () => {
    const lists = () => upstream.seen.filter(({ method }) => method === 'tools/list').length;
    const input = { name: 'one', address: upstream.url, prefix: 'one_' };
    const before = lists();
    expect((await manage('POST', '/forwards', input)).status).toBe(201);
    const discoveries = lists() - before;
    await using alone = await startAlone();
    await alone.register('forwards', input);
    expect(discoveries).toBe(lists() - before - discoveries);

    const states = async (services: readonly TestService[]) =>
      await Promise.all(services.map(async (service) => (await service.manage('GET', '/forwards/one')).data));
    // What a replica has found is stored in the background.
    await expect
      .poll(() => states(replicas.services))
      .toEqual(Array(3).fill(expect.objectContaining({ available: true, tools_discovered: 1 })));
    const listed = (await manage('GET', '/replicas')).body.data;
    expect(listed).toHaveLength(3);
    const forwards = await Promise.all(
      replicas.services.map(async (service) => {
        const found = ((await service.manage('GET', '/replicas')).data as Replica[]).find(({ self }) => self);
        return found?.forwards;
      }),
    );
    expect(forwards.reduce((sum, count = 0) => (sum ?? 0) + count, 0)).toBe(2);
    const owner = replicas.services[forwards.findIndex((count) => count !== 0)];
    const others = replicas.services.filter((service) => service !== owner);
    replicas.management.setBackends(others.map(({ addresses }) => addresses.management ?? ''));
    replicas.mcp.setBackends(others.map(({ addresses }) => addresses.mcp ?? ''));
    const beforeTakeover = lists();
    await owner?.stop(0);
    await vi.waitFor(() => expect(lists()).toBeGreaterThan(beforeTakeover), { timeout: 10_000 });
    const [call] = await Promise.all([
      post(`${replicas.mcp.url}/default/mcp`, rpc('tools/call', { name: 'one_known' })),
    ]);
    expect(JSON.parse(call.text)).toHaveProperty('result');
  });

  test('metrics tell of the database and of other replicas', async () => {
    const text = await (await fetch(`${replicas.management.url}/metrics`)).text();
    expect(text).toMatch(/^sluice_replica_database_reachable(?:\{.*\})? 1$/m);
    for (const name of ['stale_seconds', 'commits_total', 'conflicts_total', 'handed_off_total']) {
      expect(text).toMatch(new RegExp(`^sluice_replica_${name}(?:\\{.*\\})? [0-9.e-]+$`, 'm'));
    }
  });

  test('a session is the same on all replicas', async () => {
    const client = await sessionClient(`${replicas.mcp.url}/default/mcp`);
    for (let at = 0; at < 6; at++) expect(await client.request('ping')).toHaveProperty('result');
    expect(await client.end()).toBe(204);
    for (let at = 0; at < 3; at++) expect((await client.post(rpc('ping'))).status).toBe(404);
  });
});
