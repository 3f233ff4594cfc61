import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { startBalancer } from '../fixtures/balancer.ts';
import { consoleTests, settled } from '../fixtures/console.ts';
import { startConsoleContent } from '../fixtures/console-content.ts';
import { type ConsolePage, PAGES } from '../fixtures/console-pages.ts';
import { startInterruptibleProxy } from '../fixtures/interruptible-proxy.ts';

const tests = consoleTests(startConsoleContent);

const links = (page: Page) => page.locator('nav[aria-label="Pages"] a');
const scripts = (page: Page) =>
  page.evaluate<string[]>(
    `performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname).filter((path) => path.endsWith('.js'))`,
  );
/** A part of a page that is wrong during an outage. */
const FALSE_TEXT = /dynamically imported module|Updated just now|could not be shown/;

/** Scripts and styles that only one page needs. */
const OWN_FILES = /\/assets\/(?:metrics|topology|evaluators)[\w-]*\.(?:js|css)$/;
/** The script of the page that is loaded last. */
const LAST_PAGE = /\/assets\/plugins-/;

test('the code of other pages is loaded once nothing else is loading', async (context) => {
  const page = await tests.open(context, '#/');
  const answered = Promise.withResolvers<void>();
  await page.route('**/api/v1/management/statistics', async (route) => {
    await answered.promise;
    await route.continue();
  });
  await page.reload();
  await page.locator('h1.title').waitFor();
  // The event stream opens after all requests of the page have been sent.
  await page.locator('.plots svg.layout-svg-wrapper').first().waitFor();
  expect((await scripts(page)).filter((path) => LAST_PAGE.test(path))).toEqual([]);
  answered.resolve();
  await expect.poll(async () => (await scripts(page)).some((path) => LAST_PAGE.test(path))).toBe(true);
  const loaded = await scripts(page);
  for (const label of ['Tools', 'Tool calls', 'Interactions', 'Namespaces', 'Forwards', 'Services', 'Tasks']) {
    await links(page).getByText(label, { exact: true }).click();
    await settled(page);
    expect(await scripts(page), label).toEqual(loaded);
  }
});

/** Pages that are opened during an outage, each from the one before it, which is open when the outage begins. */
const VISITS: readonly (readonly [start: string, visited: readonly ConsolePage[]])[] = [
  ['#/', PAGES.slice(1)],
  // Nothing of it has been loaded yet.
  ['#/plugins-admin', PAGES.slice(0, 1)],
];

test('every page says that there is an outage when it begins and when it is opened during one, and recovers by itself', async (context) => {
  const page = await tests.open(context, '#/');
  const proxy = await startInterruptibleProxy(tests.service.management);
  tests.onEnd(proxy.close);
  const problems: string[] = [];
  const check = async (where: string): Promise<void> => {
    await page.getByText('The service does not respond').first().waitFor();
    await page.locator('.connection', { hasText: 'Last response' }).waitFor();
    problems.push(...(await falseTexts(page)).map((text) => `${where}: ${text}`));
  };
  for (const [start, visited] of VISITS) {
    await page.goto('about:blank');
    await page.goto(`${proxy.url}/admin/${start}`);
    await settled(page);
    await expect.poll(async () => (await scripts(page)).some((path) => LAST_PAGE.test(path))).toBe(true);
    for (const { label, title = label } of visited) {
      const before = await page.locator('h1.title').textContent();
      proxy.interrupt(true);
      await check(`${before}, when the outage begins`);
      await links(page).getByText(label, { exact: true }).click();
      await expect.poll(() => page.locator('h1.title').textContent(), { message: label }).toBe(title);
      await check(`${title}, opened during the outage`);
      // Nobody knows that there is nothing.
      if ((await page.locator('.empty-state').count()) > 0) problems.push(`${title} shows an empty list`);
      proxy.interrupt(false);
      await page.getByText('The service does not respond').first().waitFor({ state: 'detached' });
      await page.locator('.page .cds--inline-notification--error').first().waitFor({ state: 'detached' });
      await settled(page);
      expect(await page.locator('h1.title').textContent()).toBe(title);
      await page.locator('.connection', { hasText: 'Updated' }).waitFor();
    }
  }
  expect(problems).toEqual([]);
});

test('a page whose code could not be loaded appears after the outage', async (context) => {
  const page = await tests.open(context, '#/');
  const proxy = await startInterruptibleProxy(tests.service.management);
  tests.onEnd(proxy.close);
  for (const [label, isOpen] of [
    ['Metrics', page.locator('.page table').first()],
    ['Topology', page.locator('.topology-node').first()],
    ['Evaluators', page.locator('.page table').first()],
  ] as const) {
    await page.goto('about:blank');
    await page.route(OWN_FILES, (route) => route.abort('connectionrefused'));
    await page.goto(`${proxy.url}/admin/`);
    await page.locator('h1.title').waitFor();
    proxy.interrupt(true);
    await page.getByText('The service does not respond').first().waitFor();
    await links(page).getByText(label, { exact: true }).click();
    await page.locator('#content .cds--skeleton__text').first().waitFor();
    expect(await falseTexts(page)).toEqual([]);
    await page.unroute(OWN_FILES);
    proxy.interrupt(false);
    await isOpen.waitFor();
    expect(await page.locator('h1.title').textContent()).toBe(label);
    const missing = await page.evaluate<number>(
      `[...document.querySelectorAll('link[rel="stylesheet"]')].filter(({ sheet }) => !sheet).length`,
    );
    expect(missing, `styles of ${label}`).toBe(0);
  }
});

test('a plugin whose code could not be loaded is loaded after the outage', async (context) => {
  const page = await tests.open(context, '#/');
  const proxy = await startInterruptibleProxy(tests.service.management);
  tests.onEnd(proxy.close);
  const script = '**/plugins/hostile/main.js';
  const state = (text: string) => page.locator('.page table').getByText(text, { exact: true });
  await page.route(script, async (route) => {
    await state('loading').waitFor();
    proxy.interrupt(true);
    await route.abort('connectionrefused');
  });
  await page.goto('about:blank');
  await page.goto(`${proxy.url}/admin/#/plugins-admin`);
  await page.getByText('The service does not respond').first().waitFor();
  await page.unroute(script);
  proxy.interrupt(false);
  await state('skipped').waitFor();
  // The service has just responded.
  expect((await falseTexts(page)).filter((text) => text !== 'Updated just now')).toEqual([]);
});

test('a proxy that cannot reach the service is an outage, too', async (context) => {
  const page = await tests.open(context, '#/');
  const address = new URL(tests.service.management).host;
  const balancer = await startBalancer([address]);
  tests.onEnd(async () => balancer[Symbol.asyncDispose]());
  await page.goto(`${balancer.url}/admin/#/interactions`);
  await settled(page);
  balancer.setBackends(['127.0.0.1:9']);
  await page.getByText('The service does not respond').first().waitFor();
  await page.locator('.connection', { hasText: 'Last response' }).waitFor();
  balancer.setBackends([address]);
  await page.getByText('The service does not respond').first().waitFor({ state: 'detached' });
});

test('errors of the service do not count as updates', async (context) => {
  const page = await tests.open(context, '#/');
  // Its events would be updates.
  await page.route('**/api/v1/events*', (route) => route.fulfill({ status: 500 }));
  await page.goto(`${tests.service.management}/admin/#/interactions`);
  await page.reload();
  await settled(page);
  const error = { data: null, error: { code: 'INTERNAL', message: 'the disk is full' } };
  await page.route('**/api/v1/**', (route) => route.fulfill({ status: 500, json: error }));
  await page.locator('.connection', { hasText: /Updated \d+ s ago/ }).waitFor();
  const heard = await page.locator('.connection').getAttribute('title');
  // They are requested every five seconds.
  for (let count = 0; count < 2; count++) await page.waitForResponse('**/api/v1/interactions*');
  expect(await page.locator('.connection').getAttribute('title')).toBe(heard);
});

async function falseTexts(page: Page): Promise<string[]> {
  const texts = await page.locator('#content, .connection').allTextContents();
  return texts.filter((text) => FALSE_TEXT.test(text));
}
