import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { consoleTests, dialog, fillEditor, rowOf, settled } from '../fixtures/console.ts';
import { toolList, toolText } from '../fixtures/raw-upstream/texts.ts';

const tests = consoleTests();
const TOOL = { description: 'd', uri: 'http://127.0.0.1:9/mcp', toolType: 'x', input_schema: { type: 'object' } };

async function toolOf(name: string, namespace: string): Promise<unknown> {
  return (await tests.service.manage('GET', `/tools/${name}?namespace=${namespace}`)).data;
}

test('creates, changes and deletes a tool by hand, and undoes the deletion', async (context) => {
  const page = await tests.open(context, '#/tools');
  await page.getByRole('button', { name: 'Create tool' }).click();
  const create = dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Create' });
  expect(await create.isDisabled()).toBe(true);
  await page.locator('#tool-name').fill('report');
  await page.locator('#tool-description').fill('Writes a report');
  await page.locator('#tool-uri').fill('reports://monthly');
  await page.locator('#tool-type').fill('reports');
  await create.click();
  await dialog(page).waitFor({ state: 'detached' });
  await rowOf(page, 'report').waitFor();
  expect(await toolOf('report', 'default')).toMatchObject({ uri: 'reports://monthly', toolType: 'reports' });

  await rowOf(page, 'report').getByRole('button', { name: 'Edit' }).click();
  await page.locator('#tool-description').fill('Writes the report of a month');
  await fillEditor(page, 'tool-input-schema', '{"type": "object", "properties": {"month": {"type": "string"}}}');
  await dialog(page).getByRole('button', { name: 'Save' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  const changed = {
    description: 'Writes the report of a month',
    input_schema: { type: 'object', properties: { month: { type: 'string' } } },
  };
  expect(await toolOf('report', 'default')).toMatchObject(changed);

  await rowOf(page, 'report').getByRole('button', { name: 'Delete' }).click();
  await rowOf(page, 'report').waitFor({ state: 'detached' });
  expect(await toolOf('report', 'default')).toBeNull();
  await page.getByRole('button', { name: 'Undo' }).click();
  await rowOf(page, 'report').waitFor();
  expect(await toolOf('report', 'default')).toMatchObject(changed);
});

test('changes and deletes discovered tools whose names a path cannot contain', async (context) => {
  const upstream = await tests.upstream({ scripts: { 'tools/list': toolList(toolText('.'), toolText('..')) } });
  await tests.service.register('forwards', { name: 'dots', address: upstream.url, namespace: 'dots' });
  tests.onEnd(() => tests.service.manage('DELETE', '/forwards/dots'));
  const page = await tests.open(context, '#/tools?namespace=dots');
  for (const name of ['.', '..']) {
    const stored = async () => (await tests.service.manage('GET', `/tools/-?name=${name}&namespace=dots`)).data;
    const row = page.locator('tbody tr').filter({ has: page.locator(`bdi:text-is("${name}")`) });
    await row.getByRole('button', { name: 'Edit' }).click();
    await page.locator('#tool-description').fill(`Described ${name}`);
    await dialog(page).getByRole('button', { name: 'Save' }).click();
    await dialog(page).waitFor({ state: 'detached' });
    expect(await stored()).toMatchObject({ name, description: `Described ${name}` });
    await row.getByRole('button', { name: 'Delete' }).click();
    await expect.poll(stored).toBeNull();
  }
});

test('overrides a discovered tool, shows it beside the upstream, disables and deletes it', async (context) => {
  const page = await tests.open(context, '#/tools');
  const schema =
    ',"inputSchema":{"type":"object","required":["id"],"properties":{"id":{"type":"integer","description":"Of the customer"}}}';
  const text = toolText('find').replace(',"inputSchema":{"type":"object"}', schema);
  const upstream = await tests.upstream({ scripts: { 'tools/list': toolList(text) } });
  await tests.service.register('forwards', { name: 'crm', address: upstream.url, namespace: 'crm' });
  await page.goto(`${tests.service.management}/admin/#/tools?namespace=crm`);
  await page.reload();
  const row = rowOf(page, 'find');
  await row.getByRole('button', { name: 'Edit' }).click();
  expect(await page.locator('#tool-uri').isEditable()).toBe(false);
  await page.locator('#tool-description').fill('Finds a customer');
  await dialog(page).getByRole('button', { name: 'Save' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await page.locator('tr', { hasText: 'Changed' }).getByRole('button', { name: 'Details' }).click();
  const overview = await dialog(page).getByRole('list', { name: 'Arguments' }).textContent();
  for (const shown of ['id', 'integer', 'required', 'Of the customer']) expect(overview).toContain(shown);
  await dialog(page).getByRole('tab', { name: 'Upstream' }).click();
  const compared = dialog(page).locator('tr.is-changed', { hasText: 'description' });
  expect(await compared.locator('td').allTextContents()).toEqual(['d', 'Finds a customer']);
  await dialog(page).getByRole('button', { name: 'Close' }).click();

  await page.getByRole('switch', { name: 'find enabled' }).press('Space');
  await expect.poll(() => toolOf('find', 'crm')).toMatchObject({ enabled: false });
  await page.locator('tr', { hasText: 'find' }).getByRole('button', { name: 'Delete' }).click();
  await page.getByText('The next discovery of crm registers it again').waitFor();
  await tests.service.manage('POST', '/forwards/crm/refreshes');
  expect(await toolOf('find', 'crm')).toMatchObject({ description: 'Finds a customer', enabled: false });
});

test('filters are in the address, and the selection can be disabled at once', async (context) => {
  const page = await tests.open(context, '#/tools');
  for (const name of ['one', 'two', 'three']) {
    await tests.service.register('tools', { ...TOOL, name, namespace: 'filtered' });
  }
  await page.goto(`${tests.service.management}/admin/#/tools?namespace=filtered`);
  await page.reload();
  await settled(page);
  expect(await page.locator('table tbody tr').count()).toBe(3);
  await page.getByRole('searchbox').fill('TW');
  await expect.poll(() => page.locator('table tbody tr').count()).toBe(1);
  expect(page.url()).toContain('q=TW');
  await page.getByRole('searchbox').fill('');
  await page.getByRole('button', { name: 'Name', exact: true }).click();
  await expect.poll(() => page.locator('tbody td:first-child').allTextContents()).toEqual(['one', 'three', 'two']);
  await page.getByRole('button', { name: 'Change all 3' }).click();
  await page.getByRole('menuitem', { name: 'Disable all shown' }).click();
  await expect.poll(() => toolOf('three', 'filtered')).toMatchObject({ enabled: false });
});

test('imports tools after showing what is added, replaced and refused', async (context) => {
  const page = await tests.open(context, '#/tools');
  const folder = await mkdtemp(join(tmpdir(), 'sluice-import-'));
  tests.onEnd(() => rm(folder, { recursive: true, force: true }));
  await tests.service.register('tools', { ...TOOL, name: 'kept', namespace: 'imported' });
  await tests.service.register('tools', { ...TOOL, name: 'old', namespace: 'imported' });
  const tools = [
    { ...TOOL, name: 'kept', namespace: 'imported' },
    { ...TOOL, name: 'old', namespace: 'imported', description: 'new' },
    { ...TOOL, name: 'added', namespace: 'imported' },
    { name: 'broken' },
  ];
  await writeFile(join(folder, 'tools.json'), JSON.stringify({ tools }));
  await page.reload();
  await page.getByRole('button', { name: 'Import' }).click();
  await dialog(page).locator('input[type=file]').setInputFiles(join(folder, 'tools.json'));
  const effects = dialog(page).locator('tbody tr td:nth-child(3)');
  await expect.poll(() => effects.allTextContents()).toEqual(['Unchanged', 'Replace', 'Add', 'Refuse']);
  await dialog(page).getByRole('button', { name: 'Import 2' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  expect(await toolOf('old', 'imported')).toMatchObject({ description: 'new' });
  expect(await toolOf('added', 'imported')).toMatchObject({ description: 'd' });
});

test('creates resources and prompts', async (context) => {
  const page = await tests.open(context, '#/resources');
  await page.getByRole('button', { name: 'Create resource' }).click();
  await page.locator('#resource-name').fill('notes');
  await page.locator('#resource-location').fill('notes://today');
  await page.locator('#resource-type').fill('notes');
  await page.locator('#resource-description').fill('Notes of today');
  await dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Create' }).click();
  await rowOf(page, 'notes').waitFor();
  expect((await tests.service.manage('GET', '/resources/notes')).data).toMatchObject({ location: 'notes://today' });

  await page.goto(`${tests.service.management}/admin/#/prompts`);
  await settled(page);
  await page.getByRole('button', { name: 'Create prompt' }).click();
  await page.locator('#prompt-name').fill('write');
  await page.locator('#prompt-description').fill('Writes');
  await dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Create' }).click();
  await rowOf(page, 'write').waitFor();
  expect((await tests.service.manage('GET', '/prompts/write')).data).toMatchObject({
    arguments: [{ name: 'topic', required: true }],
    messages: [{ role: 'user', content: 'Write about {topic}.' }],
  });
});

test('text of upstreams is inert, and invisible characters are visible', async (context) => {
  const page = await tests.open(context, '#/tools');
  const name = 'pay\u202egnp\u200b<img src=x onerror=alert(1)>';
  const description = `<script>alert(1)</script>${'x'.repeat(100_000)}`;
  const hostile = {
    name,
    description,
    inputSchema: { type: 'object', properties: { '<b>a</b>': { type: 'string' } } },
  };
  const upstream = await tests.upstream({ scripts: { 'tools/list': toolList(JSON.stringify(hostile)) } });
  await tests.service.register('forwards', { name: 'hostile', address: upstream.url, namespace: 'hostile' });
  await page.goto(`${tests.service.management}/admin/#/tools?namespace=hostile`);
  await page.reload();
  await settled(page);
  const row = page.locator('table tbody tr').first();
  expect(await row.locator('td').first().textContent()).toBe('payU+202EgnpU+200B<img src=x onerror=alert(1)>');
  await row.getByRole('button', { name: 'Details' }).click();
  await dialog(page).waitFor();
  expect(await page.locator('main img').count()).toBe(0);
  expect(await dialog(page).getByRole('list', { name: 'Arguments' }).textContent()).toContain('<b>a</b>');
});
