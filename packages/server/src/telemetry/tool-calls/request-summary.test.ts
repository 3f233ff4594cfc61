import { expect, test } from 'vitest';
import { codeSummary, toolSummary } from './event.ts';

test('contains argument names except those of credentials', () => {
  const args = { text: 'S3CRET', service_auth_token: 'S3CRET', service_meta_trace: 'S3CRET', Service_auth_x: 'S3CRET' };
  const summary = toolSummary(Object.keys(args), ['token', 'trace']);
  expect(summary).toEqual({
    argumentNames: ['text', 'service_meta_trace', 'Service_auth_x'],
    argumentCount: 4,
    headerNames: ['token', 'trace'],
    code: false,
  });
  expect(JSON.stringify(summary)).not.toContain('S3CRET');
});

test('contains only the number of arguments of code', () => {
  expect(codeSummary(2)).toEqual({ argumentNames: undefined, argumentCount: 2, headerNames: [], code: true });
});

test('limits the number and length of names', () => {
  const names = Array.from({ length: 150 }, (_, at) => `${at}-${'x'.repeat(500)}`);
  const hidden = Array.from({ length: 50 }, (_, at) => [`service_auth_${at}`, 1]);
  const args = Object.fromEntries([...hidden, ...names.map((name) => [name, 1])]);
  const { argumentNames, argumentCount, headerNames } = toolSummary(Object.keys(args), names);
  expect(argumentCount).toBe(200);
  const bounded = names.slice(0, 100).map((name) => name.slice(0, 256));
  expect([argumentNames, headerNames]).toEqual([bounded, bounded]);
});

test.each([2, 20])('contains each of %i names once', (count) => {
  const names = Array.from({ length: count }, (_, at) => `name${at}`);
  const summary = toolSummary([...names, ...names], []);
  expect(summary).toMatchObject({ argumentNames: names, argumentCount: count });
});

test('contains well-formed names', () => {
  expect(toolSummary(['a\ud800'], ['h\udc00'])).toMatchObject({
    argumentNames: ['a\ufffd'],
    headerNames: ['h\ufffd'],
  });
});
