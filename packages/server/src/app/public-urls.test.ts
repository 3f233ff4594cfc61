import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { post, send } from '../../../../test/fixtures/raw-client.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

let service: TestService;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-console-'));
  await writeFile(join(folder, 'index.html'), '<script src="./x.js"></script>');
  service = await startTestService({
    SERVICE_AUTH_ISSUER: 'https://id.example/realms/r',
    SERVICE_PUBLIC_URL: 'https://Agents.example/gw/',
    SERVICE_CONSOLE_URL: 'https://ops.example:8443/console',
    SERVICE_UI_PATH: folder,
  });
});
afterAll(async () => {
  await service.stop(0);
  await rm(folder, { recursive: true });
});

const mcp = (path: string, headers = {}) => send(`${service.mcp}${path}`, 'GET', headers);
const management = (path: string, headers = {}) => send(`${service.management}${path}`, 'GET', headers);
const LIST = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';

describe('SERVICE_PUBLIC_URL', () => {
  it.each([
    ['/.well-known/oauth-protected-resource/default/mcp', 'https://agents.example/gw/default/mcp'],
    ['/gw/.well-known/oauth-protected-resource/default/mcp', 'https://agents.example/gw/default/mcp'],
    ['/.well-known/oauth-protected-resource/gw/default/mcp', 'https://agents.example/gw/default/mcp'],
    ['/.well-known/oauth-protected-resource/gw/default/mcp/', 'https://agents.example/gw/default/mcp/'],
  ])('is the beginning of the addresses in %s', async (path, resource) => {
    // Whatever a proxy says.
    for (const headers of [{}, { 'x-forwarded-host': 'other.example', 'x-forwarded-proto': 'http' }]) {
      const { status, text } = await mcp(path, headers);
      expect([status, JSON.parse(text)]).toEqual([
        200,
        {
          resource,
          authorization_servers: ['https://agents.example/gw'],
          bearer_methods_supported: ['header'],
        },
      ]);
    }
  });

  it.each([
    '/.well-known/oauth-authorization-server',
    '/.well-known/oauth-authorization-server/gw',
    '/gw/.well-known/oauth-authorization-server',
    '/.well-known/openid-configuration/gw',
    '/gw/.well-known/openid-configuration',
  ])('is the issuer in %s', async (path) => {
    expect(JSON.parse((await mcp(path)).text)).toMatchObject({
      issuer: 'https://agents.example/gw',
      authorization_endpoint: 'https://agents.example/gw/authorize',
      token_endpoint: 'https://agents.example/gw/token',
      registration_endpoint: 'https://agents.example/gw/register',
    });
  });

  it('is accepted with and without its prefix', async () => {
    for (const path of ['/default/mcp', '/gw/default/mcp', '/gw/default/mcp/']) {
      const { status, text } = await post(`${service.mcp}${path}`, LIST);
      expect([path, status, text]).toEqual([path, 200, '{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}']);
    }
    expect((await mcp('/gw/authorize')).headers.location).toMatch(/^https:\/\/id\.example\//);
    expect((await post(`${service.mcp}/gw/none/mcp`, LIST)).status).toBe(404);
    expect((await post(`${service.mcp}/gw/gw/default/mcp`, LIST)).status).toBe(404);
  });

  it('needs no SERVICE_ALLOWED_HOSTS', async () => {
    const from = (host: string, origin?: string) =>
      post(`${service.mcp}/default/mcp`, LIST, { host, ...(origin !== undefined && { origin }) });
    expect((await from('agents.example', 'https://agents.example')).status).toBe(200);
    expect((await from('agents.example:443')).status).toBe(200);
    // The proxy replaces the host.
    expect((await from('127.0.0.1', 'https://agents.example')).status).toBe(200);
    expect((await from('ops.example')).status).toBe(403);
    expect((await from('127.0.0.1', 'https://ops.example:8443')).status).toBe(403);
    expect((await from('127.0.0.1', 'http://agents.example')).status).toBe(403);
  });

  it('is in the namespaces of the management API', async () => {
    const { data } = await service.manage('GET', '/namespaces/default');
    expect(data).toEqual({ name: 'default', labels: {}, mcpUrl: 'https://agents.example/gw/default/mcp' });
  });
});

describe('SERVICE_CONSOLE_URL', () => {
  it.each(['/', '/admin', '/console', '/console/', '/console/admin'])('is where %s redirects to', async (path) => {
    const { status, headers } = await management(path);
    expect([status, headers.location]).toEqual([302, 'https://ops.example:8443/console/admin/']);
  });

  it('is accepted with and without its prefix', async () => {
    for (const prefix of ['', '/console']) {
      expect((await management(`${prefix}/admin/`)).text).toBe('<script src="./x.js"></script>');
      expect((await management(`${prefix}/admin/plugin/a`)).text).toBe('<script src="../x.js"></script>');
      expect((await management(`${prefix}/api/v1/namespaces?limit=1`)).status).toBe(200);
      const { text } = await post(`${service.management}${prefix}/api/v1/namespaces/default/mcp`, LIST);
      expect(text).toContain('"tools":[]');
    }
    expect((await management('/console/console/admin/')).status).toBe(404);
  });

  it('needs no SERVICE_ALLOWED_HOSTS', async () => {
    const status = async (host: string, origin?: string) =>
      (await management('/api/v1/namespaces', { host, ...(origin !== undefined && { origin }) })).status;
    expect(await status('ops.example:8443', 'https://ops.example:8443')).toBe(200);
    expect(await status('ops.example')).toBe(200);
    expect(await status('127.0.0.1', 'https://ops.example:8443')).toBe(200);
    expect(await status('agents.example')).toBe(403);
    expect(await status('127.0.0.1', 'https://ops.example')).toBe(403);
  });
});
