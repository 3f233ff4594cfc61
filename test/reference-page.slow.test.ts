import { allOperations } from '@sluice/contract';
import { chromium } from 'playwright-core';
import { expect, test } from 'vitest';
import { BROWSER_ARGUMENTS, findBrowser } from './fixtures/browser.ts';
import { startGateway } from './fixtures/gateway.ts';

test('the API reference shows every operation in a browser, without CSP violations', async (context) => {
  const executablePath = findBrowser();
  if (executablePath === undefined) return context.skip();
  const gateway = await startGateway();
  context.onTestFinished(gateway.close);
  const browser = await chromium.launch({ executablePath, args: [...BROWSER_ARGUMENTS] });
  context.onTestFinished(() => browser.close());
  const page = await browser.newPage();
  const messages: string[] = [];
  page.on('console', (message) => messages.push(message.text()));
  page.on('pageerror', (error) => messages.push(String(error)));

  await page.goto(`http://${gateway.management()}/api/docs`);
  const shown = allOperations.flatMap(({ path, summary }) => [path, summary]);
  // It shows them one after another.
  await expect
    .poll(async () => textOf(await page.content()), { timeout: 60_000, interval: 500 })
    .toSatisfy((visible: string) => shown.every((text) => visible.includes(text)));
  const html = await page.content();
  const visible = textOf(html);
  const attributeTexts = [...html.matchAll(/\b(?:alt|title|aria-label|placeholder)="([^"]*)"/g)].map(
    ([, words]) => words,
  );
  for (const words of [visible, attributeTexts.join('\n')]) expect(words).not.toMatch(/swagger|smartbear/i);
  // An external image could be a tracker.
  expect(html).not.toContain('<img');
  expect(messages).toEqual([]);
});

function textOf(html: string): string {
  return html
    .replaceAll(/<(script|style)\b.*?<\/\1>/gs, '')
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll('\u200b', '');
}
