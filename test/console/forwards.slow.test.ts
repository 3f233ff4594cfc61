import { expect, test } from 'vitest';
import { consoleTests, dialog, rowOf } from '../fixtures/console.ts';

const tests = consoleTests();

test('adds a forward, shows its state, server and entries, and refreshes it', async (context) => {
  const page = await tests.open(context, '#/forwards');
  const upstream = await tests.upstream();
  await page.getByRole('button', { name: 'Add Forward' }).first().click();
  expect(await dialog(page).locator('.cds--modal-header__heading').textContent()).toBe('Add a Forward');
  const add = dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Add' });
  expect(await add.isDisabled()).toBe(true);
  await page.locator('#forward-name').fill('crm');
  await page.locator('#forward-address').fill('not a URL');
  expect(await add.isDisabled()).toBe(true);
  await page.locator('#forward-address').fill(upstream.url);
  await add.click();
  const row = rowOf(page, 'crm');
  await row.locator('.cds--tag', { hasText: /^Available$/ }).waitFor();
  const headers = await page.locator('thead th').allTextContents();
  for (const column of ['Name', 'Address', 'Server', 'Status', 'Actions']) {
    expect(headers.some((header) => header.includes(column))).toBe(true);
  }

  await row.getByRole('button', { name: 'Details' }).click();
  expect(await dialog(page).locator('.cds--modal-header__heading').textContent()).toBe('crm');
  const strong = await dialog(page).locator('strong').allTextContents();
  expect(strong).toEqual(['Address:', 'Status:', 'Server Info']);
  await dialog(page).getByRole('button', { name: 'Close' }).click();
  await dialog(page).waitFor({ state: 'detached' });

  const lists = upstream.count('tools/list');
  await row.getByRole('button', { name: 'Refresh' }).click();
  await page.getByText('crm refreshed').waitFor();
  expect(upstream.count('tools/list')).toBeGreaterThan(lists);
});

test('shows why a forward is unavailable', async (context) => {
  const page = await tests.open(context, '#/forwards');
  const upstream = await tests.upstream();
  await upstream.down();
  await tests.service.register('forwards', { name: 'down', address: upstream.url });
  await page.reload();
  const tag = rowOf(page, 'down').locator('.cds--tag');
  await tag.waitFor();
  expect(await tag.textContent()).toBe('Unavailable');
  await rowOf(page, 'down').getByRole('button', { name: 'Details' }).click();
  expect(await dialog(page).textContent()).toContain('refused the connection');
  await page.goBack();
  await dialog(page).waitFor({ state: 'detached' });
});

test('a name in use is an error in the dialog, which keeps what was typed', async (context) => {
  const page = await tests.open(context, '#/forwards');
  const upstream = await tests.upstream();
  await tests.service.register('forwards', { name: 'taken', address: upstream.url });
  await page.getByRole('button', { name: 'Add Forward' }).first().click();
  await page.locator('#forward-name').fill('taken');
  await page.locator('#forward-address').fill(upstream.url);
  await dialog(page).getByRole('button', { name: 'Add', exact: true }).click();
  await dialog(page).locator('.cds--inline-notification--error', { hasText: 'taken' }).waitFor();
  expect(await page.locator('#forward-address').inputValue()).toBe(upstream.url);
});

test('edits a forward in place: the marks of its entries stay, headers refer to secrets', async (context) => {
  const page = await tests.open(context, '#/forwards');
  const upstream = await tests.upstream();
  await tests.service.register('forwards', {
    name: 'edited',
    address: upstream.url,
    namespace: 'edited',
    labels: { old: 'x' },
  });
  await tests.service.manage('POST', '/tools/enabled', { forward: 'edited', names: ['a'], enabled: false });
  await page.reload();
  await rowOf(page, 'edited').getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('button', { name: 'Names and labels' }).click();
  await page.locator('#forward-prefix').fill('crm_');
  await page.locator('#forward-labels').fill('new=y');
  await page.getByRole('button', { name: 'Headers' }).click();
  await page.locator('#forward-headers').fill('Authorization: secret');
  await page.locator('#forward-headers').blur();
  const save = dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Save' });
  expect(await save.isDisabled()).toBe(true);
  await page.locator('#forward-headers').fill('Accept-Language: en');
  await save.click();
  await dialog(page).waitFor({ state: 'detached' });
  const { data } = await tests.service.manage('GET', '/forwards/edited');
  expect(data).toMatchObject({ prefix: 'crm_', labels: { new: 'y' }, headers: { 'Accept-Language': 'en' } });
  const tool = await tests.service.manage('GET', '/tools/crm_a?namespace=edited');
  expect(tool.data).toMatchObject({ enabled: false });

  // The mark would be lost: no deletion without a question.
  await rowOf(page, 'edited').getByRole('button', { name: 'Delete' }).click();
  await dialog(page).waitFor();
  expect(await dialog(page).textContent()).toContain('One of its entries has been changed');
  await dialog(page).getByRole('button', { name: 'Delete' }).click();
  await rowOf(page, 'edited').waitFor({ state: 'detached' });
});

test('what somebody else changes meanwhile is shown, and neither their change nor the input is lost', async (context) => {
  const page = await tests.open(context, '#/forwards');
  const upstream = await tests.upstream();
  await tests.service.register('forwards', { name: 'shared', address: upstream.url, labels: { team: 'a', tier: '1' } });
  await page.reload();
  await rowOf(page, 'shared').getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('button', { name: 'Names and labels' }).click();
  await page.locator('#forward-labels').fill('team=b\ntier=1');
  await page.locator('#forward-prefix').fill('crm_');
  const change = { labels: { team: 'c', owner: 'ops' }, namespace: 'shared' };
  expect((await tests.service.manage('PATCH', '/forwards/shared', change)).status).toBe(200);
  const save = dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Save' });
  await save.click();
  const changes = dialog(page).getByRole('region', { name: 'Changes by others' });
  const rows = changes.locator('tbody tr');
  await expect.poll(() => rows.count()).toBe(2);
  expect(await rows.filter({ hasText: 'namespace' }).locator('td').allTextContents()).toEqual([
    'default',
    'shared',
    'shared',
  ]);
  expect(await page.locator('#forward-labels').inputValue()).toBe('team=b\ntier=1');
  await save.click();
  await dialog(page).waitFor({ state: 'detached' });
  expect((await tests.service.manage('GET', '/forwards/shared')).data).toMatchObject({
    namespace: 'shared',
    prefix: 'crm_',
    labels: { team: 'b', tier: '1', owner: 'ops' },
  });
});

test('previews and applies which entries are exposed', async (context) => {
  const page = await tests.open(context, '#/forwards');
  const upstream = await tests.upstream();
  await tests.service.register('forwards', { name: 'rules', address: upstream.url, namespace: 'rules' });
  await page.reload();
  await rowOf(page, 'rules').getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('button', { name: 'Exposed entries' }).click();
  await page.locator('#expose-tools-deny').fill('a');
  await page.getByText(/1 of \d+ known entries would no longer be served: a/).waitFor();
  await dialog(page).getByRole('button', { name: 'Save' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  expect((await tests.service.manage('GET', '/forwards/rules')).data).toMatchObject({
    expose: { tools: { deny: ['a'] } },
  });
  expect((await tests.service.manage('GET', '/tools/a?namespace=rules')).status).toBe(404);
});

test('deletes a forward at once, and undoes it', async (context) => {
  const page = await tests.open(context, '#/forwards');
  const upstream = await tests.upstream();
  await tests.service.register('forwards', {
    name: 'undone',
    address: upstream.url,
    namespace: 'undone',
    prefix: 'x_',
  });
  await page.reload();
  await rowOf(page, 'undone').getByRole('button', { name: 'Delete' }).click();
  await rowOf(page, 'undone').waitFor({ state: 'detached' });
  expect((await tests.service.manage('GET', '/forwards/undone')).status).toBe(404);
  await page.getByRole('button', { name: 'Undo' }).click();
  await rowOf(page, 'undone').waitFor();
  await expect.poll(async () => (await tests.service.manage('GET', '/tools/x_a')).status).toBe(200);
});

test('shows the history of a forward, and why a refresh fails', async (context) => {
  const page = await tests.open(context, '#/forwards');
  const upstream = await tests.upstream();
  await tests.service.register('forwards', { name: 'moody', address: upstream.url, namespace: 'moody' });
  await upstream.down();
  await rowOf(page, 'moody').getByRole('button', { name: 'Refresh' }).click();
  await page.locator('.cds--toast-notification--error', { hasText: 'refused the connection' }).waitFor();
  await expect.poll(() => rowOf(page, 'moody').locator('.cds--tag').textContent()).toBe('Unavailable');
  await rowOf(page, 'moody').getByRole('button', { name: 'Details' }).click();
  const history = dialog(page).getByRole('list', { name: 'History' }).locator('li');
  const described = async () => (await history.locator('.cds--tag').allTextContents()).toReversed();
  await expect.poll(described).toEqual(expect.arrayContaining(['Discovered', 'Available', 'Unavailable']));
  expect(await history.filter({ hasText: 'Discovered' }).last().textContent()).toMatch(/2 tools, .* in \d+ ms/);
  await history.filter({ hasText: 'refused the connection' }).first().waitFor();
});

test('tests the connection to a forward step by step', async (context) => {
  const page = await tests.open(context, '#/forwards');
  const upstream = await tests.upstream();
  await tests.service.register('forwards', { name: 'tested', address: upstream.url, namespace: 'tested' });
  await rowOf(page, 'tested').getByRole('button', { name: 'Details' }).click();
  const start = dialog(page).getByRole('button', { name: 'Test', exact: true });
  const steps = dialog(page).getByRole('list', { name: 'Steps of the test' }).locator('li');
  await start.click();
  await steps.filter({ hasText: 'lists' }).filter({ hasText: 'legacy: 2 tools' }).waitFor();
  expect(await steps.count()).toBe(9);
  await upstream.down();
  await start.click();
  await steps.filter({ hasText: 'failed' }).filter({ hasText: 'refused the connection' }).waitFor();
});
