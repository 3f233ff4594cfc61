import { expect, test } from 'vitest';
import { startTestService } from '../../packages/server/testing/service.ts';
import { consoleTests, settled } from '../fixtures/console.ts';
import { freePort } from '../fixtures/free-port.ts';

const tests = consoleTests();

test('the dashboard counts what is registered, and says what needs attention', async (context) => {
  const page = await tests.open(context, '#/');
  const upstream = await tests.upstream();
  await tests.service.register('forwards', { name: 'works', address: upstream.url });
  await upstream.down();
  await tests.service.register('forwards', { name: 'broken', address: upstream.url });
  await page.getByRole('button', { name: 'Refresh' }).click();
  expect(await page.locator('h1.title').textContent()).toBe('Dashboard');
  expect(await page.locator('p.description').textContent()).toContain('system overview');
  await expect
    .poll(() => page.locator('.hero-tile', { hasText: 'Forwards' }).locator('.hero-value').textContent())
    .toBe('2');
  for (const label of ['Tools', 'Resources', 'Prompts', 'Forwards']) {
    expect(await page.locator('.hero-tile', { hasText: label }).locator('.hero-value').textContent()).toMatch(/^\d+$/);
  }
  await page.getByRole('link', { name: 'Forward broken is unavailable' }).click();
  await page.locator('.cds--modal.is-visible', { hasText: 'refused the connection' }).waitFor();
});

test('every page of the menu has one title and one description, and no other host is contacted', {
  tags: ['slow'],
}, async (context) => {
  const page = await tests.open(context, '#/');
  const origins = new Set<string>();
  page.on('request', (request) => origins.add(new URL(request.url()).origin));
  const links = page.locator('nav[aria-label="Pages"] a');
  const labels = await links.allTextContents();
  expect(labels.slice(0, 1)).toEqual(['Home']);
  for (const label of labels) {
    await links.filter({ hasText: label }).click();
    await settled(page);
    await expect
      .poll(() => page.locator('h1.title').allTextContents())
      .toEqual([label === 'Home' ? 'Dashboard' : label]);
    expect(await page.locator('p.description').count()).toBe(1);
  }
  expect([...origins]).toEqual([tests.service.management]);
});

test('what others change appears by itself', async (context) => {
  const page = await tests.open(context, '#/namespaces');
  await tests.service.manage('POST', '/namespaces', { name: 'elsewhere' });
  await page.locator('td', { hasText: /^elsewhere$/ }).waitFor();
  await tests.service.manage('DELETE', '/namespaces/elsewhere');
  await page.locator('td', { hasText: /^elsewhere$/ }).waitFor({ state: 'detached' });
});

test('Ctrl+K goes to a page, tool, forward or namespace without a mouse', { tags: ['slow'] }, async (context) => {
  const page = await tests.open(context, '#/');
  await page.keyboard.press('Control+k');
  await page.locator('#palette').pressSequentially('namespace def');
  await page.getByRole('option', { name: 'Namespace default' }).waitFor();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.locator('.cds--modal.is-visible', { hasText: 'Connect a client' }).waitFor();
  expect(page.url()).toContain('#/namespaces?open=default');
});

test('Ctrl+K does what the pages offer: opens a form, refreshes a forward, changes the theme', {
  tags: ['slow'],
}, async (context) => {
  const page = await tests.open(context, '#/');
  const upstream = await tests.upstream();
  await tests.service.register('forwards', { name: 'acted', address: upstream.url });
  await page.reload();
  await settled(page);
  const choose = async (text: string, option: string): Promise<void> => {
    await page.keyboard.press('Control+k');
    await page.locator('#palette').pressSequentially(text);
    await page.getByRole('option', { name: option }).click();
  };
  const lists = upstream.count('tools/list');
  await choose('forward refresh', 'Refresh forward acted');
  await page.getByText('acted refreshed').waitFor();
  expect(upstream.count('tools/list')).toBeGreaterThan(lists);
  await choose('theme', 'Use the dark theme');
  await expect.poll(() => page.locator('html').getAttribute('data-theme')).toBe('dark');
  await choose('theme', 'Use the light theme');
  await choose('create namesp', 'Create a namespace');
  await page.locator('#namespace-name').waitFor();
  await page.goBack();
  await page.locator('#namespace-name').waitFor({ state: 'detached' });
});

test('plots of the last hour are drawn after the first paint', { tags: ['slow'] }, async (context) => {
  const page = await tests.open(context, '#/');
  await page.getByText('Tool calls per minute').waitFor();
  await page.locator('.plots svg.layout-svg-wrapper').first().waitFor();
});

test('the theme follows the system, and a choice is remembered', async (context) => {
  const page = await tests.open(context, '#/');
  const theme = () => page.locator('html').getAttribute('data-theme');
  await page.emulateMedia({ colorScheme: 'dark' });
  await expect.poll(theme).toBe('dark');
  await page.getByRole('button', { name: 'Use the light theme' }).click();
  await expect.poll(theme).toBe('light');
  await page.reload();
  await settled(page);
  expect(await theme()).toBe('light');
  await page.getByRole('button', { name: 'Use the dark theme' }).click();
  await page.emulateMedia({ colorScheme: 'light' });
  await expect.poll(theme).toBe('light');
});

test('a service that is away is reported once and noticed when it is back; nothing on the page is lost', {
  tags: ['slow'],
}, async (context) => {
  const page = await tests.open(context, '#/');
  const env = { SERVICE_MGMT_LISTEN: `127.0.0.1:${await freePort()}` };
  const first = await startTestService(env);
  await page.goto(`${first.management}/admin/#/namespaces`);
  await settled(page);
  await page.getByRole('button', { name: 'Create Namespace' }).click();
  await page.locator('#namespace-name').fill('typed');
  await first.stop(0);
  await page.getByText('The service does not respond').first().waitFor();
  expect(await page.locator('table tbody tr').count()).toBe(1);
  expect(await page.locator('.cds--inline-notification').count()).toBe(1);
  const second = await startTestService(env);
  tests.onEnd(() => second.stop(0));
  await page.getByText('The service does not respond').waitFor({ state: 'detached' });
  expect(await page.locator('#namespace-name').inputValue()).toBe('typed');
  await page.locator('.cds--modal-footer').getByRole('button', { name: 'Create' }).click();
  await page.locator('td', { hasText: /^typed$/ }).waitFor();
});

test('an expired login of the proxy leads to the login page', { tags: ['slow'] }, async (context) => {
  const page = await tests.open(context, '#/namespaces');
  await page.route('**/api/v1/**', (route) => route.fulfill({ status: 401, body: 'Unauthorized' }));
  await page.reload();
  await page.getByText('Your login has expired').first().waitFor();
  // It loads the page again, which the proxy answers with its login page.
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.unroute('**/api/v1/**');
  await page.locator('table tbody tr').first().waitFor();
});

test('an error of the service shows its message and can be tried again', { tags: ['slow'] }, async (context) => {
  const page = await tests.open(context, '#/');
  const error = { data: null, error: { code: 'INTERNAL', message: 'internal error; see the service log' } };
  await page.route('**/api/v1/namespaces', (route) => route.fulfill({ status: 500, json: error }));
  await page.goto(`${tests.service.management}/admin/#/namespaces`);
  const notice = page.locator('.cds--inline-notification--error');
  await notice.waitFor();
  expect(await notice.textContent()).toContain('internal error; see the service log');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.unroute('**/api/v1/namespaces');
  await page.locator('table tbody tr').first().waitFor();
});
