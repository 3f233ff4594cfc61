import { expect, test } from 'vitest';
import { consoleTests, dialog, rowOf } from '../fixtures/console.ts';

const tests = consoleTests();

test('a principal is blocked and unblocked, which can be undone', async (context) => {
  const page = await tests.open(context, '#/blocks');
  const isBlocked = async () => (await tests.service.manage('GET', '/blocks/corp%2Fann')).status === 200;
  await page.getByRole('button', { name: 'Block', exact: true }).click();
  await dialog(page).locator('#block-for').fill('soon');
  await dialog(page).locator('#block-id').fill('corp/ann');
  await dialog(page).getByText('must be a duration such as 30m, 1h or 7d').waitFor();
  await dialog(page).locator('#block-for').fill('1h');
  await dialog(page).locator('#block-reason').fill('laptop stolen');
  await dialog(page).getByRole('button', { name: 'Block' }).click();
  const row = rowOf(page, 'corp/ann');
  await row.getByText('laptop stolen').waitFor();
  expect(await isBlocked()).toBe(true);
  await row.getByRole('button', { name: 'Unblock' }).click();
  await row.waitFor({ state: 'detached' });
  expect(await isBlocked()).toBe(false);
  await page.getByRole('button', { name: 'Undo' }).click();
  await row.waitFor();
  expect(await isBlocked()).toBe(true);
});
