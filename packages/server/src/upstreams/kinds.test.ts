import { describe, expect, it } from 'vitest';
import { reply } from '../../../../test/fixtures/raw-client.ts';
import { client, eras } from '../../testing/relay.ts';
import { startTestService } from '../../testing/service.ts';
import { InProcessServers, inProcessKind } from './fixtures/in-process-kind.ts';
import { ForwardKinds, KINDS } from './kinds.ts';

describe('the address of a forward', () => {
  const kinds = new ForwardKinds([...KINDS, inProcessKind()]);

  it.each(['http://a', 'HTTPS://a:1/mcp?x=1#y', 'http://[::1]:80/', 'test:a'])('%j is valid', (address) => {
    expect(kinds.problem(address)).toBeUndefined();
  });

  it.each([
    ...['http:a', 'http://', 'http:///a', 'http://a/b c', 'http://a\\b', 'http://a\u0000'].map(
      (address) => [address, 'must be an http or https URL'] as const,
    ),
    ['http://u:p@a', 'must not carry a user name or password'] as const,
    ['test:', 'must name a server'] as const,
    ...['ftp://a', 'a', 'a:1', ''].map((address) => [address, 'must be an http, https or test URL'] as const),
  ])('%j is invalid: it %s', (address, problem) => {
    expect(kinds.problem(address)).toBe(problem);
  });

  it('has a scheme of one kind only', () => {
    expect(() => new ForwardKinds([...KINDS, ...KINDS])).toThrow('kind mcp has a scheme of another kind: http:');
  });
});

describe('a kind of upstreams that is added to the table', () => {
  it('is discovered, listed to clients of both eras, changed and removed', async ({ onTestFinished }) => {
    const servers = new InProcessServers();
    const service = await startTestService({}, [], undefined, undefined, [...KINDS, inProcessKind(servers)]);
    onTestFinished(() => service.stop(0));
    const url = service.url();
    const clients = await Promise.all(eras.map((era) => client(era, url)));
    const listed = () => Promise.all(clients.map(async (one) => reply(await one.call('tools/list'))));

    const created = await service.manage('POST', '/forwards', { name: 'f', address: 'test:one' });
    expect(created).toMatchObject({
      status: 201,
      data: { available: true, tools_discovered: 2, serverInfo: { serverName: 'in-process' } },
    });
    for (const list of await listed()) expect(list).toMatch(/"name":"echo".*"name":"work"/);

    expect(await service.manage('PATCH', '/forwards/f', { address: 'test:two' })).toMatchObject({ status: 200 });
    expect([...servers.open]).toEqual(['test:two']);
    expect(await service.manage('POST', '/forwards/f/refreshes')).toMatchObject({ data: { tools_discovered: 2 } });
    expect((await service.manage('POST', '/diagnostics')).data).toMatchObject({
      checks: expect.arrayContaining([{ name: 'forward f', status: 'ok', message: 'is available' }]),
    });

    expect(await service.manage('DELETE', '/forwards/f')).toMatchObject({ status: 200 });
    expect([...servers.open]).toEqual([]);
    for (const list of await listed()) expect(list).not.toContain('echo');
  });

  it.each([
    ['POST', '/forwards', { name: 'g' }],
    ['PATCH', '/forwards/f', {}],
    ['POST', '/forwards/test', {}],
  ])('%s %s rejects an address of no kind and an invalid one', async (method, path, body) => {
    const service = await startTestService({}, [], undefined, undefined, [...KINDS, inProcessKind()]);
    await service.register('forwards', { name: 'f', address: 'test:one' });
    const messageFor = async (address: string) => {
      const init = { method, body: JSON.stringify({ ...body, address }) };
      const response = await fetch(`${service.management}/api/v1${path}`, init);
      expect(response.status).toBe(400);
      return await response.text();
    };
    try {
      expect(await messageFor('ftp://a')).toContain('invalid forward: address must be an http, https or test URL');
      expect(await messageFor('test:a1')).toContain('invalid forward: address must name a server');
    } finally {
      await service.stop(0);
    }
  });
});
