import { afterAll, beforeAll, describe, it } from 'vitest';
import { findBrowser } from './fixtures/browser.ts';
import { findGo } from './fixtures/programs.ts';
import { LOGIN_CHECKS } from './login/checks.ts';
import { type LoginEnvironment, startLogin } from './login/environment.ts';
import { buildOauth2Proxy } from './login/oauth2-proxy.ts';
import { startOidcProvider } from './login/oidc-provider.ts';

// The checks of `npm run campaign -- login` with oidc-provider in place of Keycloak.

const browser = findBrowser();
const isPossible = browser !== undefined && findGo() !== undefined;
if (!isPossible) console.error('skipped: the login with oauth2-proxy; install Go and Chromium');

describe.runIf(isPossible)('the login of deploy/login', () => {
  let login: LoginEnvironment;
  beforeAll(async () => {
    const oauth2Proxy = await buildOauth2Proxy();
    if (!oauth2Proxy || !browser) throw new Error('Go or the browser is missing');
    login = await startLogin({ oauth2Proxy, browser }, startOidcProvider);
  }, 900_000);
  afterAll(() => login.close());

  it.each(LOGIN_CHECKS)('$name', async ({ run }) => run(login), 120_000);
});
