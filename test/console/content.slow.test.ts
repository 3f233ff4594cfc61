import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { consoleTests, settled } from '../fixtures/console.ts';
import { DIALOG_VIEWS, PAGE_VIEWS, startConsoleContent } from '../fixtures/console-content.ts';
import {
  accessibilityViolations,
  controlsOutOfSight,
  horizontalOverflow,
  hostileEffects,
  layoutFaults,
  stateViolations,
} from '../fixtures/page-checks.ts';

const tests = consoleTests(startConsoleContent);

const THEMES = ['light', 'dark'] as const;
/** Kinds of controls that an earlier view has had: they look alike everywhere. */
const known = { light: new Set<string>(), dark: new Set<string>() };
/** Widths of usual windows, and the smallest one that is supported. */
const WIDTHS = [1440, 1280, 390, 360];

// All checks one after the other: opening a view costs more than they do.
for (const { name, hash, prepare } of [...PAGE_VIEWS, ...DIALOG_VIEWS]) {
  test(`${name}: passes the accessibility rules in both themes, shows hostile texts inert, fits each width`, async (context) => {
    const page = await tests.open(context, hash);
    await prepare?.(page);
    await settled(page);
    const problems: string[] = await hostileEffects(page);
    for (const colorScheme of THEMES) {
      await page.emulateMedia({ colorScheme });
      await page.locator(`html[data-theme="${colorScheme}"]`).waitFor();
      const found = [...(await accessibilityViolations(page)), ...(await stateViolations(page, known[colorScheme]))];
      problems.push(...found.map((problem) => `${colorScheme}: ${problem}`));
    }
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      problems.push(...(await misfits(page)).map((problem) => `at a width of ${width} pixels: ${problem}`));
    }
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.evaluate("document.documentElement.style.fontSize = '200%'");
    problems.push(...(await horizontalOverflow(page)).map((problem) => `with text of twice the size: ${problem}`));
    expect(problems).toEqual([]);
  });
}

async function misfits(page: Page): Promise<string[]> {
  return [...(await horizontalOverflow(page)), ...(await controlsOutOfSight(page)), ...(await layoutFaults(page))];
}
