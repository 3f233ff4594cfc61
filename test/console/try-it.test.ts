import { expect, test } from 'vitest';
import { consoleTests, dialog } from '../fixtures/console.ts';
import { startDualEra } from '../fixtures/dual-era.ts';

const tests = consoleTests();

/** Opens the tab of an entry of an upstream in a namespace of its own. */
async function tryEntry(context: Parameters<typeof tests.open>[0], page: string, key: string) {
  const opened = await tests.open(context, `#/${page}`);
  const upstream = await startDualEra();
  tests.onEnd(upstream.close);
  await tests.service.manage('DELETE', '/namespaces/tried?cascade=true');
  await tests.service.register('forwards', { name: 'tried', address: upstream.url, namespace: 'tried' });
  await opened.goto(`${tests.service.management}/admin/#/${page}?open=${encodeURIComponent(`tried/${key}`)}`);
  await opened.reload();
  await dialog(opened).getByRole('tab', { name: 'Try it' }).click();
  return opened;
}

test('calls a tool with a form made of its schema, as a client of the namespace', async (context) => {
  const page = await tryEntry(context, 'tools', 'weather_report');
  await dialog(page).locator('.schema-form input').first().fill('Bern');
  await dialog(page).getByRole('button', { name: 'Call' }).click();
  const result = dialog(page).getByRole('region', { name: 'Result' });
  await result.getByText('Bern').first().waitFor();
  await dialog(page).getByText('Raw exchange').click();
  expect(await dialog(page).locator('.exchange').allTextContents()).toEqual(
    expect.arrayContaining([expect.stringContaining('"method":"tools/call"')]),
  );
  const { data } = await tests.service.manage('GET', '/tool-calls');
  expect(data).toEqual(
    expect.arrayContaining([expect.objectContaining({ toolName: 'weather_report', via: 'console' })]),
  );
});

test('shows images from their data, and the question of a server before its result', async (context) => {
  const page = await tryEntry(context, 'tools', 'test_multiple_content_types');
  await dialog(page).getByRole('button', { name: 'Call' }).click();
  await dialog(page).locator('img[src^="blob:"]').waitFor();
  await page.goto(`${tests.service.management}/admin/#/tools?open=tried/test_input_required_result_elicitation`);
  await dialog(page).getByRole('tab', { name: 'Try it' }).click();
  await dialog(page).getByRole('button', { name: 'Call' }).click();
  const question = dialog(page).getByRole('region', { name: 'Question of the server' });
  await question.locator('input').first().fill('Ada');
  await question.getByRole('button', { name: 'Answer' }).click();
  await dialog(page).getByRole('region', { name: 'Result' }).getByText('Ada').first().waitFor();
});

test('reads a resource and gets a prompt', async (context) => {
  const page = await tryEntry(context, 'resources', 'test://static-text');
  await dialog(page).getByRole('button', { name: 'Read' }).click();
  await dialog(page).getByRole('region', { name: 'Result' }).getByRole('region', { name: 'Text' }).waitFor();
  await page.goto(`${tests.service.management}/admin/#/prompts?open=tried/test_prompt_with_arguments`);
  await dialog(page).getByRole('tab', { name: 'Try it' }).click();
  await dialog(page).locator('.schema-form input').first().fill('one');
  await dialog(page).locator('.schema-form input').nth(1).fill('two');
  await dialog(page).getByRole('button', { name: 'Get' }).click();
  await dialog(page).getByRole('region', { name: 'Result' }).getByText('one').first().waitFor();
});
