import assert from 'node:assert/strict';
import { signIn } from './browser.ts';
import type { LoginCheck } from './environment.ts';
import { payloadOf } from './forged-tokens.ts';
import { connectAgent } from './mcp-client.ts';
import { bearer, callTool, listTools, send } from './requests.ts';

/** Settings that look harmless: each is changed back to show what it prevents. */
export const TRAP_CHECKS: readonly LoginCheck[] = [
  {
    name: 'both patterns of API_ROUTES are necessary: with ^/mcp.* alone, clients get a log-in page instead of 401',
    async run({ mcp, withProxy }) {
      // Requests that accept JSON get 401 anyway, notification streams do not.
      const stream = { accept: 'text/event-stream' };
      assert.equal((await send(mcp, 'GET', '/default/mcp', stream)).status, 401);
      await withProxy('mcp', { OAUTH2_PROXY_API_ROUTES: '^/mcp.*' }, async (changed) => {
        assert.notEqual((await send(changed, 'GET', '/default/mcp', stream)).status, 401);
      });
    },
  },
  {
    name: 'an unescaped dot in .well-known opens other namespaces',
    async run({ mcp, withProxy }) {
      assert.equal((await listTools(mcp, '/xwell-known/mcp')).status, 401);
      await withProxy('mcp', { OAUTH2_PROXY_SKIP_AUTH_ROUTES: '^/.well-known/.*' }, async (changed) => {
        assert.match((await listTools(changed, '/xwell-known/mcp')).text, /"greet"/);
      });
    },
  },
  {
    name: 'without ALLOWED_ROLES everyone administers',
    async run({ management, provider, bob, withProxy }) {
      const token = bearer(await provider.token(bob));
      assert.equal((await send(management, 'GET', '/api/v1/tools', token)).status, 403);
      await withProxy('management', { OAUTH2_PROXY_ALLOWED_ROLES: '' }, async (changed) => {
        assert.equal((await send(changed, 'GET', '/api/v1/tools', token)).status, 200);
      });
    },
  },
  {
    name: 'without SKIP_JWT_BEARER_TOKENS no token is accepted',
    async run({ provider, alice, withProxy }) {
      const token = bearer(await provider.token(alice));
      await withProxy('mcp', { OAUTH2_PROXY_SKIP_JWT_BEARER_TOKENS: 'false' }, async (changed) => {
        assert.equal((await listTools(changed, '/default/mcp', token)).status, 401);
      });
    },
  },
  {
    name: 'tokens of other clients are accepted with OIDC_EXTRA_AUDIENCES only',
    async run({ provider, alice, withProxy }) {
      const token = await provider.token(alice, { audience: 'other' });
      const changes = { OAUTH2_PROXY_OIDC_EXTRA_AUDIENCES: String(payloadOf(token).aud) };
      await withProxy('mcp', changes, async (changed) => {
        assert.equal((await listTools(changed, '/default/mcp', bearer(token))).status, 200);
      });
    },
  },
  {
    name: 'the proxies of one deployment share the secret of the cookie',
    async run({ management, browser, alice, withProxy }) {
      const page = await signIn(browser, `${management}/openapi.json`, alice);
      const changes = { OAUTH2_PROXY_COOKIE_SECRET: '0123456789abcdef0123456789abcdef' };
      await withProxy('mcp', changes, async (changed) => {
        const options = { data: {}, failOnStatusCode: false };
        assert.equal((await page.context().request.post(`${changed}/default/mcp`, options)).status(), 401);
      });
      await page.context().close();
    },
  },
  {
    name: 'users call /{namespace}/mcp, never /mcp',
    async run({ mcp, provider, alice }) {
      const token = bearer(await provider.token(alice));
      assert.equal((await listTools(mcp, '/mcp')).status, 401);
      assert.equal((await listTools(mcp, '/mcp', token)).status, 404);
    },
  },
  {
    name: 'strict clients need "Exclude Issuer From Authentication Response"',
    async run({ mcp, browser, bob, provider }) {
      const options = { browser, user: bob, isStrict: true };
      const rejected = connectAgent(`${mcp}/default/mcp`, options);
      await assert.rejects(rejected, { name: 'IssuerMismatchError' });
      const agent = await connectAgent(`${mcp}/default/mcp`, { ...options, onRegistered: provider.excludeIssuer });
      assert.equal((await agent.client.listTools()).tools.length, 1);
      await agent.close();
    },
  },
  {
    name: 'the namespace public is open as long as its pattern is there, and the service warns of it',
    async run({ mcp, service, withProxy }) {
      assert.equal(service.log.filter((line) => line.includes('namespace public')).length, 1);
      assert.match((await listTools(mcp, '/public/mcp')).text, /"greet"/);
      const routes = { OAUTH2_PROXY_SKIP_AUTH_ROUTES: '^/\\.well-known/.*,^/authorize$,^/token$,^/register$' };
      await withProxy('mcp', routes, async (changed) => {
        assert.equal((await listTools(changed, '/public/mcp')).status, 401);
      });
    },
  },
  {
    name: 'published ports of the service are open to everyone, under any name',
    async run({ service, mcp, management }) {
      const forged = { 'x-forwarded-user': 'alice' };
      assert.equal((await callTool(mcp, '/default/mcp', forged)).status, 401);
      assert.equal((await send(management, 'GET', '/api/v1/tools', forged)).status, 401);
      assert.equal((await callTool(service.mcp, '/default/mcp', forged)).status, 200);
      const { data } = await service.manage('GET', '/tool-calls');
      assert.equal(Array.isArray(data) && Object(data[0]).user, 'alice');
      assert.equal((await send(service.management, 'GET', '/api/v1/tools')).status, 200);
    },
  },
];
