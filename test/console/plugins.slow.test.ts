import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { greeter } from '../../examples/console-plugin/greeter.mjs';
import { consoleTests, rowOf, settled, startPlain } from '../fixtures/console.ts';

const EXAMPLE = join(import.meta.dirname, '../../examples/console-plugin/plugins/greetings');

const argv: string[] = [];
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-console-plugins-'));
  const plugins = join(folder, 'plugins');
  await cp(EXAMPLE, join(plugins, 'greetings'), { recursive: true });
  const manifest = { version: '1', entrypoint: 'main.js' };
  const others = [
    [{ ...manifest, id: 'future', name: 'Future', requires: { hostApi: '^2.0' } }, 'export function activate() {}'],
    [
      { ...manifest, id: 'failing', name: 'Failing' },
      'export function activate() { throw new Error("out of order"); }',
    ],
    [
      { ...manifest, id: 'shadow', name: 'Shadow' },
      'export function activate(host) { host.pages.register({ route: "/tools", mount() {} }); }',
    ],
    [
      { ...manifest, id: 'timid', name: 'Timid', permissions: ['navigation'] },
      'export function activate(host) { host.notifications.show({ text: "hello" }); }',
    ],
  ] as const;
  for (const [each, script] of others) {
    await mkdir(join(plugins, each.id));
    await writeFile(join(plugins, each.id, 'plugin.json'), JSON.stringify(each));
    await writeFile(join(plugins, each.id, 'main.js'), script);
  }
  greeter.listen(0, '127.0.0.1');
  await once(greeter, 'listening');
  const address = greeter.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP address');
  const target = `http://127.0.0.1:${address.port}`;
  const file = join(folder, 'service.json');
  await writeFile(file, JSON.stringify({ plugins: [{ id: 'greetings', services: { greeter: { target } } }] }));
  argv.push('--plugins-path', plugins, '--service-config', file);
});
afterAll(async () => {
  greeter.close().closeAllConnections();
  await rm(folder, { recursive: true, force: true });
});

// After the hooks above, which it needs.
const tests = consoleTests(() => startPlain({}, argv));

test('a plugin adds a menu entry and a page that calls its service', async (context) => {
  const page = await tests.open(context, '#/');
  const link = page.locator('nav[aria-label="Pages"] a', { hasText: 'Greetings' });
  await link.click();
  await expect.poll(() => page.locator('h1.title').textContent()).toBe('Greetings');
  await page.getByText('Hello, world!').waitFor();
  await page.getByLabel('Name').fill('<b>Ann</b>');
  await page.getByRole('button', { name: 'Greet' }).click();
  await page.getByText('Hello, <b>Ann</b>!').waitFor();
  await page.getByText('Greeted <b>Ann</b>').waitFor();
  // The stylesheet of the plugin applies.
  const display = "getComputedStyle(document.querySelector('.greetings-row')).display";
  expect(await page.evaluate(display)).toBe('flex');
  await page.reload();
  await page.getByText('Hello, <b>Ann</b>!').waitFor();
  expect(await page.locator('h1.title').count()).toBe(1);
});

test('plugins that cannot be used are skipped, with the reason', async (context) => {
  const page = await tests.open(context, '#/plugins-admin');
  await settled(page);
  const states = [
    ['Greetings', 'active'],
    ['Future', 'it needs version ^2.0 of the host API; this console has 1.0'],
    ['Failing', 'out of order'],
    ['Shadow', 'the route /tools belongs to the console'],
    ['Timid', 'lacks the permission notifications'],
  ] as const;
  for (const [name, text] of states) {
    await expect.poll(() => rowOf(page, name).textContent()).toContain(text);
  }
  expect(await page.locator('nav[aria-label="Pages"] a', { hasText: 'Tools' }).count()).toBe(1);
});
