import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { consoleTests, rowOf } from '../fixtures/console.ts';
import { pagedTools } from '../fixtures/raw-upstream/texts.ts';

const tests = consoleTests();

/** Longest pause of the page (console.md 3), in milliseconds. */
const LIMIT_MS = 100;
/** Other programs may use the processor, so the best of some tries counts. */
const TRIES = 3;

/** Records the tasks of the page that take longer than 50 ms. */
const OBSERVE =
  'globalThis.pauses = []; new PerformanceObserver((list) => pauses.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask" })';

/** Returns the longest pause during an action: the best of some tries. */
async function longestPause(page: Page, action: () => Promise<unknown>): Promise<number> {
  const longest: number[] = [];
  for (let attempt = 0; attempt < TRIES; attempt++) {
    await page.evaluate('pauses.length = 0');
    await action();
    // Long tasks are reported in a later one.
    await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))');
    longest.push(await page.evaluate<number>('Math.max(0, ...pauses)'));
  }
  return Math.min(...longest);
}

test('10,000 tools are scrolled, filtered and sorted without a pause over 100 ms', async (context) => {
  const upstream = await tests.upstream({ scripts: { 'tools/list': pagedTools(10_000, 1_000) } });
  await tests.service.register('forwards', { name: 'large', address: upstream.url });
  tests.onEnd(() => tests.service.manage('DELETE', '/forwards/large'));
  const page = await tests.open(context, '#/');
  await page.evaluate(OBSERVE);
  const load = async (): Promise<void> => {
    await page.locator('nav[aria-label="Pages"] a', { hasText: 'Tools' }).click();
    await page.getByText('10000 in all').waitFor();
  };
  const count = page.locator('.table-count');
  const pauses = {
    load: await longestPause(page, async () => {
      await page.locator('nav[aria-label="Pages"] a', { hasText: 'Home' }).click();
      await page.locator('.hero-value').first().waitFor();
      await load();
    }),
    scroll: await longestPause(page, async () => {
      await page.locator('.table-scroll').hover();
      for (let step = 0; step < 60; step++) await page.mouse.wheel(0, 2_000);
      await page.locator('.table-scroll').evaluate((element) => Object.assign(element, { scrollTop: 240_000 }));
      await page.locator('tr[aria-rowindex]').nth(5).waitFor();
    }),
    filter: await longestPause(page, async () => {
      await page.locator('#search').pressSequentially('tool-999');
      await expect.poll(() => count.textContent()).toBe('11 of 10000');
      await page.locator('#search').fill('');
      await expect.poll(() => count.textContent()).toBe('10000 in all');
    }),
    sort: await longestPause(page, async () => {
      await page.getByRole('button', { name: 'Name', exact: true }).click();
      await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))');
    }),
    // Somebody else changes an entry, and the list is loaded again.
    change: await longestPause(page, async () => {
      const name = `made-${Math.random()}`;
      await tests.service.register('tools', { name, description: 'd', uri: 'x://y', toolType: 'x', input_schema: {} });
      await page.getByText('10001 in all').waitFor();
      await tests.service.manage('DELETE', `/tools/${name}`);
      await page.getByText('10000 in all').waitFor();
    }),
  };
  console.log(`longest pauses with 10,000 tools in ms: ${JSON.stringify(pauses)}`);
  for (const [action, ms] of Object.entries(pauses)) expect(ms, action).toBeLessThanOrEqual(LIMIT_MS);
  expect(await page.locator('table tbody tr').count()).toBeLessThan(100);
});

test('100,000 tools do not break the page: the first are listed, all are found', async (context) => {
  const names = Array.from({ length: 10 }, (_, index) => `part-${index}`);
  for (const name of names) {
    const upstream = await tests.upstream({ scripts: { 'tools/list': pagedTools(10_000, 1_000, `${name}-`) } });
    await tests.service.register('forwards', { name, address: upstream.url });
  }
  for (const name of names) tests.onEnd(() => tests.service.manage('DELETE', `/forwards/${name}`));
  const page = await tests.open(context, '#/tools');
  await page.getByText('of 100000').waitFor({ timeout: 120_000 });
  await page.evaluate(OBSERVE);
  const find = async (): Promise<void> => {
    await page.locator('#search').fill('part-9-9999');
    await rowOf(page, 'part-9-9999').waitFor();
    await page.locator('#search').fill('');
    await page.getByText('20000 of 100000').waitFor();
  };
  const pause = await longestPause(page, find);
  console.log(`longest pause with 100,000 tools in ms: ${pause}`);
  await rowOf(page, 'part-0-0').getByRole('button', { name: 'Details' }).click();
  await page.locator('.cds--modal.is-visible', { hasText: 'Namespace' }).waitFor();
});
