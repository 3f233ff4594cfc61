import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { consoleTests, dialog, rowOf } from '../fixtures/console.ts';
import { modernClient } from '../fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../fixtures/raw-upstream/texts.ts';

const tests = consoleTests();

/** Two namespaces with a forward each: `weather` works, its tool `fails` does not; `billing` is unavailable. */
async function startTopology() {
  const upstream = await tests.upstream({
    scripts: {
      'tools/list': toolList(toolText('works'), toolText('fails')),
      'tools/call': ({ params }) =>
        params.name === 'works' ? textResultText('sunny') : { kind: 'error', text: '{"code":-32000,"message":"no"}' },
    },
  });
  const gone = await tests.upstream();
  await gone.down();
  await tests.service.register('forwards', { name: 'weather', address: upstream.url, namespace: 'outside' });
  await tests.service.register('forwards', { name: 'billing', address: gone.url, namespace: 'inside' });
  for (const name of ['weather', 'billing']) tests.onEnd(() => tests.service.manage('DELETE', `/forwards/${name}`));
  const client = modernClient(tests.service.url('outside'));
  return (name: string, headers = {}) => client.call('tools/call', `{"name":"${name}"}`, headers);
}

/** The node of the picture with this name. */
function nodeOf(page: Page, kind: string, name: string) {
  return page.locator(`.topology-node.is-${kind}`).filter({ has: page.locator(`bdi:text-is("${name}")`) });
}

/** Clicks a node; again if the picture has moved at that moment, because there was another node. */
async function clickNode(page: Page, kind: string, name: string): Promise<void> {
  await expect
    .poll(async () => {
      if ((await page.locator('h1.title').textContent()) !== 'Topology') return true;
      await nodeOf(page, kind, name).click({ timeout: 3_000 });
      return false;
    })
    .toBe(true);
}

test('draws namespaces and forwards with their states and live calls; a click leads to the page of the thing', async (context) => {
  const call = await startTopology();
  await call('works', { 'x-forwarded-user': 'ann' });
  const page = await tests.open(context, '#/topology');
  await nodeOf(page, 'forward', 'billing').getByText('Unavailable').waitFor();
  await nodeOf(page, 'forward', 'weather').getByText('Available · 1/min').waitFor();
  await nodeOf(page, 'agent', 'ann').waitFor();
  // From ann to the namespace, from it to the forward, and an edge without calls.
  expect(await page.locator('.react-flow__edge').count()).toBe(3);
  expect(await page.locator('.topology-rate').allTextContents()).toEqual(['1/min', '1/min']);

  await call('fails');
  await nodeOf(page, 'forward', 'weather').getByText('2/min, 1 error').waitFor();
  await page.locator('.react-flow__edge.has-errors').first().waitFor();
  await nodeOf(page, 'agent', 'Agents').getByText('1/min, 1 error').waitFor();
  // The view is fitted to all nodes, not only to those that have appeared.
  await expect.poll(() => nodesOutside(page)).toEqual([]);

  const pages = [
    ['forward', 'billing', 'Forwards'],
    ['namespace', 'inside', 'Namespaces'],
  ] as const;
  for (const [kind, name, title] of pages) {
    await clickNode(page, kind, name);
    expect(await page.locator('h1.title').textContent()).toBe(title);
    await dialog(page).locator('.cds--modal-header__heading', { hasText: name }).waitFor();
    await page.goBack();
    await nodeOf(page, kind, name).waitFor();
  }
  await clickNode(page, 'agent', 'ann');
  await page.locator('table tbody tr', { hasText: 'works' }).waitFor();
  expect(await page.locator('#filter-user').inputValue()).toBe('ann');
});

test('the table has the same without the picture, by keyboard, and both are filtered', async (context) => {
  const call = await startTopology();
  const page = await tests.open(context, '#/topology?state=Needs attention');
  const rows = page.locator('table tbody tr');
  await expect.poll(() => rows.locator('td:first-child').allTextContents()).toEqual(['billing']);
  // Its namespace belongs to the picture.
  await expect.poll(() => page.locator('.topology-node .inert').allTextContents()).toEqual(['inside', 'billing']);
  await page.locator('#filter-state').selectOption('');
  await call('fails', { 'x-forwarded-user': 'bob' });
  const row = rowOf(page, 'weather');
  await expect
    .poll(() => row.locator('td').allTextContents())
    .toEqual(expect.arrayContaining(['weather', 'Forward', 'Available']));
  await page.getByRole('searchbox').fill('weath');
  await expect.poll(() => rows.count()).toBe(1);
  await row.getByRole('link', { name: 'weather' }).focus();
  await page.keyboard.press('Enter');
  await dialog(page).locator('.cds--modal-header__heading', { hasText: 'weather' }).waitFor();
});

test('with 200 forwards at a width of 390 pixels all shown nodes are readable, and a finger scrolls the page', async (context) => {
  const upstream = await tests.upstream();
  await upstream.down();
  const names = Array.from({ length: 200 }, (_, index) => `narrow-${index}`);
  await Promise.all(
    names.map((name, index) =>
      tests.service.register('forwards', { name, address: `${upstream.url}?${index}`, namespace: `n-${index % 12}` }),
    ),
  );
  tests.onEnd(() => Promise.all(names.map((name) => tests.service.manage('DELETE', `/forwards/${name}`))));
  const page = await tests.open(context, '#/topology');
  await page.setViewportSize({ width: 390, height: 844 });
  const forwards = page.locator('.topology-node.is-forward');
  await page.locator('.topology-graph.is-narrow').waitFor();
  await expect.poll(() => forwards.count()).toBe(8);
  await page.getByText(/Not in the picture: .*192 forwards and services/).waitFor();
  expect(await page.locator('table tbody tr').count()).toBeGreaterThan(200);

  // Everything is in the frame, in its real size, and nothing overlaps.
  await expect.poll(() => nodesOutside(page)).toEqual([]);
  const nodes = await page.locator('.topology-node').all();
  const boxes = await Promise.all(nodes.map((node) => node.boundingBox()));
  const name = page.locator('.topology-name').first();
  expect(await name.evaluate((element) => element.getBoundingClientRect().width / element.offsetWidth)).toBe(1);
  for (const [index, box] of boxes.entries()) {
    if (!box) throw new Error('not drawn');
    const overlaps = boxes.slice(index + 1).filter((other) => other && isOverlap(box, other));
    expect(overlaps).toEqual([]);
  }
  const touchAction = "getComputedStyle(document.querySelector('.react-flow__pane')).touchAction";
  expect(await page.evaluate(touchAction)).toBe('auto');
  await forwards.first().click();
  await dialog(page).locator('.cds--modal-header__heading', { hasText: 'narrow-' }).waitFor();
  // A turned or widened window gets the whole picture.
  await page.goBack();
  await page.setViewportSize({ width: 1440, height: 900 });
  await expect.poll(() => forwards.count()).toBe(18);
});

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Texts of the nodes that are not entirely in the frame. */
async function nodesOutside(page: Page): Promise<string[]> {
  const frame = await page.locator('.topology-graph').boundingBox();
  if (!frame) return ['no picture'];
  const outside: string[] = [];
  for (const node of await page.locator('.topology-node').all()) {
    const box = await node.boundingBox();
    const isInside =
      box &&
      box.x >= frame.x &&
      box.y >= frame.y &&
      box.x + box.width <= frame.x + frame.width &&
      box.y + box.height <= frame.y + frame.height;
    if (!isInside) outside.push(`${await node.textContent()}`);
  }
  return outside;
}

function isOverlap(one: Box, other: Box): boolean {
  const isBeside = one.x + one.width <= other.x || other.x + other.width <= one.x;
  return !isBeside && one.y < other.y + other.height && other.y < one.y + one.height;
}

test('a node outside of the visible part moves into it when the keyboard selects it', async (context) => {
  const upstream = await tests.upstream();
  const names = Array.from({ length: 30 }, (_, index) => `many-${index}`);
  for (const [index, name] of names.entries()) {
    await tests.service.register('forwards', { name, address: `${upstream.url}?${index}`, namespace: 'many' });
  }
  for (const name of names) tests.onEnd(() => tests.service.manage('DELETE', `/forwards/${name}`));
  const page = await tests.open(context, '#/topology?namespace=many');
  await page.getByText('Not in the picture: 12 forwards and services').waitFor();
  await expect.poll(() => page.locator('.topology-node.is-forward').count()).toBe(18);
  expect(await page.locator('table tbody tr').count()).toBe(31);
  await page.setViewportSize({ width: 800, height: 500 });
  for (let zoom = 0; zoom < 6; zoom++) await page.getByRole('button', { name: 'Zoom in' }).click();
  await page.getByRole('button', { name: 'Show everything' }).focus();
  const last = page.locator('.topology-node.is-forward').last();
  const isVisible = async (): Promise<boolean> => {
    const [box, frame] = await Promise.all([last.boundingBox(), page.locator('.topology-graph').boundingBox()]);
    if (!box || !frame) return false;
    return (
      box.y >= frame.y && box.y + box.height <= frame.y + frame.height && box.x + box.width <= frame.x + frame.width
    );
  };
  expect(await isVisible()).toBe(false);
  for (let presses = 0; presses < 40; presses++) {
    await page.keyboard.press('Shift+Tab');
    if ((await last.and(page.locator(':focus')).count()) > 0) break;
  }
  await expect.poll(isVisible).toBe(true);
});
