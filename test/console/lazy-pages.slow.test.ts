import { expect, test } from 'vitest';
import { consoleTests, settled } from '../fixtures/console.ts';

const tests = consoleTests();

test('the code of a page is loaded when it is opened for the first time', async (context) => {
  const page = await tests.open(context, '#/');
  const links = page.locator('nav[aria-label="Pages"] a');
  let scripts = 0;
  page.on('response', (response) => {
    if (new URL(response.url()).pathname.endsWith('.js')) scripts++;
  });
  // The first one is the dashboard, with which the console was opened.
  for (let index = (await links.count()) - 1; index > 0; index--) {
    for (const isFirst of [true, false]) {
      scripts = 0;
      await links.nth(index).click();
      await settled(page);
      const label = (await links.nth(index).textContent()) ?? '';
      expect({ label, isLoaded: scripts > 0 }).toEqual({ label, isLoaded: isFirst });
      await links.first().click();
      await settled(page);
    }
  }
});
