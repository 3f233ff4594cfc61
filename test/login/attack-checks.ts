import assert from 'node:assert/strict';
import type { LoginCheck } from './environment.ts';
import { ofForeignIssuer, payloadOf, signedByForeignKey, tampered, unsigned } from './forged-tokens.ts';
import { bearer, callTool, listTools, send } from './requests.ts';

/** Paths that must not lead to a namespace without a token. */
const TRICKS = [
  '/default/mcp',
  '/default/mcp/',
  '//default/mcp',
  '/./default/mcp',
  '/default//mcp',
  '/Default/mcp',
  '/default/MCP',
  '/%64efault/mcp',
  '/default%2fmcp',
  '/default%2Fmcp',
  '/default/mcp?/public/',
  '/default/mcp;/public/',
  '/default/mcp%3f/public/',
  '/default/mcp#/.well-known/',
  '/public/../default/mcp',
  '/public/%2e%2e/default/mcp',
  '/public/..%2fdefault/mcp',
  '/public%2f..%2fdefault/mcp',
  '/public/..;/default/mcp',
  '/public/..\\default\\mcp',
  '/public//../default/mcp',
  '/public/./../default/mcp',
  '/.well-known/../default/mcp',
  '/.well-known/%2e%2e/default/mcp',
  '/.well-known/..%2f..%2fdefault/mcp',
  '/.well-known/oauth-protected-resource/../../default/mcp',
  '/xwell-known/mcp',
  '/.well-knownx/mcp',
  '/%2ewell-known/../default/mcp',
  '/PUBLIC/mcp',
  '/publicx/mcp',
  '/xpublic/mcp',
  '/authorize/../default/mcp',
  '/token/default/mcp',
  '/register/../default/mcp',
  '/mcp',
  '/mcp/default/mcp',
];

/** What attackers try. */
export const ATTACK_CHECKS: readonly LoginCheck[] = [
  {
    name: 'forged, tampered, expired and foreign tokens are refused by both proxies, which do not log them',
    async run({ mcp, management, provider, proxies, service, alice, bob, upstream }) {
      const token = await provider.token(alice);
      const expired = await provider.expiredToken(alice);
      while (Number(payloadOf(expired).exp) * 1000 >= Date.now());
      const bad = {
        expired,
        'of another audience': await provider.token(alice, { audience: 'other' }),
        tampered: tampered(token),
        unsigned: unsigned(token),
        'signed by a foreign key': signedByForeignKey(token),
        'of a foreign issuer': ofForeignIssuer(token),
        'no token at all': 'x',
        empty: '',
      };
      const calls = upstream.seen.length;
      for (const [name, text] of Object.entries(bad)) {
        assert.equal((await callTool(mcp, '/default/mcp', bearer(text))).status, 401, `MCP: ${name}`);
        assert.equal((await send(management, 'GET', '/api/v1/tools', bearer(text))).status, 401, `management: ${name}`);
      }
      assert.equal((await callTool(mcp, '/default/mcp', bearer(token))).status, 200);
      const withoutRole = await provider.token(bob);
      assert.equal((await send(management, 'GET', '/api/v1/tools', bearer(withoutRole))).status, 403);
      assert.equal(upstream.seen.slice(calls).filter(({ method }) => method === 'tools/call').length, 1);
      for (const { output } of Object.values(proxies)) assert.match(output(), / 401 /);
      assert.match(proxies.management.output(), / 403 /);
      const logs = [...Object.values(proxies).map(({ output }) => output()), service.log.join('\n')];
      for (const log of logs) {
        for (const text of [token, withoutRole, ...Object.values(bad)]) {
          const signature = text.split('.')[2] ?? '';
          const at = signature === '' ? -1 : log.indexOf(signature);
          assert.equal(at, -1, `a token in the log: ${log.slice(Math.max(0, at - 200), at + 20)}`);
        }
      }
      // oauth2-proxy logs headers that are malformed, so this comes after the check of its log.
      const both = { authorization: `Bearer x, Bearer ${token}` };
      assert.equal((await callTool(mcp, '/default/mcp', both)).status, 401, 'two tokens');
    },
  },
  {
    name: 'the namespace public is open, and no path beside it',
    async run({ mcp, upstream }) {
      assert.match((await listTools(mcp, '/public/mcp')).text, /"greet"/);
      const { length } = upstream.seen;
      for (const path of TRICKS) {
        const { status, text } = await listTools(mcp, path);
        assert.ok(status >= 300 && status < 500, `${path}: ${status}`);
        assert.doesNotMatch(text, /"greet"/, path);
        const call = await callTool(mcp, path);
        assert.ok(call.status >= 300 && call.status < 500, `${path}: ${call.status}`);
      }
      assert.equal(upstream.seen.length, length, 'nothing reached the upstream');
    },
  },
  {
    name: 'no path of the management API is open',
    async run({ management, provider, bob }) {
      const withoutRole = bearer(await provider.token(bob));
      const tricks = [
        '/api/v1/tools',
        '/api/v1/tools/',
        '//api/v1/tools',
        '/API/v1/tools',
        '/healthz/../api/v1/tools',
        '/healthz/%2e%2e/api/v1/tools',
        '/healthz%2f..%2fapi/v1/tools',
        '/healthz?/api/v1/tools',
        '/healthz;/../api/v1/tools',
        '/api/v1/tools?x=/healthz',
        '/oauth2/../api/v1/tools',
        '/ping/../api/v1/tools',
        '/%61pi/v1/tools',
        '/api%2fv1%2ftools',
        '/api%2Fv1/tools',
        '/api/./v1//tools',
        '/healthz/..;/api/v1/tools',
        '/healthz\\..\\api\\v1\\tools',
        '/HEALTHZ/../api/v1/tools',
        '/.well-known/../api/v1/tools',
        '/xwell-known/../api/v1/tools',
        '/public/../api/v1/tools',
        '/api/v1/namespaces/public/mcp',
        '/metrics',
        '/admin/',
        '/api/docs/',
      ];
      for (const path of tricks) {
        for (const headers of [{}, withoutRole]) {
          const { status, text } = await send(management, 'GET', path, headers);
          const isHealth = status === 200 && text === '{"data":{"status":"ok"},"error":null}';
          assert.ok(isHealth || (status >= 300 && status < 500), `${path}: ${status}`);
          assert.doesNotMatch(text, /"data":\[|inputSchema/, path);
        }
      }
      for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
        const { status } = await send(
          management,
          method,
          '/api/v1/namespaces/default',
          { 'content-type': 'application/json' },
          '{}',
        );
        assert.equal(status, 401, method);
      }
    },
  },
  {
    name: 'identity headers of a client never reach the service',
    async run({ mcp, provider, service, bob }) {
      const forged = {
        'x-forwarded-user': 'alice',
        'x-forwarded-email': 'alice@example.com',
        'x-forwarded-preferred-username': 'alice',
        'x-forwarded-groups': 'role:admin',
        'x-auth-request-user': 'alice',
        'x-auth-request-email': 'alice@example.com',
        'x-auth-request-preferred-username': 'alice',
      };
      const users = async () => {
        const { data } = await service.manage('GET', '/tool-calls');
        return Array.isArray(data) ? data.map((event) => Object(event).user) : [];
      };
      const { 'x-auth-request-user': _own, ...fromProxies } = forged;
      assert.equal((await callTool(mcp, '/public/mcp', fromProxies)).status, 200);
      assert.equal((await users())[0], undefined, 'nobody in the namespace public');
      const token = await provider.token(bob);
      assert.equal((await callTool(mcp, '/default/mcp', { ...fromProxies, ...bearer(token) })).status, 200);
      const [actual] = await users();
      assert.equal(actual, payloadOf(token).sub);
      // The proxy passes this one on. Beside the real user, both together are a user of their own.
      assert.equal((await callTool(mcp, '/default/mcp', { ...forged, ...bearer(token) })).status, 200);
      assert.equal((await users())[0], JSON.stringify([actual, 'alice']));
    },
  },
];
