import { expect, test } from 'vitest';
import { consoleTests, rowOf, settled } from '../fixtures/console.ts';
import { modernClient } from '../fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../fixtures/raw-upstream/texts.ts';

const tests = consoleTests();

/** Two forwards: `crm` in its own namespace, and `old`, whose tool `find` is shadowed there; a tool by hand in another one. */
async function startTools() {
  const find = toolText('find').replace('"description":"d"', '"description":"Looks for a customer"');
  const upstream = await tests.upstream({
    scripts: {
      'tools/list': toolList(find, toolText('report')),
      'tools/call': ({ params }) =>
        params.name === 'find' ? textResultText('Ada') : { kind: 'error', text: '{"code":-32000,"message":"no"}' },
    },
  });
  for (const name of ['crm', 'old'])
    await tests.service.register('forwards', { name, address: `${upstream.url}?${name}`, namespace: 'sales' });
  const tool = { description: 'd', uri: 'x://y', toolType: 'mailer', input_schema: { type: 'object' } };
  await tests.service.register('tools', { ...tool, name: 'send', namespace: 'office' });
  for (const path of ['/forwards/crm', '/forwards/old', '/tools/send?namespace=office'])
    tests.onEnd(() => tests.service.manage('DELETE', path));
  return modernClient(tests.service.url('sales'));
}

test('tools are searched by name, description, namespace and forward, and filtered by each, type and state', async (context) => {
  await tests.open(context, '#/');
  await startTools();
  const page = await tests.open(context, '#/tools');
  const rows = page.locator('table tbody tr');
  await expect.poll(() => rows.count()).toBe(5);
  const searches = [
    ['REPO', 2],
    ['a customer', 2],
    ['office', 1],
    ['crm', 2],
  ] as const;
  for (const [text, count] of searches) {
    await page.getByRole('searchbox').fill(text);
    await expect.poll(() => rows.count(), { message: text }).toBe(count);
  }
  await page.getByRole('searchbox').fill('');
  const filters = [
    ['namespace', 'office', 1],
    ['forward', 'old', 2],
    ['type', 'mailer', 1],
    ['state', 'Shadowed', 2],
    ['state', 'Enabled', 3],
  ] as const;
  for (const [id, value, count] of filters) {
    await page.locator(`#filter-${id}`).selectOption(value);
    await expect.poll(() => rows.count(), { message: value }).toBe(count);
    // The address alone selects the same.
    await page.reload();
    await settled(page);
    expect(await rows.count(), value).toBe(count);
    await page.locator(`#filter-${id}`).selectOption('');
  }
});

test('tool calls are filtered by tool, namespace, category, outcome, user and free text', async (context) => {
  await tests.open(context, '#/');
  const client = await startTools();
  await client.call('tools/call', '{"name":"find"}', { 'x-forwarded-user': 'ann' });
  await client.call('tools/call', '{"name":"report"}', { 'x-forwarded-user': 'bob', 'x-conversation-id': 'c-7' });
  const page = await tests.open(context, '#/tool-calls');
  const rows = page.locator('table tbody tr');
  await expect.poll(() => rows.count()).toBe(2);
  const filters = [
    ['#filter-outcome', 'completed', 1],
    ['#filter-namespace', 'sales', 2],
    ['#filter-category', 'UNKNOWN', 1],
    ['#filter-user', 'ann', 1],
  ] as const;
  for (const [id, value, count] of filters) {
    await page.locator(id).selectOption(value);
    await expect.poll(() => rows.count(), { message: value }).toBe(count);
    await page.locator(id).selectOption('');
  }
  for (const text of ['report', 'c-7', 'bob', 'no']) {
    await page.getByRole('searchbox').fill(text);
    await expect.poll(() => rows.count(), { message: text }).toBe(1);
  }
});

test('columns are sorted in both directions, and the address keeps the order', async (context) => {
  await tests.open(context, '#/');
  await startTools();
  const page = await tests.open(context, '#/tools?namespace=sales&state=Enabled');
  const names = () => page.locator('tbody td:first-child').allTextContents();
  const header = page.getByRole('button', { name: 'Name', exact: true });
  await header.click();
  await expect.poll(names).toEqual(['find', 'report']);
  await header.click();
  await expect.poll(names).toEqual(['report', 'find']);
  await page.reload();
  await settled(page);
  expect(await names()).toEqual(['report', 'find']);
  await rowOf(page, 'find').waitFor();
});
