import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { consoleTests } from '../fixtures/console.ts';
import { DIALOG_VIEWS, inEachView, PAGE_VIEWS, startConsoleContent } from '../fixtures/console-content.ts';
import { accessibilityViolations, horizontalOverflow, hostileEffects } from '../fixtures/page-checks.ts';

const tests = consoleTests(startConsoleContent);
const VIEWS = [...PAGE_VIEWS, ...DIALOG_VIEWS];

test('all pages and dialogs pass the accessibility rules, show hostile texts inert, fit into 360 pixels and allow large text', async (context) => {
  const page = await tests.open(context, '#/');
  expect(await inEachView(page, tests.service, VIEWS, checkAll)).toEqual({});
});

test('all pages and dialogs pass the accessibility rules in the dark theme', async (context) => {
  const page = await tests.open(context, '#/');
  await page.emulateMedia({ colorScheme: 'dark' });
  expect(await inEachView(page, tests.service, VIEWS, accessibilityViolations)).toEqual({});
});

/** All checks, one after the other: opening a view costs more than they do. */
async function checkAll(page: Page): Promise<string[]> {
  const found = [...(await accessibilityViolations(page)), ...(await hostileEffects(page))];
  await page.evaluate("document.documentElement.style.fontSize = '200%'");
  found.push(...(await horizontalOverflow(page)).map((problem) => `with text of twice the size: ${problem}`));
  await page.evaluate("document.documentElement.style.fontSize = ''");
  await page.setViewportSize({ width: 360, height: 740 });
  found.push(...(await horizontalOverflow(page)).map((problem) => `at a width of 360 pixels: ${problem}`));
  await page.setViewportSize({ width: 1440, height: 900 });
  return found;
}
