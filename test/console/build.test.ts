import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { shippedPackages } from '../../scripts/release/licenses.ts';
import { consoleTests } from '../fixtures/console.ts';

const ROOT = join(import.meta.dirname, '../..');
const tests = consoleTests();

test('before its first useful paint the dashboard needs at most 350 kB of script and 60 kB of style, compressed', async (context) => {
  const page = await tests.open(context, '#/');
  const loaded = new Set<string>();
  page.on('response', (response) => loaded.add(new URL(response.url()).pathname));
  await page.reload();
  await page.locator('.hero-value').first().waitFor();
  const sizeOf = async (extension: string): Promise<number> => {
    // Charts come after the tiles.
    const paths = [...loaded].filter((path) => path.endsWith(extension) && !/\/(?:last-hour|time-chart)-/.test(path));
    expect(paths).not.toEqual([]);
    const files = paths.map((path) => join(ROOT, 'packages/admin/dist', `${path.slice('/admin/'.length)}.br`));
    const sizes = await Promise.all(files.map(async (file) => (await stat(file)).size));
    return sizes.reduce((sum, size) => sum + size, 0);
  };
  const [script, style] = await Promise.all([sizeOf('.js'), sizeOf('.css')]);
  console.log(`the dashboard loads ${script} bytes of script and ${style} of style`);
  expect(script).toBeLessThan(350_000);
  expect(style).toBeLessThan(60_000);
});

test('no file of the build refers to another host', async () => {
  const assets = join(ROOT, 'packages/admin/dist/assets');
  const styles = (await readdir(assets)).filter((name) => name.endsWith('.css'));
  expect(styles).not.toEqual([]);
  for (const name of styles)
    expect(await readFile(join(assets, name), 'utf8')).not.toMatch(/url\(\s*["']?(?:https?:)?\/\//);
});

test('the install scripts of the design system, which report installations, are denied', async () => {
  const lock: { packages: Record<string, { hasInstallScript?: boolean }> } = JSON.parse(
    await readFile(join(ROOT, 'package-lock.json'), 'utf8'),
  );
  const reporting = Object.entries(lock.packages)
    .filter(([path, { hasInstallScript }]) => hasInstallScript && /^node_modules\/@(?:carbon|ibm)\//.test(path))
    .map(([path]) => path.replace('node_modules/', ''));
  expect(reporting).not.toEqual([]);
  const denied = Object.entries(manifest.allowScripts).filter(([, allowed]) => !allowed);
  expect(denied.map(([name]) => name)).toEqual(expect.arrayContaining(reporting));
});

test('the build has the notices of all bundled packages, which are those whose licenses are checked', async () => {
  const notices = await readFile(join(ROOT, 'packages/admin/dist/licenses.md'), 'utf8');
  const bundled = [...notices.matchAll(/^## (\S+) - (\S+) \((.*)\)$/gm)].map(
    ([, name, version]) => `${name}@${version}`,
  );
  expect(bundled).toEqual(expect.arrayContaining([expect.stringMatching(/^react@/)]));
  const lock: unknown = JSON.parse(await readFile(join(ROOT, 'package-lock.json'), 'utf8'));
  const checked = new Set(shippedPackages(lock).map(({ name, version }) => `${name}@${version}`));
  expect(bundled.filter((name) => !checked.has(name) && !name.startsWith('@sluice/'))).toEqual([]);
});
