/**
 * `npm run screenshots`: takes pictures of every page of the web console into docs/images, light and dark, at two widths, against
 * a service with realistic contents. Flags: `--page tools` (repeatable) for some pages, `--empty` for a service without
 * contents, `--png` and `--out folder` to look at them.
 */

import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import { BROWSER_ARGUMENTS, findBrowser } from '../test/fixtures/browser.ts';
import { startScenario } from './screenshots/scenario.ts';

const VIEWPORTS = [
  { width: 1440, height: 900 },
  { width: 390, height: 844 },
] as const;
const THEMES = ['light', 'dark'] as const;
/** Limit for all pictures together, in bytes. */
const MAX_BYTES = 2_000_000;
const QUALITY = 80;
/** Maximum number of pictures of a page until two are equal, which means that its charts are drawn. */
const MAX_ATTEMPTS = 20;
const PAUSE_MS = 200;

/** A picture: its name, its address, and what is done before it is taken. */
interface Shot {
  readonly name: string;
  readonly hash: string;
  readonly prepare?: (page: Page) => Promise<void>;
}

const FILLED: Readonly<Record<string, { readonly query?: string; readonly prepare?: Shot['prepare'] }>> = {
  '/llmchat': { prepare: chat },
  '/metrics': { query: '?by=tool' },
};

/** Page of the plugin, which is not the console's. */
const PLUGIN = '/greetings';

/** Pictures of dialogs, light and wide only. */
const DIALOGS: readonly Shot[] = [
  { name: 'tool', hash: '/tools?open=finance/transfer' },
  { name: 'forward', hash: '/forwards?open=ledger' },
  { name: 'namespace', hash: '/namespaces?open=finance' },
  { name: 'try-it', hash: '/tools?open=support/get_ticket', prepare: tryTicket },
];

const { values } = parseArgs({
  options: {
    page: { type: 'string', multiple: true },
    empty: { type: 'boolean', default: false },
    png: { type: 'boolean', default: false },
    out: { type: 'string', default: fileURLToPath(new URL('../docs/images', import.meta.url)) },
  },
});

const executablePath = findBrowser();
if (executablePath === undefined) throw new Error('needs Chromium: apt-get install chromium');
const isWanted = ({ name }: Shot): boolean => values.page?.includes(name) ?? true;

const profile = await mkdtemp(join(tmpdir(), 'sluice-screenshots-'));
const scenario = await startScenario(values.empty);
const browser = await chromium.launchPersistentContext(profile, {
  executablePath,
  args: [...BROWSER_ARGUMENTS, '--hide-scrollbars'],
  reducedMotion: 'reduce',
  locale: 'en-GB',
});
try {
  await mkdir(values.out, { recursive: true });
  const shots = await pagesOf(browser);
  let bytes = 0;
  for (const colorScheme of THEMES) {
    for (const viewport of VIEWPORTS) {
      for (const shot of shots.filter(isWanted)) bytes += await take(browser, shot, colorScheme, viewport);
    }
  }
  if (!values.empty) {
    for (const shot of DIALOGS.filter(isWanted)) bytes += await take(browser, shot, 'light', VIEWPORTS[0]);
  }
  console.log(`${(bytes / 1024 / 1024).toFixed(1)} MB in ${values.out}`);
  if (!values.png && bytes > MAX_BYTES) throw new Error(`the pictures have more than ${MAX_BYTES} bytes`);
} finally {
  await browser.close();
  await scenario.close();
  await rm(profile, { recursive: true, force: true });
}

/** Every page of the console that the menu has. */
async function pagesOf(context: BrowserContext): Promise<Shot[]> {
  const page = await context.newPage();
  await page.goto(`${scenario.management}/admin/`);
  await settled(page);
  const links = await page.locator('nav[aria-label="Pages"] a').all();
  const routes = await Promise.all(links.map(async (link) => ((await link.getAttribute('href')) ?? '').slice(1)));
  await page.close();
  return routes
    .filter((route) => route !== PLUGIN)
    .map((route) => ({
      name: route === '/' ? 'home' : route.slice(1),
      hash: route + (FILLED[route]?.query ?? ''),
      ...(!values.empty && FILLED[route]?.prepare && { prepare: FILLED[route].prepare }),
    }));
}

/** Takes a picture and returns its size in bytes. */
async function take(
  context: BrowserContext,
  { name, hash, prepare }: Shot,
  colorScheme: (typeof THEMES)[number],
  viewport: (typeof VIEWPORTS)[number],
): Promise<number> {
  const page = await context.newPage();
  try {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme });
    await page.goto(`${scenario.management}/admin/#${hash}`);
    await settled(page);
    await prepare?.(page);
    await settled(page);
    const session = await context.newCDPSession(page);
    const format = values.png ? 'png' : 'webp';
    const capture = async (): Promise<string> => {
      const quality = values.png ? {} : { quality: QUALITY };
      return (await session.send('Page.captureScreenshot', { format, ...quality })).data;
    };
    const file = join(values.out, `${name}-${colorScheme}-${viewport.width}.${format}`);
    await writeFile(file, Buffer.from(await unchanged(capture), 'base64'));
    console.log(file);
    return (await stat(file)).size;
  } finally {
    await page.close();
  }
}

/** Waits until the page has its data and is drawn. */
async function settled(page: Page): Promise<void> {
  await page.locator('h1.title').waitFor();
  await page.locator('[class*="skeleton"]').first().waitFor({ state: 'detached' });
  // Without the tooltip of what has the focus.
  await page.evaluate('document.activeElement?.blur(), document.fonts.ready.then(() => true)');
}

/** Returns a picture that equals the one before it. */
async function unchanged(capture: () => Promise<string>): Promise<string> {
  let before = '';
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const image = await capture();
    if (image === before) return image;
    before = image;
    await setTimeout(PAUSE_MS);
  }
  return before;
}

/** A conversation with a tool. */
async function chat(page: Page): Promise<void> {
  await page.locator('#chat-llm').selectOption('local');
  await page.locator('#chat-model').selectOption('small-8b');
  await page.locator('#chat-tools').fill('get_ticket');
  await page.getByRole('option', { name: 'get_ticket' }).click();
  await page.locator('#chat-prompt').fill('What is the state of the label printer at dock 3?');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('Ticket 5102 is open').waitFor();
}

/** A call of a tool with its result. */
async function tryTicket(page: Page): Promise<void> {
  await page.getByRole('tab', { name: 'Try it' }).click();
  await page.locator('.schema-form input').first().fill('5102');
  await page.getByRole('button', { name: 'Call' }).click();
  await page.getByRole('region', { name: 'Result' }).waitFor();
}
