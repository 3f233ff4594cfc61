import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { run } from '../../packages/cli/src/run.ts';
import { scriptedTerminal } from '../../packages/cli/src/testing/scripted-terminal.ts';
import { ResponseReader, sessionClient } from '../../packages/server/testing/session-client.ts';
import { enterDeviceCode, signIn } from './browser.ts';
import type { LoginCheck } from './environment.ts';
import { payloadOf } from './forged-tokens.ts';
import { connectAgent } from './mcp-client.ts';
import { bearer, callTool, send } from './requests.ts';

/** What users and agents do. */
export const USE_CHECKS: readonly LoginCheck[] = [
  {
    name: 'an agent of the official SDK that knows only the address registers itself, signs in, calls a tool and refreshes its token',
    async run({ mcp, management, browser, alice }) {
      const agent = await connectAgent(`${mcp}/default/mcp`, { browser, user: alice });
      try {
        const origins = new Set(agent.requested.map((url) => new URL(url).origin));
        assert.deepEqual([...origins], [mcp]);
        assert.deepEqual(
          (await agent.client.listTools()).tools.map(({ name }) => name),
          ['greet'],
        );
        assert.match(JSON.stringify(await agent.client.callTool({ name: 'greet', arguments: {} })), /hello/);
        const [first] = agent.tokens;
        assert.ok(first?.refresh_token, 'it got a refresh token');
        assert.equal(payloadOf(first.access_token).preferred_username ?? 'alice', 'alice');
        // The roles of its user are not those of an agent.
        assert.equal((await send(management, 'GET', '/api/v1/tools', bearer(first.access_token))).status, 403);
        // As if it had expired.
        Object.assign(first, { access_token: `${first.access_token}x` });
        const again = await agent.reconnect();
        assert.match(JSON.stringify(await again.callTool({ name: 'greet', arguments: {} })), /hello/);
        await again.close();
        assert.equal(agent.tokens.length, 2);
        assert.ok(!agent.requested.slice(-4).some((url) => url.endsWith('/register')));
      } finally {
        await agent.close();
      }
    },
  },
  {
    name: 'an agent with a client secret in the body of its token request gets a token too',
    async run({ mcp, browser, bob }) {
      const agent = await connectAgent(`${mcp}/default/mcp`, { browser, user: bob, authMethod: 'client_secret_post' });
      assert.equal((await agent.client.listTools()).tools.length, 1);
      await agent.close();
    },
  },
  {
    name: 'only the role admin uses the management API; everyone who signs in uses tools',
    async run({ mcp, management, provider, alice, bob }) {
      const [admin, user] = [bearer(await provider.token(alice)), bearer(await provider.token(bob))];
      assert.equal((await send(management, 'GET', '/api/v1/tools', admin)).status, 200);
      assert.equal((await send(management, 'GET', '/api/v1/tools', user)).status, 403);
      assert.equal((await callTool(mcp, '/default/mcp', user)).status, 200);
    },
  },
  {
    name: 'signing in at the console in a browser opens it, and the same cookie the MCP proxy; without the role it does not',
    async run({ mcp, management, browser, alice, bob }) {
      const page = await signIn(browser, `${management}/openapi.json`, alice);
      assert.equal(page.url(), `${management}/openapi.json`);
      assert.match(await page.locator('body').innerText(), /Sluice management API/);
      const shared = await page.context().request.post(`${mcp}/default/mcp`, { data: {}, failOnStatusCode: false });
      assert.equal(shared.status(), 400);
      await page.context().close();
      const refused = await signIn(browser, `${management}/openapi.json`, bob);
      assert.doesNotMatch(await refused.locator('body').innerText(), /Sluice management API/);
      await refused.context().close();
    },
  },
  {
    name: 'an expired login is 401 for scripts of the console, and a log-in page for its documents',
    async run({ management, withProxy }) {
      const cookie = { cookie: '_oauth2_proxy=expired' };
      assert.equal((await send(management, 'GET', '/api/v1/tools', cookie)).status, 401);
      assert.notEqual((await send(management, 'GET', '/admin/', cookie)).status, 401);
      await withProxy('management', { OAUTH2_PROXY_API_ROUTES: '' }, async (changed) => {
        assert.notEqual((await send(changed, 'GET', '/api/v1/tools', cookie)).status, 401);
      });
    },
  },
  {
    name: 'health checks need no login, and nothing beside them',
    async run({ management }) {
      assert.equal((await send(management, 'GET', '/healthz')).status, 200);
      assert.equal((await send(management, 'GET', '/health')).status, 200);
      for (const path of [
        '/healthz/',
        '/healthzx',
        '/health/x',
        '/readyz',
        '/metrics',
        '/openapi.json',
        '/api/v1/backup',
      ]) {
        assert.notEqual((await send(management, 'GET', path)).status, 200, path);
      }
    },
  },
  {
    name: 'a call may last longer than the default timeout of the proxy',
    async run({ mcp, provider, upstream, alice, withProxy }) {
      const token = bearer(await provider.token(alice));
      const held = Promise.withResolvers<void>();
      const before = upstream.scripts['tools/call'];
      const respond = typeof before === 'function' ? before : () => before ?? '';
      upstream.scripts['tools/call'] = async (request) => {
        await held.promise;
        return respond(request);
      };
      try {
        const call = callTool(mcp, '/default/mcp', token);
        await withProxy('mcp', { OAUTH2_PROXY_UPSTREAM_TIMEOUT: '1s' }, async (changed) => {
          assert.ok((await callTool(changed, '/default/mcp', token)).status >= 500);
        });
        held.resolve();
        assert.equal((await call).status, 200);
      } finally {
        held.resolve();
        upstream.scripts['tools/call'] = respond;
      }
    },
  },
];

/** Event streams through both proxies that stay open for this long, with an event at least once a minute. */
export function streamsLast(ms: number): LoginCheck {
  const name = `event streams of ${ms < 60_000 ? `${ms / 1000} s` : `${ms / 60_000} min`} pass through both proxies, event by event`;
  return {
    name,
    async run({ mcp, management, provider, service, alice }) {
      const token = bearer(await provider.token(alice));
      const session = await sessionClient(`${mcp}/default/mcp`, {}, token);
      const notifications = session.listen();
      const events = new ResponseReader(`${management}/api/v1/events`, 'GET', {
        accept: 'text/event-stream',
        ...token,
      });
      assert.equal((await notifications.head).statusCode, 200);
      assert.equal((await events.head).statusCode, 200);
      const end = performance.now() + ms;
      for (let round = 0; performance.now() < end; round++) {
        const name = `streamed-${round}`;
        await service.register('prompts', { name, description: '', content: 'x' });
        await notifications.message(round);
        await events.count('registry', round + 1);
        await delay(Math.max(0, Math.min(ms / 2, 30_000, end - performance.now())));
      }
      for (const stream of [notifications, events]) stream.disconnect();
    },
  };
}

/** `sluice auth login` in each of its ways. */
export const COMMAND_LINE_CHECKS: readonly LoginCheck[] = [
  {
    name: 'sluice auth login works with a password, as a client, in a browser and with a code',
    async run({ provider, management, browser, alice, secrets }) {
      const home = await mkdtemp(join(tmpdir(), 'sluice-login-cli-'));
      const client = ['--auth-server', `http://${provider.host}`, '--realm', 'sluice'];
      const cli = [...client, '--client-id', 'sluice-cli'];
      const automation = [
        ...client,
        '--client-id',
        'sluice-automation',
        '--client-secret',
        '-',
        '--client-credentials',
      ];
      const sluice = async (argv: readonly string[], input = '', onLink?: (url: string) => Promise<unknown>) => {
        const terminal = scriptedTerminal({ input, env: { XDG_CONFIG_HOME: home } });
        const write = (text: string): void => {
          terminal.stderr.write(text);
          const [, url] = /Open (\S+) in a browser/.exec(text) ?? [];
          // The command ends when the page fails.
          if (url !== undefined && onLink) onLink(url).catch(terminal.interrupt);
        };
        const observed = { ...terminal, stderr: { ...terminal.stderr, write } };
        const code = await run(['--host', management, ...argv], observed);
        assert.equal(code, 0, `${argv.join(' ')}: ${terminal.err()}`);
        return terminal.out();
      };
      const usable = async (): Promise<void> => {
        assert.match(await sluice(['namespaces', 'list']), /default/);
        await sluice(['auth', 'logout']);
      };
      try {
        await sluice(['auth', 'login', ...cli, '--username', alice.name, '--password', '-'], `${alice.password}\n`);
        await usable();
        await sluice(['auth', 'login', ...automation], `${secrets.SLUICE_AUTOMATION_SECRET}\n`);
        await usable();
        const signInAt = (url: string) => signIn(browser, url, alice).then((page) => page.context().close());
        assert.match(await sluice(['auth', 'login', ...cli, '--browser'], '', signInAt), / as alice$/m);
        await usable();
        const enterCode = (url: string) => enterDeviceCode(browser, url, alice);
        assert.match(await sluice(['auth', 'login', ...cli, '--device'], '', enterCode), / as alice$/m);
        await usable();
      } finally {
        await rm(home, { recursive: true });
      }
    },
  },
];
