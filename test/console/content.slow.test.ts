import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { consoleTests } from '../fixtures/console.ts';
import { DIALOG_VIEWS, inEachView, PAGE_VIEWS, startConsoleContent } from '../fixtures/console-content.ts';
import {
  accessibilityViolations,
  controlsOutOfSight,
  horizontalOverflow,
  hostileEffects,
} from '../fixtures/page-checks.ts';

const tests = consoleTests(startConsoleContent);
const VIEWS = [...PAGE_VIEWS, ...DIALOG_VIEWS];

test('all pages and dialogs pass the accessibility rules, show hostile texts inert and allow large text', async (context) => {
  const page = await tests.open(context, '#/');
  expect(await inEachView(page, tests.service, VIEWS, checkAll)).toEqual({});
});

test('all pages and dialogs pass the accessibility rules in the dark theme', async (context) => {
  const page = await tests.open(context, '#/');
  await page.emulateMedia({ colorScheme: 'dark' });
  expect(await inEachView(page, tests.service, VIEWS, accessibilityViolations)).toEqual({});
});

for (const colorScheme of ['light', 'dark'] as const) {
  test(`what is hovered or focused on a page passes the accessibility rules, ${colorScheme}`, async (context) => {
    const page = await tests.open(context, '#/');
    await page.emulateMedia({ colorScheme });
    expect(await inEachView(page, tests.service, PAGE_VIEWS, checkStates)).toEqual({});
  });
}

test('all pages and dialogs fit: no control is out of sight, and nothing scrolls sideways', async (context) => {
  const page = await tests.open(context, '#/');
  expect(await inEachView(page, tests.service, VIEWS, checkWidths)).toEqual({});
});

/** Widths of usual windows, and the smallest one that is supported. */
const WIDTHS = [1440, 1280, 390, 360];

/** All checks at rest, one after the other: opening a view costs more than they do. */
async function checkAll(page: Page): Promise<string[]> {
  const found = [...(await accessibilityViolations(page)), ...(await hostileEffects(page))];
  await page.evaluate("document.documentElement.style.fontSize = '200%'");
  found.push(...(await horizontalOverflow(page)).map((problem) => `with text of twice the size: ${problem}`));
  return found;
}

/** Hovers a row, and focuses a control of it; on pages without a table, another control. */
async function checkStates(page: Page): Promise<string[]> {
  const row = page.locator('#content tbody tr:visible').first();
  const scope = (await row.count()) > 0 ? row : page.locator('#content');
  const control = scope.locator('a[href], button:enabled').first();
  if ((await control.count()) === 0) return [];
  await (scope === row ? row : control).hover();
  const hovered = await accessibilityViolations(page);
  await control.focus();
  const focused = await accessibilityViolations(page);
  return [...hovered.map((problem) => `hovered: ${problem}`), ...focused.map((problem) => `focused: ${problem}`)];
}

async function checkWidths(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    const problems = [...(await horizontalOverflow(page)), ...(await controlsOutOfSight(page))];
    found.push(...problems.map((problem) => `at a width of ${width} pixels: ${problem}`));
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  return found;
}
