import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page, Route } from 'playwright-core';
import { expect, test } from 'vitest';
import { consoleTests, dialog, rowOf, settled } from '../fixtures/console.ts';
import { DIALOG_VIEWS, inEachView, PAGE_VIEWS, startConsoleContent } from '../fixtures/console-content.ts';
import { PAGES } from '../fixtures/console-pages.ts';
import { toolList, toolText } from '../fixtures/raw-upstream/texts.ts';

// The selectors that browser tests of others use (docs/console.md); `page-hooks.slow.test.ts` has those of every page.

const tests = consoleTests(startConsoleContent);
const TOOL = { description: 'd', uri: 'x://y', toolType: 'x', input_schema: { type: 'object' } };

/** Registry pages with the buttons of a row of a hand-made or, for forwards, a registered object. */
const LISTS = [
  { hash: '#/tools', name: 'hooked-tool', buttons: ['Details', 'Edit', 'Delete'] },
  { hash: '#/resources', name: 'hooked-resource', buttons: ['Details', 'Edit', 'Delete'] },
  { hash: '#/prompts', name: 'hooked-prompt', buttons: ['Details', 'Edit', 'Delete'] },
  { hash: '#/namespaces', name: 'hooked-namespace', buttons: ['Details', 'Edit', 'Delete'] },
  { hash: '#/forwards', name: 'hooked-forward', buttons: ['Details', 'Edit', 'Delete'] },
  { hash: '#/services', name: 'hooked-service', buttons: ['Details', 'Edit', 'Delete'] },
] as const;

async function registerHooked(): Promise<void> {
  const { service } = tests;
  const upstream = await tests.upstream();
  await service.register('tools', { ...TOOL, name: 'hooked-tool' });
  const resource = { name: 'hooked-resource', location: 'x://y', type: 'x', description: 'd' };
  await service.register('resources', resource);
  const messages = [{ role: 'user', content: 'Hello' }];
  await service.register('prompts', { name: 'hooked-prompt', description: 'd', arguments: [], messages });
  await service.register('namespaces', { name: 'hooked-namespace' });
  const forward = { name: 'hooked-forward', address: upstream.url, namespace: 'hooked-namespace' };
  await service.register('forwards', forward);
  const added = { name: 'hooked-service', address: '127.0.0.1:9', serviceType: 'tool-invoker' };
  expect((await service.manage('POST', '/services', added)).status).toBeLessThan(300);
  const paths = ['tools/hooked-tool', 'resources/hooked-resource', 'prompts/hooked-prompt', 'services/hooked-service'];
  for (const path of [...paths, 'forwards/hooked-forward', 'namespaces/hooked-namespace?cascade=true'])
    tests.onEnd(() => service.manage('DELETE', `/${path}`));
}

test('the menu has the pages in their order, and leads to each', async (context) => {
  const page = await tests.open(context, '#/');
  const links = page.locator('nav[aria-label="Pages"] a');
  expect(await links.allTextContents()).toEqual(PAGES.map(({ label }) => label));
  expect(await page.locator('.nav-section').allTextContents()).toEqual(['Developer', 'Admin']);
  for (const [index, { label, title = label }] of PAGES.entries()) {
    await links.nth(index).click();
    await expect.poll(() => page.locator('h1.title').allTextContents()).toEqual([title]);
  }
});

test('every page shows skeletons while its data loads, and none afterwards', async (context) => {
  const page = await tests.open(context, '#/');
  const isData = (url: URL) => url.pathname === '/metrics' || /^\/api\/v1\/(?!events$)/.test(url.pathname);
  for (const { name, hash } of PAGE_VIEWS.filter(({ name: each }) => each !== 'Page not found')) {
    const loaded = Promise.withResolvers<void>();
    const hold = async (route: Route): Promise<void> => {
      await loaded.promise;
      await route.continue();
    };
    await page.route(isData, hold);
    await page.goto('about:blank');
    await page.goto(`${tests.service.management}/admin/${hash}`);
    await page.locator('h1.title').waitFor();
    await page
      .locator('.page [class*="skeleton"]:visible')
      .first()
      .waitFor({ timeout: 5_000 })
      .catch(() => {
        throw new Error(`${name} shows no skeleton`);
      });
    expect(await page.locator('.empty-state').count(), name).toBe(0);
    loaded.resolve();
    await settled(page);
    await page.unroute(isData);
  }
});

test('results of actions are toasts, errors of a page inline notifications', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  await page.getByRole('button', { name: 'Create Namespace' }).click();
  await page.locator('#namespace-name').fill('toasted');
  await dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Create' }).click();
  await page.locator('.cds--toast-notification--success', { hasText: 'toasted' }).waitFor();
  const error = { data: null, error: { code: 'INTERNAL', message: 'the disk is full' } };
  const isDeleted = (url: URL) => url.pathname === '/api/v1/namespaces/toasted';
  await page.route(isDeleted, (route) => route.fulfill({ status: 500, json: error }));
  await rowOf(page, 'toasted').getByRole('button', { name: 'Delete' }).click();
  await page.locator('.cds--toast-notification--error', { hasText: 'the disk is full' }).waitFor();
  expect(await page.locator('.cds--inline-notification').count()).toBe(0);
  await page.unroute(isDeleted);
  await rowOf(page, 'toasted').getByRole('button', { name: 'Delete' }).click();
  const undo = page.locator('.cds--actionable-notification--toast', { hasText: 'toasted' });
  await undo.getByRole('button', { name: 'Undo' }).waitFor();
  await page.route('**/api/v1/namespaces', (route) => route.fulfill({ status: 500, json: error }));
  await page.reload();
  await page.locator('.page .cds--inline-notification--error', { hasText: 'the disk is full' }).waitFor();
});

test('each registry page has one table, in which a row is found by its name alone and has its buttons', async (context) => {
  const page = await tests.open(context, '#/');
  await registerHooked();
  for (const { hash, name, buttons } of LISTS) {
    await page.goto(`${tests.service.management}/admin/${hash}`);
    await page.reload();
    await settled(page);
    expect(await page.locator('table').count(), hash).toBe(1);
    expect(await page.locator('table.cds--data-table').count(), hash).toBe(1);
    const row = page.locator('table tbody tr', { hasText: new RegExp(name) });
    expect(await row.count(), hash).toBe(1);
    expect(await page.getByRole('row', { name }).count(), hash).toBe(1);
    for (const button of buttons) expect(await row.getByRole('button', { name: button, exact: true }).count()).toBe(1);
    await row.getByRole('button', { name: 'Details', exact: true }).click();
    await dialog(page).locator('.cds--modal-header__heading', { hasText: name }).waitFor();
    await page.goBack();
    await dialog(page).waitFor({ state: 'detached' });
  }
  // What cannot be done has no button.
  await page.goto(`${tests.service.management}/admin/#/namespaces`);
  expect(await rowOf(page, 'default').getByRole('button', { name: 'Delete' }).count()).toBe(0);
});

test('up to 500 rows are all in the document, beyond that the visible ones with their positions', async (context) => {
  const page = await tests.open(context, '#/tools?namespace=counted');
  const toolsOf = (count: number) =>
    toolList(...Array.from({ length: count }, (_, index) => toolText(`row-${String(index).padStart(3, '0')}`)));
  const upstream = await tests.upstream({ scripts: { 'tools/list': toolsOf(500) } });
  await tests.service.register('forwards', { name: 'counted', address: upstream.url, namespace: 'counted' });
  tests.onEnd(() => tests.service.manage('DELETE', '/forwards/counted'));
  const rows = page.locator('table tbody tr:not([aria-hidden])');
  await expect.poll(() => rows.count()).toBe(500);
  upstream.scripts['tools/list'] = toolsOf(501);
  await tests.service.manage('POST', '/forwards/counted/refreshes');
  await expect.poll(() => rows.count()).toBeLessThan(100);
  expect(await rows.first().getAttribute('aria-rowindex')).toBe('2');
  expect(await page.locator('table').getAttribute('aria-rowcount')).toBe('502');
});

test('a discovered entry that is deleted can be disabled from the toast, so that it does not return', async (context) => {
  const page = await tests.open(context, '#/tools?namespace=returning');
  const upstream = await tests.upstream();
  await tests.service.register('forwards', { name: 'returning', address: upstream.url, namespace: 'returning' });
  tests.onEnd(() => tests.service.manage('DELETE', '/forwards/returning'));
  await rowOf(page, 'a').getByRole('button', { name: 'Delete' }).click();
  await rowOf(page, 'a').waitFor({ state: 'detached' });
  await page.locator('.toasts').getByRole('button', { name: 'Disable it' }).click();
  await expect
    .poll(async () => {
      await tests.service.manage('POST', '/forwards/returning/refreshes');
      return (await tests.service.manage('GET', '/tools/a?namespace=returning')).data;
    })
    .toMatchObject({ enabled: false });
});

test('a forward whose entries have an override asks before it is deleted', async (context) => {
  const page = await tests.open(context, '#/forwards');
  const upstream = await tests.upstream();
  await tests.service.register('forwards', { name: 'overridden', address: upstream.url, namespace: 'overridden' });
  tests.onEnd(() => tests.service.manage('DELETE', '/forwards/overridden'));
  const { data } = await tests.service.manage('GET', '/tools/a?namespace=overridden');
  const { forward: _forward, upstreamName: _name, ...tool } = Object(data);
  const changed = await tests.service.manage('PUT', '/tools/a?namespace=overridden', { ...tool, description: 'new' });
  expect(changed.status).toBe(200);
  await rowOf(page, 'overridden').getByRole('button', { name: 'Delete' }).click();
  await dialog(page).getByText('One of its entries has been changed').waitFor();
  expect((await tests.service.manage('GET', '/forwards/overridden')).status).toBe(200);
  await dialog(page).getByRole('button', { name: 'Delete' }).click();
  await rowOf(page, 'overridden').waitFor({ state: 'detached' });
});

test('"Refresh" on the dashboard loads everything again', async (context) => {
  const page = await tests.open(context, '#/');
  const requested = new Set<string>();
  page.on('request', (request) => requested.add(new URL(request.url()).pathname));
  await page.getByRole('button', { name: 'Refresh' }).click();
  // These are not polled.
  await expect
    .poll(() => [...requested])
    .toEqual(expect.arrayContaining(['/api/v1/management/statistics', '/api/v1/forwards', '/api/v1/services']));
});

test('dialogs have a heading and "Close", at which they do not begin, forms two buttons; there is never more than one', async (context) => {
  const page = await tests.open(context, '#/');
  const problems = await inEachView(page, tests.service, DIALOG_VIEWS, dialogProblems);
  expect(problems).toEqual({});
});

/** What differs from the markup that tests rely on. */
async function dialogProblems(page: Page): Promise<string[]> {
  const found: string[] = [];
  if (await page.evaluate("document.activeElement.matches('.cds--modal-close')")) found.push('begins at "Close"');
  if ((await dialog(page).locator('.cds--popover--open .cds--tooltip-content').count()) > 0) found.push('a tooltip');
  await page.keyboard.press('Control+k');
  const count = await dialog(page).count();
  if (count !== 1) return [...found, `${count} dialogs`];
  const heading = await dialog(page).locator('.cds--modal-header__heading').textContent();
  if (!heading?.trim()) found.push('no heading');
  if ((await dialog(page).locator('[aria-label="Close"]').count()) !== 1) found.push('not one button "Close"');
  const footer = dialog(page).locator('.cds--modal-footer button:visible');
  const buttons = await footer.count();
  if (buttons !== 0 && buttons !== 2) found.push(`${buttons} buttons in the footer`);
  return found;
}

test('the status of a forward is there within five seconds of its creation, whatever its server does', async (context) => {
  const page = await tests.open(context, '#/forwards');
  const silent = await tests.upstream();
  silent.fault = { kind: 'silence' };
  await page.getByRole('button', { name: 'Add Forward' }).first().click();
  await page.locator('#forward-name').fill('silent');
  await page.locator('#forward-address').fill(silent.url);
  tests.onEnd(() => tests.service.manage('DELETE', '/forwards/silent'));
  await dialog(page).getByRole('button', { name: 'Add', exact: true }).click();
  const tag = rowOf(page, 'silent').locator('.cds--tag');
  await tag.waitFor({ timeout: 5_000 });
  expect(await tag.allTextContents()).toEqual(['Unavailable']);
});

test('docs/console.md names every selector', async () => {
  const documented = await readFile(join(import.meta.dirname, '../../docs/console.md'), 'utf8');
  const hooks = [
    'h1.title',
    'p.description',
    'skeleton',
    '.cds--inline-notification--error',
    'table tbody tr',
    '.cds--modal.is-visible',
    '.cds--modal-header__heading',
    '.cds--modal-footer',
    '.hero-tile',
    '.hero-value',
    '.cds--tag',
    ...['tool-name', 'tool-description', 'tool-uri', 'resource-name', 'resource-description', 'resource-location'],
    ...['prompt-name', 'prompt-description', 'forward-name', 'forward-address', 'namespace-name'],
  ];
  expect(hooks.filter((hook) => !documented.includes(hook))).toEqual([]);
});
