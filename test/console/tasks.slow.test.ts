import { expect, test } from 'vitest';
import { taskClient } from '../../packages/server/testing/task-client.ts';
import { consoleTests, dialog, settled } from '../fixtures/console.ts';
import { startTasksUpstream } from '../fixtures/tasks-upstream.ts';

const tests = consoleTests();

/** A forward `jobs` with tasks, and a client. */
async function startJobs() {
  const upstream = await startTasksUpstream();
  tests.onEnd(upstream.close);
  await tests.service.register('forwards', { name: 'jobs', address: upstream.url });
  tests.onEnd(() => tests.service.manage('DELETE', '/forwards/jobs'));
  return { upstream, client: taskClient(tests.service.url(), 'ann') };
}

test('tasks appear as they change, and are canceled after a question', async (context) => {
  const { upstream, client } = await startJobs();
  const page = await tests.open(context, '#/tasks');
  await page.getByText('No tasks').waitFor();
  const taskId = await client.create('endless');
  const row = page.locator('table tbody tr', { hasText: 'endless' });
  await row.locator('.cds--tag', { hasText: 'working' }).waitFor();
  expect(await row.textContent()).toContain('ann');

  const other = await client.create('polled', { polls: 1 });
  await page.locator('table tbody tr', { hasText: 'polled' }).waitFor();
  await client.until(other, 'completed');
  await expect.poll(() => page.locator('table tbody tr').count()).toBe(1);
  await page.locator('#filter-state').selectOption('all');
  await page.locator('table tbody tr', { hasText: 'completed' }).waitFor();
  await page.locator('#filter-state').selectOption('');

  await row.getByRole('button', { name: 'Details' }).click();
  await dialog(page).getByText('task of the extension').waitFor();
  await page.keyboard.press('Escape');
  await row.getByRole('button', { name: 'Cancel' }).click();
  await dialog(page).getByRole('button', { name: 'Cancel task' }).click();
  await page.getByText('Task of endless canceled').waitFor();
  await page.getByText('No tasks').waitFor();
  expect(upstream.tasks[0]?.status).toBe('cancelled');
  expect((await tests.service.manage('GET', `/tasks/${taskId}`)).data).toMatchObject({ status: 'cancelled' });
});

test('the states of a task are shown where the time of its call went', async (context) => {
  const { client } = await startJobs();
  const taskId = await client.create('confirm_delete');
  await client.request('tasks/get', { taskId });
  const page = await tests.open(context, '#/tasks');
  await page.locator('table tbody tr', { hasText: 'confirm_delete' }).getByRole('button', { name: 'Details' }).click();
  await dialog(page).getByRole('link', { name: 'Tool call' }).click();
  await settled(page);
  await dialog(page).locator('.waterfall li', { hasText: 'task: input_required' }).waitFor();
  const inputResponses = { confirm: { action: 'accept', content: { name: 'x' } } };
  await client.request('tasks/update', { taskId, inputResponses });
  await client.until(taskId, 'completed');
  await dialog(page).getByText('confirmed').first().waitFor();
  const labels = await dialog(page).locator('.waterfall-label').allTextContents();
  expect(labels).toEqual(['jobs', 'task: working', 'task: input_required']);
});
