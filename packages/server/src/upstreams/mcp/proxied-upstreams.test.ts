import { createServer } from 'node:http';
import { describe, expect, it } from 'vitest';
import { listen } from '../../../../../test/fixtures/http-server.ts';
import { startChatCompletions } from '../../../testing/chat-completions.ts';
import { startProxy } from '../../../testing/egress-proxy.ts';
import { client, eras, relayTests } from '../../../testing/relay.ts';
import { startTestService } from '../../../testing/service.ts';
import { Egress } from '../../http/client/egress.ts';
import { EgressProxies } from '../../http/client/egress-proxies.ts';
import { readIssuer } from '../../mcp/oauth-metadata.ts';
import { LlmClient } from '../../policy/llm/client.ts';

const { register, upstreamWith, onEnd } = relayTests();

/** Starts a service whose environment has a proxy that knows these hosts. */
async function serviceBehindProxy(hosts: Readonly<Record<string, number>>, env: Readonly<Record<string, string>> = {}) {
  const proxy = await startProxy({ hosts });
  onEnd(proxy.close);
  const service = await startTestService({ HTTP_PROXY: `http://user:s3cret-pw@127.0.0.1:${proxy.port}`, ...env });
  onEnd(() => service.stop(0));
  return { proxy, service };
}

describe('with a proxy in the environment', () => {
  it.each(eras)('an upstream of the %s era is discovered and called through it', async (era) => {
    const upstream = await upstreamWith({}, { eras: [era] });
    const { proxy, service } = await serviceBehindProxy({ 'crm.test': upstream.port });
    const caller = await client(era, await register('http://crm.test/mcp', {}, service));
    expect(JSON.parse((await caller.call('tools/list')).text).result.tools).toHaveLength(2);
    expect((await caller.call('tools/call', '{"name":"a"}')).text).toContain('done');
    expect(new Set(proxy.requests)).toContain('POST http://crm.test/mcp');
    expect(service.log.filter((line) => line.includes(`http://127.0.0.1:${proxy.port}`))).toHaveLength(1);
    expect(service.log.join('\n')).not.toContain('s3cret-pw');
  });

  it('exceptions, loopback and forwards with `proxy: none` are connected directly', async () => {
    const upstream = await upstreamWith();
    const { proxy, service } = await serviceBehindProxy({ 'crm.test': upstream.port }, { NO_PROXY: '.internal' });
    await service.register('forwards', { name: 'a', address: upstream.url });
    for (const [name, more] of [
      ['excepted.internal', {}],
      ['direct.test', { proxy: 'none' }],
    ] as const) {
      await service.register('forwards', { name, address: `http://${name}/mcp`, ...more });
      const { data } = await service.manage('GET', `/forwards/${name}`);
      expect(data).toMatchObject({
        available: false,
        ...more,
        statusMessage: expect.stringMatching('cannot be resolved'),
      });
    }
    expect(proxy.requests).toEqual([]);
  });

  it('models, identity providers and proxied listeners are reached through it', async () => {
    const model = await startChatCompletions();
    onEnd(() => model.close());
    model.script('yes');
    const backend = createServer((_request, response) => response.end('{"issuer":"http://idp.test"}'));
    const port = await listen(backend, 0);
    onEnd(async () => void backend.close());
    const hosts = { 'model.test': Number(new URL(model.url).port), 'backend.test': port, 'idp.test': port };
    const inference = { SERVICE_INFERENCE_UPSTREAM: 'http://backend.test', SERVICE_CLASSIC_URL: 'http://backend.test' };
    const { proxy, service } = await serviceBehindProxy(hosts, inference);
    const proxies = new EgressProxies({ HTTP_PROXY: proxy.url });
    const llm = new LlmClient({ egress: new Egress(proxies) });
    onEnd(() => llm.close());
    const connection = { name: 'm', model: 'x', url: 'http://model.test/v1' };
    expect(await llm.complete(connection, [{ role: 'user', content: 'x' }])).toBe('yes');
    expect(await readIssuer({ issuer: '', upstreamIssuer: 'http://idp.test' }, proxies)).toEqual({
      issuer: 'http://idp.test',
    });
    await fetch(`http://${service.addresses.inference}/v1/models`);
    await fetch(`${service.management}/api/v1/data-store/x`);
    expect(proxy.requests).toEqual([
      'POST http://model.test/v1/chat/completions',
      'GET http://idp.test/.well-known/openid-configuration',
      'GET http://backend.test/v1/models',
      'GET http://backend.test/api/v1/data-store/x',
    ]);
  });
});

describe('the settings of a forward', () => {
  it('select a proxy, also for loopback, and compression', async () => {
    const upstream = await upstreamWith();
    const proxy = await startProxy();
    onEnd(proxy.close);
    const service = await startTestService();
    onEnd(() => service.stop(0));
    await service.register('forwards', { name: 'a', address: upstream.url, proxy: proxy.url, compression: true });
    expect(proxy.requests.length).toBeGreaterThan(0);
    expect(upstream.seen.at(-1)?.headers['accept-encoding']).toBe('gzip');
    const before = proxy.requests.length;
    const { data } = await service.manage('PATCH', '/forwards/a', { proxy: null, compression: null });
    expect(data).toMatchObject({ available: true });
    expect(data).not.toHaveProperty('proxy');
    expect(data).not.toHaveProperty('compression');
    expect(upstream.seen.at(-1)?.headers['accept-encoding']).toBe('identity');
    expect(proxy.requests.slice(before).filter((line) => !line.startsWith('DELETE'))).toEqual([]);
  });

  it.each([
    ['credentials', 'http://user:s3cret-pw@p:3128'],
    ['a path', 'http://p:3128/path'],
    ['another scheme', 'socks5://p:1080'],
    ['no URL', 'p:3128'],
  ])('must not have a proxy with %s', async (_which, proxy) => {
    const service = await startTestService();
    onEnd(() => service.stop(0));
    const { status } = await service.manage('POST', '/forwards', {
      name: 'a',
      address: 'http://127.0.0.1:1/mcp',
      proxy,
    });
    expect(status).toBe(400);
    expect(service.log.join('\n')).not.toContain('s3cret-pw');
  });

  it('do not send secrets of another origin to a proxy that reads them', async () => {
    const service = await startTestService({
      SERVICE_SECRET_A: 's3cret-value',
      SERVICE_SECRET_ORIGINS: 'SERVICE_SECRET_A=http://127.0.0.1:1',
    });
    onEnd(() => service.stop(0));
    const headers = { 'X-Key': '$' + '{env:SERVICE_SECRET_A}' };
    const forward = { name: 'a', address: 'http://127.0.0.1:1/mcp', headers };
    expect((await service.manage('POST', '/forwards', { ...forward, proxy: 'http://p.test:3128' })).status).toBe(400);
    expect((await service.manage('POST', '/forwards', forward)).status).toBe(201);
    expect((await service.manage('PATCH', '/forwards/a', { proxy: 'http://p.test:3128' })).status).toBe(400);
  });
});
