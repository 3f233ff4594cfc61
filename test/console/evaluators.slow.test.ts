import { expect, test } from 'vitest';
import { consoleTests, dialog, fillEditor, rowOf, settled } from '../fixtures/console.ts';
import { evaluator, startEvaluatedService } from '../fixtures/evaluated/evaluated-service.ts';

const tests = consoleTests(startEvaluatedService);

async function names(): Promise<string[]> {
  const { data } = await tests.service.manage('GET', '/evaluators');
  return Array.isArray(data) ? data.map(({ name }) => String(name)) : [];
}

test('adds, changes, moves and deletes evaluators, and undoes it', async (context) => {
  const page = await tests.open(context, '#/evaluators');
  const given = evaluator('first', { method: 'tools/call', llmOutput: 'pass' });
  await tests.service.manage('PUT', '/evaluators', { evaluators: [given] });
  await page.reload();
  await settled(page);
  await page.getByRole('button', { name: 'Add Evaluator' }).click();
  const add = dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Add' });
  await page.locator('#evaluator-name').fill('first');
  await page.locator('#evaluator-connection').selectOption('judge');
  await page.locator('#evaluator-path').fill('ordinary.wasm');
  await page.locator('#evaluator-prompt').fill('Is it safe?');
  expect(await add.isDisabled()).toBe(true);
  await page.locator('#evaluator-name').fill('second');
  await add.click();
  await dialog(page).waitFor({ state: 'detached' });
  await rowOf(page, 'second').waitFor();
  expect(await names()).toEqual(['first', 'second']);

  await rowOf(page, 'second').getByRole('button', { name: 'Run earlier' }).click();
  await expect.poll(names).toEqual(['second', 'first']);
  await expect.poll(() => page.locator('tbody tr').first().textContent()).toContain('second');
  await rowOf(page, 'first').getByRole('button', { name: 'Edit' }).click();
  await page.locator('#evaluator-on-error').selectOption('block');
  await dialog(page).getByRole('button', { name: 'Save' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  expect((await tests.service.manage('GET', '/evaluators')).data).toMatchObject([
    {},
    { name: 'first', on_error: 'block' },
  ]);

  await rowOf(page, 'first').getByRole('button', { name: 'Delete' }).click();
  await expect.poll(names).toEqual(['second']);
  // There may be older toasts.
  const deleted = page.locator('.toasts > *', { hasText: 'first deleted' });
  await deleted.getByRole('button', { name: 'Undo' }).click();
  await expect.poll(names).toEqual(['second', 'first']);
});

test('tries a changed evaluator on a typed call, and enforces nothing', async (context) => {
  const page = await tests.open(context, '#/evaluators');
  await tests.service.manage('PUT', '/evaluators', { evaluators: [evaluator('gate', { llmOutput: 'pass' })] });
  await page.reload();
  await settled(page);
  await rowOf(page, 'gate').getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('button', { name: 'Dry run' }).click();
  await fillEditor(page, 'dry-run-params', '{"name":"transfer","arguments":{"amount":1}}');
  await page.locator('#dry-run-answer').fill('block:too much');
  await page.getByRole('button', { name: 'Try the evaluator' }).click();
  const verdict = dialog(page).locator('dl[aria-label="Verdict"]');
  await verdict.getByText('too much').first().waitFor();
  expect(await verdict.textContent()).toContain('block');
  expect(await names()).toEqual(['gate']);
});

test('compares revisions and activates an earlier one', async (context) => {
  const page = await tests.open(context, '#/evaluators');
  const [before, after] = ['Look closely', 'Look twice'].map((llmOutput) => evaluator('gate', { llmOutput }));
  await tests.service.manage('PUT', '/evaluators', { evaluators: [before] });
  await tests.service.manage('PUT', '/evaluators', { evaluators: [after] });
  await page.goto(`${tests.service.management}/admin/#/evaluators?tab=revisions`);
  const row = page.locator('tbody tr', { hasText: 'superseded' }).first();
  await row.getByRole('button', { name: 'Compare' }).click();
  await dialog(page).locator('.cm-changedLine', { hasText: 'Look closely' }).waitFor();
  await dialog(page).getByRole('button', { name: 'Close' }).click();
  await row.getByRole('button', { name: 'Activate' }).click();
  await expect
    .poll(async () => (await tests.service.manage('GET', '/evaluators')).data)
    .toMatchObject([{ llm: { prompt: 'Look closely' } }]);
});

test('binds a namespace to a conversation and unbinds it', async (context) => {
  const page = await tests.open(context, '#/evaluators?tab=bindings');
  await page.getByRole('button', { name: 'Bind a namespace' }).click();
  await page.locator('#binding-conversation').fill('conversation-1');
  await dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Bind' }).click();
  await rowOf(page, 'default').waitFor();
  const bindings = async () => (await tests.service.manage('GET', '/evaluators/namespaces')).data;
  expect(await bindings()).toEqual({ default: 'conversation-1' });
  await rowOf(page, 'default').getByRole('button', { name: 'Delete' }).click();
  await expect.poll(bindings).toEqual({});
});

test('tries an evaluator on a call of a recorded completion, with the answer of the real model', async (context) => {
  const page = await tests.open(context, '#/evaluators');
  await tests.service.manage('PUT', '/evaluators', {
    evaluators: [evaluator('gate', { llmOutput: 'block:too risky' })],
  });
  const called = { name: 'transfer', arguments: '{"amount":7}' };
  const message = { role: 'assistant', tool_calls: [{ id: 'call_1', type: 'function', function: called }] };
  const completions = [{ epoch_ms: 1, status_code: 200, duration_ms: 1, response_body: { choices: [{ message }] } }];
  await page.route(
    (url) => url.pathname === '/api/v1/interactions',
    (route) => route.fulfill({ json: { data: completions, error: null } }),
  );
  await page.reload();
  await rowOf(page, 'gate').getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('button', { name: 'Dry run' }).click();
  const run = page.getByRole('button', { name: 'Try the evaluator' });
  await fillEditor(page, 'dry-run-params', '{"name":');
  expect(await run.isDisabled()).toBe(true);
  await page.locator('#dry-run-recorded').selectOption({ label: 'transfer' });
  await expect.poll(() => page.locator('#dry-run-params .cm-content').textContent()).toContain('"amount": 7');
  await page.locator('#dry-run-answer-by').selectOption('model');
  await run.click();
  const verdict = dialog(page).locator('dl[aria-label="Verdict"]');
  await verdict.getByText('too risky').first().waitFor();
  expect(await verdict.textContent()).toMatch(/1 calls?, \d+ ms/);
});

test('an invalid schema is marked in place and cannot be saved', async (context) => {
  const page = await tests.open(context, '#/evaluators');
  await tests.service.manage('PUT', '/evaluators', { evaluators: [evaluator('gate')] });
  await page.reload();
  await rowOf(page, 'gate').getByRole('button', { name: 'Edit' }).click();
  const save = dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Save' });
  expect(await save.isEnabled()).toBe(true);
  await fillEditor(page, 'evaluator-schema', '{"type": "obj');
  await dialog(page).getByText('Must be a JSON object').waitFor();
  await page.locator('#evaluator-schema .cm-lint-marker-error').first().waitFor();
  expect(await save.isDisabled()).toBe(true);
});
