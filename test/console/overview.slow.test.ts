import { expect, test } from 'vitest';
import { consoleTests, dialog, rowOf, settled } from '../fixtures/console.ts';
import { evaluator, startEvaluatedService } from '../fixtures/evaluated/evaluated-service.ts';
import { modernClient } from '../fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../fixtures/raw-upstream/texts.ts';

const tests = consoleTests(startEvaluatedService);

test('skipped and failed evaluators and shadowed names need attention, each with a link to where it can be fixed', async (context) => {
  const page = await tests.open(context, '#/');
  const upstream = await tests.upstream({ scripts: { 'tools/list': toolList(toolText('find'), toolText('report')) } });
  for (const name of ['first', 'second'])
    await tests.service.register('forwards', { name, address: upstream.url, namespace: 'shadows' });
  const skipped = { ...evaluator('unreadable'), processor: { path: 'missing.wasm' } };
  const evaluators = [skipped, evaluator('unanswered', { connection: 'nobody', namespace: 'shadows' })];
  expect((await tests.service.manage('PUT', '/evaluators', { evaluators })).status).toBe(200);
  await modernClient(tests.service.url('shadows')).call('tools/call', '{"name":"find"}');
  await page.getByRole('button', { name: 'Refresh' }).click();

  const problems = page.locator('.problems li');
  await problems.filter({ hasText: 'Evaluator unanswered fails' }).getByText('1 of 1 evaluations failed').waitFor();
  await problems.filter({ hasText: 'Tool report of forward second is shadowed' }).waitFor();
  await page.getByRole('link', { name: 'Tool find of forward second is shadowed' }).click();
  await settled(page);
  expect(await page.locator('tbody tr').count()).toBe(2);
  await page.goBack();
  await page.getByRole('link', { name: 'Evaluator unreadable is skipped' }).click();
  await dialog(page).getByText('missing.wasm').first().waitFor();
});

test('metrics show calls by method and outcome, filters, host processes, and what Prometheus reads', async (context) => {
  const page = await tests.open(context, '#/metrics?by=outcome');
  const upstream = await tests.upstream({
    scripts: { 'tools/list': toolList(toolText('a')), 'tools/call': textResultText('done') },
  });
  await tests.service.register('forwards', { name: 'counted', address: upstream.url, namespace: 'counted' });
  await tests.service.manage('PUT', '/evaluators', { evaluators: [evaluator('gate', { llmOutput: 'pass' })] });
  await modernClient(tests.service.url('counted')).call('tools/call', '{"name":"a"}');
  await rowOf(page, 'completed').waitFor();
  await page.locator('#metrics-by').selectOption('method');
  await rowOf(page, 'tools/call').waitFor();
  await page.locator('.plots svg.layout-svg-wrapper').first().waitFor();

  const filters = page.getByRole('table', { name: 'Filters' });
  await expect.poll(() => filters.locator('tbody tr', { hasText: 'evaluator' }).textContent()).toContain('100%');
  const hosts = page.getByRole('region', { name: 'Host processes of actions' });
  await expect.poll(() => hosts.textContent()).toMatch(/Started[1-9]/);
  await page.getByRole('searchbox').fill('evaluator_decisions');
  await rowOf(page, 'sluice_evaluator_decisions_total').getByRole('button', { name: 'Details' }).click();
  await dialog(page).getByText('sluice_evaluator="gate",sluice_evaluator_decision="pass"} 1').waitFor();
});

test('the dashboard counts the work of filters and evaluators, and names services that are down', async (context) => {
  const page = await tests.open(context, '#/');
  const upstream = await tests.upstream({ scripts: { 'tools/call': textResultText('done') } });
  upstream.scripts['tools/list'] = toolList(toolText('a'));
  await tests.service.register('forwards', { name: 'worked', address: upstream.url, namespace: 'worked' });
  await tests.service.manage('PUT', '/evaluators', { evaluators: [evaluator('doorman', { namespace: 'worked' })] });
  const added = { name: 'absent', address: '127.0.0.1:9', serviceType: 'tool-invoker' };
  expect((await tests.service.manage('POST', '/services', added)).status).toBeLessThan(300);
  await modernClient(tests.service.url('worked')).call('tools/call', '{"name":"a"}');

  const evaluators = page.getByRole('table', { name: 'Evaluators' });
  const row = evaluators.locator('tbody tr', { hasText: 'doorman' });
  await expect.poll(() => row.locator('td').nth(1).textContent()).toBe('1');
  const filters = page.getByRole('table', { name: 'Filters' });
  await filters.locator('tbody tr', { hasText: 'evaluator' }).first().waitFor();
  await page.getByRole('link', { name: /^Service absent is (?:down|unhealthy)$/ }).click();
  await dialog(page).locator('.cds--modal-header__heading', { hasText: 'absent' }).waitFor();
});
