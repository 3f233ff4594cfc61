import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startTestService, type TestService } from '../../packages/server/testing/service.ts';
import type { LoginCheck } from './environment.ts';
import { bearer, callTool, send } from './requests.ts';

const PAGE = join(import.meta.dirname, '../../docs/identity.md');

/** Starts a service with the settings that the documentation has for this login, and a key, so that `Authorization` is read. */
async function startService(folder: string, address: string): Promise<TestService> {
  const page = await readFile(PAGE, 'utf8');
  const [, settings = ''] = /## Users of oauth2-proxy\n[\s\S]*?```yaml\n([\s\S]*?)```/.exec(page) ?? [];
  const file = join(folder, 'service.yaml');
  const keys = `  keys: [{ name: a, sha256: [${'a'.repeat(64)}] }]\n`;
  const forwards = `forwards: [{ name: greeter, address: "${address}" }]\n`;
  await writeFile(file, settings.replace('10.0.0.5/32', '127.0.0.1/32') + keys + forwards);
  return await startTestService({ SERVICE_ALLOWED_HOSTS: 'localhost' }, ['--service-config', file]);
}

/** What the service does with the headers of the proxies. */
export const IDENTITY_CHECKS: readonly LoginCheck[] = [
  {
    name: 'with identity, the headers of the proxies say who calls, and the roles of users who administers',
    async run({ provider, upstream, alice, bob, withProxy }) {
      const folder = await mkdtemp(join(tmpdir(), 'sluice-identity-'));
      const service = await startService(folder, upstream.url);
      try {
        const [admin, user] = [bearer(await provider.token(alice)), bearer(await provider.token(bob))];
        await withProxy('mcp', { OAUTH2_PROXY_UPSTREAMS: service.mcp }, async (proxy) => {
          assert.equal((await callTool(proxy, '/default/mcp', { ...user, 'x-forwarded-user': 'mallory' })).status, 200);
          assert.equal((await callTool(service.mcp, '/default/mcp', user)).status, 401);
        });
        const users = service.log.flatMap((line) => Object(JSON.parse(line)).user ?? []);
        assert.ok(users.length > 0 && users.every((id) => /^proxy\/(?!mallory)/.test(id)), users.join());
        const changes = { OAUTH2_PROXY_UPSTREAMS: service.management, OAUTH2_PROXY_ALLOWED_ROLES: '' };
        await withProxy('management', changes, async (proxy) => {
          const statuses = async (headers: Readonly<Record<string, string>>, name: string) => [
            (await send(proxy, 'GET', '/api/v1/namespaces', headers)).status,
            (await send(proxy, 'POST', '/api/v1/namespaces', { ...headers, ...JSON_TYPE }, JSON.stringify({ name })))
              .status,
          ];
          assert.deepEqual(await statuses(admin, 'a'), [200, 201]);
          assert.deepEqual(await statuses(user, 'b'), [200, 403]);
        });
      } finally {
        await service.stop(0);
        await rm(folder, { recursive: true });
      }
    },
  },
];

const JSON_TYPE = { 'content-type': 'application/json' };
