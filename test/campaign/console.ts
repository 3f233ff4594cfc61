import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type CDPSession, chromium, type Page } from 'playwright-core';
import { BROWSER_ARGUMENTS, findBrowser } from '../fixtures/browser.ts';
import { startGateway } from '../fixtures/gateway.ts';
import type { Campaign } from './campaign.ts';
import { CALLS_PER_SECOND, type Load, startConsoleLoad } from './console-load.ts';
import { coldLoad, pageChanges } from './console-speed.ts';
import { quantile } from './tally.ts';

/** An hour by default; a round is a minute. */
const MINUTES = 60;
/** Pages that are left open: those that show calls as they happen, and the first one. */
const LIVE = ['/tool-calls', '/topology', '/'];
/** Limits of a page. */
const MAX_HEAP = 300e6;
const MAX_ANSWER_MS = { median: 100, longest: 1_000 } as const;
/** Limits without load (docs/console.md). */
const MAX_COLD_LOAD_MS = 1_000;
const MAX_PAGE_CHANGE_MS = 100;

/** A page that is left open. */
interface OpenPage {
  readonly route: string;
  readonly page: Page;
  readonly session: CDPSession;
  /** Bytes of the JavaScript heap after a collection, one per minute. */
  readonly heaps: number[];
  /** Milliseconds from a key press until the palette is there, several per minute. */
  readonly answers: number[];
}

const BUILD = fileURLToPath(new URL('../../scripts/admin.mjs', import.meta.url));

/** Share of the calls that the page shows: a browser that pauses for over a second misses calls until it reconnects. */
const MIN_SHOWN = 0.98;

/** A browser that is left open while calls happen: its memory is limited, and it answers at once. */
export const consoleCampaign: Campaign = {
  name: 'console',
  title: `Web console at ${2 * CALLS_PER_SECOND} events per second`,
  async run(print, minutes = MINUTES) {
    const executablePath = findBrowser();
    if (executablePath === undefined) return { passed: true, report: 'Skipped: needs Chromium.' };
    // Without the console, every page would be an error.
    await promisify(execFile)(process.execPath, [BUILD, '--if-changed']);
    const profile = await mkdtemp(join(tmpdir(), 'sluice-console-'));
    await using open = new AsyncDisposableStack();
    open.defer(() => rm(profile, { recursive: true, force: true }));
    const upstream = await startConsoleLoad();
    open.defer(upstream.close);
    const gateway = await startGateway();
    open.defer(gateway.close);
    await gateway.forward('busy', upstream.url);
    const browser = await chromium.launchPersistentContext(profile, { executablePath, args: [...BROWSER_ARGUMENTS] });
    open.defer(() => browser.close());

    const speed = await measureSpeed(await browser.newPage(), `http://${gateway.management()}/admin/`);
    const pages: OpenPage[] = [];
    for (const route of LIVE) {
      const page = await browser.newPage();
      await page.goto(`http://${gateway.management()}/admin/#${route}`);
      await page.locator('h1.title').waitFor();
      const session = await browser.newCDPSession(page);
      pages.push({ route, page, session, heaps: [], answers: [] });
    }
    await upstream.start(gateway.url());
    const stopAt = performance.now() + minutes * 60_000;
    for (let minute = 1; minute <= minutes; minute++) {
      const end = stopAt - (minutes - minute) * 60_000;
      while (performance.now() < end - 5_000) {
        for (const { page, answers } of pages) answers.push(await answerMs(page));
        await delay(5_000);
      }
      for (const each of pages) each.heaps.push(await heapAfterCollection(each.session));
      print(`minute ${minute}: ${pages.map(summary).join('; ')}`);
    }
    const load = await upstream.stop();
    const seen = await callsSeen(pages);
    const failures = [...problemsOfSpeed(speed), ...pages.flatMap(problemsOf), ...load.failures];
    if (seen !== undefined && seen < MIN_SHOWN * load.calls)
      failures.push(`the page showed ${seen} of ${load.calls} calls`);
    for (const line of failures) print(`  ${line}`);
    return { passed: failures.length === 0, report: report({ minutes, speed, load, pages, seen, failures }) };
  },
};

/** Times without load, in milliseconds. */
interface Speed {
  readonly coldLoad: number;
  readonly pageChanges: ReadonlyMap<string, number>;
}

async function measureSpeed(page: Page, url: string): Promise<Speed> {
  const cold = await coldLoad(page, url);
  const changes = await pageChanges(page);
  await page.close();
  return { coldLoad: cold, pageChanges: changes };
}

function problemsOfSpeed({ coldLoad: cold, pageChanges: changes }: Speed): string[] {
  const slow = [...changes].filter(([, ms]) => ms > MAX_PAGE_CHANGE_MS);
  return [
    ...(cold > MAX_COLD_LOAD_MS ? [`cold load: ${Math.round(cold)} ms`] : []),
    ...slow.map(([label, ms]) => `change to ${label}: ${Math.round(ms)} ms`),
  ];
}

/** Opens and closes the palette; returns the milliseconds until it was there, measured in the page. */
async function answerMs(page: Page): Promise<number> {
  // Browsers slow the pages of other tabs down.
  await page.bringToFront();
  return Number(
    await page.evaluate(`(async () => {
      const palette = () => document.querySelector('.cds--modal.is-visible .cds--modal-close');
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const startedAt = performance.now();
      dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true }));
      while (!palette()) await frame();
      const ms = performance.now() - startedAt;
      palette().click();
      while (palette()) await frame();
      return ms;
    })()`),
  );
}

async function heapAfterCollection(session: CDPSession): Promise<number> {
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  return usedSize;
}

/** Number of calls that the page of tool calls has shown: those that it has dropped, and those in its table. */
async function callsSeen(pages: readonly OpenPage[]): Promise<number | undefined> {
  const opened = pages.find(({ route }) => route === '/tool-calls');
  if (!opened) return undefined;
  // It shows new calls four times a second.
  await delay(2_000);
  const text = String(await opened.page.evaluate('document.body.innerText'));
  const [dropped, shown] = [/oldest (\d+)/, /(\d+) in all/].map((pattern) => Number(pattern.exec(text)?.[1] ?? 0));
  return (dropped ?? 0) + (shown ?? 0);
}

function problemsOf({ route, heaps, answers }: OpenPage): string[] {
  const heap = Math.max(...heaps);
  const [median, longest] = [quantile(answers, 0.5), Math.max(...answers)];
  return [
    ...(heap > MAX_HEAP ? [`#${route}: heap of ${megabytes(heap)}`] : []),
    ...(median > MAX_ANSWER_MS.median ? [`#${route}: answers after ${Math.round(median)} ms`] : []),
    ...(longest > MAX_ANSWER_MS.longest ? [`#${route}: an answer took ${Math.round(longest)} ms`] : []),
  ];
}

function summary({ route, heaps, answers }: OpenPage): string {
  return `#${route} ${megabytes(heaps.at(-1) ?? 0)}, ${Math.round(quantile(answers, 0.5))} ms`;
}

interface Results {
  readonly minutes: number;
  readonly speed: Speed;
  readonly load: Load;
  readonly pages: readonly OpenPage[];
  /** Calls that the page of tool calls has shown. */
  readonly seen: number | undefined;
  readonly failures: readonly string[];
}

function report({ minutes, speed, load, pages, seen, failures }: Results): string {
  const changes = [...speed.pageChanges.values()];
  const rows: readonly (readonly [string, string | number])[] = [
    ['without load: cold load until the dashboard has its numbers', `${Math.round(speed.coldLoad)} ms`],
    [
      'without load: change to another page, shortest and longest',
      `${Math.round(Math.min(...changes))} ms, ${Math.round(Math.max(...changes))} ms`,
    ],
    ['minutes', minutes],
    ['calls, each with two events', load.calls],
    ['calls that the page of tool calls has shown', seen ?? '–'],
    ...pages.flatMap(({ route, heaps, answers }) => [
      [`\`#${route}\`: heap after a collection, first, last and largest`, heapsOf(heaps)] as const,
      [`\`#${route}\`: key press until the palette is there, median, p95 and longest`, answersOf(answers)] as const,
    ]),
    ['**heaps over 300 MB, late answers and pages, or calls missing**', `**${failures.length}**`],
  ];
  const lines = rows.map(([label, value]) => `| ${label} | ${value} |\n`);
  return `| | |\n|---|---|\n${lines.join('')}${failures.map((line) => `- ${line}\n`).join('')}`;
}

function heapsOf(heaps: readonly number[]): string {
  return [heaps[0] ?? 0, heaps.at(-1) ?? 0, Math.max(...heaps)].map(megabytes).join(', ');
}

function answersOf(answers: readonly number[]): string {
  const times = [quantile(answers, 0.5), quantile(answers, 0.95), Math.max(...answers)];
  return times.map((ms) => `${Math.round(ms)} ms`).join(', ');
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`;
}
