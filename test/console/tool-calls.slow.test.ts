import { readFile } from 'node:fs/promises';
import { toolCallEvent } from '@sluice/contract';
import { expect, test } from 'vitest';
import { consoleTests, dialog, settled } from '../fixtures/console.ts';
import { modernClient } from '../fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../fixtures/raw-upstream/texts.ts';

const tests = consoleTests();

/** An upstream whose tool `works` returns a text and whose tool `fails` an error of the protocol. */
async function startTools() {
  const upstream = await tests.upstream({
    scripts: {
      'tools/list': toolList(toolText('works'), toolText('fails')),
      'tools/call': ({ params }) =>
        params.name === 'works'
          ? textResultText('sunny in Bern')
          : { kind: 'error', text: '{"code":-32000,"message":"struck by <b>lightning</b>"}' },
    },
  });
  await tests.service.register('forwards', { name: 'weather', address: upstream.url });
  tests.onEnd(() => tests.service.manage('DELETE', '/forwards/weather'));
  const client = modernClient(tests.service.url());
  return (name: string, headers = {}) =>
    client.call('tools/call', `{"name":"${name}","arguments":{"city":"Bern"}}`, headers);
}

test('calls appear as they happen, can be filtered, paused, cleared and exported', async (context) => {
  const call = await startTools();
  const page = await tests.open(context, '#/tool-calls');
  await call('works', { 'x-forwarded-user': 'ann' });
  const rows = page.locator('table tbody tr');
  await rows.filter({ hasText: 'sunny in Bern' }).waitFor();
  expect(await rows.locator('td').first().textContent()).toMatch(/\d\d:\d\d:\d\d\.\d{3}/);
  await call('fails');
  const failed = rows.filter({ hasText: 'struck by <b>lightning</b>' });
  await failed.waitFor();
  expect(await failed.locator('.cds--tag').textContent()).toBe('failed');

  await page.locator('#filter-outcome').selectOption('failed');
  await expect.poll(() => rows.count()).toBe(1);
  await page.reload();
  await settled(page);
  await failed.waitFor();
  expect(await rows.count()).toBe(1);
  await page.locator('#filter-outcome').selectOption('');

  await page.getByRole('button', { name: 'Pause' }).click();
  const before = await rows.count();
  await call('works');
  await page.getByText('Paused; 1 newer calls').waitFor();
  expect(await rows.count()).toBe(before);
  await page.getByRole('button', { name: 'Resume' }).click();
  await expect.poll(() => rows.count()).toBe(before + 1);

  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export' }).click(),
  ]);
  const lines = (await readFile(await download.path(), 'utf8')).trim().split('\n');
  const events = lines.map((line) => toolCallEvent.parse(JSON.parse(line)));
  expect(events[0]).toMatchObject({ eventType: 'STARTED', toolName: 'works', user: 'ann' });

  await page.getByRole('button', { name: 'Clear' }).click();
  await page.getByText('No tool calls').waitFor();
});

test('one call is opened with its time, its result and the calls of its conversation', async (context) => {
  const call = await startTools();
  await call('works', { 'x-conversation-id': 'c-1' });
  await call('fails', { 'x-conversation-id': 'c-1' });
  const page = await tests.open(context, '#/tool-calls');
  await page.locator('table tbody tr', { hasText: 'sunny' }).getByRole('button', { name: 'Details' }).first().click();
  const details = dialog(page);
  await details.getByText('sunny in Bern').first().waitFor();
  expect(await details.locator('.waterfall li').count()).toBe(1);
  expect(await details.textContent()).toContain('weather');
  await details.getByRole('button', { name: 'fails: failed' }).click();
  await details.getByText('struck by <b>lightning</b>').first().waitFor();
  expect(page.url()).toContain('open=');
  await page.goBack();
  await details.getByText('sunny in Bern').first().waitFor();
});

test('a thousand calls are shown without all of them being rendered', async (context) => {
  const call = await startTools();
  const page = await tests.open(context, '#/tool-calls');
  for (let batch = 0; batch < 20; batch++) await Promise.all(Array.from({ length: 50 }, () => call('works')));
  await expect.poll(() => page.locator('.table-count').textContent()).toMatch(/^1[0-9]{3} in all/);
  expect(await page.locator('table tbody tr').count()).toBeLessThan(100);
  await page.locator('#search').fill('no such call');
  await page.getByText('Nothing matches').waitFor();
});
