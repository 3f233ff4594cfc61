import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { consoleTests, dialog, settled, startPlain } from '../fixtures/console.ts';
import { startConsoleContent } from '../fixtures/console-content.ts';
import { CREATING, fillForm, openForm } from '../fixtures/console-forms.ts';
import { PAGES_AND_TABS, type PageTable } from '../fixtures/console-pages.ts';

// The selectors that browser tests of others use, on every page, whether a service has contents or not.

describe.each([
  { state: 'without contents', start: startPlain, isFilled: false },
  { state: 'with contents', start: startConsoleContent, isFilled: true },
])('in a service $state', ({ start, isFilled }) => {
  const tests = consoleTests(start);

  test('every page has one title, one description, and its tables with heads and rows or one way to the first', async (context) => {
    const page = await tests.open(context, '#/');
    for (const { label, title = label, hash, tables } of PAGES_AND_TABS) {
      await page.goto(`${tests.service.management}/admin/${hash}`);
      await expect.poll(() => page.locator('h1.title').allTextContents(), { message: hash }).toEqual([title]);
      expect(await page.locator('p.description').allTextContents(), hash).toEqual([expect.stringMatching(/\S/)]);
      await settled(page);
      const found = page.locator('#content table:visible');
      await expect.poll(() => found.count(), { message: hash }).toBe(tables.length);
      expect(await page.locator('#content table.cds--data-table:visible').count(), hash).toBe(tables.length);
      for (const [index, table] of tables.entries()) await checkTable(page, index, table, hash);
      expect(await dialog(page).count(), hash).toBe(0);
    }
  });

  async function checkTable(page: Page, index: number, table: PageTable, hash: string): Promise<void> {
    const { columns, buttons = [], isEmptyAtFirst = false, isAlwaysEmpty = false } = table;
    const found = page.locator('#content table:visible').nth(index);
    const heads = await found.locator('thead th:visible').allTextContents();
    expect(
      columns.filter((column) => !heads.some((head) => head.includes(column))),
      hash,
    ).toEqual([]);
    const rows = found.locator('tbody tr');
    await expect.poll(() => rows.count(), { message: hash }).toBeGreaterThan(0);
    const emptyState = rows.locator('.empty-state');
    if (isFilled ? isAlwaysEmpty : isEmptyAtFirst) {
      expect(await rows.count(), hash).toBe(1);
      expect(await emptyState.locator('a[href], button').count(), `${hash}, table ${index}`).toBe(1);
    } else {
      expect(await emptyState.count(), `${hash}, table ${index}`).toBe(0);
      for (const name of isFilled ? buttons : []) {
        const button = rows.getByRole('button', { name, exact: true }).first();
        expect(await button.count(), `${hash}: ${name}`).toBe(1);
      }
    }
  }

  test('the dashboard has one tile with a number for each kind of object, and one button "Refresh"', async (context) => {
    const page = await tests.open(context, '#/');
    for (const label of ['Tools', 'Resources', 'Prompts', 'Forwards']) {
      const tile = page.locator('.hero-tile', { hasText: label });
      expect(await tile.count(), label).toBe(1);
      expect(await tile.locator('.hero-value').textContent(), label).toMatch(isFilled ? /^[1-9]\d*$/ : /^0$/);
    }
    expect(await page.getByRole('button', { name: 'Refresh' }).count()).toBe(1);
  });

  test('each forward has one tag with its status, and each namespace its address', async (context) => {
    const page = await tests.open(context, '#/forwards');
    const forwards = page.locator('tbody tr[data-index]');
    expect(await forwards.count()).toBe(isFilled ? 4 : 0);
    for (const row of await forwards.all())
      expect(await row.locator('.cds--tag').allTextContents()).toEqual([expect.stringMatching(/^(?:Una|A)vailable$/)]);
    await page.goto(`${tests.service.management}/admin/#/namespaces`);
    await page.locator('tbody tr', { hasText: '/default/mcp' }).waitFor();
    for (const row of await page.locator('tbody tr').all())
      expect(await row.textContent()).toContain(`/${await row.locator('td').first().textContent()}/mcp`);
  });

  for (const form of CREATING) {
    test(`the ${form.name} dialog has its heading and inputs, and a primary button that is disabled until all is valid`, async (context) => {
      const page = await tests.open(context, form.hash);
      const submit = await openForm(page, form);
      expect(await dialog(page).locator('.cds--modal-header__heading').allTextContents()).toEqual([form.heading]);
      expect(await dialog(page).locator('[aria-label="Close"]').count()).toBe(1);
      expect(await dialog(page).locator('.cds--modal-footer button').count()).toBe(2);
      expect(await submit.isDisabled()).toBe(true);
      // Without a connection to a model, an evaluator cannot be made.
      const isPossible = isFilled || form.selections?.['evaluator-connection'] === undefined;
      if (!isPossible) return;
      await fillForm(page, form);
      await expect.poll(() => submit.isEnabled()).toBe(true);
      for (const id of Object.keys(form.values).filter((each) => !form.optional?.includes(each))) {
        await page.locator(`#${id}`).fill('');
        await expect.poll(() => submit.isDisabled(), { message: id }).toBe(true);
        await fillForm(page, form);
        await expect.poll(() => submit.isEnabled(), { message: id }).toBe(true);
      }
    });
  }
});
