import type { Page, Route } from 'playwright-core';
import { expect, test } from 'vitest';
import { consoleTests, dialog, settled } from '../fixtures/console.ts';
import { CREATING, fillForm, onlyWrites, openForm } from '../fixtures/console-forms.ts';
import { PAGES_AND_TABS } from '../fixtures/console-pages.ts';
import { startEvaluatedService } from '../fixtures/evaluated/evaluated-service.ts';

const tests = consoleTests(startEvaluatedService);

const refuse = (status: number, code: string, message: string) => (route: Route) =>
  route.fulfill({ status, json: { data: null, error: { code, message } } });

/** Failures of the request, and the text that the dialog shows. */
const FAILURES: readonly (readonly [string, (route: Route) => Promise<void>, RegExp])[] = [
  ['conflict', refuse(409, 'CONFLICT', 'the name <b>is</b> in use'), /the name <b>is<\/b> in use/],
  ['invalid', refuse(422, 'INVALID', 'the action cannot be loaded'), /the action cannot be loaded/],
  [
    'internal error',
    refuse(500, 'INTERNAL', 'internal error; see the service log'),
    /internal error; see the service log/,
  ],
  ['expired login', (route) => route.fulfill({ status: 401, body: 'Unauthorized' }), /Your login has expired/],
  [
    'proxy error',
    (route) => route.fulfill({ status: 502, body: 'Bad Gateway' }),
    /proxy in front of the service answered 502/,
  ],
  ['service away', (route) => route.abort('connectionrefused'), /The service does not respond/],
];

for (const form of CREATING) {
  test(`the ${form.name} form shows each error, keeps what was typed, and succeeds at last`, async (context) => {
    const page = await tests.open(context, form.hash);
    const submit = await openForm(page, form);
    expect(await submit.isDisabled()).toBe(true);
    await fillForm(page, form);
    const isSent = (url: URL) => url.pathname === `/api/v1/${form.path}`;

    for (const [failure, fail, message] of FAILURES) {
      await page.route(isSent, onlyWrites(fail), { times: 1 });
      await expect.poll(() => submit.isEnabled(), { message: failure }).toBe(true);
      await submit.click();
      const notice = dialog(page).locator('.cds--inline-notification--error', { hasText: message });
      await notice.waitFor();
      expect(await notice.locator('b').count()).toBe(0);
      for (const [id, value] of Object.entries(form.values))
        expect(await page.locator(`#${id}`).inputValue(), failure).toBe(value);
      await page.unroute(isSent);
    }

    // A slow response: the form says that it is busy, and nothing is sent twice.
    let sent = 0;
    const answered = Promise.withResolvers<void>();
    await page.route(
      isSent,
      onlyWrites(async (route) => {
        sent++;
        await answered.promise;
        await route.continue();
      }),
    );
    await submit.click();
    await dialog(page)
      .getByRole('button', { name: `${form.submit} …` })
      .waitFor();
    await page.locator(`#${Object.keys(form.values)[0]}`).press('Enter');
    answered.resolve();
    await dialog(page).waitFor({ state: 'detached' });
    expect(sent).toBe(1);
    await settled(page);
  });
}

test('while the event stream is refused, the page learns of changes all the same, and streams again afterwards', async (context) => {
  const page = await tests.open(context, '#/');
  const isStream = (url: URL) => url.pathname === '/api/v1/events';
  await page.route(isStream, (route) => route.fulfill({ status: 502, body: 'Bad Gateway' }));
  await page.goto(`${tests.service.management}/admin/#/namespaces`);
  await page.reload();
  await settled(page);
  await namespaceAppears(page, 'polled');
  const opened = page.waitForResponse((response) => isStream(new URL(response.url())) && response.ok());
  await page.unroute(isStream);
  await opened;
  await namespaceAppears(page, 'streamed');
});

test('each page shows an error of the service in place of its data, and recovers by itself', async (context) => {
  const page = await tests.open(context, '#/');
  const isData = (url: URL) => url.pathname.startsWith('/api/v1/') && url.pathname !== '/api/v1/events';
  const problems: string[] = [];
  page.setDefaultTimeout(15_000);
  for (const { hash } of PAGES_AND_TABS) {
    try {
      await page.route(isData, refuse(500, 'INTERNAL', 'the disk is full'));
      await page.goto('about:blank');
      await page.goto(`${tests.service.management}/admin/${hash}`);
      const notices = page.locator('.cds--inline-notification--error:visible', { hasText: 'the disk is full' });
      await notices.first().waitFor();
      await settled(page);
      await page.unroute(isData);
      await notices.first().waitFor({ state: 'detached' });
    } catch (error) {
      problems.push(`${hash}: ${String(error).slice(0, 300)}`);
      await page.unroute(isData);
    }
  }
  expect(problems).toEqual([]);
});

async function namespaceAppears(page: Page, name: string): Promise<void> {
  await tests.service.manage('POST', '/namespaces', { name });
  tests.onEnd(() => tests.service.manage('DELETE', `/namespaces/${name}`));
  await page.locator('td', { hasText: new RegExp(`^${name}$`) }).waitFor();
}
