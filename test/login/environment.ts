import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { startTestService, type TestService } from '../../packages/server/testing/service.ts';
import { textResultText, toolList, toolText } from '../fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import type { User } from './browser.ts';
import { startBrowser } from './browser.ts';
import { type Hosts, makeSecrets, readDeployFile, type Variables } from './deploy-files.ts';
import { startOauth2Proxy } from './oauth2-proxy.ts';
import type { Program } from './program.ts';

/** An identity provider with the realm of the deployment. */
export interface IdentityProvider {
  /** Where it listens in place of the deployment's `localhost:8180`. */
  readonly host: string;
  /** An access token from the token endpoint; `audience: 'other'` for one that is not meant for Sluice. */
  readonly token: (user: User, options?: { readonly audience?: 'other' }) => Promise<string>;
  /** A token that has expired. */
  readonly expiredToken: (user: User) => Promise<string>;
  /** Switches "Exclude Issuer From Authentication Response" on for a client. */
  readonly excludeIssuer: (clientId: string) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** The whole login: provider, two proxies, service, upstream and browser. */
export interface LoginEnvironment {
  readonly provider: IdentityProvider;
  readonly service: TestService;
  readonly upstream: RawUpstream;
  readonly browser: Browser;
  readonly proxies: { readonly mcp: Program; readonly management: Program };
  /** Addresses of the proxies. */
  readonly mcp: string;
  readonly management: string;
  /** May administer. */
  readonly alice: User;
  /** Has no role. */
  readonly bob: User;
  readonly secrets: Variables;
  /** Starts another instance of a proxy on a free port with settings replaced, uses it, and stops it. */
  readonly withProxy: <T>(
    kind: 'mcp' | 'management',
    changes: Variables,
    use: (address: string, proxy: Program) => Promise<T>,
  ) => Promise<T>;
  readonly close: () => Promise<void>;
}

/** A property of the login. It fails by throwing. */
export interface LoginCheck {
  readonly name: string;
  readonly run: (login: LoginEnvironment) => Promise<void>;
}

/** Programs that the environment needs. */
export interface LoginPrograms {
  readonly oauth2Proxy: string;
  readonly browser: string;
}

/** Port of proxies with replaced settings; `fetch` blocks some others. */
const CHANGED_PORT = 4182;

/** Starts everything; only addresses differ from the deployment files. */
export async function startLogin(
  programs: LoginPrograms,
  startProvider: (secrets: Variables) => Promise<IdentityProvider>,
): Promise<LoginEnvironment> {
  await using open = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'sluice-login-'));
  open.defer(() => rm(folder, { recursive: true }));
  const secrets = await makeSecrets(join(folder, 'secrets.env'));
  const provider = await startProvider(secrets);
  open.defer(() => provider.close());
  const upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('greet')), 'tools/call': () => textResultText('hello') },
  });
  open.defer(() => upstream.close());
  const providerHosts: Hosts = { 'keycloak:8180': provider.host, 'localhost:8180': provider.host };
  const service = await startTestService(await readDeployFile('sluice.env', providerHosts));
  open.defer(() => service.stop());
  for (const namespace of ['default', 'public', 'xwell-known']) {
    if (namespace !== 'default') await service.register('namespaces', { name: namespace });
    await service.register('forwards', { name: `greeter-${namespace}`, address: upstream.url, namespace });
  }
  const hosts: Hosts = {
    ...providerHosts,
    'sluice:8081': new URL(service.mcp).host,
    'sluice:8080': new URL(service.management).host,
  };
  const options = { program: programs.oauth2Proxy, hosts, secrets };
  const mcp = await startOauth2Proxy('mcp', options);
  open.defer(() => mcp.stop());
  const management = await startOauth2Proxy('management', options);
  open.defer(() => management.stop());
  const browser = await startBrowser(programs.browser);
  open.defer(() => browser.close());
  const resources = open.move();
  return {
    provider,
    service,
    upstream,
    browser,
    proxies: { mcp, management },
    mcp: 'http://localhost:4180',
    management: 'http://localhost:4181',
    alice: { name: 'alice', password: secrets.SLUICE_ALICE_PASSWORD ?? '' },
    bob: { name: 'bob', password: secrets.SLUICE_BOB_PASSWORD ?? '' },
    secrets,
    async withProxy(kind, changes, use) {
      const address = `localhost:${CHANGED_PORT}`;
      const proxy = await startOauth2Proxy(kind, {
        ...options,
        changes: { OAUTH2_PROXY_HTTP_ADDRESS: `0.0.0.0:${CHANGED_PORT}`, ...changes },
      });
      try {
        return await use(`http://${address}`, proxy);
      } finally {
        await proxy.stop();
      }
    },
    close: () => resources.disposeAsync(),
  };
}
