import { expect, test } from 'vitest';
import { startCapabilityService, unaryHandler } from '../../packages/server/testing/capability-service.ts';
import { consoleTests, dialog, rowOf } from '../fixtures/console.ts';

const tests = consoleTests();

test('adds a service, stores configuration in it, deletes it and undoes that', async (context) => {
  const page = await tests.open(context, '#/services');
  const seen: unknown[] = [];
  const service = await startCapabilityService((server, { provisioner }) =>
    server.addService(provisioner, {
      Provision: unaryHandler((request) => {
        seen.push(request);
        return { configurationUri: 'config://1', secretUri: 'vault://1', properties: {} };
      }),
    }),
  );
  tests.onEnd(async () => service.close());
  await page.getByRole('button', { name: 'Add Service' }).click();
  const add = dialog(page).locator('.cds--modal-footer').getByRole('button', { name: 'Add' });
  await page.locator('#service-name').fill('weather');
  await page.locator('#service-address').fill('http://x');
  expect(await add.isDisabled()).toBe(true);
  await page.locator('#service-address').fill(service.address);
  await page.locator('#service-type').selectOption('multi-capability');
  await add.click();
  await rowOf(page, 'weather').waitFor();
  await expect.poll(() => rowOf(page, 'weather').locator('.cds--tag').textContent()).toBe('healthy');

  await rowOf(page, 'weather').getByRole('button', { name: 'Provision' }).click();
  await page.locator('#provision-name').fill('crm');
  await page.locator('#provision-configuration').fill('{"region":"eu"}');
  await page.locator('#provision-secrets').fill('hunter2');
  await dialog(page).getByRole('button', { name: 'Store' }).click();
  await dialog(page).getByText('vault://1').waitFor();
  expect(seen).toMatchObject([{ secret: { name: 'crm', payload: 'hunter2' } }]);
  await dialog(page).getByRole('button', { name: 'Close' }).click();

  await rowOf(page, 'weather').getByRole('button', { name: 'Delete' }).click();
  await rowOf(page, 'weather').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Undo' }).click();
  await rowOf(page, 'weather').waitFor();
  const { data } = await tests.service.manage('GET', '/services/weather');
  expect(data).toMatchObject({ address: service.address, serviceType: 'multi-capability' });
});
