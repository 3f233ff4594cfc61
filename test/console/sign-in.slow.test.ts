import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeEach, expect, type TestContext, test } from 'vitest';
import { consoleTests, dialog, type StartedService, settled, startPlain } from '../fixtures/console.ts';
import { type SignInIssuer, startSignInIssuer } from '../fixtures/sign-in-issuer.ts';

// The console where people sign in, over http on the loopback interface.

let issuer: SignInIssuer;
const tests = consoleTests(async (): Promise<StartedService> => {
  issuer = await startSignInIssuer();
  const folder = await mkdtemp(join(tmpdir(), 'sluice-console-sign-in-'));
  const sign_in = { client_id: 'sluice-console', scopes: ['openid', 'email'] };
  const identity = {
    tokens: [{ name: 'corp', issuer: issuer.url, groups: ['groups'], person: 'email', sign_in }],
    roles: { admin: ['corp/admins'], operator: ['corp/sre'], viewer: ['corp/staff'] },
  };
  await writeFile(join(folder, 'service.yaml'), JSON.stringify({ identity }));
  const env = { SERVICE_PUBLIC_URL: 'http://sluice.test' };
  const { service, close } = await startPlain(env, ['--service-config', join(folder, 'service.yaml')]);
  const closeAll = async () => {
    await close();
    issuer.close();
    await rm(folder, { recursive: true });
  };
  return { service, close: closeAll };
});

beforeEach(() => {
  issuer?.users.clear();
  issuer?.users.set('ann', { groups: ['admins'], email: 'ann@example.com', email_verified: true });
  issuer?.users.set('bob', { groups: ['staff'] });
  issuer?.users.set('cid', { groups: ['staff'] });
  issuer?.users.set('eve', { groups: ['others'] });
});

/** Opens a page as somebody who has not signed in anywhere. */
async function open(context: TestContext, hash: string): Promise<Page> {
  const page = await tests.open(context, hash);
  await page.context().clearCookies();
  await page.reload();
  await settled(page);
  return page;
}

/** Signs in at the pages of the issuer, where the page is. */
async function fill(page: Page, user: string): Promise<void> {
  await page.locator('input[name="login"]').fill(user);
  await page.locator('input[name="password"]').fill('x');
  await page.locator('[type="submit"]').click();
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.waitForURL((url) => url.origin !== issuer.url);
}

async function signIn(context: TestContext, user: string, hash = '#/'): Promise<Page> {
  const page = await open(context, hash);
  expect(await page.locator('h1.title').textContent()).toBe('Sign in');
  await page
    .getByRole('link', { name: 'Sign in' })
    .or(page.getByRole('button', { name: 'Sign in' }))
    .last()
    .click();
  await fill(page, user);
  await settled(page);
  return page;
}

const titleOf = (page: Page) => page.locator('h1.title').textContent();
const menuOf = (page: Page) => page.locator('nav[aria-label="Pages"] a').allTextContents();

test('who signs in comes back to the page that they have opened, as whom the header says', async (context) => {
  const page = await signIn(context, 'ann', '#/namespaces?open=default');
  expect(new URL(page.url()).hash).toBe('#/namespaces?open=default');
  await dialog(page).waitFor();
  expect(await page.locator('.account').textContent()).toBe('ann@example.com');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Create Namespace' }).waitFor();
  expect(await menuOf(page)).toEqual(expect.arrayContaining(['Evaluators', 'Interactions', 'Sign-ins']));
});

test('signing out ends the sign-in, also in other tabs', async (context) => {
  const page = await signIn(context, 'ann');
  const other = await page.context().newPage();
  await other.goto(`${tests.service.management}/admin/#/tools`);
  await settled(other);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await expect.poll(() => titleOf(page)).toBe('Sign in');
  expect(issuer.requests.at(-1)).toBe('revocation');
  expect((await page.context().cookies()).map(({ name }) => name)).not.toContain('sluice');
  await other.getByText('Your sign-in has ended').waitFor();
});

test('a viewer sees no page and no button that needs another role, and the API refuses it', async (context) => {
  const page = await signIn(context, 'bob', '#/namespaces');
  await page.getByRole('button', { name: 'Details' }).first().waitFor();
  for (const name of ['Create Namespace', 'Edit', 'Delete'])
    expect(await page.getByRole('button', { name }).count(), name).toBe(0);
  const menu = await menuOf(page);
  expect(menu).toEqual(expect.arrayContaining(['Tools', 'Tasks', 'Forwards']));
  for (const label of ['Evaluators', 'Interactions', 'LLM chat', 'Sign-ins']) expect(menu).not.toContain(label);
  await page.goto(`${tests.service.management}/admin/#/evaluators`);
  await expect.poll(() => titleOf(page)).toBe('No access');
  const created = await page.evaluate(async () => {
    const headers = { 'content-type': 'application/json' };
    return (await fetch('../api/v1/namespaces', { method: 'POST', headers, body: '{"name":"x"}' })).status;
  });
  expect(created).toBe(403);
});

test('who has no role is told so', async (context) => {
  const page = await signIn(context, 'eve');
  expect(await titleOf(page)).toBe('No access');
  expect(await page.locator('.console-content').textContent()).toContain('corp/others');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await expect.poll(() => titleOf(page)).toBe('Sign in');
});

test('what somebody has read does not stay in memory for whoever signs in next', async (context) => {
  const page = await signIn(context, 'ann', '#/namespaces');
  await page.evaluate(() => Object.assign(globalThis, { isOfAnn: true }));
  await page.context().clearCookies();
  const tab = await page.context().newPage();
  await tab.goto(`${tests.service.management}/api/v1/session/login`);
  await fill(tab, 'bob');
  const isOfAnn = () => page.evaluate(() => 'isOfAnn' in globalThis).catch(() => undefined);
  await expect.poll(isOfAnn, { timeout: 70_000 }).toBe(false);
  await settled(page);
  expect(await page.locator('.account').textContent()).toBe('corp/bob');
}, 120_000);

test('when a sign-in ends, what was typed stays; it is continued after another one in a new tab', async (context) => {
  const page = await signIn(context, 'ann', '#/namespaces');
  await page.getByRole('button', { name: 'Create Namespace' }).click();
  await dialog(page).locator('#namespace-name').fill('typed');
  const api = page.request;
  const headers = { 'sec-fetch-site': 'same-origin' };
  const sessions = await (await api.get(`${tests.service.management}/api/v1/sessions`, { headers })).json();
  for (const { id } of sessions.data)
    await api.delete(`${tests.service.management}/api/v1/sessions/${id}`, { headers });
  const link = page.locator('a', { hasText: 'Sign in' });
  await page.getByText('Your sign-in has ended').waitFor();
  expect(await dialog(page).locator('#namespace-name').inputValue()).toBe('typed');
  expect(await link.getAttribute('target')).toBe('_blank');
  const tab = await page.context().newPage();
  await tab.goto((await link.getAttribute('href')) ?? '');
  // The issuer still knows the person.
  await tab.getByRole('button', { name: 'Continue' }).click();
  await tab.waitForURL((url) => url.pathname === '/admin/');
  await settled(tab);
  await page.bringToFront();
  await dialog(page).getByRole('button', { name: 'Create' }).click();
  await page.locator('table tbody tr', { hasText: 'typed' }).waitFor();
});

test('an administrator ends the sign-in of another person', async (context) => {
  const viewer = await signIn(context, 'cid');
  const cookies = await viewer.context().cookies();
  await viewer.context().clearCookies();
  const page = await signIn(context, 'ann', '#/sign-ins');
  const row = page.locator('table tbody tr', { hasText: 'corp/cid' });
  await row.getByRole('button', { name: 'End' }).click();
  await row.waitFor({ state: 'detached' });
  await page.context().clearCookies();
  await page.context().addCookies(cookies);
  await page.reload();
  await expect.poll(() => titleOf(page)).toBe('Sign in');
});
