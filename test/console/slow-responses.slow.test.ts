import type { Page, Route } from 'playwright-core';
import { expect, test } from 'vitest';
import { consoleTests, dialog, rowOf, settled } from '../fixtures/console.ts';
import { CREATING, type FormView, fillForm, onlyWrites, openForm } from '../fixtures/console-forms.ts';
import { evaluator, startEvaluatedService } from '../fixtures/evaluated/evaluated-service.ts';
import { toolList } from '../fixtures/raw-upstream/texts.ts';

const tests = consoleTests(startEvaluatedService);

/** Longer than any time that a dialog or toast waits for. */
const MINUTE_MS = 60_000;

/** Dialogs of things that exist already. */
const CHANGING: readonly FormView[] = [
  {
    name: 'change of a tool',
    hash: '#/tools',
    row: 'there',
    open: 'Edit',
    submit: 'Save',
    values: { 'tool-description': 'typed' },
    path: 'tools/there',
  },
  {
    name: 'change of a namespace',
    hash: '#/namespaces',
    row: 'there',
    open: 'Edit',
    submit: 'Save',
    values: { 'namespace-labels': 'team=typed' },
    path: 'namespaces/there',
  },
  {
    name: 'change of a forward',
    hash: '#/forwards',
    row: 'there',
    open: 'Edit',
    submit: 'Save',
    values: { 'forward-address': 'http://127.0.0.1:9/typed' },
    path: 'forwards/there',
  },
  {
    name: 'change of a service',
    hash: '#/services',
    row: 'there',
    open: 'Edit',
    submit: 'Save',
    values: { 'service-address': '127.0.0.1:10' },
    path: 'services',
  },
  {
    name: 'provisioning of a service',
    hash: '#/services',
    row: 'there',
    open: 'Provision',
    submit: 'Store',
    values: { 'provision-name': 'typed', 'provision-secrets': 'hunter2' },
    path: 'services/there/provisions',
  },
  {
    name: 'change of an evaluator',
    hash: '#/evaluators',
    row: 'there',
    open: 'Edit',
    submit: 'Save',
    values: { 'evaluator-prompt': 'typed' },
    path: 'evaluators',
  },
  {
    name: 'deletion of a namespace with contents',
    hash: '#/namespaces',
    row: 'there',
    open: 'Delete',
    submit: 'Delete all',
    values: {},
    path: 'namespaces/there',
  },
  {
    name: 'deletion of a forward with changed entries',
    hash: '#/forwards',
    row: 'marked',
    open: 'Delete',
    submit: 'Delete',
    values: {},
    path: 'forwards/marked',
  },
];

/** Registers what {@link CHANGING} changes. */
async function registerObjects(): Promise<void> {
  const { service } = tests;
  const upstream = await tests.upstream();
  const tool = { description: 'd', uri: 'x://y', toolType: 'x', input_schema: { type: 'object' } };
  await service.register('tools', { ...tool, name: 'there', namespace: 'there' });
  await service.register('forwards', { name: 'there', address: upstream.url, namespace: 'forwarded' });
  await service.register('forwards', { name: 'marked', address: upstream.url, namespace: 'marked' });
  await service.manage('POST', '/tools/enabled', { forward: 'marked', names: ['a'], enabled: false });
  const added = { name: 'there', address: '127.0.0.1:9', serviceType: 'tool-invoker' };
  expect((await service.manage('POST', '/services', added)).status).toBeLessThan(300);
  await service.manage('PUT', '/evaluators', { evaluators: [evaluator('there')] });
  for (const path of ['/namespaces/there?cascade=true', '/forwards/there', '/forwards/marked', '/services/there'])
    tests.onEnd(() => service.manage('DELETE', path));
  tests.onEnd(() => service.manage('PUT', '/evaluators', { evaluators: [] }));
}

/** Holds the requests of a form back. Returns a function that fails those that wait. */
async function holdBack(page: Page, { path }: FormView) {
  const sent = Promise.withResolvers<void>();
  const failed = Promise.withResolvers<void>();
  const fail = async (route: Route): Promise<void> => {
    // A request may look whether the namespace is empty.
    if (
      route.request().method() === 'DELETE' &&
      path.startsWith('namespaces') &&
      !route.request().url().includes('cascade')
    )
      return route.fallback();
    sent.resolve();
    await failed.promise;
    const error = { code: 'INTERNAL', message: 'the disk is full' };
    await route.fulfill({ status: 500, json: { data: null, error } });
  };
  await page.route((url) => url.pathname === `/api/v1/${path}`, onlyWrites(fail));
  return { sent: sent.promise, fail: () => failed.resolve() };
}

for (const form of [...CREATING, ...CHANGING]) {
  test(`${form.name}: a request that fails after a minute leaves the dialog open, with the input and the error`, async (context) => {
    const page = await tests.open(context, form.hash);
    await registerObjects();
    await page.clock.install();
    await page.reload();
    await settled(page);
    const submit = await openForm(page, form);
    await fillForm(page, form);
    const request = await holdBack(page, form);
    await submit.click();
    await request.sent;
    await page.clock.fastForward(MINUTE_MS);
    expect(
      await dialog(page)
        .getByRole('button', { name: `${form.submit} …` })
        .isDisabled(),
    ).toBe(true);
    request.fail();
    await dialog(page).locator('.cds--inline-notification--error', { hasText: 'the disk is full' }).waitFor();
    for (const [id, value] of Object.entries(form.values))
      expect(await page.locator(`#${id}`).inputValue()).toBe(value);
    expect(await submit.isEnabled()).toBe(true);
  });
}

test('a dialog that is closed while its request runs reports the failure as a toast, and closes no other dialog', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  await registerObjects();
  await page.reload();
  const [form] = CHANGING.filter(({ hash }) => hash === '#/namespaces');
  if (!form) throw new Error('no form');
  const submit = await openForm(page, form);
  await fillForm(page, form);
  const request = await holdBack(page, form);
  await submit.click();
  await request.sent;
  await dialog(page).getByRole('button', { name: 'Cancel' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Create Namespace' }).click();
  await page.locator('#namespace-name').fill('other');
  request.fail();
  await page.locator('.toasts .cds--toast-notification--error', { hasText: 'the disk is full' }).waitFor();
  expect(await page.locator('#namespace-name').inputValue()).toBe('other');
});

test('a forward whose discovery takes long is stored: the dialog closes, and a toast reports the end', async (context) => {
  const page = await tests.open(context, '#/forwards');
  const lists = Promise.withResolvers<void>();
  const upstream = await tests.upstream({ scripts: { 'tools/list': () => lists.promise.then(() => toolList()) } });
  tests.onEnd(() => tests.service.manage('DELETE', '/forwards/slow'));
  await page.clock.install();
  await page.getByRole('button', { name: 'Add Forward' }).first().click();
  await page.locator('#forward-name').fill('slow');
  await page.locator('#forward-address').fill(upstream.url);
  await dialog(page).getByRole('button', { name: 'Add', exact: true }).click();
  // Its status is known before it has been discovered.
  await rowOf(page, 'slow').locator('.cds--tag').waitFor();
  await page.clock.fastForward(MINUTE_MS);
  await dialog(page).waitFor({ state: 'detached' });
  await page.getByText('Discovering slow').waitFor();
  lists.resolve();
  await page.getByText('Forward slow added').waitFor();
});
