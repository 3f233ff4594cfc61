import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { propertyRuns } from '../../../../test/fixtures/seed.ts';
import { findMemberProblem } from './duplicates.ts';

/** The duplicate, and the number of slices. */
function find(text: string, start = 0, end = text.length, maxMembers = 1_000_000) {
  const search = findMemberProblem(text, start, end, maxMembers);
  for (let slices = 1; ; slices++) {
    const { done, value } = search.next();
    if (done) return { duplicate: value?.key, isCrowded: value?.kind === 'crowded', slices };
  }
}

const manyKeys = (count: number) => Array.from({ length: count }, (_, at) => `"${at}":1`).join(',');

describe('a duplicate member', () => {
  it.each([
    ['{"a":1,"b":2,"a":3}', 'a'],
    ['[{"a":1},{"x":{"a":[{"b":1,"b":2}]}}]', 'b'],
    ['{"a":{"b":1},"c":{"d":[],"d":{}}}', 'd'],
    ['{"a":{"n\\u0061me":1,"name":2}}', 'name'],
    ['{"a":{"name":1 , "\\u006e\\u0061\\u006d\\u0065"\n:\t2}}', 'name'],
    ['{"a":{"\\/":1,"/":2}}', '/'],
    ['{"a":{"x\\"y":1,"x\\u0022y":2}}', 'x"y'],
    ['{"a":{"x\\\\":1,"x\\u005c":2}}', 'x\\'],
    ['{"a":{"\\ud83d\\ude00":1,"😀":2}}', '😀'],
    ['{"a":{"é":1,"\\u00e9":2}}', 'é'],
    ['{"a":{"b\\u0000c":1,"b":2}}', 'b'],
    ['{"a":{"\\ud800":1,"\\ud801":2}}', '\ufffd'],
    ['{"a":{"":1,"":2}}', ''],
    ['{"a":{"1":1,"1":2}}', '1'],
    ['{"a":{"__proto__":1,"__proto__":2}}', '__proto__'],
    [`{"a":{${manyKeys(100)},"\\u0035":1}}`, '5'],
  ])('is found in %s', (text, key) => {
    expect(find(text).duplicate).toBe(key);
  });

  it.each([
    '{}',
    '"a"',
    '1',
    '["a","a"]',
    '{"a":"a","b":"a"}',
    '{"a":{"a":{"a":1}},"b":{"a":1}}',
    '[{"a":1},{"a":1}]',
    '{"a":"{\\"b\\":1,\\"b\\":2}"}',
    '{"a":"\\\\","b":"\\\\\\"","c":1}',
    '{"a":1,"A":2,"á":3}',
    `{${manyKeys(100)}}`,
  ])('is not found in %s', (text) => {
    expect(find(text).duplicate).toBeUndefined();
  });

  it('is found only in the range', () => {
    const text = '{"a":{"b":1},"a":{"c":1,"c":2},"b":1}';
    expect(find(text, 5, 12).duplicate).toBeUndefined();
    expect(find(text, 17, 30).duplicate).toBe('c');
    expect(find('{"a":"x":1}'.slice(0, 8), 5, 8).duplicate).toBeUndefined();
  });

  it('is what the comparison with JSON.parse shows', () => {
    const keys = fc.constantFrom('a', 'b', 'ab', '\\u0061', 'é', '\\u00e9', '1');
    const { value } = fc.letrec<{ value: string }>((tie) => ({
      value: fc.oneof(
        { depthSize: 'medium', withCrossShrink: true },
        fc.constantFrom('1', '"a"', '"{\\"a\\":1}"', 'null'),
        fc.array(tie('value'), { maxLength: 3 }).map((each) => `[${each.join(', ')}]`),
        fc
          .array(fc.tuple(keys, tie('value')), { maxLength: 4 })
          .map((each) => `{${each.map(([key, text]) => `"${key}": ${text}`).join()}}`),
      ),
    }));
    fc.assert(
      fc.property(value, (text) => {
        const written = text.match(/"[^"{]*": /g)?.length ?? 0;
        expect(find(text).duplicate === undefined, text).toBe(countMembers(JSON.parse(text)) === written);
      }),
      { numRuns: propertyRuns(2_000) },
    );
  });
});

/** Number of members of all objects, of which JSON.parse keeps one of each key. */
function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const own = Array.isArray(value) ? 0 : Object.keys(value).length;
  return Object.values(value).reduce((count: number, each) => count + countMembers(each), own);
}

it('an object with too many members is found', () => {
  const crowded = (count: number) => find(`[{"a":{${manyKeys(count)}}}]`, 0, undefined, 100).isCrowded;
  expect([crowded(100), crowded(101)]).toEqual([false, true]);
});

it('a hostile text is searched in slices of bounded work', () => {
  const bytes = 4 * 1024 * 1024;
  const repeat = (part: string) => part.repeat(Math.floor(bytes / part.length));
  const texts = [
    `{${manyKeys(400_000)}}`,
    `[${repeat('{"":0},')}0]`,
    `[${repeat('{"\\u0061":0},')}0]`,
    `[${repeat('[],')}0]`,
    `"${repeat('\\"')}"`,
    `{"a":${' '.repeat(bytes)}1}`,
  ];
  expect(texts.map((text) => find(text)).map(({ duplicate, slices }) => [duplicate, slices > 15])).toEqual([
    [undefined, true],
    [undefined, true],
    [undefined, true],
    [undefined, true],
    [undefined, true],
    [undefined, true],
  ]);
});
