import { expect, test } from 'vitest';
import { consoleTests, settled } from '../fixtures/console.ts';

const tests = consoleTests();

test('the code of a page is loaded when it is opened for the first time', async (context) => {
  const page = await tests.open(context, '#/');
  await page.evaluate('performance.setResourceTimingBufferSize(10_000)');
  const scripts = () =>
    page.evaluate<number>(
      `performance.getEntriesByType('resource').filter(({ name }) => new URL(name).pathname.endsWith('.js')).length`,
    );
  const links = page.locator('nav[aria-label="Pages"] a');
  // The first one is the dashboard, with which the console was opened.
  for (let index = (await links.count()) - 1; index > 0; index--) {
    const label = await links.nth(index).textContent();
    let loaded = await scripts();
    await links.nth(index).click();
    await expect.poll(scripts, { message: `${label}, first`, timeout: 10_000 }).toBeGreaterThan(loaded);
    await settled(page);
    await links.first().click();
    await settled(page);
    loaded = await scripts();
    await links.nth(index).click();
    await settled(page);
    expect(await scripts(), `${label}, again`).toBe(loaded);
    await links.first().click();
    await settled(page);
  }
});
