import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { consoleTests, dialog, rowOf, settled } from '../fixtures/console.ts';
import { CREATING } from '../fixtures/console-forms.ts';
import { PAGES_AND_TABS } from '../fixtures/console-pages.ts';
import { accessibilityViolations, controlsOutOfSight, horizontalOverflow } from '../fixtures/page-checks.ts';

// On a service without contents.
const tests = consoleTests();

const SIZES = [
  { width: 1440, height: 900 },
  { width: 1280, height: 720 },
  { width: 390, height: 844 },
] as const;

test('pages without contents fit each width and pass the accessibility rules', async (context) => {
  const page = await tests.open(context, '#/');
  const problems: string[] = [];
  for (const { hash } of PAGES_AND_TABS) {
    await page.setViewportSize(SIZES[0]);
    await page.goto(`${tests.service.management}/admin/${hash}`);
    await settled(page);
    for (const size of SIZES) {
      await page.setViewportSize(size);
      const found = [...(await horizontalOverflow(page)), ...(await controlsOutOfSight(page))];
      found.push(...(await accessibilityViolations(page)));
      problems.push(...found.map((problem) => `${hash} at ${size.width}: ${problem}`));
    }
  }
  expect(problems).toEqual([]);
});

test('filters that match nothing keep the head of the table, and can be cleared', async (context) => {
  const page = await tests.open(context, '#/');
  await tests.service.manage('POST', '/services', {
    name: 'listed',
    address: '127.0.0.1:9',
    serviceType: 'tool-invoker',
  });
  tests.onEnd(() => tests.service.manage('DELETE', '/services/listed'));
  await page.goto(`${tests.service.management}/admin/#/services?q=nothing`);
  await page.locator('tbody .empty-state').getByText('Nothing matches').waitFor();
  expect(await page.locator('thead th').count()).toBeGreaterThan(1);
  await page.locator('.empty-state').getByRole('link', { name: 'Clear the filters' }).click();
  await rowOf(page, 'listed').waitFor();
});

test('buttons that create something have names of their own, and dialogs begin with a field', async (context) => {
  const page = await tests.open(context, '#/');
  for (const { name, hash, open } of CREATING) {
    await page.goto(`${tests.service.management}/admin/${hash}`);
    await settled(page);
    expect(await page.getByRole('button', { name: open }).count(), name).toBe(1);
    await page.getByRole('button', { name: open }).click();
    await dialog(page).waitFor();
    await expect.poll(() => focused(page), { message: name }).toMatch(/^(?:INPUT|TEXTAREA)$/);
    expect(await page.locator('.cds--modal .cds--popover--open').count(), name).toBe(0);
    await page.keyboard.press('Escape');
    await page.goto('about:blank');
  }
});

test('a row opens its details by a click anywhere, and dialogs do not begin at their close button', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  await rowOf(page, 'default').locator('td').first().click();
  await dialog(page).getByRole('heading', { name: 'default', exact: true }).waitFor();
  expect(page.url()).toContain('open=default');
  await expect.poll(() => focused(page)).toBe('SPAN');
  expect(await page.locator('.cds--modal .cds--popover--open').count()).toBe(0);
  await page.keyboard.press('Escape');
  await dialog(page).waitFor({ state: 'detached' });
  // Controls in a row do only what they are for.
  await rowOf(page, 'default').getByRole('button', { name: 'Copy the URL' }).click();
  expect(await dialog(page).count()).toBe(0);
});

test('a short page does not scroll', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  const excess = 'document.documentElement.scrollHeight - document.documentElement.clientHeight';
  expect(await page.evaluate(excess)).toBe(0);
});

test('toasts contain their texts', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  const name = 'n'.repeat(63);
  await page.getByRole('button', { name: 'Create Namespace' }).click();
  await page.locator('#namespace-name').fill(name);
  await dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Create' }).click();
  await rowOf(page, name).getByRole('button', { name: 'Delete' }).click();
  await page.locator('.toasts').getByRole('button', { name: 'Undo' }).waitFor();
  expect(
    await page.evaluate<string[]>(`[...document.querySelectorAll('.toasts > *')].flatMap((toast) => {
      const close = toast.querySelector('[class*="close-button"]').getBoundingClientRect();
      const range = document.createRange();
      range.selectNodeContents(toast.querySelector('[class*="__title"]'));
      const text = range.getBoundingClientRect();
      return text.right > close.left && text.bottom > close.top ? [toast.textContent] : [];
    })`),
  ).toEqual([]);
});

test('labels of plots do not overlap', async (context) => {
  const page = await tests.open(context, '#/');
  for (const size of SIZES) {
    await page.setViewportSize(size);
    await page.locator('.plots svg.layout-svg-wrapper').nth(1).waitFor();
    await expect
      .poll(() =>
        page.evaluate<string[]>(`(() => {
          const labels = [...document.querySelectorAll('.plots .tick text')].filter(({ textContent }) => textContent);
          const boxes = labels.map((label) => [label.textContent, label.getBoundingClientRect()]);
          return boxes.flatMap(([text, one], index) =>
            boxes.slice(index + 1).filter(([, other]) =>
              one.left < other.right && other.left < one.right && one.top < other.bottom - 1 && other.top < one.bottom - 1,
            ).map(([other]) => text + ' and ' + other));
        })()`),
      )
      .toEqual([]);
  }
});

function focused(page: Page): Promise<string> {
  return page.evaluate<string>('document.activeElement.tagName');
}
