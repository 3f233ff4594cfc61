import { expect, test } from 'vitest';
import { consoleTests } from '../fixtures/console.ts';
import { DIALOG_VIEWS, inEachView, PAGE_VIEWS, startConsoleContent } from '../fixtures/console-content.ts';
import { accessibilityViolations, horizontalOverflow, hostileEffects } from '../fixtures/page-checks.ts';

const tests = consoleTests(startConsoleContent);

/** Views of both kinds; `content.slow.test.ts` has all of them, in both themes. */
const SHORT = ['Dashboard', 'Details of a tool'];

test('pages show hostile texts inert, pass the accessibility rules and fit into 360 pixels', async (context) => {
  const page = await tests.open(context, '#/');
  const views = [...PAGE_VIEWS, ...DIALOG_VIEWS].filter(({ name }) => SHORT.includes(name));
  expect(views).toHaveLength(SHORT.length);
  let isDark = false;
  const problems = await inEachView(page, tests.service, views, async () => {
    const found = [...(await accessibilityViolations(page)), ...(await hostileEffects(page))];
    await page.setViewportSize({ width: 360, height: 740 });
    found.push(...(await horizontalOverflow(page)));
    await page.setViewportSize({ width: 1440, height: 900 });
    isDark = !isDark;
    await page.emulateMedia({ colorScheme: isDark ? 'dark' : 'light' });
    return found;
  });
  expect(problems).toEqual({});
});
