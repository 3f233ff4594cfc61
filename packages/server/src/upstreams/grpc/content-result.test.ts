import { array, assert, boolean, constantFrom, property, string } from 'fast-check';
import { expect, it } from 'vitest';
import { contentBytes, contentJson, isLargeContent, resourceResult, toolResult } from './content-result.ts';

/** Serializes in steps; returns the JSON and the number of steps. */
function inSteps(result: Parameters<typeof contentBytes>[0]): { json: string; steps: number } {
  const steps = contentBytes(result);
  for (let count = 1; ; count++) {
    const { done, value } = steps.next();
    if (done) return { json: Buffer.concat(value).toString(), steps: count };
  }
}

it('the results of tools and resources have a block for each text', () => {
  expect(JSON.parse(contentJson(toolResult('legacy', ['a', '"'], true)))).toEqual({
    content: [
      { type: 'text', text: 'a' },
      { type: 'text', text: '"' },
    ],
    isError: true,
  });
  expect(JSON.parse(contentJson(toolResult('modern', [], false)))).toEqual({
    content: [],
    isError: false,
    resultType: 'complete',
  });
  const contents = [{ uri: 'a://[]', mimeType: 'text/x', text: 't' }];
  expect(JSON.parse(contentJson(resourceResult('legacy', 'a://[]', 'text/x', ['t'])))).toEqual({ contents });
  const cached = { contents, ttlMs: 0, cacheScope: 'private', resultType: 'complete' };
  expect(JSON.parse(contentJson(resourceResult('modern', 'a://[]', 'text/x', ['t'])))).toEqual(cached);
});

it('serialized in steps they are the same', () => {
  const unit = constantFrom('a', '"', '\n', '\u0000', 'é', '世', '\ud83d', '\ude00');
  assert(
    property(array(string({ unit })), boolean(), (texts, isError) => {
      const result = toolResult('modern', texts, isError);
      expect(inSteps(result).json).toBe(contentJson(result));
    }),
  );
});

it.each([
  ['empty', ''],
  ['short', 'x'],
  ['mixed', undefined],
])('a step has a bounded number of texts: %s', (_name, text) => {
  const texts = Array.from({ length: 100_000 }, (_, at) => text ?? (at % 1000 === 0 ? 'x'.repeat(1000) : ''));
  const result = toolResult('legacy', texts, false);
  const { json, steps } = inSteps(result);
  expect(json).toBe(contentJson(result));
  expect(steps).toBeGreaterThan(50);
  expect(isLargeContent(result)).toBe(true);
});

it('large ones take a step for each 256 Ki characters, and no character is cut', () => {
  const pairs = `a${'\ud83d\ude00'.repeat(700_000)}`;
  const many = Array.from({ length: 20_000 }, (_, at) => `${at}`);
  const controls = '\u0001'.repeat(1_000_000);
  for (const texts of [[pairs], many, ['x', controls, 'y']]) {
    const result = toolResult('legacy', texts, false);
    const { json, steps } = inSteps(result);
    expect(json).toBe(contentJson(result));
    expect([isLargeContent(result), steps >= 4, steps <= 20]).toEqual([true, true, true]);
  }
  expect(isLargeContent(toolResult('legacy', ['x'.repeat(200_000)], false))).toBe(false);
});
