import { allOperations } from '@sluice/contract';
import { expect, test } from 'vitest';
import { findBrowser, render } from './fixtures/browser.ts';
import { startGateway } from './fixtures/gateway.ts';

test('the API reference shows every operation in a browser, without CSP violations', async (context) => {
  const browser = findBrowser();
  if (browser === undefined) return context.skip();
  const gateway = await startGateway();
  context.onTestFinished(gateway.close);

  const { html, console } = await render(browser, `http://${gateway.management()}/api/docs`);

  const visible = html
    .replaceAll(/<(script|style)\b.*?<\/\1>/gs, '')
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll('\u200b', '');
  for (const { path, summary } of allOperations) {
    expect(visible).toContain(path);
    expect(visible).toContain(summary);
  }
  const attributeTexts = [...html.matchAll(/\b(?:alt|title|aria-label|placeholder)="([^"]*)"/g)].map(
    ([, words]) => words,
  );
  for (const words of [visible, attributeTexts.join('\n')]) expect(words).not.toMatch(/swagger|smartbear/i);
  // An external image could be a tracker.
  expect(html).not.toContain('<img');
  expect(console).toEqual([]);
});
