import { expect, test } from 'vitest';
import { startPostgres } from '../../packages/server/testing/postgres.ts';
import { startTestService } from '../../packages/server/testing/service.ts';
import { consoleTests, settled } from '../fixtures/console.ts';
import { replicaEnvironment } from '../fixtures/replicas.ts';

const postgres = await startPostgres();
const database = await postgres.createDatabase();
const tests = consoleTests(async () => {
  const service = await startTestService(replicaEnvironment(database));
  const close = async () => {
    await service.stop(0);
    await postgres[Symbol.asyncDispose]();
  };
  return { service, close };
});

test('the page of replicas shows each of them, and those that come and go', async (context) => {
  const page = await tests.open(context, '#/replicas');
  const rows = page.locator('table tbody tr');
  await expect.poll(() => rows.count()).toBe(1);
  expect(await rows.first().textContent()).toContain('this one');
  expect(await rows.first().textContent()).toMatch(/\d\s?%/);
  expect(await rows.first().locator('.cds--tag', { hasText: 'Live' }).count()).toBe(1);

  const second = await startTestService(replicaEnvironment(database));
  await expect.poll(() => rows.count(), { timeout: 20_000 }).toBe(2);
  await second.stop(0);
  await expect.poll(() => rows.count(), { timeout: 20_000 }).toBe(1);

  await page.keyboard.press('Control+k');
  await page.locator('#palette').pressSequentially('replicas');
  await page.getByRole('option', { name: 'Replicas', exact: true }).waitFor();
  await page.keyboard.press('Escape');
});

test('the page of replicas explains itself to a service with a registry of its own', async (context) => {
  const page = await tests.open(context, '#/replicas');
  const alone = await startTestService();
  tests.onEnd(async () => alone.stop(0));
  await page.goto(`${alone.management}/admin/#/replicas`);
  await settled(page);
  expect(await page.locator('.empty-state').textContent()).toContain('SERVICE_PERSIST_BACKEND=postgres');
});

test('the page of replicas warns of different versions', async (context) => {
  const page = await tests.open(context, '#/');
  const replica = { self: false, version: '0.1.0', startedAt: '2026-01-01T00:00:00.000Z', live: true, load: 0.25 };
  const listed = [
    { ...replica, id: 'a', lag: 0, forwards: 1 },
    { ...replica, id: 'b', lag: 7, forwards: 0, version: '0.2.0' },
    { ...replica, id: 'c', lag: 9, forwards: 0, version: '0.0.1', live: false },
  ];
  await page.route('**/api/v1/replicas', (route) => route.fulfill({ json: { data: listed, error: null } }));
  await page.goto(`${tests.service.management}/admin/#/replicas`);
  await settled(page);
  const warning = page.locator('.cds--inline-notification--warning');
  expect(await warning.textContent()).toContain('0.1.0, 0.2.0:');
  expect(await page.locator('tbody tr', { hasText: 'Gone' }).textContent()).not.toContain('%');
});
