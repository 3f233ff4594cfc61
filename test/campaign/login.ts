import { findBrowser } from '../fixtures/browser.ts';
import { PROGRAM_CACHE } from '../fixtures/programs.ts';
import { loginChecks } from '../login/checks.ts';
import { startLogin } from '../login/environment.ts';
import { findJava, installKeycloak, startKeycloak } from '../login/keycloak.ts';
import { buildOauth2Proxy, VERSION } from '../login/oauth2-proxy.ts';
import type { Campaign } from './campaign.ts';

/** How long event streams are held. */
const STREAM_MINUTES = 60;

/**
 * The login with the real programs, oauth2-proxy and Keycloak, configured by the files in `deploy/login` only.
 */
export const loginCampaign: Campaign = {
  name: 'login',
  title: 'Login with oauth2-proxy and Keycloak',
  async run(print, minutes = STREAM_MINUTES) {
    const java = findJava();
    const browser = findBrowser();
    const oauth2Proxy = java && browser ? await buildOauth2Proxy() : undefined;
    if (!java || !browser || !oauth2Proxy) {
      return { passed: true, report: 'Skipped: needs Go, Java 21 or later and Chromium.' };
    }
    const keycloak = await installKeycloak(PROGRAM_CACHE);
    const login = await startLogin({ oauth2Proxy, browser }, (secrets) => startKeycloak(keycloak, java, secrets));
    const lines: string[] = [];
    let passed = true;
    try {
      for (const { name, run } of loginChecks(minutes * 60_000)) {
        const started = performance.now();
        const result = await run(login).then(
          () => 'passed',
          (error: unknown) => `failed: ${error instanceof Error ? (error.stack ?? error.message) : error}`,
        );
        passed &&= result === 'passed';
        const seconds = ((performance.now() - started) / 1000).toFixed(1);
        print(`${result}: ${name} (${seconds} s)`);
        lines.push(`| ${name} | ${result.split('\n')[0]} |`);
      }
    } finally {
      await login.close();
    }
    const versions = `oauth2-proxy ${VERSION}, Keycloak ${/keycloak-([\d.]+)/.exec(keycloak)?.[1]}`;
    const report = [
      `${versions}; an agent of the official SDK, and Chromium for the sign-in pages.`,
      '',
      '| Check | |',
      '|---|---|',
      ...lines,
    ];
    return { passed, report: report.join('\n') };
  },
};
