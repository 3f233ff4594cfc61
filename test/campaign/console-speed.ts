import type { Page } from 'playwright-core';

/** Attempts per measurement, of which the shortest counts: other programs of the machine only make them longer. */
const ATTEMPTS = 5;
const PAGES = 'nav[aria-label="Pages"] a';

/** Runs in the page before its scripts: the time from the navigation until the tiles have their numbers and are drawn. */
const MEASURE_PAINT = `new MutationObserver((_changes, observer) => {
  const values = [...document.querySelectorAll('.hero-value')];
  if (values.length < 4 || values.some(({ textContent }) => !/^\\d/.test(textContent))) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { globalThis.firstPaint = performance.now(); }));
}).observe(document, { subtree: true, childList: true, characterData: true })`;

const FIRST_PAINT = `new Promise((resolve) => {
  const look = () => (globalThis.firstPaint > 0 ? resolve(globalThis.firstPaint) : requestAnimationFrame(look));
  look();
})`;

/** Milliseconds until the dashboard has its numbers, without anything in the browser's cache. */
export async function coldLoad(page: Page, url: string): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send('Network.enable');
  await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  await page.addInitScript(MEASURE_PAINT);
  let shortest = Infinity;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    await page.goto('about:blank');
    await page.goto(url);
    shortest = Math.min(shortest, await page.evaluate<number>(FIRST_PAINT));
    await page.waitForLoadState('networkidle');
  }
  await session.detach();
  return shortest;
}

/** Milliseconds until another page is there, by the label of its link. */
export async function pageChanges(page: Page): Promise<ReadonlyMap<string, number>> {
  const labels = await page.locator(PAGES).allTextContents();
  const shortest = new Map(labels.map((label) => [label, Infinity]));
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    for (const [index, label] of [...labels.entries()].reverse()) {
      shortest.set(label, Math.min(shortest.get(label) ?? Infinity, await pageChange(page, index)));
      // What the page loads must not delay the next one.
      await page.waitForTimeout(500);
    }
  }
  return shortest;
}

/** Clicks a link of the menu; returns the milliseconds until the page has its title and is drawn, measured in the page. */
async function pageChange(page: Page, index: number): Promise<number> {
  const ms = await page.evaluate(`(async () => {
    const link = [...document.querySelectorAll('${PAGES}')][${index}];
    const title = link.textContent === 'Home' ? 'Dashboard' : link.textContent;
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const startedAt = performance.now();
    link.click();
    while (document.querySelector('h1.title')?.textContent !== title) await frame();
    await frame();
    return performance.now() - startedAt;
  })()`);
  return Number(ms);
}
