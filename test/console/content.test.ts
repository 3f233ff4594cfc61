import { expect, test } from 'vitest';
import { consoleTests } from '../fixtures/console.ts';
import { inEachView, PAGE_VIEWS, startConsoleContent } from '../fixtures/console-content.ts';
import { accessibilityViolations, horizontalOverflow, hostileEffects } from '../fixtures/page-checks.ts';

const tests = consoleTests(startConsoleContent);

// One pass over all pages: opening them costs as much as the checks. Dialogs, both themes and large text are in
// `content.slow.test.ts`.
test('every page shows hostile texts inert, passes the accessibility rules and fits into 360 pixels', async (context) => {
  const page = await tests.open(context, '#/');
  let isDark = false;
  const problems = await inEachView(page, tests.service, PAGE_VIEWS, async () => {
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
