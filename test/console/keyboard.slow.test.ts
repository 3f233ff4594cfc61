import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { consoleTests, dialog, rowOf } from '../fixtures/console.ts';
import { focusOf } from '../fixtures/page-checks.ts';

const tests = consoleTests();
const TOOL = { description: 'd', uri: 'reports://monthly', toolType: 'x', input_schema: { type: 'object' } };

/** Presses Tab until an element with this name has the focus, and checks that each on the way shows it. */
async function tabTo(page: Page, name: string, key = 'Tab'): Promise<void> {
  const passed: string[] = [];
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press(key);
    // A dialog moves the focus from its end to its start in another turn.
    await page.evaluate('new Promise((resolve) => setTimeout(resolve))');
    const focus = await focusOf(page);
    if (!focus) continue;
    passed.push(focus.name);
    expect(focus).toEqual({ name: focus.name, isIndicated: true });
    if (focus.name.endsWith(name)) return;
  }
  throw new Error(`${name} was not reached; the focus was on ${passed.join(', ')}`);
}

async function focusedName(page: Page): Promise<string> {
  return (await focusOf(page))?.name ?? '';
}

test('menu, rows and dialogs can be used by keyboard; the focus is visible and returns', async (context) => {
  for (const name of ['one', 'two']) await tests.service.register('tools', { ...TOOL, name });
  const page = await tests.open(context, '#/');
  await tabTo(page, 'Skip to main content');
  await page.keyboard.press('Enter');
  await expect.poll(() => page.locator('#content').and(page.locator(':focus')).count()).toBe(1);
  await tabTo(page, 'a Tools', 'Shift+Tab');
  await page.keyboard.press('Enter');
  await rowOf(page, 'one').waitFor();

  // All of the dialog can be reached, its editor of JSON is no trap, and the focus stays in it.
  for (const [button, last] of [
    ['Details', 'Close'],
    ['Edit', 'Cancel'],
  ] as const) {
    await tabTo(page, button);
    await page.keyboard.press('Enter');
    await dialog(page).waitFor();
    await tabTo(page, last);
    for (const key of ['Tab', 'Tab', 'Shift+Tab', 'Shift+Tab']) {
      await page.keyboard.press(key);
      await expect.poll(() => page.evaluate("document.activeElement.closest('.cds--modal') !== null")).toBe(true);
    }
    await tabTo(page, last);
    await page.keyboard.press('Enter');
    await dialog(page).waitFor({ state: 'detached' });
    await expect.poll(() => focusedName(page)).toContain(button);
  }
  await tabTo(page, 'Delete');
  await page.keyboard.press('Enter');
  await rowOf(page, 'one').waitFor({ state: 'detached' });
  await tabTo(page, 'Undo');
  await page.keyboard.press('Enter');
  await rowOf(page, 'one').waitFor();
});

test('the palette is opened, left and used by keyboard', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  await tabTo(page, 'Create Namespace');
  await page.keyboard.press('Control+k');
  await dialog(page).waitFor();
  await expect.poll(() => focusedName(page)).toContain('palette');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await dialog(page).waitFor({ state: 'detached' });
  await expect.poll(() => focusedName(page)).toContain('Create Namespace');
  await page.keyboard.press('Enter');
  await dialog(page).waitFor();
  await expect.poll(() => focusedName(page)).toContain('namespace-name');
});
