import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findBrowser } from './fixtures/browser.ts';
import { findGo } from './fixtures/programs.ts';
import { loginChecks } from './login/checks.ts';
import { LOGIN_FOLDER } from './login/deploy-files.ts';
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

  it('names only settings that oauth2-proxy has', async () => {
    const oauth2Proxy = (await buildOauth2Proxy()) ?? '';
    const { stdout, stderr } = await promisify(execFile)(oauth2Proxy, ['--help']);
    const settings = new Set(
      [...(stdout + stderr).matchAll(/^\s+(?:-\w, )?--([a-z][\w-]*)( strings)?/gm)].map(
        ([, flag = '', isList]) => `OAUTH2_PROXY_${flag.replaceAll('-', '_').toUpperCase()}${isList ? 'S' : ''}`,
      ),
    );
    const deploy = join(LOGIN_FOLDER, '..');
    const files = await readdir(deploy, { recursive: true, withFileTypes: true });
    const texts = files
      .filter((entry) => entry.isFile())
      .map((entry) => readFile(join(entry.parentPath, entry.name), 'utf8'));
    const page = readFile(join(deploy, '../docs/deployment.md'), 'utf8');
    const named = (await Promise.all([...texts, page])).flatMap(
      (text) => text.match(/\bOAUTH2_PROXY_[A-Z0-9_]*[A-Z]\b/g) ?? [],
    );
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((name) => !settings.has(name))).toEqual([]);
  });

  it.each(loginChecks(2_000))('$name', async ({ run }) => run(login), 120_000);
});
