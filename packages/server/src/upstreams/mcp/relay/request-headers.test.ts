import { describe, expect, it } from 'vitest';
import { legacyClient, modernClient, post, reply } from '../../../../../../test/fixtures/raw-client.ts';
import type { ReceivedMessage } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { LIST_END, toolList, toolText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { client, eras, errorOf, lastCall, relayTests } from '../../../../testing/relay.ts';
import { startTestService } from '../../../../testing/service.ts';

const relay = relayTests();
const { onEnd, register, upstreamWith } = relay;

describe('client headers', () => {
  const SENT = {
    authorization: 'Bearer secret',
    cookie: 'secret=1',
    'x-tenant': 't1',
    'x-request-id': 'r1',
    'x-forwarded-user': 'ann',
    'proxy-authorization': 'secret',
    'last-event-id': 'e1',
  };

  it.each(eras)('are not forwarded (%s)', async (era) => {
    const upstream = await upstreamWith();
    const url = await register(upstream.url);
    await post(url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`);
    const caller = era === 'legacy' ? { call: callWithout } : modernClient(url);
    function callWithout(method: string, params: string, headers: Record<string, string>) {
      return post(url, `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`, headers);
    }
    expect(reply(await caller.call('tools/call', '{"name":"a"}', { ...SENT, 'mcp-vendor': 'v' }))).toContain('done');
    for (const { headers } of upstream.seen) {
      for (const name of [...Object.keys(SENT), 'mcp-vendor']) expect(headers[name]).toBeUndefined();
      expect(headers.host).toBe(new URL(upstream.url).host);
      expect(JSON.stringify(headers)).not.toContain('secret');
    }
  });

  it('are forwarded if the operator lists them, with calls and their sessions only', async () => {
    const named = await startTestService({
      SERVICE_FORWARD_HEADERS: 'X-Tenant, AUTHORIZATION, Host, Mcp-Session-Id, Content-Type',
    });
    onEnd(named.stop);
    const upstream = await upstreamWith();
    const url = await register(upstream.url, {}, named);
    for (const seen of upstream.seen) expect(seen.headers['x-tenant']).toBeUndefined();
    for (const caller of [modernClient(url), await legacyClient(url)]) {
      // A session belongs to the user for whom it was opened.
      const { 'x-forwarded-user': _, ...sent } = SENT;
      expect(reply(await caller.call('tools/call', '{"name":"a"}', sent))).toContain('done');
      const { headers } = lastCall(upstream);
      expect(headers).toMatchObject({
        'x-tenant': 't1',
        authorization: 'Bearer secret',
        'content-type': 'application/json',
      });
      expect([headers.cookie, headers['x-request-id'], headers['proxy-authorization']]).toEqual([
        undefined,
        undefined,
        undefined,
      ]);
      expect(headers.host).toBe(new URL(upstream.url).host);
    }
    const opening = upstream.seen.find(
      ({ session }) => session !== undefined && session === lastCall(upstream).session,
    );
    expect([opening?.method, opening?.headers['x-tenant']]).toEqual(['initialize', 't1']);
  });

  it.each(eras)(
    'bring each caller its own private results, and all of them lists that are nobody’s (%s)',
    async (era) => {
      const named = await startTestService({ SERVICE_FORWARD_HEADERS: 'authorization' });
      onEnd(named.stop);
      const seenAs = ({ headers }: ReceivedMessage) => headers.authorization ?? 'anonymous';
      const upstream = await upstreamWith({
        'tools/list': (seen) => toolList(toolText('a', `,"title":"${seenAs(seen)}"`)),
        'resources/list': `{"resources":[{"uri":"test://r","name":"r"}],${LIST_END}`,
        'resources/read': (seen) => `{"contents":[{"uri":"test://r","text":"${seenAs(seen)}"}],${LIST_END}`,
      });
      const url = await register(upstream.url, {}, named);
      for (const authorization of ['ann', 'bob', 'ann']) {
        const caller = await client(era, url);
        expect(reply(await caller.call('resources/read', '{"uri":"test://r"}', { authorization }))).toContain(
          `"text":"${authorization}"`,
        );
        expect(reply(await caller.call('tools/list', '{}', { authorization }))).toContain('"title":"anonymous"');
      }
      expect(upstream.count('resources/read')).toBe(3);
    },
  );

  it('are forwarded if the tool’s label lists them', async () => {
    const upstream = await upstreamWith();
    const url = await register(upstream.url);
    const namespace = new URL(url).pathname.split('/')[1];
    const label = (text: string) =>
      relay.service.manage('PUT', `/tools/a?namespace=${namespace}`, {
        description: 'd',
        uri: upstream.url,
        toolType: 'mcp-forward',
        input_schema: { type: 'object' },
        labels: { 'service.forward_headers': text },
      });
    expect((await label('Cookie , X-Tenant,mcp-session-id,host')).status).toBe(200);
    const caller = modernClient(url);
    await caller.call('tools/call', '{"name":"a"}', { ...SENT, 'mcp-session-id': 'forged' });
    expect(lastCall(upstream).headers).toMatchObject({
      cookie: 'secret=1',
      'x-tenant': 't1',
      host: new URL(upstream.url).host,
    });
    expect([lastCall(upstream).headers['mcp-session-id'], lastCall(upstream).headers.authorization]).toEqual([
      undefined,
      undefined,
    ]);
    await caller.call('tools/call', '{"name":"grüße"}', SENT);
    expect(lastCall(upstream).headers['x-tenant']).toBeUndefined();
    // Invalid header names have no effect.
    await label('x tenant(, X-Tenant');
    expect(reply(await caller.call('tools/call', '{"name":"a"}', SENT))).toContain('done');
    expect(lastCall(upstream).headers['x-tenant']).toBe('t1');
  });

  it('that mirror parameters are forwarded unchanged', async () => {
    const upstream = await upstreamWith();
    const url = await register(upstream.url);
    const headers = { 'mcp-param-region': '=?base64?w7w=?=', 'Mcp-Param-X': '1' };
    await modernClient(url).call('tools/call', '{"name":"a"}', headers);
    expect(lastCall(upstream).headers).toMatchObject({ 'mcp-param-region': '=?base64?w7w=?=', 'mcp-param-x': '1' });
    await (await legacyClient(url)).call('tools/call', '{"name":"a"}', headers);
    expect(lastCall(upstream).headers['mcp-param-x']).toBeUndefined();
  });

  it('do not override the headers that mirror the body', async () => {
    const upstream = await upstreamWith();
    const url = await register(upstream.url, { prefix: 'p-' });
    await modernClient(url).call('tools/call', '{"name":"p-grüße"}');
    const { headers } = lastCall(upstream);
    expect(headers['mcp-method']).toBe('tools/call');
    expect(headers['mcp-name']).toBe(`=?base64?${Buffer.from('grüße').toString('base64')}?=`);
    expect(headers['mcp-protocol-version']).toBe('2026-07-28');
  });
});

describe('a request that has passed gateways', () => {
  it.each([
    [undefined, '1'],
    ['0', '1'],
    ['3', '4'],
    ['7', '8'],
    ['garbage', '1'],
    ['-5', '1'],
  ])('with %s is forwarded as %s', async (hops, next) => {
    const upstream = await upstreamWith();
    const caller = modernClient(await register(upstream.url));
    await caller.call('tools/call', '{"name":"a"}', hops === undefined ? {} : { 'x-service-hops': hops });
    expect(lastCall(upstream).headers['x-service-hops']).toBe(next);
  });

  it.each(['8', '9', '1000000'])('%s times is rejected', async (hops) => {
    const upstream = await upstreamWith();
    const response = await modernClient(await register(upstream.url)).call('tools/call', '{"name":"a"}', {
      'x-service-hops': hops,
    });
    expect([response.status, errorOf(response)]).toEqual([200, { code: -32603, message: 'forwarding loop' }]);
    expect(upstream.count('tools/call')).toBe(0);
  });

  it.each(eras)('is rejected in a loop (%s)', async (era) => {
    const url = relay.service.url(`circle-${era}`);
    await relay.service.register('tools', {
      name: 'loop',
      namespace: `circle-${era}`,
      description: '',
      uri: url,
      toolType: 'x',
      input_schema: {},
    });
    const response = await (await client(era, url)).call('tools/call', '{"name":"loop"}');
    expect(errorOf(response)).toEqual({ code: -32603, message: 'forwarding loop' });
  });

  it('may pass this gateway twice', async () => {
    const upstream = await upstreamWith();
    const inner = await register(upstream.url);
    const outer = await register(inner, { prefix: 'outer-' });
    for (const era of eras) {
      const response = await (await client(era, outer)).call('tools/call', '{"name":"outer-a"}');
      expect(reply(response)).toContain('"text":"done"');
      expect(lastCall(upstream)).toMatchObject({ era, params: { name: 'a' } });
      expect(lastCall(upstream).headers['x-service-hops']).toBe('2');
    }
  });
});
