import { expect, test } from 'vitest';
import { consoleTests, dialog, rowOf, settled } from '../fixtures/console.ts';

const tests = consoleTests();

async function names(): Promise<string[]> {
  const { data } = await tests.service.manage('GET', '/namespaces');
  return Array.isArray(data) ? data.map(({ name }) => String(name)) : [];
}

test('shows the address of each namespace; `default` cannot be deleted', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  expect(await page.locator('h1.title').allTextContents()).toEqual(['Namespaces']);
  const headers = await page.locator('thead th').allTextContents();
  for (const column of ['Name', 'Status', 'Address', 'Actions']) {
    expect(headers.some((header) => header.includes(column))).toBe(true);
  }
  const row = rowOf(page, 'default');
  expect(await row.textContent()).toContain('/default/mcp');
  expect(await row.getByRole('button', { name: 'Delete' }).count()).toBe(0);
});

test('creates a namespace that MCP clients can use at once, and refuses invalid names', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  await page.getByRole('button', { name: 'Create Namespace' }).click();
  expect(await dialog(page).locator('.cds--modal-header__heading').textContent()).toBe('Create Namespace');
  const create = dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Create' });
  for (const invalid of ['', 'Upper', '-a', 'a-', 'a_b', 'x'.repeat(64)]) {
    await page.locator('#namespace-name').fill(invalid);
    expect(await create.isDisabled(), invalid).toBe(true);
  }
  await page.locator('#namespace-name').fill('crm');
  await page.locator('#namespace-labels').fill('team=sales');
  await create.click();
  await rowOf(page, 'crm').waitFor();
  await dialog(page).waitFor({ state: 'detached' });

  expect((await tests.service.manage('GET', '/namespaces/crm')).data).toEqual({
    name: 'crm',
    labels: { team: 'sales' },
  });
  const ping = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  const response = await fetch(tests.service.url('crm'), { method: 'POST', body: JSON.stringify(ping) });
  expect(response.status).not.toBe(404);
  await response.body?.cancel();
});

test('deletes an empty namespace at once, and undoes it', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  await tests.service.manage('POST', '/namespaces', { name: 'gone', labels: { a: 'b' } });
  await page.reload();
  await rowOf(page, 'gone').getByRole('button', { name: 'Delete' }).click();
  await rowOf(page, 'gone').waitFor({ state: 'detached' });
  expect(await names()).not.toContain('gone');
  await page.getByRole('button', { name: 'Undo' }).click();
  await rowOf(page, 'gone').waitFor();
  expect((await tests.service.manage('GET', '/namespaces/gone')).data).toEqual({ name: 'gone', labels: { a: 'b' } });
});

test('asks before it deletes a namespace with contents, and says what goes with it', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  const tool = { description: '', uri: 'http://127.0.0.1:9/mcp', toolType: 'x', input_schema: { type: 'object' } };
  await tests.service.register('tools', { ...tool, name: 'one', namespace: 'full' });
  await tests.service.register('tools', { ...tool, name: 'two', namespace: 'full' });
  await page.reload();
  const remove = rowOf(page, 'full').getByRole('button', { name: 'Delete' });
  await remove.click();
  await dialog(page).waitFor();
  expect(await dialog(page).textContent()).toContain('2 tools');
  await dialog(page).getByRole('button', { name: 'Cancel' }).click();
  expect(await names()).toContain('full');
  await remove.click();
  await dialog(page).getByRole('button', { name: 'Delete all' }).click();
  await rowOf(page, 'full').waitFor({ state: 'detached' });
  expect(await names()).not.toContain('full');
});

test('shows what an agent is offered, where it comes from, and what it is not offered', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  const upstream = await tests.upstream();
  await tests.service.register('forwards', { name: 'crm', address: upstream.url, namespace: 'viewed' });
  await tests.service.manage('POST', '/tools/enabled', { names: ['b'], namespace: 'viewed', enabled: false });
  await page.goto(`${tests.service.management}/admin/#/namespaces?open=viewed`);
  await dialog(page).getByText('Not offered (1)').waitFor();
  const entries = dialog(page).locator('.view-entries li');
  expect(await entries.allTextContents()).toEqual([
    'tool a from crm',
    expect.stringContaining('disabled by an operator'),
  ]);
});

test('changes labels, and gives the configuration of clients', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  await rowOf(page, 'default').getByRole('button', { name: 'Edit' }).click();
  await page.locator('#namespace-labels').fill('team=ops');
  await dialog(page).getByRole('button', { name: 'Save' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  expect((await tests.service.manage('GET', '/namespaces/default')).data).toMatchObject({ labels: { team: 'ops' } });

  await page.goto(`${tests.service.management}/admin/#/namespaces?open=default`);
  await settled(page);
  expect(await dialog(page).textContent()).toContain('claude mcp add --transport http sluice-default');
  await dialog(page).getByRole('button', { name: 'Close' }).click();
  await expect.poll(() => page.url()).not.toContain('open=');
});

test('shows what an agent of another era and other capabilities is offered', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  const upstream = await tests.upstream({ eras: ['legacy'] });
  await tests.service.register('forwards', { name: 'old', address: upstream.url, namespace: 'eras' });
  const requested: URLSearchParams[] = [];
  page.on('request', (request) => {
    const { pathname, searchParams } = new URL(request.url());
    if (pathname.endsWith('/view')) requested.push(searchParams);
  });
  await page.goto(`${tests.service.management}/admin/#/namespaces?open=eras`);
  await dialog(page).getByText('Offered (2)').waitFor();
  await dialog(page).locator('#view-era').selectOption('legacy');
  await dialog(page).locator('#view-capabilities').fill('{"sampling":{}');
  await dialog(page).getByText('Must be a JSON object').waitFor();
  await dialog(page).locator('#view-capabilities').fill('{"sampling":{}}');
  await expect.poll(() => requested.at(-1)?.get('capabilities')).toBe('{"sampling":{}}');
  expect(requested.at(-1)?.get('era')).toBe('legacy');
  await dialog(page).getByText('Offered (2)').waitFor();
});

test('copies the address of a namespace and the configuration of each client', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const copied = () => page.evaluate('navigator.clipboard.readText()');
  await rowOf(page, 'default').getByRole('button', { name: 'Copy the URL' }).click();
  await expect.poll(copied).toMatch(/^http:\/\/[^/]+\/default\/mcp$/);
  const url = String(await copied());
  await page.goto(`${tests.service.management}/admin/#/namespaces?open=default`);
  const configurations = [
    ['Claude Code', `claude mcp add --transport http sluice-default ${url}`],
    ['Claude', { mcpServers: { 'sluice-default': { command: 'npx', args: ['-y', 'mcp-remote', url] } } }],
    ['Cursor', { mcpServers: { 'sluice-default': { url } } }],
    ['VS Code', { servers: { 'sluice-default': { type: 'http', url } } }],
    ['mcp-remote', `npx -y mcp-remote ${url}`],
  ] as const;
  for (const [client, expected] of configurations) {
    await dialog(page).getByRole('tab', { name: client, exact: true }).click();
    await dialog(page)
      .getByRole('tabpanel', { name: client, exact: true })
      .getByRole('button', { name: 'Copy' })
      .click();
    const text = typeof expected === 'string' ? expected : JSON.stringify(expected, null, 2);
    await expect.poll(copied).toBe(text);
  }
});
