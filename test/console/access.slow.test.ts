import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { createServiceKey, hashServiceKey } from '../../packages/contract/src/service-key.ts';
import { consoleTests, dialog, rowOf, type StartedService, settled, startPlain } from '../fixtures/console.ts';

// Blocks, keys and the settings of identity in the console; a proxy, which the test is, says who uses it.

const DAY_MS = 24 * 60 * 60 * 1_000;
const KEY = createServiceKey();
const hashOf = (key: string) => hashServiceKey(key) ?? '';
const dayIn = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10);
const KEYS = [
  { name: 'exchanged', sha256: [hashOf(createServiceKey()), hashOf(KEY)], groups: ['reporting'], management: true },
  { name: 'near', sha256: [hashOf(createServiceKey())], for: ['finance'], expires: dayIn(5) },
  { name: 'past', sha256: [hashOf(createServiceKey())], expires: '2020-01-01' },
  { name: 'distant', sha256: [hashOf(createServiceKey())], expires: dayIn(300) },
];
const IDENTITY = {
  proxy: { bare: true, trusted: ['127.0.0.0/8'], groups: 'x-forwarded-groups' },
  keys: KEYS,
  roles: { admin: ['platform'], auditor: ['security'], operator: ['sre'], viewer: ['*'] },
};

const tests = consoleTests(async (): Promise<StartedService> => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-console-access-'));
  await writeFile(join(folder, 'service.yaml'), JSON.stringify({ identity: IDENTITY }));
  const { service, close } = await startPlain({}, ['--service-config', join(folder, 'service.yaml')]);
  const closeAll = async () => {
    await close();
    await rm(folder, { recursive: true });
  };
  return { service, close: closeAll };
});

/** What the proxy says of a user with this group. */
const as = (group: string) => ({ 'x-forwarded-user': `${group}-user`, 'x-forwarded-groups': group });

/** Calls the API as an administrator, or who the headers say. */
async function call(method: string, path: string, { body, headers = as('platform') }: CallOptions = {}) {
  const response = await fetch(`${tests.service.management}${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });
  return { status: response.status, data: Object(await response.json()).data };
}

interface CallOptions {
  readonly body?: object;
  readonly headers?: Record<string, string>;
}

/** Opens a page as a user with this group. */
async function openAs(...[context, group, hash]: [Parameters<typeof tests.open>[0], string, string]): Promise<Page> {
  const page = await tests.open(context, '#/');
  await page.setExtraHTTPHeaders(as(group));
  await page.goto('about:blank');
  await page.goto(`${tests.service.management}/admin/${hash}`);
  await settled(page);
  return page;
}

const buttonsOf = (page: Page) => page.locator('#content .page button:visible, .page-actions button').allTextContents();

test('a principal is blocked with a duration and a reason, and unblocked after a question', async (context) => {
  const page = await openAs(context, 'platform', '#/access');
  expect(await page.locator('.empty-state').textContent()).toContain('Nothing is blocked');
  await page.getByRole('button', { name: 'Add Block' }).click();
  const submit = dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Block', exact: true });
  expect(await submit.isDisabled()).toBe(true);
  await page.locator('#block-id').fill('sre-user');
  await page.locator('#block-for').fill('soon');
  await page.locator('#block-reason').fill('laptop stolen');
  expect(await submit.isDisabled()).toBe(true);
  await dialog(page).getByText('Must be a duration such as 30m, 1h or 7d').waitFor();
  await page.locator('#block-for').fill('45m');
  expect((await call('GET', '/api/v1/tools', { headers: as('sre') })).status).toBe(200);
  await submit.click();
  await page.locator('.cds--toast-notification--success', { hasText: 'sre-user is blocked' }).waitFor();
  const row = rowOf(page, 'sre-user');
  expect(await row.textContent()).toMatch(/laptop stolen.*platform-user/);
  expect((await call('GET', '/api/v1/tools', { headers: as('sre') })).status).toBe(401);
  const { since, until } = (await call('GET', '/api/v1/blocks/sre-user')).data;
  expect(Math.round((Date.parse(until) - Date.parse(since)) / 60_000)).toBe(45);

  await row.getByRole('button', { name: 'Unblock' }).click();
  await dialog(page).getByRole('button', { name: 'Cancel' }).click();
  expect((await call('GET', '/api/v1/blocks/sre-user')).status).toBe(200);
  await row.getByRole('button', { name: 'Unblock' }).click();
  await dialog(page).getByRole('button', { name: 'Unblock' }).click();
  await row.waitFor({ state: 'detached' });
  expect((await call('GET', '/api/v1/tools', { headers: as('sre') })).status).toBe(200);
});

test('whoever would block themselves is told so, and is not', async (context) => {
  const page = await openAs(context, 'platform', '#/access?new=true');
  await page.locator('#block-id').fill('platform-user');
  await dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Block', exact: true }).click();
  await dialog(page).getByText('who could not end this block').waitFor();
  expect((await call('GET', '/api/v1/blocks')).data).toEqual([]);
});

test('an operator blocks and unblocks a forward where it is listed, and sees neither keys nor other blocks', async (context) => {
  const upstream = await tests.upstream();
  await call('POST', '/api/v1/forwards', { body: { name: 'crm', address: upstream.url } });
  await call('PUT', '/api/v1/blocks/cid');
  tests.onEnd(() => call('DELETE', '/api/v1/forwards/crm'));
  tests.onEnd(() => call('DELETE', '/api/v1/blocks/cid'));
  const page = await openAs(context, 'sre', '#/forwards');
  const row = rowOf(page, 'crm');
  await row.getByRole('button', { name: 'Block', exact: true }).click();
  await dialog(page).getByText('Clients do not see its tools').waitFor();
  await dialog(page).getByRole('button', { name: 'Block', exact: true }).click();
  await row.getByText('Blocked', { exact: true }).waitFor();
  expect(await row.locator('.cds--tag').count()).toBe(1);
  await page.goto(`${tests.service.management}/admin/#/access`);
  await rowOf(page, 'forward:crm').waitFor();
  expect(await page.locator('table tbody tr').count()).toBe(1);
  expect(await page.getByRole('tab').allTextContents()).toEqual(['Blocks']);
  await page.goto(`${tests.service.management}/admin/#/forwards`);
  await row.getByRole('button', { name: 'Unblock' }).click();
  await dialog(page).getByRole('button', { name: 'Unblock' }).click();
  await row.getByText('Blocked', { exact: true }).waitFor({ state: 'detached' });
  expect((await call('GET', '/api/v1/blocks/forward:crm')).status).toBe(404);
});

test('keys have their groups, places, expiry and the last use of each hash, and are blocked in place', async (context) => {
  const page = await openAs(context, 'platform', '#/access?tab=keys');
  const exchanged = page.locator('tbody tr', { hasText: 'exchanged' });
  expect(await exchanged.textContent()).toMatch(/keys\/reporting|reporting/);
  expect(await exchanged.textContent()).toContain('all namespaces, management API');
  const [unused, used] = await exchanged.locator('.used-cell div').allTextContents();
  expect([unused, used]).toEqual(KEYS[0]?.sha256.map((hash) => `${hash.slice(0, 8)}: none`));
  await call('GET', '/api/v1/tools', { headers: { authorization: `Bearer ${KEY}` } });
  await expect.poll(() => exchanged.locator('.used-cell div').nth(1).textContent()).toMatch(/: \d/);
  expect(await exchanged.locator('.used-cell div').first().textContent()).toBe(unused);
  const tagsOf = (name: string) => rowOf(page, name).locator('.cds--tag').allTextContents();
  expect(await tagsOf('near')).toEqual(['Expires soon']);
  expect(await tagsOf('past')).toEqual(['Expired']);
  expect(await tagsOf('distant')).toEqual([]);
  expect(await rowOf(page, 'near').textContent()).toContain('finance');

  await exchanged.getByRole('button', { name: 'Block', exact: true }).click();
  await dialog(page).getByRole('button', { name: 'Block', exact: true }).click();
  await exchanged.locator('.cds--tag', { hasText: 'Blocked' }).waitFor();
  expect((await call('GET', '/api/v1/blocks/keys%2Fexchanged')).status).toBe(200);
  await exchanged.getByRole('button', { name: 'Unblock' }).click();
  await dialog(page).getByRole('button', { name: 'Unblock' }).click();
  await exchanged.getByRole('button', { name: 'Block', exact: true }).waitFor();
});

test('an auditor sees the settings of identity, and changes nothing', async (context) => {
  const page = await openAs(context, 'security', '#/access?tab=identity');
  const content = page.locator('#content');
  await content.getByText('Revision 1').waitFor();
  expect(await content.locator('.facts').textContent()).toContain('Role adminplatform');
  expect(await content.locator('.facts').textContent()).toContain('every authenticated principal');
  expect(await rowOf(page, 'proxy (without a prefix)').textContent()).toContain('127.0.0.0/8');
  expect(await content.locator('.cds--inline-notification--warning').count()).toBe(0);
  const identity = { ...IDENTITY, proxy: { ...IDENTITY.proxy, trusted: ['0.0.0.0/0'] } };
  expect((await call('PUT', '/api/v1/identity', { body: { identity } })).status).toBe(200);
  await content.getByText('Revision 2').waitFor();
  await content.locator('.cds--inline-notification--warning', { hasText: 'is every address' }).waitFor();
  for (const tab of ['', '?tab=keys']) {
    await page.goto(`${tests.service.management}/admin/#/access${tab}`);
    await settled(page);
    expect((await buttonsOf(page)).filter((label) => /^(?:Add Block|Block|Unblock)$/.test(label))).toEqual([]);
  }
});
