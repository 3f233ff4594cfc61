import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { consoleTests, dialog, rowOf, settled } from '../fixtures/console.ts';
import { evaluator, startEvaluatedService } from '../fixtures/evaluated/evaluated-service.ts';

const tests = consoleTests(startEvaluatedService);

/** An object that two tabs change: this one its second member, the other one the first. */
interface SharedObject {
  readonly name: string;
  readonly hash: string;
  /** Path of the management API that returns it. */
  readonly path: string;
  readonly create: () => Promise<unknown>;
  /** Changes the member `theirs`. */
  readonly changeElsewhere: (value: string) => Promise<unknown>;
  /** What this tab types, by id. */
  readonly typed: readonly [id: string, value: string];
  /** The object after both changes, in which the other one comes first. */
  readonly expected: (theirs: string) => object;
}

const manage = (method: string, path: string, body?: unknown) => tests.service.manage(method, path, body);
const TOOL = { name: 'both', uri: 'x://y', toolType: 'x', input_schema: { type: 'object' }, namespace: 'default' };
const SERVICE = { name: 'both', address: '127.0.0.1:9', serviceType: 'tool-invoker' };

const OBJECTS: readonly SharedObject[] = [
  {
    name: 'tool',
    hash: '#/tools',
    path: '/tools/both',
    create: () => manage('POST', '/tools', { ...TOOL, description: 'before' }),
    changeElsewhere: (description) => manage('PUT', '/tools/both', { ...TOOL, description }),
    typed: ['tool-uri', 'x://typed'],
    expected: (description) => ({ description, uri: 'x://typed' }),
  },
  {
    name: 'resource',
    hash: '#/resources',
    path: '/resources/both',
    create: () => manage('POST', '/resources', { name: 'both', location: 'x://y', type: 'x', description: 'before' }),
    changeElsewhere: (description) =>
      manage('PUT', '/resources/both', { name: 'both', location: 'x://y', type: 'x', description }),
    typed: ['resource-mime-type', 'text/typed'],
    expected: (description) => ({ description, mimeType: 'text/typed' }),
  },
  {
    name: 'service',
    hash: '#/services',
    path: '/services/both',
    create: () => manage('POST', '/services', SERVICE),
    changeElsewhere: (team) => manage('POST', '/services', { ...SERVICE, labels: { team } }),
    typed: ['service-address', '127.0.0.1:10'],
    expected: (team) => ({ address: '127.0.0.1:10', labels: { team } }),
  },
  {
    name: 'evaluator',
    hash: '#/evaluators',
    path: '/evaluators',
    create: () => manage('PUT', '/evaluators', { evaluators: [evaluator('both', { llmOutput: 'before' })] }),
    changeElsewhere: (llmOutput) => manage('PUT', '/evaluators', { evaluators: [evaluator('both', { llmOutput })] }),
    typed: ['evaluator-path', 'echo.wasm'],
    expected: (prompt) => [{ llm: { prompt }, processor: { path: 'echo.wasm' } }],
  },
];

for (const { name, hash, path, create, changeElsewhere, typed, expected } of OBJECTS) {
  test(`two tabs change the same ${name}: the second sees the change of the first, and neither is lost`, async (context) => {
    const page = await tests.open(context, hash);
    await create();
    tests.onEnd(() => (path === '/evaluators' ? manage('PUT', path, { evaluators: [] }) : manage('DELETE', path)));
    await rowOf(page, 'both').getByRole('button', { name: 'Edit' }).click();
    await page.locator(`#${typed[0]}`).fill(typed[1]);
    await changeElsewhere('theirs');
    const save = dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Save' });
    if (name === 'evaluator') await revisionArrived(page);
    await save.click();
    const changes = dialog(page).getByRole('region', { name: 'Changes by others' });
    await changes.locator('tbody tr', { hasText: 'theirs' }).waitFor();
    expect(await page.locator(`#${typed[0]}`).inputValue()).toBe(typed[1]);
    await save.click();
    await dialog(page).waitFor({ state: 'detached' });
    expect((await manage('GET', path)).data).toMatchObject(expected('theirs'));
  });
}

/** Waits until the page knows the evaluators of the other tab. */
async function revisionArrived(page: Page): Promise<void> {
  await page.waitForResponse((response) => response.url().endsWith('/evaluators/revisions/active'));
}

test('a service that somebody else has deleted is not made again by saving it', async (context) => {
  const page = await tests.open(context, '#/services');
  expect((await manage('POST', '/services', { ...SERVICE, name: 'gone' })).status).toBeLessThan(300);
  await rowOf(page, 'gone').getByRole('button', { name: 'Edit' }).click();
  await page.locator('#service-address').fill('127.0.0.1:10');
  await manage('DELETE', '/services/gone');
  await dialog(page).getByRole('button', { name: 'Save' }).click();
  const error = 'It was deleted in the meantime. Add it as a new service.';
  await dialog(page).locator('.cds--inline-notification--error', { hasText: error }).waitFor();
  expect(await page.locator('#service-address').inputValue()).toBe('127.0.0.1:10');
  expect((await manage('GET', '/services/gone')).status).toBe(404);
});

test('the back button closes a dialog, and does not open one that was closed', async (context) => {
  const page = await tests.open(context, '#/');
  const title = (text: string) => expect.poll(() => page.locator('h1.title').textContent()).toBe(text);
  await page.locator('nav[aria-label="Pages"] a', { hasText: 'Namespaces' }).click();
  await rowOf(page, 'default').getByRole('button', { name: 'Details' }).click();
  await dialog(page).waitFor();
  await page.goBack();
  await dialog(page).waitFor({ state: 'detached' });
  await title('Namespaces');
  for (const button of ['Details', 'Create Namespace']) {
    await page.getByRole('button', { name: button }).first().click();
    await dialog(page).waitFor();
    await page.keyboard.press('Escape');
    await dialog(page).waitFor({ state: 'detached' });
  }
  await page.goBack();
  await title('Dashboard');
  expect(await dialog(page).count()).toBe(0);
  // A dialog that a link opened closes on its page.
  await page.goto(`${tests.service.management}/admin/#/namespaces?open=default`);
  await dialog(page).getByRole('button', { name: 'Close' }).first().click();
  await dialog(page).waitFor({ state: 'detached' });
  await title('Namespaces');
});

test('a link to something that does not exist says so', async (context) => {
  const page = await tests.open(context, '#/');
  const links = [
    ['#/tools?open=default/gone', 'There is no tool default/gone'],
    ['#/resources?open=default/gone', 'There is no resource default/gone'],
    ['#/prompts?open=default/gone', 'There is no prompt default/gone'],
    ['#/namespaces?open=gone', 'There is no namespace gone'],
    ['#/forwards?open=gone', 'There is no forward gone'],
    ['#/services?open=gone', 'There is no service gone'],
    ['#/evaluators?open=gone', 'There is no evaluator gone'],
    ['#/interactions?open=gone', 'There is no completion gone'],
    ['#/tool-calls?open=gone', 'There is no recent tool call gone'],
  ] as const;
  for (const [hash, text] of links) {
    await page.goto(`${tests.service.management}/admin/${hash}`);
    const notice = page.locator('.cds--inline-notification--warning', { hasText: text });
    await notice.waitFor();
    await notice.getByRole('button').click();
    await notice.waitFor({ state: 'detached' });
    expect(page.url()).not.toContain('open=');
    await settled(page);
  }
});
